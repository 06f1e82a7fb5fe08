"""Whatever the counters say, the diagnosis is finite, ordered and printable."""

from __future__ import annotations

import dataclasses
import json
import math

from hypothesis import given
from hypothesis import strategies as st

from autotune.advise.doctor import Diagnosis, Verdict, Window, diagnose, window_between, window_since_start
from autotune.core.signals import EngineInfo, HistogramReading, Kind, Reading, Signal, Snapshot
from autotune.report.doctor import diagnosis_table, diagnosis_words

COUNTS = st.one_of(st.none(), st.just(0.0), st.floats(0.0, 1e12), st.floats(1e-3, 1e3))
VALUED = [signal for signal in Signal if signal.spec.kind is not Kind.HISTOGRAM]
HISTOGRAMS = [signal for signal in Signal if signal.spec.kind is Kind.HISTOGRAM]


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A page with any values of any signals."""
    values = draw(st.dictionaries(st.sampled_from(VALUED), COUNTS, max_size=25))
    sums = draw(st.dictionaries(st.sampled_from(HISTOGRAMS), st.tuples(COUNTS, COUNTS), max_size=8))
    histograms = {
        signal: HistogramReading(count or 0.0, total, (math.inf,), (count or 0.0,))
        for signal, (count, total) in sums.items()
    }
    engine = EngineInfo("vllm", ranks=draw(st.integers(1, 4)), facts={"kv_offloading_size": draw(st.text(max_size=4))})
    readings = {signal: Reading(value, 0.0, signal.value) for signal, value in values.items()}
    return Snapshot("t", 0.0, engine, readings, histograms)


def check(window: Window) -> Diagnosis:
    """A diagnosis that makes sense."""
    answer = diagnose(window)
    low, high = answer.worth.low_device_hours_per_day, answer.worth.high_device_hours_per_day
    assert (low is None) == (high is None) == (answer.worth.verdict is Verdict.CANNOT_TELL)
    if low is not None and high is not None:
        assert 0.0 <= low <= high <= 24.0 * answer.worth.devices * (1.0 + 1e-9)
        assert answer.worth.because
    else:
        assert answer.worth.missing
    json.dumps(dataclasses.asdict(answer), allow_nan=False, default=str)
    assert all(line.strip() for line in diagnosis_words(answer))
    assert diagnosis_table(answer).row_count <= len(answer.findings) + 1
    return answer


@given(page=snapshots(), seconds=st.one_of(st.none(), st.floats(1e-3, 1e9)))
def test_since_the_start(page: Snapshot, seconds: float | None) -> None:
    """Bounds are ordered and never more than the clock; without bounds, what is missing is said."""
    check(window_since_start(page, seconds))


@given(before=snapshots(), after=snapshots(), seconds=st.floats(1e-3, 1e9))
def test_between_two_looks(before: Snapshot, after: Snapshot, seconds: float) -> None:
    """The same of the difference of any two pages."""
    check(window_between(before, dataclasses.replace(after, at_s=seconds)))
