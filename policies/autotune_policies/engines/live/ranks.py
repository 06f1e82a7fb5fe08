"""Ranks and counts of accesses under one set of rules, with the last results kept.

Chunks of one request mostly share their history, so the last decay and the last logarithm are used again where their
inputs are the same. The numbers are those of :mod:`autotune.core.decide.rank`, to the last bit.
"""

from __future__ import annotations

from autotune.core.decide.rank import decayed_frequency, frequency_term_ns
from autotune_policies.engines.live.resident import Key, Resident
from autotune_policies.engines.live.rules import HostRules, ValueTerms


class Ranks:
    """Arithmetic of one set of rules.

    Args:
        rules: The rules.
        chunk_tokens: Tokens of one chunk.
    """

    __slots__ = (
        "_decayed",
        "_elapsed_ns",
        "_faded",
        "_frequency",
        "_half_life_s",
        "_term_ns",
        "_terms",
        "_terms_ns",
        "_weight_ns",
    )

    def __init__(self, rules: HostRules, chunk_tokens: int) -> None:
        self._weight_ns, self._half_life_s = rules.weight_ns, rules.half_life_s
        self._terms = ValueTerms(rules, chunk_tokens)
        self._terms_ns = self._terms.terms_ns
        self._faded, self._elapsed_ns, self._decayed = 0.0, -1, 0.0
        self._frequency, self._term_ns = 1.0, 0

    def counted(self, frequency: float, since_ns: int, now_ns: int) -> float:
        """One more access: the frequency as of ``since_ns`` decays to now, then this access counts 1."""
        if self._half_life_s <= 0.0:
            return frequency + 1.0
        elapsed_ns = now_ns - since_ns
        if frequency != self._faded or elapsed_ns != self._elapsed_ns:
            self._faded, self._elapsed_ns = frequency, elapsed_ns
            self._decayed = decayed_frequency(frequency, elapsed_ns / 1e9, self._half_life_s)
        return self._decayed + 1.0

    def of(self, resident: Resident) -> int:
        """Rank of a resident as of its last access or renewal; the smallest leaves first."""
        return self.rank_ns(resident.last_ns, resident.frequency, resident.depth)

    def arriving(self, key: Key, depth: int, frequency: float, now_ns: int, is_use: bool) -> int:
        """Rank that a missing chunk has when it comes in now."""
        return self.rank_ns(now_ns, frequency, depth)

    def rank_ns(self, last_ns: int, frequency: float, depth: int) -> int:
        """Rank of a chunk at ``depth``; the smallest leaves first."""
        if self._weight_ns == 0.0:
            return last_ns
        if frequency != self._frequency:
            self._frequency = frequency
            self._term_ns = frequency_term_ns(self._weight_ns, frequency)
        if depth >= len(self._terms_ns):
            self._terms.extend(2 * depth)
        return last_ns + self._term_ns + self._terms_ns[depth]
