"""How the order of a host pool's residents comes under new rules, or into the next tick of a learned rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Any

from autotune.core.learned import RunHistory
from autotune_policies.engines.live.ghosts import GhostEntries
from autotune_policies.engines.live.learned_ranks import HazardRanks
from autotune_policies.engines.live.ranks import Ranks
from autotune_policies.engines.live.resident import Entry, Key, Resident
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.swap import RuleSwap, TickSwap

RANKED_AT_ONCE = 256


class OrderChanges(ABC):
    """Part of :class:`autotune_policies.engines.live.index.HostIndex`.

    Within a tick, ranks under a learned rule do not change. From the middle of a tick on, those of the next one are
    prepared in slices. When that one begins, what is left is done at once if it is little; otherwise the ranks of the
    tick before hold until the slices are through, so that no step of the engine takes long.

    Attributes:
        past: What is remembered of chunks, told by whoever hears of finished requests; ``None`` = nothing.
        ranked_at_once: Most residents that are ranked in one go when a tick begins.
    """

    capacity: int
    chunk_tokens: int
    rules: HostRules
    residents: OrderedDict[Key, Resident]
    ghosts: GhostEntries
    past: RunHistory[Key] | None
    ranked_at_once: int
    _ranks: Ranks | HazardRanks
    _leaf_only: bool
    _heap: list[Entry]
    _swap: RuleSwap | None
    _version: int

    @abstractmethod
    def unstage(self) -> None:
        """Put back the victims that were chosen and not taken."""

    @property
    def is_changing(self) -> bool:
        """Whether another order is being prepared."""
        return self._swap is not None

    def begin_swap(self, rules: HostRules, now_ns: int = 0) -> None:
        """Prepare the order under new rules; the old ones hold until :meth:`advance_swap` answers 0.

        Args:
            rules: The new rules.
            now_ns: Time; a learned rule ranks by the tick that it falls into.
        """
        self.unstage()
        ranks = ranks_under(rules, self.chunk_tokens, self.past, now_ns)
        self._swap = RuleSwap(self.residents, rules, ranks, self._catch_up)

    def advance_swap(self, n: int) -> int:
        """Rank up to ``n`` residents in what is being prepared; new rules are obeyed when all are.

        Returns:
            How many are left before new rules are obeyed; 0 also where none are being prepared.
        """
        swap = self._swap
        if swap is None:
            return 0
        left = swap.advance(n)
        if swap.is_tick:
            return 0
        if left == 0:
            self._take_over(swap)
        return left

    def finish_swap(self) -> None:
        """Do at once what is left of a swap; for a start, where there is nothing to re-rank."""
        while self.advance_swap(max(1, len(self.residents))):
            pass

    def at(self, now_ns: int) -> None:
        """Time goes on; told before every decision. In another tick, a learned rule has other ranks."""
        ranks = self._ranks
        if isinstance(ranks, Ranks):
            return
        while now_ns >= ranks.ends_ns:
            swap = self._swap or self._prepare_tick(ranks, now_ns)
            if not swap.is_tick or swap.left > self.ranked_at_once:
                return
            while swap.left:
                swap.advance(swap.left)
            self._take_over(swap)
            ranks = swap.ranks
        if self._swap is None and 2 * now_ns >= ranks.begins_ns + ranks.ends_ns:
            self._prepare_tick(ranks, ranks.ends_ns)

    def _prepare_tick(self, ranks: HazardRanks, now_ns: int) -> TickSwap:
        self.unstage()
        rules = self.rules
        swap = TickSwap(self.residents, rules, ranks.next_tick(now_ns, rules), self._catch_up, self._heap)
        self._swap = swap
        return swap

    def _take_over(self, swap: RuleSwap) -> None:
        self._swap = None
        self.unstage()
        self.rules, self._ranks, self._leaf_only = swap.rules, swap.ranks, swap.rules.leaf_only
        self._heap = swap.heap
        self._version += 1
        self.ghosts.limit_to(swap.rules.ghost_entries(self.capacity))

    def _catch_up(self, resident: Resident) -> None:
        if resident.version != self._version:
            self._bring_up(resident)

    def _bring_up(self, resident: Resident) -> None:
        """First contact with a resident after another order came into force: take over what was prepared for it."""
        resident.version = self._version
        resident.rank = self._ranks.of(resident)
        resident.entry, resident.next_entry = resident.next_entry, None


def ranks_under(rules: HostRules, chunk_tokens: int, past: RunHistory[Key] | None, now_ns: int) -> Any:
    """The arithmetic of some rules."""
    if rules.learned is None:
        return Ranks(rules, chunk_tokens)
    return HazardRanks(rules, rules.learned, chunk_tokens, past, now_ns)
