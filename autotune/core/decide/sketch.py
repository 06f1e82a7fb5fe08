"""Arithmetic of the count-min sketch that W-TinyLFU estimates frequencies with."""

from __future__ import annotations

ROWS = 4
COUNTERS_PER_BLOCK = 4
MAX_COUNT = 15
_LEAST_WIDTH = 16
_MASK_32 = 0xFFFFFFFF


def sketch_width(capacity_blocks: int) -> int:
    """Counters per row: the power of two from four per block of capacity on, as in Caffeine's sketch."""
    width = _LEAST_WIDTH
    while width < COUNTERS_PER_BLOCK * capacity_blocks:
        width *= 2
    return width


def sketch_hash(block: int) -> int:
    """A well mixed 32-bit number for a block id.

    Source: the function ``lowbias32`` with the constants 0x21f0aaad and 0x735a2d97, Wellons, "Prospecting for Hash
    Functions", 2018. All products stay below 2**63.
    """
    x = block & _MASK_32
    x ^= x >> 16
    x = (x * 0x21F0AAAD) & _MASK_32
    x ^= x >> 15
    x = (x * 0x735A2D97) & _MASK_32
    return x ^ (x >> 15)


def sketch_slot(mixed: int, row: int, width: int) -> int:
    """Position of a block's counter of that row in the ``(ROWS * width,)`` array of counters.

    Args:
        mixed: ``sketch_hash`` of the block.
        row: 0 to ``ROWS - 1``.
        width: Counters per row, a power of two.

    Source: double hashing, Kirsch and Mitzenmacher, "Less Hashing, Same Performance", 2008.
    """
    return row * width + ((mixed + row * ((mixed >> 15) | 1)) & (width - 1))
