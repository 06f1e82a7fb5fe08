"""Offload: how many sequences fit on the device when each keeps only a share of its KV there."""

from __future__ import annotations

from fractions import Fraction

from autotune.core.errors import ConfigError


def exact(share: float | str | Fraction) -> Fraction:
    """The number that was written: 0.1 is a tenth, not its nearest binary fraction.

    >>> exact(0.1)
    Fraction(1, 10)
    """
    return share if isinstance(share, Fraction) else Fraction(str(share))


def max_sequences(
    memory_bytes: int, sequence_bytes: int, resident_frac: float | str | Fraction, buffer_bytes: int = 0
) -> int | None:
    """Sequences that fit: ``floor(M / (p * S + buffer))``, in exact arithmetic.

    A floor of floating-point numbers is wrong where the division comes out even: here it must be 10, not 9.

    >>> max_sequences(3, 3, 0.1)
    10

    Args:
        memory_bytes: Device memory for KV, M.
        sequence_bytes: KV of one sequence, S.
        resident_frac: Share of it that stays on the device, p.
        buffer_bytes: Bytes per sequence that streaming needs besides.

    Returns:
        How many, or ``None`` where nothing of a sequence lies on the device, so that memory sets no limit.

    Raises:
        ConfigError: p is no share, or a size is negative.
    """
    share = exact(resident_frac)
    if not 0 <= share <= 1 or min(memory_bytes, sequence_bytes, buffer_bytes) < 0:
        raise ConfigError(
            "p is between 0 and 1 and sizes are not negative",
            got=f"p {float(share):g}, sizes {memory_bytes}, {sequence_bytes}, {buffer_bytes}",
        )
    each = share * sequence_bytes + buffer_bytes
    return int(memory_bytes / each) if each else None
