"""The index of a host tier: what comes in, and what accesses do to it; the rank rule and the learned one in an engine.

The same rules and the same numbers as :class:`autotune_policies.rank.rank.RankPolicy`,
:class:`autotune.core.learned.HazardPolicy` and their compiled twins, for opaque keys, with copies in flight, for chunks
that are offered in runs and evicted exactly n at a time. All of it runs inside an engine's scheduler, so it is written
for speed: one slotted object per resident, one heap entry per candidate. Who leaves, and when, is told in
:mod:`autotune_policies.engines.live.departures`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from autotune.core.learned import Run
from autotune.core.types import Admission
from autotune.core.units import NS_PER_S
from autotune_policies.engines.live.departures import Departures
from autotune_policies.engines.live.resident import IN_USE, Key, Resident
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.writes import Candidates, HostWrites, Offered


class HostIndex(Departures):
    """Order of the residents of a host pool.

    Invariants: :meth:`evict` answers exactly n keys or ``None``, and ``None`` changes nothing; a chunk that is held
    never leaves by :meth:`evict`; where the rules rank (w > 0), neither does one that a resident continues.

    Args:
        capacity: Chunks that the pool holds.
        chunk_tokens: Tokens of one chunk.
        rules: Rules in force.

    Attributes:
        writes: What may be written; ``None`` = everything.
    """

    def __init__(self, capacity: int, chunk_tokens: int, rules: HostRules) -> None:
        super().__init__(capacity, chunk_tokens, rules)
        self.writes: HostWrites | None = None
        self._sequence = 0

    # Accesses

    def insert(self, key: Key, parent: Key | None, depth: int, now_ns: int, is_use: bool = True) -> None:
        """A missing chunk gets a place and is held until :meth:`release`. A ghost takes its statistics back.

        Args:
            key: The chunk.
            parent: The chunk that it continues.
            depth: Position in its chain, in chunks.
            now_ns: Time.
            is_use: Whether a request asked for it; otherwise the device gave it up, which counts no access.
        """
        frequency = self._frequency(self.ghosts.take(key) if is_use else self.ghosts.settle(key), now_ns, is_use)
        resident = Resident(parent, depth, self._chains.waiting_for(key), frequency, now_ns)
        if parent is not None:
            self._chains.gain(parent)
        if self.past is not None:
            resident.run = IN_USE if is_use else self.past.run_of(key)
        self.residents[key] = resident
        self._slots.add(key, resident)
        resident.version = self._version
        self._place(key, resident, now_ns)

    def refresh(
        self, keys: Iterable[Key], brought: Collection[Key], now_ns: int, runs: Mapping[Key, Run] | None = None
    ) -> None:
        """A request ends; its chunks are refreshed in this order.

        Args:
            keys: What it used, deepest first; those that are not resident are passed over.
            brought: Those that it brought in: their recency is now, their count stays. The others were used again and
                count one more access.
            now_ns: Time.
            runs: The runs that they stand in, where that is not known by their keys.
        """
        self.at(now_ns)
        residents, counted = self.residents, self._ranks.counted
        for key in keys:
            resident = residents.get(key)
            if resident is None:
                continue
            if resident.version != self._version:
                self._bring_up(resident)
            if key not in brought:
                resident.frequency = counted(resident.frequency, resident.last_ns, now_ns)
            if self.past is not None:
                resident.run = (runs or {}).get(key) or self.past.run_of(key) or self.past.last_run
                resident.is_copy = self.on_device is not None
            self._place(key, resident, now_ns)
            if resident.is_copy and resident.children and self._leaf_only:
                self._become_candidate(key, resident)

    def refuse(self, keys: Iterable[Key], now_ns: int) -> None:
        """Missing chunks were asked for and stay out: one access of their ghosts each."""
        for key in keys:
            known = self.ghosts.take(key)
            frequency = 1.0 if known is None else self._ranks.counted(known[0], known[1], now_ns)
            self.ghosts.put(key, frequency, now_ns)

    def _place(self, key: Key, resident: Resident, now_ns: int) -> None:
        """Give a resident its place as of now. Its heap entry stays, unless the rank fell below it."""
        self._sequence += 1
        resident.last_ns = now_ns
        resident.sequence = self._sequence
        self.residents.move_to_end(key)
        if self._leaf_only:
            resident.rank = rank = self._ranks.of(resident)
            entry = resident.entry
            if entry is not None and rank < entry[0]:
                self._push(key, resident)
        if self._swap is not None:
            self._swap.changed(key, resident)

    def clear(self) -> None:
        """Forget everything, ghosts too; rules that were being prepared are obeyed at once."""
        for content in (self.residents, self._slots.keys, self._chains.orphans, self._heap, self._staged):
            content.clear()
        self.ghosts.clear()
        self.protected_parent = None
        if self._swap is not None:
            self.begin_swap(self._swap.rules)
            self.advance_swap(1)

    # Admission

    def admit(
        self, candidates: Candidates, n_free: int, protected: Collection[Key], now_ns: int, is_use: bool = True
    ) -> int:
        """How many of the missing chunks come in, from the first on; the first refusal ends the run.

        Under marginal admission or a write budget the victims are chosen on the way and kept for the :meth:`evict` that
        follows; :meth:`unstage` puts them back where none does.

        Args:
            candidates: ``(key, depth)`` of missing chunks in prefix order.
            n_free: Free places.
            protected: Chunks that stay.
            now_ns: Time of the offer.
            is_use: As for :meth:`insert`; what the device gives up is known after its second use.
        """
        if self.writes is None or not self.writes.are_limited:
            return self._n_admitted(candidates, n_free, protected, now_ns, is_use)
        continued = [key in self._chains.orphans for key, _ in candidates]  # asked before victims are chosen
        n = self._n_admitted(candidates, n_free, protected, now_ns, is_use)
        ranked = self.rules.learned is not None
        offers = [
            Offered(depth, known, self._ranks.arriving(key, depth, 1.0, now_ns, is_use) if ranked else 0)
            for (key, depth), known in zip(candidates[:n], continued, strict=False)
        ]
        if ranked and n > n_free:
            self._choose(self._staged, 1, protected)
        victim_rank = self._staged[0][0] if ranked and self._staged else None
        return self.writes.count_paid(offers, now_ns, n_free, victim_rank)

    def _n_admitted(
        self, candidates: Candidates, n_free: int, protected: Collection[Key], now_ns: int, is_use: bool
    ) -> int:
        if self.rules.admission is Admission.ALL:
            return len(candidates)
        if self.rules.admission is Admission.TWO_HIT:
            known = self.ghosts.__contains__ if is_use else self.ghosts.was_used_twice
            return next((i for i, (key, _) in enumerate(candidates) if not known(key)), len(candidates))
        n_free = min(n_free, len(candidates))
        if not self._leaf_only:  # whatever is asked for now outranks what was asked for before
            return n_free + len(self._oldest(len(candidates) - n_free, protected))
        self.unstage()
        wanted = [
            self._ranks.arriving(key, depth, self._frequency(self.ghosts.get(key), now_ns, is_use), now_ns, is_use)
            for key, depth in candidates[n_free:]
        ]
        self._choose(self._staged, len(wanted), protected, wanted)
        return n_free + len(self._staged)

    def _frequency(self, known: tuple[float, int] | None, now_ns: int, is_use: bool) -> float:
        """Frequency of a chunk that is not resident, as of now."""
        if known is None:
            return 1.0
        return self._ranks.counted(known[0], known[1], now_ns) if is_use else known[0]

    # What is known

    def usage(self, key: Key, now_ns: int) -> tuple[float, float] | None:
        """Accesses with one more now, decayed, and seconds since the last; ``None`` where nothing is remembered."""
        resident = self.residents.get(key)
        known = (resident.frequency, resident.last_ns) if resident is not None else self.ghosts.get(key)
        if known is None:
            return None
        return self._ranks.counted(known[0], known[1], now_ns), (now_ns - known[1]) / NS_PER_S
