"""A write budget as time passes: what it has saved up, and what a block must be worth to be written."""

from __future__ import annotations

import math

from autotune.core.decide.fixed import factor_shift_ns
from autotune.core.decide.hazard import write_price, write_reserve_ns
from autotune.core.units import NS_PER_S


class WriteBucket:
    """Allows one block per so many nanoseconds. It begins empty; what is not used is saved up, within a bound.

    Args:
        bytes_per_s: Bytes per second that may be written, on average.
        burst_s: Seconds of that which may be saved up.
        block_bytes: Bytes of a block.
        began_ns: When the budget begins.
    """

    __slots__ = ("_began_ns", "_block_ns", "_burst_ns", "_written_up_to_ns")

    def __init__(self, bytes_per_s: float, burst_s: float, block_bytes: int, began_ns: int) -> None:
        self._block_ns = int(block_bytes / bytes_per_s * NS_PER_S)
        self._burst_ns = int(burst_s * NS_PER_S)
        self._began_ns = self._written_up_to_ns = began_ns

    def price(self, now_ns: int, n_ahead: int = 0) -> float:
        """Factor by which a block must outrank the next victim to be written; infinite = it may not.

        Args:
            now_ns: Time.
            n_ahead: Blocks that are to be written now, before this one.
        """
        saved_up_ns = now_ns - self._written_up_to(now_ns, n_ahead)
        return write_price(saved_up_ns, self._block_ns, self._reserve_ns(now_ns))

    def has_credit(self, now_ns: int, n_ahead: int = 0) -> bool:
        """Whether less was written ahead of the budget than its reserve, as a block that a resident continues may be.

        Args:
            now_ns: Time.
            n_ahead: Blocks that are to be written now, before this one.
        """
        return self._written_up_to(now_ns, n_ahead) - now_ns <= self._reserve_ns(now_ns)

    def write(self, now_ns: int, n_blocks: int = 1) -> None:
        """Blocks are written."""
        self._written_up_to_ns = self._written_up_to(now_ns, n_blocks)

    def take_back(self) -> None:
        """A block that was counted was not written after all."""
        self._written_up_to_ns -= self._block_ns

    def _written_up_to(self, now_ns: int, n_more: int) -> int:
        if n_more == 0:
            return self._written_up_to_ns
        return max(self._written_up_to_ns, now_ns - self._burst_ns) + n_more * self._block_ns

    def _reserve_ns(self, now_ns: int) -> int:
        return write_reserve_ns(now_ns - self._began_ns, self._block_ns, self._burst_ns)


def outranks(rank: int, victim_rank: int, price: float, scale_ns: float = 0.0) -> bool:
    """Whether a block is worth a write at this price, on a full tier.

    Args:
        rank: Its rank on arrival.
        victim_rank: Rank of whoever would go for it.
        price: Factor by which it must be worth more.
        scale_ns: Scale of keys that do not change, which are logarithms of worth; 0 = ranks are those of a tick.
    """
    if scale_ns > 0.0:
        return price < math.inf and rank >= victim_rank + factor_shift_ns(scale_ns, price)
    return float(rank) >= float(victim_rank) * price
