"""The write budget of an engine's host tier: how much of an offer it pays for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from autotune.core.learned import WriteBucket, outranks
from autotune.core.policy import WriteBudget
from autotune_policies.engines.live.resident import Key

Candidates = Sequence[tuple[Key, int]]
"""Missing chunks in prefix order, with their depths."""


class Offered(NamedTuple):
    """A missing chunk that the budget is asked for.

    Attributes:
        depth: Its place in its chain; where that does not grow, the chunks of another group of layers begin.
        continued: Whether the host holds what continues it, which is of no use without it.
        rank: Its rank on arrival; 0 where nothing is ranked.
    """

    depth: int
    continued: bool
    rank: int


class HostWrites:
    """Obeys the budget of the policy in force, in the engine's monotonic time.

    Nothing is saved up when a budget comes in force, so neither a restart nor another policy allows more than it says.

    Args:
        chunk_bytes: Bytes of a chunk as it is copied.

    Attributes:
        refused: Whether the budget cut the offer that was decided about last.
    """

    def __init__(self, chunk_bytes: int) -> None:
        self.refused = False
        self._chunk_bytes = chunk_bytes
        self._budget: WriteBudget | None = None
        self._scale_ns = 0.0
        self._bucket: WriteBucket | None = None

    @property
    def are_limited(self) -> bool:
        """Whether there is a budget."""
        return self._bucket is not None

    def obey(self, budget: WriteBudget | None, now_ns: int, scale_ns: float = 0.0) -> None:
        """A policy is in force; under the budget that there was, what it has saved up or spent stays.

        Args:
            budget: Its budget.
            now_ns: Monotonic time.
            scale_ns: Scale of ranks that are keys which do not change; 0 = they are those of a tick.
        """
        self.refused, self._scale_ns = False, scale_ns
        if budget == self._budget:
            return
        self._budget, self._bucket = budget, None
        if budget is not None:
            self._bucket = WriteBucket(budget.bytes_per_s, budget.burst_s, self._chunk_bytes, now_ns)

    def count_paid(
        self, offers: Sequence[Offered], now_ns: int, n_free: int = 0, victim_rank: int | None = None
    ) -> int:
        """How many of these chunks may be written, from the first on; the first that may not ends the count.

        As many as in the simulator, which is asked for the deepest one first: the deepest that something on the host
        continues, or that is worth its price, is of no use without those before it, so that they are written on credit.

        Args:
            offers: Missing chunks in prefix order.
            now_ns: Time.
            n_free: How many of them need nobody's place.
            victim_rank: Rank of whoever would go next; ``None`` if nobody would, or nothing is ranked.
        """
        if self._bucket is None:
            return len(offers)
        n_paid = 0
        for chain in _chains(offers):
            price = self._bucket.price(now_ns, n_paid)
            n_wanted = self._reach(chain, price, None if n_paid < n_free else victim_rank)
            n_written = _n_on_credit(self._bucket, n_wanted, now_ns, n_paid)
            n_paid += n_written
            if n_written < len(chain):
                break
        self.refused = n_paid < len(offers)
        return n_paid

    def _reach(self, chain: Sequence[Offered], price: float, victim_rank: int | None) -> int:
        """Chunks up to the deepest one that something continues or that is worth its price."""
        for n in range(len(chain), 0, -1):
            offer = chain[n - 1]
            if offer.continued or self._is_worth(offer.rank, price, victim_rank):
                return n
        return 0

    def _is_worth(self, rank: int, price: float, victim_rank: int | None) -> bool:
        if price <= 1.0 or victim_rank is None:
            return price < math.inf
        return outranks(rank, victim_rank, price, self._scale_ns)

    def refuse(self, keys: Sequence[Key]) -> Sequence[Key]:
        """An offer that is refused as a whole, because the budget did not pay for what leads to it."""
        self.refused = True
        return keys

    def wrote(self, n_chunks: int, now_ns: int) -> None:
        """So many chunks got a place and are being copied."""
        if self._bucket is not None and n_chunks:
            self._bucket.write(now_ns, n_chunks)


def _n_on_credit(bucket: WriteBucket, n_wanted: int, now_ns: int, n_ahead: int) -> int:
    return next((n for n in range(n_wanted) if not bucket.has_credit(now_ns, n_ahead + n)), n_wanted)


def _chains(offers: Sequence[Offered]) -> Iterator[Sequence[Offered]]:
    """Offers of one group of layers after the other; nearly always there is one."""
    start = 0
    for i in range(1, len(offers)):
        if offers[i].depth <= offers[i - 1].depth:
            yield offers[start:i]
            start = i
    yield offers[start:]
