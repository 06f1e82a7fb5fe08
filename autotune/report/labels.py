"""Names of policies and knobs as people write them."""

from __future__ import annotations

from autotune.core.types import Admission
from autotune.search.setting import Setting

BASELINE = "lru"
TUNED = "tuned"
LEARNED = "learned"
BOUNDS = ("clairvoyant", "clairvoyant_seconds")

_POLICIES = {
    "lru": "LRU",
    "arc": "ARC",
    "s3fifo": "S3-FIFO",
    "fifo": "FIFO",
    "lfu": "LFU",
    "lrfu": "LRFU",
    "sieve": "SIEVE",
    "wtinylfu": "W-TinyLFU",
    "gdsf": "GDSF",
    "two_hit": "two-hit LRU",
    "evoke": "evoke's score",
    "marconi": "Marconi's score",
    "vllm_arc": "vLLM's ARC",
    "clairvoyant_seconds": "clairvoyant by seconds",
}
_ADMISSIONS = {
    Admission.ALL: "every block",
    Admission.MARGINAL: "blocks that outrank what would leave",
    Admission.TWO_HIT: "blocks asked for before",
}


def policy_label(name: str) -> str:
    """A policy as its authors write it; names that are not known here stay as they are."""
    return _POLICIES.get(name, name)


def row_label(name: str) -> str:
    """The same for a row of a table, where a yardstick must not pass for a choice."""
    return f"{policy_label(name)} (bound)" if name in BOUNDS else policy_label(name)


def short_setting(setting: Setting) -> str:
    """The rule of a setting in a few words."""
    if setting.lambda_recency < 1.0:
        return f"λ = {setting.lambda_recency:.3g}, τ = {setting.tau_turnovers:.3g} turnovers"
    if not setting.is_lru:
        return "LRU, two-hit admission"
    return "LRU" if setting.changes_nothing else "LRU with other knobs turned"


def setting_facts(setting: Setting) -> tuple[tuple[str, str], ...]:
    """Every knob of a setting that has an effect, with its value in words."""
    facts = [("rule", "LRU")] if setting.lambda_recency >= 1.0 else _rank_facts(setting)
    facts.append(("the tier accepts", _ADMISSIONS[setting.admission]))
    shortest = f"{setting.min_load_tokens:,} tokens" if setting.min_load_tokens else "as the costs decide"
    facts.append(("shortest run that is loaded", shortest))
    if setting.resident_frac is not None:
        facts.append(("device's share of the byte budget, p", f"{100 * setting.resident_frac:.3g} %"))
    if setting.prefetch_depth is not None:
        facts.append(("waiting requests whose loads may start, d", str(setting.prefetch_depth)))
    facts.append(("blocks stored together", str(setting.chunk_blocks)))
    return tuple(facts)


def _rank_facts(setting: Setting) -> list[tuple[str, str]]:
    half_life = f"{setting.half_life_turnovers:.3g} turnovers" if setting.half_life_turnovers else "never fades"
    return [
        ("weight of recency against value, λ (1 is LRU)", f"{setting.lambda_recency:.3g}"),
        ("time scale of the trade, τ", f"{setting.tau_turnovers:.3g} turnovers"),
        ("half-life of the frequency", half_life),
        ("weight of the seconds at stake", f"{setting.cost_weight:.3g}"),
        ("evicted blocks remembered per resident", f"{setting.ghost_ratio:.3g}"),
    ]
