"""Names, labels and meanings of the sidecar's own series."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "kv_autotune_sidecar_"


@dataclass(frozen=True, slots=True)
class Series:
    """One series.

    Attributes:
        meaning: What it says.
        labels: Names of its labels.
    """

    meaning: str
    labels: tuple[str, ...] = ()


_TARGET, _SOURCE, _TIER, _SIGNAL, _POLICY = ("target",), ("target", "source"), ("tier",), ("signal",), ("policy",)

GAUGES = {
    "info": Series("1, with the version.", ("version",)),
    "ready": Series("1 where the figures of at least one target are fresh."),
    "mode": Series("1 for the present mode, 0 for the others.", ("mode",)),
    "phase": Series("1 for what the loop is at, 0 for the rest.", ("phase",)),
    "hands_off": Series("1 where an administrator took the policy over and nothing is published any more."),
    "findings": Series("Faults of targets or figures that the status names."),
    "target_up": Series("1 where the engine answered in the last round.", _TARGET),
    "target_epoch": Series("How often the engine started anew, changed its model or lost its cache.", _TARGET),
    "target_grade": Series("1 for what the evidence of the target carries.", ("target", "grade")),
    "source_up": Series("1 where the last round of the source succeeded.", _SOURCE),
    "source_age_seconds": Series("Seconds since the source last succeeded.", _SOURCE),
    "source_collect_seconds": Series("Seconds that its last round took.", _SOURCE),
    "signal_age_seconds": Series("Age of the newest observation behind an estimate.", _SIGNAL),
    "signal_confidence": Series("1 less half the width of an estimate's interval over its value, at least 0.", _SIGNAL),
    "signal_samples": Series("Observations behind an estimate.", _SIGNAL),
    "estimate": Series("Best estimate, in the unit of the label.", ("signal", "unit")),
    "tier_hit_ratio": Series("Share of the prompt tokens of the last window found on the tier.", _TIER),
    "tier_used_bytes": Series("Bytes occupied.", _TIER),
    "tier_capacity_bytes": Series("Bytes that fit.", _TIER),
    "tier_store_bytes_per_second": Series("Rate of copies into the tier.", _TIER),
    "tier_load_bytes_per_second": Series("Rate of copies out of the tier.", _TIER),
    "seconds_per_second": Series("Seconds per second of the last window, by where they went.", ("where",)),
    "shadow_saved_seconds": Series("Net seconds that the policy would have saved in the window.", _POLICY),
    "shadow_regret_seconds": Series("The same, less those of the live policy; above 0 = it does better.", _POLICY),
    "predicted": Series("What the policy in force promised.", _SIGNAL),
    "predicted_low": Series("Lower bound of the promise.", _SIGNAL),
    "predicted_high": Series("Upper bound of the promise.", _SIGNAL),
    "observed": Series("What came.", _SIGNAL),
    "retune_running": Series("1 while a search runs."),
    "retune_seconds": Series("Seconds that the last search took."),
    "policy_info": Series("1, with the hash of the policy that has the role.", ("role", "policy_hash")),
    "verdict_info": Series("1, with the kind of the present advice.", ("kind",)),
}
COUNTERS = {
    "decisions_total": Series("Changes by what was done and why.", ("action", "reason")),
    "guard_trips_total": Series("Times that the guard found a regression, a dead engine, old figures or a fault."),
    "rollbacks_total": Series("Policies that were taken back."),
    "events_dropped_total": Series("Records or events that a source knows it lost.", _SOURCE),
    "http_answers_total": Series("Answers of this server by method and status.", ("method", "code")),
}


def series_names() -> frozenset[str]:
    """Full names, as a page of metrics has them."""
    return frozenset(PREFIX + name for name in GAUGES | COUNTERS)
