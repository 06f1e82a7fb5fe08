"""The plug-in's series keep Prometheus' rules, and everything counted arrives exactly once."""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune_policies.engines.vllm.metrics import (
    MAX_PENDING_OBSERVATIONS,
    HostLookup,
    LoadRefusal,
    LostRecord,
    PolicyCounters,
    RefusalReason,
)
from autotune_policies.engines.vllm.series import DEFINITIONS, MetricDefinition, MetricKind

BASE_UNITS = ("_seconds", "_bytes", "_tokens", "_ratio")
SCALED_UNITS = re.compile(r"(milli|micro|nano|kilo|mega|giga|kibi|mebi|gibi|percent|_ms|_us|_ns)")


class Page:
    """What the engine's page would show: sums of counters, last values of gauges, lists of observations."""

    def __init__(self) -> None:
        self.counters: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.gauges: dict[tuple[str, tuple[str, ...]], float] = {}
        self.observations: dict[str, list[float]] = {}

    def increase_counter(
        self, counter_name: str, counter_increase_value: float, labelvalues: tuple[str, ...] = ()
    ) -> None:
        """Add to a counter."""
        self.counters[counter_name, labelvalues] += int(counter_increase_value)

    def set_gauge(self, gauge_name: str, gauge_value: float, labelvalues: tuple[str, ...] = ()) -> None:
        """Set a gauge."""
        self.gauges[gauge_name, labelvalues] = gauge_value

    def observe_histogram(self, histogram_name: str, histogram_value: float, labelvalues: tuple[str, ...] = ()) -> None:
        """Add an observation."""
        assert labelvalues == ()
        self.observations.setdefault(histogram_name, []).append(histogram_value)


def page_of(counters: PolicyCounters, drains: int = 1) -> Page:
    """The page after that many drains."""
    page = Page()
    for _ in range(drains):
        counters.drain(page)
    return page


@pytest.mark.parametrize("series", DEFINITIONS, ids=lambda series: series.name)
def test_a_series_keeps_the_conventions(series: MetricDefinition) -> None:
    """Prefix, character set, base units, _total exactly on counters, a sentence of help, no reserved label.

    Source: Prometheus, "Metric and label naming" and "Writing exporters".
    """
    assert re.fullmatch(r"kv_autotune_[a-z]+(_[a-z]+)*", series.name)
    assert series.name.endswith("_total") == (series.kind is MetricKind.COUNTER)
    assert not series.name.endswith(("_count", "_sum", "_bucket", "_created"))
    assert not SCALED_UNITS.search(series.name)
    assert series.name.endswith(BASE_UNITS) or series.kind is not MetricKind.HISTOGRAM
    assert series.help[0].isupper() or series.help[0].isdigit()
    assert series.help.endswith(".")
    assert not {"engine", "model_name", "le", "quantile", "job", "instance"}.intersection(series.labels)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in (*series.labels, *series.label_values))
    assert (list(series.buckets) == sorted(set(series.buckets))) and bool(series.buckets) == (
        series.kind is MetricKind.HISTOGRAM
    )


def test_names_are_unique() -> None:
    """No name is the beginning of another's samples."""
    names = [series.name for series in DEFINITIONS]
    assert len(set(names)) == len(names)


def test_the_docs_list_every_series_in_the_words_of_the_code() -> None:
    """docs/telemetry.md has exactly one row per series, with its kind, labels and help."""
    page = (Path(__file__).parents[4] / "docs" / "telemetry.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `kv_autotune_")]
    assert rows == [_row(series) for series in DEFINITIONS]


def _row(series: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in series.labels)
    values = ", ".join(f"`{value}`" for value in series.label_values)
    return f"| `{series.name}` | {series.kind} | {labels}{': ' if values else ''}{values} | {series.help} |"


def test_every_counter_is_on_the_page_from_the_start() -> None:
    """The first drain shows each counter with each of its labels at zero, and every gauge."""
    page = page_of(PolicyCounters(capacity_chunks=7))
    counters = [series for series in DEFINITIONS if series.kind is MetricKind.COUNTER]
    expected: set[tuple[str, tuple[str, ...]]] = {
        (one.name, (value,)) for one in counters for value in one.label_values
    }
    expected |= {(one.name, ()) for one in counters if not one.labels}
    assert set(page.counters) == expected
    assert set(page.counters.values()) == {0}
    gauges = {series.name for series in DEFINITIONS if series.kind is MetricKind.GAUGE}
    assert {name for name, _ in page.gauges} == gauges
    assert page.gauges["kv_autotune_capacity_chunks", ()] == 7
    assert page.gauges["kv_autotune_policy_info", ("lru", "none")] == 1
    assert page.gauges["kv_autotune_telemetry_info", ("none",)] == 1


PLAIN = (
    "admissions",
    "evictions",
    "ghost_hits",
    "lazy_stores",
    "reloads",
    "reload_errors",
    "leases_expired",
    "fallbacks",
)
LABELLED: tuple[tuple[str, type[StrEnum]], ...] = (
    ("lookups", HostLookup),
    ("lookup_chunks", HostLookup),
    ("loads_refused", LoadRefusal),
    ("refusals", RefusalReason),
    ("lost_records", LostRecord),
)
EVENTS = [(name, None) for name in PLAIN] + [(name, value) for name, values in LABELLED for value in values]


@given(st.lists(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 5)))))
def test_every_count_arrives_exactly_once(steps: list[list[tuple[tuple[str, StrEnum | None], int]]]) -> None:
    """Whatever is counted between drains, the sums on the page are the sums that were counted."""
    counters, page, expected = PolicyCounters(), Page(), Counter[str]()
    for step in steps:
        for (name, value), count in step:
            if value is None:
                setattr(counters, name, getattr(counters, name) + count)
            else:
                getattr(counters, name)[value] += count
            expected[f"{name} {value}"] += count
        counters.drain(page)
    assert sorted(filter(None, page.counters.values())) == sorted(expected.values())
    if steps:
        assert len(page.counters) == len(EVENTS)


def test_only_the_policy_in_force_is_one() -> None:
    """After swaps, repeated and between drains, exactly one policy has the value 1, and no stranger is named."""
    counters, page = PolicyCounters(), Page()
    counters.drain(page)
    for policies in ([("rank", "a" * 64)], [("rank", "b" * 64), ("lru", "c" * 64)], [("x", "d"), ("lru", "c" * 64)]):
        for kind, policy_hash in policies:
            counters.set_policy(kind, policy_hash)
        counters.drain(page)
        info = {labels: value for (name, labels), value in page.gauges.items() if name == "kv_autotune_policy_info"}
        assert [labels for labels, value in info.items() if value == 1] == [(policies[-1][0], policies[-1][1][:12])]
    assert set(info) == {("lru", "none"), ("rank", "a" * 12), ("lru", "c" * 12)}


def test_decision_times_are_bounded() -> None:
    """Where nobody drains, observations stop at the bound; every drain makes room again."""
    counters = PolicyCounters()
    for _ in range(MAX_PENDING_OBSERVATIONS + 5):
        counters.observe_decision(1e-4)
    page = page_of(counters)
    assert len(page.observations["kv_autotune_decision_seconds"]) == MAX_PENDING_OBSERVATIONS
    counters.observe_decision(2e-4)
    assert page_of(counters, drains=2).observations == {"kv_autotune_decision_seconds": [2e-4]}
