"""Boundary validation: pydantic checks, and one line that says which rule broke, what came and what to do.

Every text model of the project (policy documents, settings, machine and model files) is a :class:`Strict` model, so
that all of them refuse unknown names, wrong types and numbers that are not finite in the same words.
"""

from __future__ import annotations

import difflib
import json
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from autotune.core.errors import AutotuneError

_Model = TypeVar("_Model", bound=BaseModel)

_MAX_GOT_CHARS = 80
_WORDS = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_too_long": "must be text of at most {max_length} characters",
    "string_too_short": "must be text of at least {min_length} characters",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "missing": "must be given",
    "extra_forbidden": "is not a known name",
    "union_tag_invalid": "must have as {discriminator} one of {expected_tags}",
    "union_tag_not_found": "must have {discriminator}",
    "model_type": "must be a mapping of names to values",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
}


class BrokenRuleError(ValueError):
    """Raised inside a model's validator: a rule that ties several values together does not hold."""

    def __init__(self, rule: str, *, got: object = None, remedy: str = "") -> None:
        self.rule, self.got, self.remedy = rule, got, remedy
        super().__init__("; ".join(part for part in (rule, "" if got is None else f"got {got}", remedy) if part))


class Strict(BaseModel):
    """Base of all models that are read from text: frozen, no unknown names, no type guessing, finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    # Whether fields that are None are left out when the model is written as text; they must default to None.
    leave_out_none: ClassVar[bool] = False

    # Fields that hold numbers or rows of numbers, and with how many decimals they are written; None = all there are.
    number_rows: ClassVar[Mapping[str, int | None]] = {}

    def row_notes(self, name: str) -> tuple[str, ...]:
        """What each item of a field stands for, to be written beside it; empty = nothing is said."""
        del name
        return ()


def validate(model: type[_Model], tree: object, error: type[AutotuneError], what: str = "") -> _Model:
    """The model that a tree of plain values describes.

    Args:
        model: What to make.
        tree: Mappings, lists and scalars as read from a file.
        error: Class of the error to raise.
        what: Name of the file or thing, put in front of the message.

    Raises:
        AutotuneError: (as ``error``) the first rule that the tree breaks, and how many more it breaks.
    """
    try:
        return model.model_validate_json(json.dumps(tree))
    except ValidationError as problem:
        raise explain_error(problem, model, error, what) from problem


def explain_error(
    problem: ValidationError, model: type[BaseModel], error: type[AutotuneError], what: str = ""
) -> AutotuneError:
    """The first fault that pydantic found, as an error of this project."""
    # A misspelt name is also a missing one; the misspelling is what the reader has to see.
    faults = sorted(problem.errors(include_url=False), key=lambda fault: fault["type"] != "extra_forbidden")
    fault = faults[0]
    path, owner = _locate(model, fault["loc"], names_a_key=fault["type"] == "extra_forbidden")
    rule = f"{path} {_rule(fault)}" if path else _rule(fault)
    remedies = [_remedy(fault, owner)]
    if len(faults) > 1:
        remedies.append(f"({len(faults) - 1} more after this one)")
    rule = f"{what}: {rule}" if what else rule
    return error(rule, got=_got(fault), remedy=" ".join(text for text in remedies if text))


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """``did you mean 'x'? known: x, y`` for a name that is none of ``known``."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(names)}"


def _rule(fault: Any) -> str:
    cause = _cause(fault)
    if cause is not None:
        return cause.rule
    words = _WORDS.get(fault["type"])
    return words.format(**fault.get("ctx", {})) if words else " ".join(str(fault["msg"]).split())


def _got(fault: Any) -> str | None:
    cause = _cause(fault)
    if cause is not None:
        return None if cause.got is None else str(cause.got)
    if fault["type"] in {"missing", "union_tag_not_found"}:
        return None
    return _shorten(fault["ctx"]["tag"] if fault["type"] == "union_tag_invalid" else fault["input"])


def _remedy(fault: Any, owner: type[BaseModel] | None) -> str:
    cause = _cause(fault)
    if cause is not None:
        return cause.remedy
    if fault["type"] == "extra_forbidden" and owner is not None:
        return nearest(str(fault["loc"][-1]), _names(owner))
    return ""


def _cause(fault: Any) -> BrokenRuleError | None:
    cause = fault.get("ctx", {}).get("error")
    return cause if isinstance(cause, BrokenRuleError) else None


def _locate(
    model: type[BaseModel], location: tuple[str | int, ...], *, names_a_key: bool
) -> tuple[str, type[BaseModel] | None]:
    """A readable path, and the model that the last part of ``location`` belongs to.

    Pydantic puts the chosen member of a union between two names; such a part is no key of the file and is left out.
    """
    owners: list[type[BaseModel]] = [model]
    path = ""
    for position, part in enumerate(location):
        is_last = position == len(location) - 1
        if isinstance(part, int):
            path += f"[{part}]"
            continue
        matching = [owner for owner in owners if part in _names(owner)]
        if not matching and not (is_last and names_a_key):
            owners = [owner for owner in owners if part in _tags(owner)] or owners
            continue
        path += f".{part if part.isidentifier() else _shorten(part)}"
        if not is_last:
            owners = [inner for owner in matching for inner in _models_in(_annotation(owner, part))]
    return path.lstrip("."), owners[0] if owners else None


def _names(model: type[BaseModel]) -> dict[str, str]:
    """Name in the file → name of the attribute."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def _annotation(model: type[BaseModel], key: str) -> Any:
    return model.model_fields[_names(model)[key]].annotation


def _tags(model: type[BaseModel]) -> set[str]:
    """Values of one-word literals: what pydantic calls a member of a discriminated union."""
    annotations = (field.annotation for field in model.model_fields.values())
    return {str(typing.get_args(a)[0]) for a in annotations if typing.get_origin(a) is typing.Literal}


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for argument in typing.get_args(annotation) for model in _models_in(argument)]


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_GOT_CHARS else text[: _MAX_GOT_CHARS - 1] + "…"
