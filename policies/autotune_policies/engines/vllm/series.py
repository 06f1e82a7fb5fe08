"""The plug-in's own series in the engine's ``/metrics``: names, kinds, labels and what they count.

Names follow Prometheus conventions: prefix, base units, ``_total`` for counters, no unbounded labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """Kinds of series that vLLM lets a spec define."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class HostLookup(StrEnum):
    """What the host had for a request beyond its device hits; the first answer counts, repeats do not."""

    HIT = "hit"
    MISS = "miss"


class RefusalReason(StrEnum):
    """Why a chunk that was offered did not come in."""

    BELOW_VICTIM = "below_victim"  # marginal admission: it ranks below the resident it would displace
    FIRST_SIGHT = "first_sight"  # two-hit admission: never seen before
    OVER_BUDGET = "over_budget"  # the write budget does not pay for it now
    PREFIX_REFUSED = "prefix_refused"  # a chunk before it was refused, so it could never be loaded
    NO_ROOM = "no_room"  # every resident is pinned or needed


class LoadRefusal(StrEnum):
    """Why a run that the host holds is recomputed."""

    TOO_SHORT = "too_short"  # below the policy's min_load_tokens
    BREAK_EVEN = "break_even"  # recompute is cheaper on an idle link
    LINK_BUSY = "link_busy"  # recompute is cheaper than waiting for the transfers ahead


class LostRecord(StrEnum):
    """Which output lost a record."""

    TELEMETRY = "telemetry"
    DECISION_LOG = "decision_log"


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One series.

    Attributes:
        name: As it stands on the page.
        kind: Counter, gauge or histogram.
        help: What it counts, in one sentence.
        labels: Own labels, beside the engine's ``engine`` and ``model_name``.
        label_values: Closed vocabulary of the only label; empty where there is none or it is open.
        buckets: Upper bounds of a histogram.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    label_values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(name: str, text: str, label: str = "", values: type[StrEnum] | None = None) -> MetricDefinition:
    labels = (label,) if label else ()
    return MetricDefinition(name, MetricKind.COUNTER, text, labels, tuple(values or ()))


LOOKUPS = _counter(
    "kv_autotune_lookups_total",
    "Requests that asked the host for their chunks beyond the device hits, each counted once, by result.",
    "result",
    HostLookup,
)
LOOKUP_CHUNKS = _counter(
    "kv_autotune_lookup_chunks_total",
    "Full chunks beyond the device hits that requests asked the host for, counted once per request, by result.",
    "result",
    HostLookup,
)
LOADS_REFUSED = _counter(
    "kv_autotune_loads_refused_total",
    "Requests whose host hit was not loaded because recomputing is cheaper, by reason.",
    "reason",
    LoadRefusal,
)
ADMISSIONS = _counter("kv_autotune_admissions_total", "Chunks that were offered to the host and came in.")
REFUSALS = _counter(
    "kv_autotune_refusals_total",
    "Chunks that were offered to the host and did not come in, by reason.",
    "reason",
    RefusalReason,
)
EVICTIONS = _counter("kv_autotune_evictions_total", "Chunks that left the host to make room.")
GHOST_HITS = _counter(
    "kv_autotune_ghost_hits_total",
    "Chunks that were asked for again after they had been evicted or refused (regret).",
)
LAZY_STORES = _counter(
    "kv_autotune_lazy_stores_total", "Chunks that were stored when they neared the end of the device's queue."
)
RELOADS = _counter("kv_autotune_policy_reloads_total", "Policy files that were read and put in force.")
RELOAD_ERRORS = _counter(
    "kv_autotune_policy_reload_errors_total", "Policy files that were refused; the policy in force stayed."
)
LEASES_EXPIRED = _counter(
    "kv_autotune_policy_leases_expired_total", "Trial policies that were not renewed and gave way to their fallback."
)
FALLBACKS = _counter(
    "kv_autotune_fallbacks_total", "Faults of the plug-in after which the engine went on with stock LRU for good."
)
LOST_RECORDS = _counter(
    "kv_autotune_lost_records_total",
    "Records that were dropped because their queue or file was full, by output.",
    "output",
    LostRecord,
)
RESIDENT_CHUNKS = MetricDefinition("kv_autotune_resident_chunks", MetricKind.GAUGE, "Chunks that the host holds now.")
CAPACITY_CHUNKS = MetricDefinition("kv_autotune_capacity_chunks", MetricKind.GAUGE, "Chunks that the host can hold.")
GHOST_ENTRIES = MetricDefinition(
    "kv_autotune_ghost_entries", MetricKind.GAUGE, "Evicted or refused chunks whose statistics are remembered."
)
POLICY_INFO = MetricDefinition(
    "kv_autotune_policy_info",
    MetricKind.GAUGE,
    "1 for the policy in force, 0 for those before it: its kind, and the first 12 digits of its document's hash.",
    ("kind", "policy_hash"),
)
TELEMETRY_INFO = MetricDefinition(
    "kv_autotune_telemetry_info",
    MetricKind.GAUGE,
    "1, with the place where the plug-in writes its records; none where telemetry is off.",
    ("telemetry",),
)
DECISION_SECONDS = MetricDefinition(
    "kv_autotune_decision_seconds",
    MetricKind.HISTOGRAM,
    "Seconds that the host manager took to decide about one offer of chunks.",
    buckets=(1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 0.1),
)
DEFINITIONS: tuple[MetricDefinition, ...] = (
    LOOKUPS,
    LOOKUP_CHUNKS,
    LOADS_REFUSED,
    ADMISSIONS,
    REFUSALS,
    EVICTIONS,
    GHOST_HITS,
    LAZY_STORES,
    RELOADS,
    RELOAD_ERRORS,
    LEASES_EXPIRED,
    FALLBACKS,
    LOST_RECORDS,
    RESIDENT_CHUNKS,
    CAPACITY_CHUNKS,
    GHOST_ENTRIES,
    POLICY_INFO,
    TELEMETRY_INFO,
    DECISION_SECONDS,
)
