"""From a tuned result to the policy document that says it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from autotune.core.policy import (
    Budgets,
    Costs,
    DeviceTier,
    Expectation,
    Fingerprint,
    GainFrac,
    LruDocument,
    Package,
    PolicyDocument,
    Prices,
    Provenance,
    RankDocument,
    RankKnobs,
    RankSection,
    SimulationFacts,
    StoredTier,
    Tiers,
    TraceSource,
)
from autotune.core.settings import Settings
from autotune.core.shapes import ModelShape
from autotune.core.types import Admission, Tier
from autotune.search.choice import Judged, Split
from autotune.search.problem import Evaluation
from autotune.search.setting import Setting

_PACKAGES = ("numpy", "numba", "optuna")


def make_document(
    split: Split,
    judged: Judged,
    lru: Evaluation,
    gap_closed_frac: float | None,
    price: Prices,
    model: ModelShape,
    settings: Settings,
    trials: int,
) -> PolicyDocument:
    """The document for a setting, or for LRU where the setting is LRU's own."""
    sections: dict[str, object] = {
        "fingerprint": _fingerprint(model, split),
        "budgets": _budgets(judged),
        "tiers": _tiers(judged, split),
        "costs": Costs.of(split.whole.costs),
        "prices": price,
        "expectation": _expectation(judged, lru, gap_closed_frac, settings),
        "provenance": _provenance(split, judged, settings, trials),
    }
    if judged.setting.is_lru:
        return LruDocument.model_validate(sections)
    return RankDocument.model_validate({**sections, "rank": _rank(judged.setting, split)})


def _fingerprint(model: ModelShape, split: Split) -> Fingerprint:
    return Fingerprint(
        model=model.name,
        kv_dtype=model.kv_dtype,
        kv_bytes_per_token=split.whole.costs.kv_bytes_per_token,
        trace_block_tokens=split.whole.trace.block_tokens,
    )


def _budgets(judged: Judged) -> Budgets:
    device, host, disk = (blocks * judged.evaluation.cache.block_bytes for blocks in judged.engine.capacities)
    return Budgets(device_bytes=device, host_bytes=host, disk_bytes=disk)


def _tiers(judged: Judged, split: Split) -> Tiers:
    setting, engine, ranked = judged.setting, judged.engine, split.whole.ranked

    def rule(tier: Tier) -> dict[str, object]:
        if tier is ranked and not setting.is_lru:
            return {"policy": "rank", "admission": setting.admission}
        return {"policy": "lru", "admission": Admission.ALL}

    stored = {
        "store_mode": engine.store_mode,
        "min_load_tokens": setting.min_load_tokens,
        "chunk_tokens": engine.chunk_blocks * split.whole.trace.block_tokens if engine.chunk_blocks > 1 else 0,
    }
    return Tiers(
        device=DeviceTier.model_validate(rule(Tier.DEVICE)),
        host=StoredTier.model_validate({**rule(Tier.HOST), **stored}) if engine.host_blocks else None,
        disk=StoredTier.model_validate(rule(Tier.DISK)) if engine.disk_blocks else None,
    )


def _rank(setting: Setting, split: Split) -> RankSection:
    engine = split.past.configure(Setting(resident_frac=setting.resident_frac))
    knobs = RankKnobs(
        lambda_recency=setting.lambda_recency,
        tau_turnovers=setting.tau_turnovers,
        turnover_s=split.past.turnover_s(engine),
        half_life_turnovers=setting.half_life_turnovers,
        cost_weight=setting.cost_weight,
        ghost_ratio=setting.ghost_ratio,
    )
    return RankSection.model_validate({split.whole.ranked.name.lower(): knobs})


def _expectation(judged: Judged, lru: Evaluation, gap_closed_frac: float | None, settings: Settings) -> Expectation:
    held_out = 100.0 * (1.0 - settings.search.train_frac)
    gain = judged.gain_frac
    return Expectation(
        cost_baseline_s=lru.totals.cost_s,
        cost_policy_s=judged.evaluation.totals.cost_s,
        gain_frac=GainFrac(value=gain.value, low=gain.low, high=gain.high),
        confidence=settings.validation.confidence,
        net_seconds_saved_baseline=lru.totals.net_seconds_saved,
        net_seconds_saved_policy=judged.evaluation.totals.net_seconds_saved,
        gap_closed_frac=gap_closed_frac,
        measured_on=f"the last {held_out:.0f} % of the trace's time, which were not tuned on",
    )


def _provenance(split: Split, judged: Judged, settings: Settings, trials: int) -> Provenance:
    engine, given, queue = judged.engine, split.whole.engine, split.whole.queue_under(judged.setting)
    device, host, disk = engine.capacities
    device_policy = None if given.device_policy.name == "lru" else given.device_policy.name
    return Provenance(
        tool_version=package_version("kv-autotune"),
        trace=TraceSource.of(split.whole.trace),
        packages=(
            Package(name="python", version=platform.python_version()),
            *(Package(name=name, version=package_version(name)) for name in _PACKAGES),
        ),
        seed=settings.search.seed,
        sampler=settings.search.sampler,
        trials=trials,
        train_frac=settings.search.train_frac,
        simulation=SimulationFacts(
            timing=engine.timing,
            full_blocks=engine.full_blocks,
            engine=engine.semantics,
            device_blocks=device,
            host_blocks=host,
            disk_blocks=disk,
            measure_from_frac=settings.search.train_frac,
            itl_s=engine.itl_s,
            check_break_even=engine.check_break_even,
            prefetch_depth=queue.prefetch_depth if queue else settings.queue.prefetch_depth,
            servers=queue.servers if queue else None,
            time_scale=queue.time_scale if queue else None,
            baseline_device_blocks=None if given.device_blocks == device else given.device_blocks,
            device_policy=device_policy,
        ),
    )


def package_version(package: str) -> str:
    """Installed version of a package, or ``unknown``."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
