"""From the manager's counters to the engine's ``/metrics``.

The manager counts in :class:`PolicyCounters`, plain integers that cost nothing, and drains them once per scheduler
step into vLLM's ``OffloadingConnectorStats``, which carries them to the process that serves the page. The series
themselves are defined in :mod:`autotune_policies.engines.vllm.series`; :func:`metric_metadata` turns them into vLLM's
classes.

Source: vllm/distributed/kv_transfer/kv_connector/v1/offloading/metrics.py and v1/kv_offload/base.py. Labels work the
same from 0.24 to 0.33: label values are a tuple in the order of ``labelnames``, and a metric that is not in
``build_metric_definitions`` fails an assertion in the serving process.
"""

from __future__ import annotations

from typing import Any, Protocol

from autotune_policies.engines.vllm.series import (
    ADMISSIONS,
    CAPACITY_CHUNKS,
    DECISION_SECONDS,
    DEFINITIONS,
    EVICTIONS,
    FALLBACKS,
    GHOST_ENTRIES,
    GHOST_HITS,
    LAZY_STORES,
    LEASES_EXPIRED,
    LOADS_REFUSED,
    LOOKUP_CHUNKS,
    LOOKUPS,
    LOST_RECORDS,
    POLICY_INFO,
    REFUSALS,
    RELOAD_ERRORS,
    RELOADS,
    RESIDENT_CHUNKS,
    TELEMETRY_INFO,
    HostLookup,
    LoadRefusal,
    LostRecord,
    MetricDefinition,
    MetricKind,
    RefusalReason,
)

__all__ = [
    "HostLookup",
    "LoadRefusal",
    "LostRecord",
    "PolicyCounters",
    "RefusalReason",
    "StatsSink",
    "metric_metadata",
]

MAX_PENDING_OBSERVATIONS = 4096
_NOWHERE = "none"


_PLAIN = (
    (ADMISSIONS.name, "admissions"),
    (EVICTIONS.name, "evictions"),
    (GHOST_HITS.name, "ghost_hits"),
    (LAZY_STORES.name, "lazy_stores"),
    (RELOADS.name, "reloads"),
    (RELOAD_ERRORS.name, "reload_errors"),
    (LEASES_EXPIRED.name, "leases_expired"),
    (FALLBACKS.name, "fallbacks"),
)


class StatsSink(Protocol):
    """The part of vLLM's ``OffloadingConnectorStats`` that is written to; the same from 0.24 to 0.33."""

    def increase_counter(
        self, counter_name: str, counter_increase_value: float, labelvalues: tuple[str, ...] = ()
    ) -> None:
        """Add to a counter."""

    def set_gauge(self, gauge_name: str, gauge_value: float, labelvalues: tuple[str, ...] = ()) -> None:
        """Set a gauge."""

    def observe_histogram(self, histogram_name: str, histogram_value: float, labelvalues: tuple[str, ...] = ()) -> None:
        """Add one observation."""


class PolicyCounters:
    """What the manager counts between two drains; every field may simply be added to.

    Args:
        capacity_chunks: Chunks that the host can hold.
        telemetry: Where records go, as a reader would write it; empty = nowhere.

    Attributes:
        lookups: Requests by :class:`HostLookup`.
        lookup_chunks: Chunks by :class:`HostLookup`.
        loads_refused: Requests by :class:`LoadRefusal`.
        refusals: Chunks by :class:`RefusalReason`.
        lost_records: Records by :class:`LostRecord`.
        resident_chunks: Gauges: the state now, set before a drain.
    """

    __slots__ = (
        "_before",
        "_decisions_s",
        "_is_announced",
        "_labelled",
        "_policy",
        "_shown",
        "_telemetry",
        "admissions",
        "capacity_chunks",
        "evictions",
        "fallbacks",
        "ghost_entries",
        "ghost_hits",
        "lazy_stores",
        "leases_expired",
        "loads_refused",
        "lookup_chunks",
        "lookups",
        "lost_records",
        "refusals",
        "reload_errors",
        "reloads",
        "resident_chunks",
    )

    def __init__(self, capacity_chunks: int = 0, telemetry: str = "") -> None:
        self.capacity_chunks = capacity_chunks
        self._telemetry = telemetry or _NOWHERE
        self.resident_chunks = self.ghost_entries = 0
        self._policy = ("lru", "none")
        self._before: tuple[str, str] | None = None
        self._decisions_s: list[float] = []
        self._shown: dict[tuple[str, tuple[str, ...]], int] = {}
        self._is_announced = False
        self.admissions = self.evictions = self.ghost_hits = self.lazy_stores = 0
        self.reloads = self.reload_errors = self.leases_expired = self.fallbacks = 0
        self.lookups = dict.fromkeys(HostLookup, 0)
        self.lookup_chunks = dict.fromkeys(HostLookup, 0)
        self.loads_refused = dict.fromkeys(LoadRefusal, 0)
        self.refusals = dict.fromkeys(RefusalReason, 0)
        self.lost_records = dict.fromkeys(LostRecord, 0)
        self._labelled: tuple[tuple[str, dict[Any, int]], ...] = (
            (LOOKUPS.name, self.lookups),
            (LOOKUP_CHUNKS.name, self.lookup_chunks),
            (LOADS_REFUSED.name, self.loads_refused),
            (REFUSALS.name, self.refusals),
            (LOST_RECORDS.name, self.lost_records),
        )

    def set_policy(self, kind: str, policy_hash: str) -> None:
        """Name the policy in force.

        Args:
            kind: Kind of the document.
            policy_hash: Hash of the document in hexadecimal, or ``none`` for the engine's own LRU without a file.
        """
        policy = (kind, policy_hash[:12])
        if policy != self._policy:
            if self._is_announced and self._before is None:
                self._before = self._policy
            self._policy = policy

    def observe_decision(self, seconds: float) -> None:
        """Note how long one decision took; beyond the bound between two drains, observations are left out."""
        if len(self._decisions_s) < MAX_PENDING_OBSERVATIONS:
            self._decisions_s.append(seconds)

    def drain(self, stats: StatsSink) -> None:
        """Hand everything counted since the last drain over, and begin again from zero.

        The first drain also hands over zeros, so that every counter is on the page before it first counts.
        """
        is_first = not self._is_announced
        for name, attribute in _PLAIN:
            count = getattr(self, attribute)
            if count or is_first:
                stats.increase_counter(name, count)
                setattr(self, attribute, 0)
        for name, counts in self._labelled:
            if is_first or any(counts.values()):
                for value, count in counts.items():
                    stats.increase_counter(name, count, (str(value),))
                    counts[value] = 0
        for seconds in self._decisions_s:
            stats.observe_histogram(DECISION_SECONDS.name, seconds)
        self._decisions_s.clear()
        self._drain_gauges(stats)
        self._is_announced = True

    def _drain_gauges(self, stats: StatsSink) -> None:
        """Gauges that changed: what is handed over travels to another process in every step."""
        now = {
            (RESIDENT_CHUNKS.name, ()): self.resident_chunks,
            (CAPACITY_CHUNKS.name, ()): self.capacity_chunks,
            (GHOST_ENTRIES.name, ()): self.ghost_entries,
            (POLICY_INFO.name, self._policy): 1,
            (TELEMETRY_INFO.name, (self._telemetry,)): 1,
        }
        if self._before is not None and self._before != self._policy:
            now[POLICY_INFO.name, self._before] = 0
        self._before = None
        for place, value in now.items():
            if self._shown.get(place) != value:
                self._shown[place] = value
                stats.set_gauge(place[0], value, place[1])


def metric_metadata() -> dict[str, Any]:
    """The definitions as vLLM's ``build_metric_definitions`` returns them, by name.

    vLLM calls that once when it sets up its page, after it has taken its own series of an earlier engine in the same
    process off the registry. It knows ours by no name, so they are taken off here.
    """
    from vllm.v1.kv_offload import base  # needs the engine's environment; everything else here does not

    _forget_earlier_engine()
    return {definition.name: _metadata(base, definition) for definition in DEFINITIONS}


def _metadata(base: Any, definition: MetricDefinition) -> Any:
    common = {"documentation": definition.help, "labelnames": definition.labels}
    if definition.kind is MetricKind.COUNTER:
        return base.OffloadingCounterMetadata(**common)
    if definition.kind is MetricKind.GAUGE:
        return base.OffloadingGaugeMetadata(**common)
    return base.OffloadingHistogramMetadata(**common, buckets=definition.buckets)


def _forget_earlier_engine() -> None:
    """Take our series of an earlier engine in this process off the registry.

    Source: unregister_vllm_metrics in vllm/v1/metrics/prometheus.py does the same for names that begin with ``vllm:``.
    """
    from prometheus_client import REGISTRY

    page_names = {definition.name for definition in DEFINITIONS}
    collectors = getattr(REGISTRY, "_collector_to_names", {})
    for collector, names in list(collectors.items()):
        if page_names.intersection(names):
            REGISTRY.unregister(collector)
