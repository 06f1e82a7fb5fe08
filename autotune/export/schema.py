"""JSON schema of the policy document, for editors and other languages."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from autotune.core.policy import ClassHazardDocument, LruDocument, RankDocument

SCHEMA_URL = "https://json-schema.org/draft/2020-12/schema"


def policy_schema() -> dict[str, Any]:
    """The schema of ``kv-autotune/policy/v1``; rules that tie several values together are the reader's alone."""
    document: Any = Annotated[LruDocument | RankDocument | ClassHazardDocument, Field(discriminator="kind")]
    schema = TypeAdapter(document).json_schema(by_alias=True, mode="validation")
    for kind in (LruDocument, RankDocument, ClassHazardDocument):
        definition = schema["$defs"][kind.__name__]
        definition["required"] = sorted({*definition["required"], "schema", "kind"})
    return {"$schema": SCHEMA_URL, "title": "kv-autotune policy, version 1", **schema}


def render_schema() -> str:
    """The schema as the text that is kept beside the other configuration files."""
    return json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"
