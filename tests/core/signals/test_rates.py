"""What happened between two looks, and when nothing can be said."""

from __future__ import annotations

import math

import pytest

from autotune.core.signals import (
    EngineInfo,
    HistogramReading,
    Kind,
    Reading,
    Signal,
    SignalError,
    Snapshot,
    rates,
    since_start,
)
from autotune.core.signals.specs import SPECS


def page(at_s: float, *, start_s: float = 100.0, created_s: float | None = None, **series: float) -> Snapshot:
    """A snapshot with one counter over some ranks."""
    reading = Reading(sum(series.values()), at_s, "x_total", series, created_s)
    start = Reading(start_s, at_s, "start")
    return Snapshot("t", at_s, readings={Signal.PROMPT_TOKENS: reading, Signal.PROCESS_START_S: start})


def test_every_signal_has_a_meaning() -> None:
    """Kind, unit and meaning stand for each, and names are unique."""
    assert set(SPECS) == set(Signal)
    assert all(signal.spec.meaning and not signal.spec.meaning.endswith(".") for signal in Signal)


def test_increase_per_second() -> None:
    """Counters are subtracted, gauges are not."""
    between = rates(page(10.0, a=5.0), page(12.0, a=9.0))
    assert (between.seconds, between.delta(Signal.PROMPT_TOKENS)) == (2.0, 4.0)
    assert between.per_second(Signal.PROMPT_TOKENS) == 2.0
    assert between.delta(Signal.PROCESS_START_S) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (page(1.0, a=5.0), page(2.0, a=3.0)),
        (page(1.0, a=5.0, b=5.0), page(2.0, a=50.0, b=1.0)),
        (page(1.0, a=5.0, b=5.0), page(2.0, a=50.0)),
        (page(1.0, a=5.0), page(2.0, a=9.0, start_s=200.0)),
        (page(1.0, a=5.0, created_s=10.0), page(2.0, a=9.0, created_s=20.0)),
    ],
    ids=["went back", "one rank went back", "one rank is gone", "new process", "created anew"],
)
def test_a_reset_is_a_new_epoch_without_increases(before: Snapshot, after: Snapshot) -> None:
    """Whatever shows that something began anew, no increase is given, even where the sum grew."""
    between = rates(before, after)
    assert between.reset
    assert between.because
    assert not between.deltas
    assert not between.histograms


def test_a_new_rank_begins_at_zero() -> None:
    """A label set that was not there before has counted since it came."""
    assert rates(page(1.0, a=5.0), page(2.0, a=6.0, b=3.0)).delta(Signal.PROMPT_TOKENS) == 4.0


def test_announced_counters_begin_at_zero_and_unknown_ones_stay_unknown() -> None:
    """A series that was announced without a sample was zero; one that was not there at all is unknown."""
    after = page(2.0, a=6.0)
    announced = Snapshot("t", 1.0, declared=frozenset({Signal.PROMPT_TOKENS}))
    assert rates(announced, after).delta(Signal.PROMPT_TOKENS) == 6.0
    assert rates(Snapshot("t", 1.0), after).delta(Signal.PROMPT_TOKENS) is None


def test_another_engine_or_model_is_a_new_epoch() -> None:
    """Counts of two engines are never subtracted."""
    one, other = EngineInfo("vllm", model="a"), EngineInfo("vllm", model="b")
    assert rates(Snapshot("t", 1.0, one), Snapshot("t", 2.0, other)).because == "the model was a and is b"
    assert rates(Snapshot("t", 1.0, one), Snapshot("t", 2.0, EngineInfo("sglang"))).reset


def test_time_must_pass() -> None:
    """Two looks at one moment have no rate."""
    with pytest.raises(SignalError, match="a later one"):
        rates(page(1.0, a=1.0), page(1.0, a=2.0))


def histogram(*counts: float) -> HistogramReading:
    """A histogram with bounds 1, 2 and infinity."""
    return HistogramReading(sum(counts), 2.0 * sum(counts), (1.0, 2.0, math.inf), counts)


def test_histograms_are_subtracted_bucket_by_bucket() -> None:
    """What was added has its own mean and quantiles."""
    before = Snapshot("t", 1.0, histograms={Signal.TTFT_S: histogram(9.0, 0.0, 0.0)})
    after = Snapshot("t", 2.0, histograms={Signal.TTFT_S: histogram(9.0, 3.0, 1.0)})
    added = rates(before, after).histograms[Signal.TTFT_S]
    assert (added.count, added.counts, added.mean) == (4.0, (0.0, 3.0, 1.0), 2.0)
    assert (added.quantile(0.5), added.quantile(0.95)) == (2.0, math.inf)
    assert rates(Snapshot("t", 0.0, histograms=after.histograms), before).reset


def test_quantiles_of_nothing_are_unknown() -> None:
    """Neither mean nor quantile comes from no observation."""
    empty = histogram(0.0, 0.0, 0.0)
    assert (empty.mean, empty.quantile(0.5)) == (None, None)


def test_totals_since_the_start_are_counters_only() -> None:
    """One page is taken as an interval from zero; gauges have no increase."""
    total = since_start(page(10.0, a=5.0), 50.0)
    assert total.deltas == {Signal.PROMPT_TOKENS: 5.0}
    assert total.per_second(Signal.PROMPT_TOKENS) == 0.1
    assert Signal.PROMPT_TOKENS.spec.kind is Kind.COUNTER
