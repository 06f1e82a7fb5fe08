"""Reading a policy document: everything is checked before anything is used."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from autotune.core.errors import PolicyError
from autotune.core.policy.document import (
    KINDS,
    READER_VERSION,
    SCHEMA_ID,
    ClassHazardDocument,
    LruDocument,
    PolicyDocument,
    RankDocument,
)
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.validation import nearest, validate

_CLASSES: dict[str, type[PolicyDocument]] = {
    "lru": LruDocument,
    "rank": RankDocument,
    "class_hazard": ClassHazardDocument,
}


def parse(text: str) -> PolicyDocument:
    """The policy document that a YAML text holds.

    Args:
        text: At most 1 MiB.

    Raises:
        PolicyError: it is not one, with the field, the rule that it breaks, and the remedy.
    """
    tree = parse_mapping(text, PolicyError)
    return validate(_class_for(tree), tree, PolicyError)


def load(path: Path) -> PolicyDocument:
    """The policy document in a file.

    Raises:
        PolicyError: the file cannot be read or is not a policy document.
    """
    try:
        return parse(read_text(path, PolicyError))
    except PolicyError as error:
        if error.rule.startswith(str(path)):
            raise
        raise PolicyError(f"{path}: {error.rule}", got=error.got, remedy=error.remedy) from error


def document_hash(document: PolicyDocument) -> str:
    """SHA-256 over the values of a document, in hexadecimal; comments and layout do not count."""
    values = document.model_dump(mode="json", by_alias=True)
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def _class_for(tree: dict[str, object]) -> type[PolicyDocument]:
    """The class for a document's kind, after the checks that must come first whatever else is in it."""
    schema, reader, kind = tree.get("schema"), tree.get("min_reader"), tree.get("kind")
    if schema != SCHEMA_ID:
        raise PolicyError(f"schema must be {SCHEMA_ID!r}", got=_short(schema), remedy=f"write 'schema: {SCHEMA_ID}'")
    if isinstance(reader, int) and reader > READER_VERSION:
        raise PolicyError(
            f"this reader is version {READER_VERSION}",
            got=f"min_reader {_short(reader)}",
            remedy="install a newer kv-autotune",
        )
    if isinstance(kind, str) and kind in _CLASSES:
        return _CLASSES[kind]
    raise PolicyError("kind must be one that this reader knows", got=_short(kind), remedy=nearest(str(kind), KINDS))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
