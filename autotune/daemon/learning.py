"""What one engine's records and counters teach: its costs, how its load looks, and what is written down of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from autotune.core.access import AccessRecord
from autotune.core.clock import Clock
from autotune.core.costs import CostProfile
from autotune.core.estimates import Estimate
from autotune.core.signals import HistogramReading, Rates, Signal
from autotune.core.telemetry.wire import Direction, EpochStart, StreamFacts, TransferRecord
from autotune.costs.live import LiveCosts
from autotune.costs.model import PREFILL_LINEAR, BreakEven, TableCosts
from autotune.costs.reuse_gaps import ReuseCurve

_REFIT_S = 60.0
_FIRST_FIT_S = 10.0  # while nothing was measured
_MAX_AGE_S = 86_400.0  # of records that a folder still holds at attach
_TYPICAL_TOKENS = 2048  # depth at which seconds per token are taken


class Recorder(Protocol):
    """Writes records down, bounded in bytes and time."""

    @property
    def source(self) -> str:
        """The recording as ``FORMAT:PATH``."""

    @property
    def requests(self) -> int:
        """Requests that a search can use."""

    def take(self, records: Sequence[Any]) -> str | None:
        """Write what came; what went wrong, in words."""

    def flush(self) -> None:
        """Make what was taken readable for others."""

    def close(self) -> None:
        """Write what waits."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one round's records say about the load.

    Attributes:
        gaps_s: Seconds since the previous use, of each run that was used before.
        prompt_tokens: Length of each request's prompt.
    """

    gaps_s: tuple[float, ...] = ()
    prompt_tokens: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _Learned:
    """What was learned at one moment."""

    at_s: float
    profile: CostProfile
    estimates: tuple[Estimate, ...]
    reuse: ReuseCurve | None = None
    break_even: BreakEven | None = None

    @property
    def samples(self) -> int:
        return next((each.samples for each in self.estimates if each.name == PREFILL_LINEAR), 0)


class Learner:
    """Learns from one engine.

    Args:
        table: Costs that hold until something was measured.
        clock: Tells the time.
        recorder: Where records go; ``None`` = nowhere.

    Attributes:
        facts: What the engine's own telemetry says about it; ``None`` = it said nothing yet.
        recorder: Where records go.
    """

    def __init__(self, table: CostProfile, clock: Clock, recorder: Recorder | None = None) -> None:
        self._table, self._clock, self.recorder = table, clock, recorder
        self.facts: StreamFacts | None = None
        self._costs: LiveCosts | None = None
        self._known: _Learned | None = None
        self._trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why the last records could not be written down; ``None`` = they were."""
        return self._trouble

    def take(self, records: Sequence[Any], rates: Rates | None) -> Seen:
        """Learn from one round."""
        newest_s = max((each.time_s for each in records if isinstance(each, AccessRecord)), default=0.0)
        for record in records:
            self._learn(record, newest_s)
        if not records and rates is not None and not rates.reset:
            self._learn_counters(rates)
        if self.recorder is not None:
            self._trouble = self.recorder.take(records)
        return seen(records)

    def profile(self) -> CostProfile:
        """The costs as they are known now."""
        return self._learned().profile

    def estimates(self) -> tuple[Estimate, ...]:
        """The same with their evidence."""
        return self._learned().estimates

    def reuse(self) -> ReuseCurve | None:
        """How soon blocks are used again; ``None`` = nothing was seen."""
        return self._learned().reuse

    def break_even(self) -> BreakEven | None:
        """Length of the shortest run that is worth loading; ``None`` = nothing was measured."""
        return self._learned().break_even

    @property
    def samples(self) -> int:
        """Prefills that its costs rest on."""
        return self._learned().samples

    def seconds_per_token(self) -> float:
        """Seconds of prefill per prompt token, at the usual depth."""
        return float(self.profile().prefill_s(_TYPICAL_TOKENS)) / _TYPICAL_TOKENS

    def _learned(self) -> _Learned:
        """What was learned, fitted anew once in a while: a fit takes longer than the rest of a round together."""
        now_s = self._clock.monotonic_s()
        if self._known is None or now_s - self._known.at_s >= (_REFIT_S if self._known.samples else _FIRST_FIT_S):
            self._known = self._fitted(now_s)
        return self._known

    def _fitted(self, now_s: float) -> _Learned:
        costs = self._costs
        if costs is None:
            return _Learned(now_s, self._table, TableCosts(self._table).estimates(now_s))
        return _Learned(now_s, costs.profile(), costs.estimates(now_s), costs.reuse(now_s), costs.break_even(now_s))

    def _learn(self, record: Any, newest_s: float) -> None:
        if isinstance(record, EpochStart):
            if record.stream:  # one of KV events names none, and says nothing of costs
                self._begin(record, newest_s)
        elif self._costs is None:
            return
        elif isinstance(record, AccessRecord):
            self._costs.access(record)
        elif isinstance(record, TransferRecord):
            self._costs.transfer(record)

    def _begin(self, start: EpochStart, newest_s: float) -> None:
        facts = start.facts
        if self._costs is None or self.facts != facts:
            kv_bytes = facts.kv_bytes_per_token or self._table.kv_bytes_per_token
            table = TableCosts(replace(self._table, kv_bytes_per_token=kv_bytes))
            self._costs = LiveCosts(table, max(1, facts.chunk_tokens))
        self.facts = facts
        began = datetime.fromisoformat(start.start_utc)
        ago_s = (self._clock.utc_now() - began).total_seconds()
        if not newest_s <= ago_s <= newest_s + _MAX_AGE_S:
            ago_s = newest_s  # the engine's wall clock is not ours: its newest record is taken to be of this moment
        self._costs.begin_epoch(start.epoch, self._clock.monotonic_s() - ago_s)

    def _learn_counters(self, rates: Rates) -> None:
        """What an engine without our telemetry tells: sums over an interval."""
        if self._costs is None:
            self._costs = LiveCosts(TableCosts(self._table), 1)
        now_s = self._clock.monotonic_s()
        prefill = rates.histograms.get(Signal.PREFILL_S)
        tokens = rates.delta(Signal.COMPUTED_TOKENS)
        if prefill is not None and prefill.sum and prefill.count > 0.0 and tokens:
            mean = tokens / prefill.count
            self._costs.prefills(now_s, prefill.count, tokens, tokens * mean * 0.5, prefill.sum)
        for direction, names in _COPIES.items():
            copies, moved, seconds = (rates.delta(name) for name in names)
            if copies and moved and seconds:
                self._costs.copies(now_s, direction, copies, moved, seconds)


_COPIES = {
    Direction.LOAD: (Signal.LOAD_OPERATIONS, Signal.LOAD_BYTES, Signal.LOAD_SECONDS),
    Direction.STORE: (Signal.STORE_OPERATIONS, Signal.STORE_BYTES, Signal.STORE_SECONDS),
}


def seen(records: Sequence[Any]) -> Seen:
    """Gaps and lengths of prompts in one round's records."""
    gaps_s: list[float] = []
    tokens: dict[tuple[int, int], float] = {}
    for record in records:
        if not isinstance(record, AccessRecord):
            continue
        key = (record.epoch, record.request)
        tokens[key] = tokens.get(key, 0.0) + record.tokens
        if record.features.gap_s is not None:
            gaps_s.append(record.features.gap_s)
    return Seen(tuple(gaps_s), tuple(tokens.values()))


def prompts_of(histogram: HistogramReading | None) -> tuple[float, ...]:
    """Lengths of prompts from a histogram of them: one value per observation, at the upper end of its bucket."""
    if histogram is None:
        return ()
    lengths: list[float] = []
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        lengths += [min(bound, 1e7)] * int(count)
    return tuple(lengths)
