"""The write budget of an engine's host tier: how much of an offer it pays for."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from autotune.core.learned import WriteBucket, outranks
from autotune.core.policy import WriteBudget
from autotune_policies.engines.live.resident import Entry, Key

Candidates = Sequence[tuple[Key, int]]
"""Missing chunks in prefix order, with their depths."""


class Offered(NamedTuple):
    """A missing chunk that the budget is asked for.

    Attributes:
        continued: Whether the host holds what continues it, which is of no use without it.
        rank: Its rank on arrival.
        victim_rank: Rank of whoever would go for it; ``None`` if nobody would, or nothing is ranked.
    """

    continued: bool
    rank: int
    victim_rank: int | None


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

    def count_paid(self, offers: Iterable[Offered], now_ns: int) -> int:
        """How many of these chunks may be written, one after the other; the first that may not ends the count."""
        n_paid = 0
        self.refused = False
        for offer in offers:
            if not self._pays_for(offer, n_paid, now_ns):
                self.refused = True
                break
            n_paid += 1
        return n_paid

    def _pays_for(self, offer: Offered, n_ahead: int, now_ns: int) -> bool:
        bucket = self._bucket
        if bucket is None:
            return True
        if offer.continued:
            return bucket.has_credit(now_ns, n_ahead)
        price = bucket.price(now_ns, n_ahead)
        if price <= 1.0 or offer.victim_rank is None:
            return price < math.inf
        return outranks(offer.rank, offer.victim_rank, price, self._scale_ns)

    def refuse(self, keys: Sequence[Key]) -> Sequence[Key]:
        """An offer that is refused as a whole, because the budget did not pay for what leads to it."""
        self.refused = True
        return keys

    def wrote(self, n_chunks: int, now_ns: int) -> None:
        """So many chunks got a place and are being copied."""
        if self._bucket is not None and n_chunks:
            self._bucket.write(now_ns, n_chunks)


def offers_of(
    candidates: Candidates, orphans: Collection[Key], n_free: int = 0, contests: Sequence[tuple[int, Entry]] = ()
) -> Iterator[Offered]:
    """What the budget has to know of an offer.

    Args:
        candidates: What is offered.
        orphans: Missing chunks that residents continue; whatever leads to one of them is of use, too.
        n_free: How many need nobody's place.
        contests: For those after them: rank on arrival, and the entry of whoever would go.
    """
    n_lead = max((i + 1 for i, (key, _) in enumerate(candidates) if key in orphans), default=0)
    for i in range(len(candidates)):
        has_victim = 0 <= i - n_free < len(contests)
        rank, victim = contests[i - n_free] if has_victim else (0, None)
        yield Offered(i < n_lead, rank, None if victim is None else victim[0])
