"""How many bits a cached value takes: plain element types, and quantised formats with their metadata.

Quantised keys and values come in groups that share metadata (a scale, and a zero point where the format has one), so
a value takes ``n + 8 * metadata_bytes / group`` bits. Formats that keep the newest tokens unquantised have a residual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from autotune.core.errors import ConfigError
from autotune.core.validation import nearest
from autotune.geometry.dtypes import ELEMENT_BYTES

_BITS_PER_BYTE = 8
_PLAIN_VALUE_BYTES = 2


@dataclass(frozen=True, slots=True)
class Precision:
    """The format of cached values.

    Attributes:
        name: What people call it.
        value_bits: Bits of one value without metadata.
        group_values: Values that share metadata; 0 for a format without any.
        metadata_bytes: Bytes of metadata per group.
        residual_tokens: Newest tokens that stay in two bytes per value.
    """

    name: str
    value_bits: int
    group_values: int = 0
    metadata_bytes: int = 0
    residual_tokens: int = 0

    @property
    def bits_per_value(self) -> Fraction:
        """Bits of one value with its share of the metadata."""
        if not self.group_values:
            return Fraction(self.value_bits)
        return self.value_bits + Fraction(_BITS_PER_BYTE * self.metadata_bytes, self.group_values)

    def value_bytes(self, n_values: int) -> Fraction:
        """Bytes of ``n_values`` values, metadata included; a residual is not."""
        return self.bits_per_value * n_values / _BITS_PER_BYTE

    def stored_bytes(self, values_per_token: int, n_tokens: int) -> int:
        """Bytes of the values of ``n_tokens`` tokens, the newest of them unquantised; a part of a byte counts whole."""
        plain_tokens = min(n_tokens, self.residual_tokens)
        quantised = self.value_bytes(values_per_token * (n_tokens - plain_tokens))
        return math.ceil(quantised) + _PLAIN_VALUE_BYTES * values_per_token * plain_tokens


# Source: KIVI, arXiv:2402.02750 (2 bits, scale and zero point of 2 bytes each per group, residual of 128 tokens);
# OCP Microscaling Formats v1.0 (mxfp4: 32 values, one scale of 8 bits); nvfp4: 16 values, one FP8 scale.
_QUANTISED = (
    Precision("int8_g64", 8, 64, 4),
    Precision("int4_g64", 4, 64, 4),
    Precision("int4_g32", 4, 32, 4),
    Precision("kivi2_g32", 2, 32, 4, residual_tokens=128),
    Precision("kivi2_g64", 2, 64, 4, residual_tokens=128),
    Precision("nvfp4", 4, 16, 1),
    Precision("mxfp4", 4, 32, 1),
)
_KNOWN = {p.name: p for p in _QUANTISED} | {
    name: Precision(name, _BITS_PER_BYTE * n_bytes) for name, n_bytes in ELEMENT_BYTES.items()
}


def precision_names() -> tuple[str, ...]:
    """Names of all known formats, sorted."""
    return tuple(sorted(_KNOWN))


def precision(name: str) -> Precision:
    """A format by name.

    Raises:
        ConfigError: it is not known.
    """
    if name not in _KNOWN:
        raise ConfigError("the KV element type must be a known one", got=repr(name), remedy=nearest(name, _KNOWN))
    return _KNOWN[name]
