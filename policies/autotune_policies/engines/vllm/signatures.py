"""Whether a seam fits what is installed, by :mod:`inspect` alone: nothing of vLLM is called."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from autotune_policies.engines.vllm.seams import Seam, Use

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found where a seam should be.

    Attributes:
        seam: The seam.
        fits: Whether the plug-in can use it.
        found: What is there: the names of parameters or methods, or a word for what is not.
    """

    seam: Seam
    fits: bool
    found: str

    def __str__(self) -> str:
        expected = " or ".join(f"({', '.join(form.split())})" for form in self.seam.forms) or "an attribute"
        return f"{self.seam.where.partition(':')[2]} is {self.found}, expected {expected}"


def examine(seam: Seam) -> Finding:
    """Compare one seam with what is installed; a module that cannot be imported does not fit, and nothing is raised."""
    module_name, _, path = seam.where.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever an engine's module does at import, it means that the seam is not there
        return Finding(seam, False, f"not importable ({type(error).__name__}: {error})")
    owner_path, _, member = path.rpartition(".")
    if seam.use is Use.READS:
        return _examine_attribute(seam, _first(module, owner_path), member)
    target = _first(module, path)
    if target is _MISSING:
        return Finding(seam, seam.optional, "absent")
    if seam.use is Use.SUBCLASSES:
        return _examine_abstract(seam, target)
    return _examine_parameters(seam, target)


def _first(owner: Any, path: str) -> Any:
    """The object at a dotted path; each step may name alternatives, the first one that is there counts."""
    for step in filter(None, path.split(".")):
        owner = next(
            (found for name in step.split("|") if (found := getattr(owner, name, _MISSING)) is not _MISSING), _MISSING
        )
        if owner is _MISSING:
            return _MISSING
    return owner


def _examine_attribute(seam: Seam, owner: Any, member: str) -> Finding:
    if owner is _MISSING:
        return Finding(seam, seam.optional, "absent")
    found = next((name for name in member.split("|") if _has(owner, name)), None)
    return Finding(seam, found is not None, found or "absent")


def _has(owner: Any, name: str) -> bool:
    """Whether instances have the attribute: by the class, its annotations, or an assignment in a constructor."""
    if hasattr(owner, name):
        return True
    constructors = (vars(base).get("__init__") for base in owner.__mro__)
    codes = (constructor.__code__ for constructor in constructors if hasattr(constructor, "__code__"))
    annotated = any(name in vars(base).get("__annotations__", {}) for base in owner.__mro__)
    return annotated or any(name in code.co_names for code in codes)


def _examine_abstract(seam: Seam, owner: Any) -> Finding:
    abstract = frozenset(getattr(owner, "__abstractmethods__", ()))
    unknown = abstract - set(seam.forms[0].split())
    return Finding(seam, not unknown, "abstract in " + (", ".join(sorted(unknown or abstract)) or "nothing"))


def _examine_parameters(seam: Seam, target: Any) -> Finding:
    try:
        parameters = [p for p in inspect.signature(target).parameters.values() if p.name not in ("self", "cls")]
    except (TypeError, ValueError) as error:
        return Finding(seam, False, f"without a signature ({error})")
    names = tuple(p.name for p in parameters)
    forms = [tuple(form.split()) for form in seam.forms]
    if seam.use is Use.OVERRIDES:
        fits = names in forms
    else:
        fits = any(names[: len(form)] == form and _have_defaults(parameters[len(form) :]) for form in forms)
    return Finding(seam, fits, f"({', '.join(names)})")


def _have_defaults(parameters: list[inspect.Parameter]) -> bool:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.default is not p.empty or p.kind in variable for p in parameters)
