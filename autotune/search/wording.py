"""A tuning run in sentences."""

from __future__ import annotations

from autotune.core.settings import Settings
from autotune.core.types import EngineSemantics, Timing
from autotune.search.choice import Judged, Split, Verdict
from autotune.sim.config import CacheConfig


def verdict_of(judged: Judged, gap_closed_frac: float | None, verdict: Verdict) -> str:
    """What to do, in one sentence."""
    if judged.changes_nothing:
        return f"Stay with LRU: {verdict.reason}"
    gain = judged.gain_frac
    gap = f", {100 * gap_closed_frac:.0f} % of what a clairvoyant could save" if gap_closed_frac is not None else ""
    return (
        f"The {judged.row_name} policy saves {100 * gain.value:.1f} % ({100 * gain.low:.1f} to "
        f"{100 * gain.high:.1f} %) of LRU's critical-path seconds on time that it was not tuned on{gap}"
    )


def assumptions_of(split: Split, judged: Judged, settings: Settings) -> tuple[str, ...]:
    """What the figures rest on, one sentence each."""
    engine, costs = split.whole.engine, split.whole.costs
    timing = (
        "blocks become idle the moment their request arrives, which flatters every policy"
        if engine.timing is Timing.INSTANT
        else f"blocks are pinned while their request runs, {1000 * engine.itl_s:g} ms per output token"
    )
    rules = (
        "the simulator's canonical ones"
        if engine.semantics is EngineSemantics.CANONICAL
        else f"those of {engine.semantics}, each request making one offer"
    )
    partial = "only full blocks are cached" if engine.full_blocks else "partial blocks count as the trace has them"
    return (
        f"costs: {costs.source}",
        f"timing {engine.timing}: {timing}",
        f"stores are {engine.store_mode}{_learned_stores(judged, engine)}; {100 * costs.store_exposed_frac:g} % of "
        "their time delays requests",
        f"the host works by {rules}",
        partial,
        _ranked(split) if judged.rules is None else "device and host obey what was learned on the past",
        f"the first {100 * settings.search.train_frac:g} % of the time was tuned on, and caches are warm when judging "
        "begins",
        f"bounds cover the gain with {100 * settings.validation.confidence:g} % confidence, "
        f"from a block bootstrap over {settings.validation.bootstrap_windows} windows",
    )


def _learned_stores(judged: Judged, engine: CacheConfig) -> str:
    mode = judged.engine.store_mode
    return "" if judged.rules is None or mode is engine.store_mode else f" under LRU and {mode} under what was learned"


def _ranked(split: Split) -> str:
    engine, ranked = split.whole.engine, split.whole.ranked
    other = engine.device_policy.name if ranked else engine.host_policy.name
    return f"the {ranked.name.lower()} tier is ranked; every other tier is {other}"
