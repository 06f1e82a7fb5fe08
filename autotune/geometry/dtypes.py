"""Element types that a KV cache may have."""

from __future__ import annotations

from autotune.core.errors import ConfigError
from autotune.core.validation import nearest

# Name → bytes. ``fp8`` is one byte whichever of the two formats an engine picks.
ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}


def element_bytes(dtype: str) -> int:
    """Bytes per element.

    Raises:
        ConfigError: the type is not one that a KV cache is known to have.
    """
    if dtype not in ELEMENT_BYTES:
        raise ConfigError(
            "the KV element type must be a known one", got=repr(dtype), remedy=nearest(dtype, ELEMENT_BYTES)
        )
    return ELEMENT_BYTES[dtype]
