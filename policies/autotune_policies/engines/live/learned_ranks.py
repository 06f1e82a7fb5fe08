"""Ranks under a learned rule within one tick, for residents of an engine's tier."""

from __future__ import annotations

from autotune.core.decide.rank import NS_PER_S, round_half_up
from autotune.core.learned import IN_USE_KEY, LearnedRules, RunHistory, keys_at
from autotune_policies.engines.live.resident import IN_USE, Key, Resident
from autotune_policies.engines.live.rules import HostRules, chunk_value_s


class HazardRanks:
    """Arithmetic of a learned rule, as :class:`autotune_policies.engines.live.ranks.Ranks` is that of the rank rule.

    Args:
        rules: Rules with a learned part.
        learned: That part.
        chunk_tokens: Tokens of one chunk.
        past: What is remembered of chunks; ``None`` = nothing, so that all count as hardly used.
        now_ns: A moment of the tick.

    Attributes:
        begins_ns: When the tick begins.
        ends_ns: When it ends, and with it these ranks.
    """

    __slots__ = ("_chunk_tokens", "_costs", "_keys", "_past", "_values_ns", "begins_ns", "ends_ns")

    def __init__(
        self, rules: HostRules, learned: LearnedRules, chunk_tokens: int, past: RunHistory[Key] | None, now_ns: int
    ) -> None:
        self._costs, self._chunk_tokens, self._past = rules.costs, chunk_tokens, past
        self._values_ns: list[int] = []
        self._keys = keys_at(learned, self._value_ns, now_ns)
        self.begins_ns, self.ends_ns = self._keys.began_ns, self._keys.ends_ns

    def _value_ns(self, depth: int) -> int:
        values_ns = self._values_ns
        while depth >= len(values_ns):
            here = len(values_ns)
            value_s = 1.0 if self._costs is None else chunk_value_s(self._costs, here, self._chunk_tokens)
            values_ns.append(round_half_up(value_s * NS_PER_S))
        return values_ns[depth]

    def counted(self, frequency: float, since_ns: int, now_ns: int) -> float:
        """One more access; the learned rule takes no notice of that number."""
        return frequency + 1.0

    def of(self, resident: Resident) -> int:
        """Rank of a resident in this tick; the smallest leaves first."""
        run = resident.run
        if run is IN_USE:
            return IN_USE_KEY
        if run is None:
            return self._keys.key_of_unknown(resident.last_ns, resident.depth)
        return self._keys.key(run, resident.depth, resident.is_copy)

    def arriving(self, key: Key, depth: int, frequency: float, now_ns: int, is_use: bool) -> int:
        """Rank that a missing chunk has when it comes in: above all others while its request runs."""
        if is_use:
            return IN_USE_KEY
        run = None if self._past is None else self._past.run_of(key)
        return self._keys.key_of_unknown(now_ns, depth) if run is None else self._keys.key(run, depth, is_copy=False)

    def next_tick(self, now_ns: int, rules: HostRules) -> HazardRanks:
        """The ranks of another tick."""
        return HazardRanks(rules, self._keys.rules, self._chunk_tokens, self._past, now_ns)
