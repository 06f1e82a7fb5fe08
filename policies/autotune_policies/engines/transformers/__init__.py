"""A KV cache for Hugging Face Transformers that streams part of the layers from host memory.

::

    with StreamingCache(model.config, resident_frac=0.5, prefetch_depth=1) as cache:
        model.generate(**inputs, **{cache_keyword(model): cache})

The model is not edited, and the output is bit for bit that of Transformers' own cache on the device. Names are loaded
on first use, so that what needs no engine can be imported without one; the first use of the cache checks the installed
version of Transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune_policies.engines.transformers.cache import StreamingCache, cache_keyword
    from autotune_policies.engines.transformers.plan import StreamingPlan
    from autotune_policies.engines.transformers.stats import StreamingStats

__all__ = ["StreamingCache", "StreamingPlan", "StreamingStats", "cache_keyword"]

_MODULES = {"StreamingCache": "cache", "cache_keyword": "cache", "StreamingPlan": "plan", "StreamingStats": "stats"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
