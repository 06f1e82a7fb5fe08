"""What the adversarial traces are made of: one class per way to mislead a policy that learns from the past.

Every kind draws prompts of 512-token blocks over ``span_s`` seconds. Most of them end in blocks of their own (a
question after a shared document), so that the footprint holds blocks that are never used again, as real ones do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.trace import UNKNOWN

Blocks = npt.NDArray[np.int64]
Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request.

    Attributes:
        at_s: Arrival.
        blocks: ``(n_blocks,)`` names of its blocks in prefix order.
        output_tokens: Generated tokens.
        session: Session number, -1 for none.
    """

    at_s: float
    blocks: Blocks
    output_tokens: int
    session: int = UNKNOWN


class Names:
    """Names of blocks that nobody has used before."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, n_blocks: int) -> Blocks:
        """So many new names in a row."""
        self._next += n_blocks
        return np.arange(self._next - n_blocks, self._next)

    def documents(self, n_documents: int, n_blocks: int) -> Blocks:
        """``(n_documents, n_blocks)`` new names, one row per document."""
        return self.take(n_documents * n_blocks).reshape(n_documents, n_blocks)

    def asked(self, at_s: float, document: Blocks, random: Random) -> Prompt:
        """A question of one or two blocks about a document."""
        blocks = np.concatenate([document, self.take(int(random.integers(1, 3)))])
        return Prompt(at_s, blocks, int(random.integers(20, 200)))


@dataclass(frozen=True, slots=True)
class Kind(ABC):
    """A way to mislead.

    Attributes:
        span_s: Seconds from the first request to the last, about.
    """

    span_s: float = 3600.0

    @abstractmethod
    def prompts(self, random: Random) -> Iterator[Prompt]:
        """The requests, in any order."""


@dataclass(frozen=True, slots=True)
class ScanFlood(Kind):
    """Questions about popular documents, and floods of prompts of the same shape that are never asked for again.

    A flood looks like ordinary traffic in length and output, and pushes everything else out of a cache by recency; what
    is learned between floods (new prompts come back) is wrong inside them.

    Attributes:
        documents: Documents with Zipf-distributed popularity (exponent 0.8).
        document_blocks: Blocks of each.
        requests: Questions over the whole span.
        floods: Floods, evenly spaced.
        flood_requests: Prompts of each.
        flood_s: Seconds that a flood lasts.
    """

    documents: int = 300
    document_blocks: int = 14
    requests: int = 4000
    floods: int = 8
    flood_requests: int = 250
    flood_s: float = 60.0

    def prompts(self, random: Random) -> Iterator[Prompt]:
        """Questions over the whole span, then the floods."""
        names = Names()
        documents = names.documents(self.documents, self.document_blocks)
        popularity = zipf(self.documents, 0.8)
        for at_s in random.uniform(0.0, self.span_s, self.requests):
            yield names.asked(float(at_s), documents[random.choice(self.documents, p=popularity)], random)
        for number in range(self.floods):
            start_s = (number + 0.5) * self.span_s / self.floods
            for at_s in start_s + random.uniform(0.0, self.flood_s, self.flood_requests):
                yield names.asked(float(at_s), names.take(self.document_blocks), random)


@dataclass(frozen=True, slots=True)
class RegimeSwitch(Kind):
    """Long prompts come back and short ones do not; then it is the other way round, again and again.

    Every feature that tells the two apart (length, depth, output) changes its sign at each switch, so a model of the
    regime before is worse than none.

    Attributes:
        regimes: Regimes over the span.
        prompts_per_regime: New prompts of each of the two kinds in a regime.
        long_blocks: Blocks of a long prompt.
        short_blocks: Blocks of a short prompt.
        repeats: How often a prompt of the favoured kind comes back.
        gap_s: Mean seconds until it does.
    """

    regimes: int = 8
    prompts_per_regime: int = 130
    long_blocks: int = 24
    short_blocks: int = 8
    repeats: int = 4
    gap_s: float = 60.0

    def prompts(self, random: Random) -> Iterator[Prompt]:
        """Both kinds of prompts of every regime, and what comes back."""
        names = Names()
        regime_s = self.span_s / self.regimes
        for regime in range(self.regimes):
            for is_long in (True, False):
                n_repeats = self.repeats if is_long == (regime % 2 == 0) else 0
                for start_s in regime * regime_s + random.uniform(0.0, regime_s, self.prompts_per_regime):
                    blocks = names.take(self.long_blocks if is_long else self.short_blocks)
                    output_tokens = int(random.integers(150, 250) if is_long else random.integers(10, 60))
                    gaps_s = random.uniform(0.5, 1.5, n_repeats) * self.gap_s
                    for at_s in (start_s, *(start_s + np.cumsum(gaps_s))):
                        yield Prompt(float(at_s), blocks, output_tokens)


@dataclass(frozen=True, slots=True)
class Trap(Kind):
    """A lure in which learning pays, then a trap in which just what it learned to give up comes back at once.

    In the lure, long prompts come back after longer than LRU can hold them, and short ones never do. In the trap
    nothing long is asked for any more, and every short prompt comes back several times within seconds: LRU finds nearly
    all of them, and a policy that still believes the lure finds none.

    Attributes:
        rounds: Lures, each followed by its trap.
        trap_frac: Share of the time that is trap.
        long_prompts: New long prompts in a lure.
        long_blocks: Blocks of each.
        long_repeats: How often a long prompt comes back within the lure.
        long_gap_s: Mean seconds until it does.
        short_per_s: Short prompts per second, in lure and trap alike.
        short_blocks: Blocks of each.
        short_repeats: How often a short prompt of the trap comes back.
        short_gap_s: Mean seconds until it does.
    """

    rounds: int = 4
    trap_frac: float = 0.3
    long_prompts: int = 110
    long_blocks: int = 24
    long_repeats: int = 4
    long_gap_s: float = 90.0
    short_per_s: float = 1.5
    short_blocks: int = 8
    short_repeats: int = 4
    short_gap_s: float = 8.0

    def prompts(self, random: Random) -> Iterator[Prompt]:
        """Round by round: the long prompts of its lure, the short ones of its lure, those of its trap."""
        names = Names()
        round_s = self.span_s / self.rounds
        lure_s = round_s * (1.0 - min(self.trap_frac, 1.0))
        for start_s in np.arange(self.rounds) * round_s:
            end_s = start_s + lure_s
            for at_s in random.uniform(start_s, end_s, self.long_prompts):
                yield from self._uses(names.take(self.long_blocks), at_s, end_s, self.long_repeats, random)
            for at_s in random.uniform(start_s, end_s, round(lure_s * self.short_per_s)):
                yield from self._uses(names.take(self.short_blocks), at_s, end_s, 0, random)
            n_trapped = round((round_s - lure_s) * self.short_per_s / (1 + self.short_repeats))
            for at_s in random.uniform(end_s, start_s + round_s, n_trapped):
                until_s = start_s + round_s
                yield from self._uses(names.take(self.short_blocks), at_s, until_s, self.short_repeats, random)

    def _uses(self, blocks: Blocks, at_s: float, end_s: float, n_repeats: int, random: Random) -> Iterator[Prompt]:
        """A prompt and its repeats before ``end_s``."""
        gap_s = self.long_gap_s if len(blocks) == self.long_blocks else self.short_gap_s
        later_s = at_s + np.cumsum(random.uniform(0.5, 1.5, n_repeats) * gap_s)
        for moment_s in (at_s, *later_s[later_s < end_s]):
            yield Prompt(float(moment_s), blocks, int(random.integers(20, 200)))


@dataclass(frozen=True, slots=True)
class Loops(Kind):
    """Loops over sets of documents, one after the other, each set larger than the one before.

    LRU hits nothing in a loop slightly larger than the cache. The sizes grow by ``ratio``, so that every capacity meets
    one; and a policy that has learned to hold on to part of a loop holds on to it when the next one begins.

    Attributes:
        loops: Sets.
        smallest: Documents of the first.
        ratio: Documents of a set over those of the one before.
        rounds: How often each set is gone through.
        document_blocks: Blocks of a document.
    """

    loops: int = 9
    smallest: int = 6
    ratio: float = 1.6
    rounds: int = 8
    document_blocks: int = 14

    def prompts(self, random: Random) -> Iterator[Prompt]:
        """The loops in order."""
        names = Names()
        sizes = [round(self.smallest * self.ratio**loop) for loop in range(self.loops)]
        step_s = self.span_s / (self.rounds * sum(sizes))
        at_s = 0.0
        for size in sizes:
            documents = names.documents(size, self.document_blocks)
            for _ in range(self.rounds):
                for document in documents:
                    at_s += step_s * float(random.uniform(0.5, 1.5))
                    yield Prompt(at_s, document, int(random.integers(20, 200)))


@dataclass(frozen=True, slots=True)
class ReversedPopularity(Kind):
    """Zipf-distributed popularity whose ranking turns upside down every period.

    Counts of the past point at exactly the documents that are hardly asked for now.

    Attributes:
        documents: Documents.
        document_blocks: Blocks of each.
        requests: Questions over the whole span.
        periods: Periods over the span.
        exponent: Of the Zipf distribution.
    """

    documents: int = 600
    document_blocks: int = 14
    requests: int = 6000
    periods: int = 8
    exponent: float = 1.0

    def prompts(self, random: Random) -> Iterator[Prompt]:
        """Questions by the ranking of their period."""
        names = Names()
        documents = names.documents(self.documents, self.document_blocks)
        popularity = zipf(self.documents, self.exponent)
        for at_s in random.uniform(0.0, self.span_s, self.requests):
            rank = int(random.choice(self.documents, p=popularity))
            is_reversed = int(at_s * self.periods / self.span_s) % 2 == 1
            yield names.asked(float(at_s), documents[-1 - rank if is_reversed else rank], random)


@dataclass(frozen=True, slots=True)
class StoppingReuse(Kind):
    """Documents that are asked for at fixed intervals, and then never again: all of a generation stop at once.

    What was regular for long is the surest thing that a model can learn; here it marks the blocks that are dead.

    Attributes:
        generations: Generations of documents, one after the other.
        documents: Documents of each.
        document_blocks: Blocks of a document.
        cycles: How often each is asked for.
        jitter_frac: How far a question strays from its time, as a share of the interval.
    """

    generations: int = 6
    documents: int = 120
    document_blocks: int = 14
    cycles: int = 8
    jitter_frac: float = 0.1

    def prompts(self, random: Random) -> Iterator[Prompt]:
        """Generation by generation."""
        names = Names()
        interval_s = self.span_s / (self.generations * self.cycles)
        for generation in range(self.generations):
            start_s = generation * self.cycles * interval_s
            for document in names.documents(self.documents, self.document_blocks):
                phase_s = float(random.uniform(0.0, interval_s))
                strays_s = random.uniform(-0.5, 0.5, self.cycles) * self.jitter_frac * interval_s
                for cycle, stray_s in enumerate(strays_s):
                    at_s = start_s + phase_s + cycle * interval_s + float(stray_s)
                    yield names.asked(max(at_s, 0.0), document, random)


@dataclass(frozen=True, slots=True)
class SessionStorm(Kind):
    """Storms of sessions that all begin at once; in every other storm nobody says a second word.

    The first turns of both kinds of storm look alike. Between storms a few sessions trickle in.

    Attributes:
        storms: Storms, evenly spaced.
        sessions: Sessions of each.
        storm_s: Seconds in which they begin.
        turns: Most turns of a session; the number is uniform from half of it.
        first_blocks: Blocks of the first prompt, besides the system prompt of 2.
        turn_blocks: Blocks that each turn adds.
        think_s: Mean seconds between turns.
        trickle: Sessions that begin at any time.
    """

    storms: int = 8
    sessions: int = 80
    storm_s: float = 20.0
    turns: int = 10
    first_blocks: int = 6
    turn_blocks: int = 2
    think_s: float = 25.0
    trickle: int = 150

    def prompts(self, random: Random) -> Iterator[Prompt]:
        """The storms, then the trickle."""
        names = Names()
        system = names.take(2)
        number = 0
        for storm in range(self.storms):
            start_s = (storm + 0.25) * self.span_s / self.storms
            for begin_s in start_s + random.uniform(0.0, self.storm_s, self.sessions):
                n_turns = self._n_turns(random) if storm % 2 == 0 else 1
                yield from self._session(number, float(begin_s), n_turns, system, names, random)
                number += 1
        for begin_s in random.uniform(0.0, self.span_s, self.trickle):
            yield from self._session(number, float(begin_s), self._n_turns(random), system, names, random)
            number += 1

    def _n_turns(self, random: Random) -> int:
        return int(random.integers(max(1, self.turns // 2), self.turns + 1))

    def _session(
        self, number: int, at_s: float, n_turns: int, system: Blocks, names: Names, random: Random
    ) -> Iterator[Prompt]:
        blocks = np.concatenate([system, names.take(self.first_blocks)])
        for _ in range(n_turns):
            yield Prompt(at_s, blocks, int(random.integers(50, 300)), number)
            blocks = np.concatenate([blocks, names.take(self.turn_blocks)])
            at_s += float(random.exponential(self.think_s)) + 2.0


def zipf(n: int, exponent: float) -> npt.NDArray[np.float64]:
    """``(n,)`` probabilities that fall with the rank's power."""
    weights = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares
