"""kv-autotune: learns where the KV cache of a language model server should lie.

The public API is :func:`tune`, :func:`simulate`, :class:`Policy` and :class:`Trace`. Each is imported when it is first
asked for (PEP 562), so that ``import autotune.core`` inside an engine loads no search library and no compiler.

>>> import autotune
>>> trace = autotune.Trace.open("sample:conversation")
>>> trace.block_tokens
512
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.api import Policy, simulate, tune
    from autotune.core.trace import Trace

    __version__: str

__all__ = ["Policy", "Trace", "__version__", "simulate", "tune"]

_HOMES = {
    "Policy": "autotune.api",
    "Trace": "autotune.core.trace",
    "simulate": "autotune.api",
    "tune": "autotune.api",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("kv-autotune")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
