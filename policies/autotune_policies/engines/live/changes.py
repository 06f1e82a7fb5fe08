"""How the order of a host pool's residents comes under new rules, or into the next tick of a learned rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from autotune.core.learned import RunHistory
from autotune_policies.engines.live.ghosts import GhostEntries
from autotune_policies.engines.live.learned_ranks import HazardRanks
from autotune_policies.engines.live.ranks import Ranks
from autotune_policies.engines.live.resident import Entry, Key, Resident
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.slots import Slots
from autotune_policies.engines.live.swap import OrderSwap

RANKED_AT_ONCE = 256
SLICE_NS = 300_000
_MOST_PER_SLICE = 8192
_BATCH = 16


class OrderChanges(ABC):
    """Part of :class:`autotune_policies.engines.live.departures.Departures`.

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
    _slots: Slots
    _swap: OrderSwap | None
    _waste: list[Entry]
    _version: int

    @abstractmethod
    def unstage(self) -> None:
        """Put back the victims that were chosen and not taken."""

    @property
    def is_changing(self) -> bool:
        """Whether there is something to do in slices: another order to prepare, or a former one to clear away."""
        swap = self._swap
        return bool(self._waste) or (swap is not None and (swap.left > 0 or not swap.is_tick))

    def advance_for(self, slice_ns: int, clock_ns: Callable[[], int]) -> None:
        """Go on with what is to be done in slices, for about so long.

        Args:
            slice_ns: How long one slice takes.
            clock_ns: The time; where it stands still, a slice has a bound all the same.
        """
        began_ns = clock_ns()
        for _ in range(_MOST_PER_SLICE // _BATCH):
            if not self.is_changing:
                return
            self.advance_swap(_BATCH)
            if clock_ns() - began_ns >= slice_ns:
                return

    def begin_swap(self, rules: HostRules, now_ns: int = 0) -> None:
        """Prepare the order under new rules; the old ones hold until :meth:`advance_swap` answers 0.

        Args:
            rules: The new rules.
            now_ns: Time; a learned rule ranks by the tick that it falls into.
        """
        self.unstage()
        ranks = ranks_under(rules, self.chunk_tokens, self.past, now_ns)
        self._swap = self._new_swap(rules, ranks, is_tick=False)

    def _new_swap(self, rules: HostRules, ranks: Ranks | HazardRanks, *, is_tick: bool) -> OrderSwap:
        return OrderSwap(self.residents, self._slots, rules, ranks, self._catch_up, is_tick=is_tick)

    def advance_swap(self, n: int) -> int:
        """Rank up to ``n`` residents in what is being prepared; new rules are obeyed when all are.

        Returns:
            How many are left before new rules are obeyed; 0 also where none are being prepared.
        """
        if self._waste:
            del self._waste[-4 * n :]
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

    def _prepare_tick(self, ranks: HazardRanks, now_ns: int) -> OrderSwap:
        self.unstage()
        self._swap = swap = self._new_swap(self.rules, ranks.next_tick(now_ns, self.rules), is_tick=True)
        return swap

    def _take_over(self, swap: OrderSwap) -> None:
        self._swap = None
        self.unstage()
        self.rules, self._ranks, self._leaf_only = swap.rules, swap.ranks, swap.rules.leaf_only
        self._waste, self._heap = self._heap, swap.heap  # letting go of many entries takes time, too
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
