"""Triton as far as importing its names goes: SGLang's parser imports kernels that it never runs."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

__version__ = "3.0.0"


class _Name:
    """Anything that a kernel may be written with: a decorator, a type, a namespace."""

    def __getattr__(self, name: str) -> _Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name()

    def __call__(self, *arguments: object, **_: object) -> object:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else _Name()

    def __getitem__(self, _: object) -> _Name:
        return self

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return ()


def __getattr__(name: str) -> _Name:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Name()


class _Submodules:
    """Finds every module below this one, and gives each the same names."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.startswith("triton.") else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__dict__["__getattr__"] = __getattr__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


sys.meta_path.append(_Submodules())
