from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_client import LocalClient
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from showcase import ScriptedController, bare_status, busy_status

from autotune.daemon.http.metrics import StatusCollector, confidence
from autotune.daemon.http.series import COUNTERS, GAUGES, Series, series_names
from autotune.daemon.status import Estimate, Mode, Phase

LABELLED = Counter[tuple[str, tuple[tuple[str, str], ...]]]


def samples(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a page by its name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def value(page: str, name: str, **labels: str) -> float | None:
    """One sample of a page; ``None`` = it is not there."""
    return samples(page).get((f"kv_autotune_sidecar_{name}", tuple(sorted(labels.items()))))


def test_every_series_has_a_sample(client: LocalClient) -> None:
    """A busy daemon shows all series that exist, each with a meaning, and no other."""
    client.get("/v1/status")
    page = client.get("/metrics").text
    assert {name for name, _ in samples(page)} == series_names()
    assert all(family.documentation.endswith(".") for family in text_string_to_metric_families(page))


def test_samples_are_the_status(client: LocalClient, controller: ScriptedController) -> None:
    """Series say what the status says."""
    page, status = client.get("/metrics").text, controller.shown
    target = status.targets[1].url
    assert value(page, "tier_hit_ratio", tier="host") == status.tiers[1].hit_frac
    assert value(page, "seconds_per_second", where="recompute") == status.seconds.recompute
    assert value(page, "shadow_regret_seconds", policy="lru") == -161.5
    assert value(page, "source_age_seconds", target=target, source="host_facts") == 912.0
    assert value(page, "source_up", target=target, source="host_facts") == 0.0
    assert value(page, "events_dropped_total", target=target, source="telemetry") == 1532.0
    assert value(page, "predicted", signal="ttft_p95_s") == 1.31
    assert value(page, "observed", signal="ttft_p95_s") == 1.61
    assert value(page, "guard_trips_total") == value(page, "rollbacks_total") == 1.0
    assert value(page, "retune_seconds") == 212.4
    assert value(page, "policy_info", role="live", policy_hash="9f2c41d07ab3") == 1.0
    assert value(page, "verdict_info", kind="grow_host") == 1.0


def test_mode_and_phase_are_one_of_all(client: LocalClient) -> None:
    """Exactly one mode and one phase are 1, and all others are there as 0."""
    page = client.get("/metrics").text
    assert [mode for mode in Mode if value(page, "mode", mode=mode.value)] == [Mode.AUTO]
    assert [phase for phase in Phase if value(page, "phase", phase=phase.value)] == [Phase.CANARY]
    assert all(value(page, "mode", mode=mode.value) is not None for mode in Mode)


def test_unknown_is_left_out(client: LocalClient, controller: ScriptedController) -> None:
    """What is not known has no sample: it is never a 0 that somebody could take for a measurement."""
    controller.shown, controller.is_ready = bare_status(), False
    page = client.get("/metrics").text
    names = {name.removeprefix("kv_autotune_sidecar_") for name, _ in samples(page)}
    assert not names & {"tier_hit_ratio", "seconds_per_second", "source_age_seconds", "retune_seconds", "observed"}
    assert value(page, "ready") == 0.0
    assert value(page, "target_up", target="http://127.0.0.1:8000") == 0.0


def test_decisions_are_counted_by_action_and_reason(client: LocalClient) -> None:
    """Each change of the history is counted once, by what was done and why."""
    page = client.get("/metrics").text
    assert value(page, "decisions_total", action="canary_started", reason="better") == 3.0
    assert value(page, "decisions_total", action="rolled_back", reason="guard") == 1.0


def test_answers_are_counted(client: LocalClient) -> None:
    """The server counts what it answered, refusals included."""
    client.get("/v1/nothing")
    client.post("/v1/freeze", json={})
    page = client.get("/metrics").text
    assert value(page, "http_answers_total", method="GET", code="404") == 1.0
    assert value(page, "http_answers_total", method="POST", code="401") == 1.0


def test_openmetrics_is_served_where_asked_for(client: LocalClient) -> None:
    """A scraper that asks for OpenMetrics gets it."""
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = list(parse_openmetrics(answer.text))  # type: ignore[no-untyped-call]
    assert len(families) > 20


def test_registering_asks_nothing(controller: ScriptedController) -> None:
    """A registry learns the names without a status, so that a daemon may register before it has one."""
    controller.shown = None  # type: ignore[assignment]
    collector = StatusCollector(controller, Counter())
    assert {f"{family.name}{'_total' if family.type == 'counter' else ''}" for family in collector.describe()} == set(
        series_names()
    )
    CollectorRegistry(auto_describe=True).register(collector)


@pytest.mark.parametrize("name", sorted(GAUGES | COUNTERS))
def test_names_and_labels_are_well_formed(name: str) -> None:
    """Names and labels are what Prometheus takes, and counters alone end in _total."""
    series = (GAUGES | COUNTERS)[name]
    assert {field.name for field in fields(Series)} == {"meaning", "labels"}
    assert all(re.fullmatch(r"[a-z][a-z_]*", word) for word in (name, *series.labels))
    assert name.endswith("_total") == (name in COUNTERS)


def estimate(best: float | None, low: float | None, high: float | None) -> Estimate:
    """An estimate of which only the figures matter."""
    return Estimate(name="x", value=best, low=low, high=high, unit="s", samples=1, age_s=0.0)


def test_confidence_by_hand() -> None:
    """Ten ± one is 0.9, an interval as wide as the value or wider is 0, without bounds or value nothing is known."""
    assert confidence(estimate(10.0, 9.0, 11.0)) == pytest.approx(0.9)
    assert confidence(estimate(1.0, -5.0, 5.0)) == 0.0
    assert confidence(estimate(0.0, -1.0, 1.0)) == 0.0
    assert confidence(estimate(None, 0.0, 1.0)) is None
    assert confidence(estimate(1.0, None, None)) is None


@given(*[st.floats(-1e300, 1e300)] * 3)
def test_confidence_is_a_share(best: float, first: float, second: float) -> None:
    """Whatever the figures, confidence is between 0 and 1."""
    found = confidence(estimate(best, min(first, second), max(first, second)))
    assert found is not None
    assert 0.0 <= found <= 1.0
    assert math.isfinite(found)


def test_busy_status_needs_no_label_twice(controller: ScriptedController) -> None:
    """No two samples of a page have the same name and labels: a scraper would refuse the page."""
    collector = StatusCollector(controller, Counter({("GET", 200): 3}))
    controller.shown = busy_status()
    found: LABELLED = Counter(
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in collector.collect()
        for sample in family.samples
    )
    assert set(found.values()) == {1}
