"""The sidecar's own series, ``kv_autotune_sidecar_*``: read off the status when somebody asks, nothing kept twice.

What is not known is left out; it is never shown as 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from autotune.daemon.http.series import COUNTERS, GAUGES, PREFIX, Series
from autotune.daemon.status import (
    Change,
    Controller,
    DaemonStatus,
    Estimate,
    Mode,
    Phase,
    Prediction,
    ShadowStatus,
    TargetStatus,
    TierStatus,
)

_Sample = tuple[str, tuple[str, ...], float | None]
_Answers = Counter[tuple[str, int]]


class StatusCollector(Collector):
    """Turns the controller's status into series at each scrape.

    Args:
        controller: The daemon.
        answers: Answers of the HTTP server by method and status.
    """

    def __init__(self, controller: Controller, answers: _Answers) -> None:
        self._controller = controller
        self._answers = answers

    def describe(self) -> Iterable[Metric]:
        """All series, without samples, so that registering asks nothing of the daemon."""
        return [_family(name, series) for name, series in (GAUGES | COUNTERS).items()]

    def collect(self) -> Iterable[Metric]:
        """All series that have samples now."""
        families = {name: _family(name, series) for name, series in (GAUGES | COUNTERS).items()}
        status = self._controller.status()
        for name, labels, value in (
            *_of_daemon(status, self._controller.ready()),
            *(sample for target in status.targets for sample in _of_target(target)),
            *(sample for tier in status.tiers for sample in _of_tier(tier)),
            *(sample for estimate in status.estimates for sample in _of_estimate(estimate)),
            *(sample for shadow in status.shadows for sample in _of_shadow(shadow)),
            *(sample for prediction in status.predictions for sample in _of_prediction(prediction)),
            *_of_history(self._controller.history()),
            *(("http_answers_total", (method, str(code)), n) for (method, code), n in sorted(self._answers.items())),
        ):
            if value is not None:
                families[name].add_metric(labels, value)
        return [family for family in families.values() if family.samples]


class MetricsPage:
    """The endpoint ``/metrics``.

    Args:
        controller: The daemon.
        answers: Answers of the HTTP server by method and status.
    """

    def __init__(self, controller: Controller, answers: _Answers) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(StatusCollector(controller, answers))

    async def answer(self, request: Request) -> Response:
        """The series in the form that the scraper asked for."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        page: bytes = await run_in_threadpool(encode, self._registry)
        return Response(page, headers={"Content-Type": media_type})


def _family(name: str, series: Series) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if name in COUNTERS else GaugeMetricFamily
    return kind(PREFIX + name, series.meaning, labels=series.labels)


def _of_daemon(status: DaemonStatus, ready: bool) -> Iterator[_Sample]:
    yield "info", (status.version,), 1.0
    yield "ready", (), float(ready)
    yield from (("mode", (mode.value,), float(mode is status.mode)) for mode in Mode)
    yield from (("phase", (phase.value,), float(phase is status.phase)) for phase in Phase)
    yield "hands_off", (), float(status.hands_off is not None)
    yield "findings", (), float(len(status.findings))
    yield "guard_trips_total", (), float(status.guard.trips)
    yield "rollbacks_total", (), float(status.guard.rollbacks)
    yield "retune_running", (), float(status.retune.running)
    yield "retune_seconds", (), status.retune.last_seconds
    yield from (("seconds_per_second", (where,), value) for where, value in status.seconds)
    hashes = (
        ("live", status.live_hash),
        ("confirmed", status.confirmed_hash),
        ("recommended", status.recommendation_hash),
    )
    yield from (("policy_info", (role, digits), 1.0) for role, digits in hashes if digits is not None)
    yield "verdict_info", (status.verdict.kind.value,), 1.0


def _of_target(target: TargetStatus) -> Iterator[_Sample]:
    yield "target_up", (target.url,), float(target.alive)
    yield "target_epoch", (target.url,), float(target.epoch)
    yield "target_grade", (target.url, target.grade.value), 1.0
    for source in target.sources:
        labels = (target.url, source.name)
        yield "source_up", labels, float(source.ok)
        yield "source_age_seconds", labels, source.age_s
        yield "source_collect_seconds", labels, source.seconds
        yield "events_dropped_total", labels, float(source.lost)


def _of_tier(tier: TierStatus) -> Iterator[_Sample]:
    labels = (tier.tier.name.lower(),)
    yield "tier_hit_ratio", labels, tier.hit_frac
    yield "tier_used_bytes", labels, tier.used_bytes
    yield "tier_capacity_bytes", labels, tier.capacity_bytes
    yield "tier_store_bytes_per_second", labels, tier.store_bytes_per_s
    yield "tier_load_bytes_per_second", labels, tier.load_bytes_per_s


def _of_estimate(estimate: Estimate) -> Iterator[_Sample]:
    labels = (estimate.name,)
    yield "signal_age_seconds", labels, estimate.age_s
    yield "signal_confidence", labels, confidence(estimate)
    yield "signal_samples", labels, float(estimate.samples)
    yield "estimate", (estimate.name, estimate.unit), estimate.value


def _of_shadow(shadow: ShadowStatus) -> Iterator[_Sample]:
    yield "shadow_saved_seconds", (shadow.name,), shadow.seconds
    yield "shadow_regret_seconds", (shadow.name,), shadow.regret_s


def _of_prediction(prediction: Prediction) -> Iterator[_Sample]:
    labels = (prediction.signal,)
    yield "predicted", labels, prediction.predicted
    yield "predicted_low", labels, prediction.low
    yield "predicted_high", labels, prediction.high
    yield "observed", labels, prediction.observed


def _of_history(changes: Iterable[Change]) -> Iterator[_Sample]:
    counts = Counter((change.kind.value, change.cause.value) for change in changes)
    yield from (("decisions_total", labels, float(count)) for labels, count in sorted(counts.items()))


def confidence(estimate: Estimate) -> float | None:
    """How narrow the interval of an estimate is: 1 less its half width over the value, at least 0; unknown without."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    width = estimate.high - estimate.low
    return max(0.0, 1.0 - width / (2.0 * abs(estimate.value))) if estimate.value else 0.0
