"""A small result of a tuning run with everything in it; tests change parts of it with ``dataclasses.replace``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.core.policy import LruDocument, Provenance, SimulationFacts, StoredTier, Tiers, TraceSource
from autotune.core.types import Admission, Timing
from autotune.core.units import GIB
from autotune.search.result import (
    Curve,
    Interval,
    MarginalValue,
    PolicyRow,
    TierSizes,
    TraceSummary,
    TrialRow,
    TuneResult,
    WindowRow,
)
from autotune.search.setting import LRU_SETTING, Setting
from autotune.testing.documents import example_document

SETTING = Setting(lambda_recency=0.25, tau_turnovers=2.0, cost_weight=0.5, admission=Admission.MARGINAL)


@pytest.fixture(scope="session")
def result() -> TuneResult:
    """The rank rule won on a host tier; curves, windows, trials and TTFT are all there."""
    document = example_document().model_copy(update={"provenance": _provenance()})
    return TuneResult(
        document=document,
        verdict="the tuned policy saves 6.1 % of LRU's cost",
        chosen="rank",
        reason="it beat LRU on the past and on the held-out part by more than the noise",
        setting=SETTING,
        gain_frac=Interval(0.061, 0.049, 0.072),
        gap_closed_frac=0.31,
        confidence=0.95,
        trace=_trace(),
        sizes=TierSizes(device_blocks=640, host_blocks=2560, disk_blocks=0),
        budgets_bytes=(40 * GIB, 160 * GIB, 0),
        costs=document.costs.profile(),
        fit_until_s=600.0,
        measured_from_s=600.0,
        rows=_rows(),
        curves=tuple(_curve(policy, tier) for tier in ("device", "host") for policy in ("lru", "tuned", "clairvoyant")),
        marginal=(MarginalValue("device", 3.5, 90.0), MarginalValue("host", 0.25, 400.0)),
        windows=tuple(_window(start_s) for start_s in (0.0, 250.0, 500.0, 750.0)),
        trials=tuple(_trials("tpe", -0.04) + _trials("random", -0.02)),
        importance=(("lambda_recency", 0.7), ("tau_turnovers", 0.3)),
        break_even_tokens=96,
        ttft_note="TTFT is that of 4 servers at ρ = 0.7",
        assumptions=("costs are computed, not measured", "blocks are touched on arrival"),
        wall_s=41.3,
    )


@pytest.fixture(scope="session")
def lru_result(result: TuneResult) -> TuneResult:
    """LRU stayed: nothing beat it, and no tuned policy was left to show."""
    example = example_document()
    return replace(
        result,
        document=LruDocument(
            fingerprint=example.fingerprint,
            budgets=example.budgets,
            tiers=Tiers(host=StoredTier()),
            costs=example.costs,
        ),
        verdict="stay with LRU",
        reason="no setting beat LRU on the past by more than the noise",
        chosen="lru",
        setting=LRU_SETTING,
        gain_frac=Interval(0.0, 0.0, 0.0),
        gap_closed_frac=0.0,
        rows=tuple(row for row in result.rows if row.name != "tuned"),
    )


@pytest.fixture(scope="session")
def bare_result(lru_result: TuneResult) -> TuneResult:
    """As little as a result may hold: a device alone, one policy, no gap, no reuse, and nothing to plot."""
    example = example_document()
    row = PolicyRow("lru", 0.0, 0.0, 0.0, 0.0, 0.0, 12.0, None, None, 0, 0)
    return replace(
        lru_result,
        document=LruDocument(
            fingerprint=example.fingerprint,
            budgets=example.budgets.model_copy(update={"host_bytes": 0}),
            costs=example.costs,
        ),
        gap_closed_frac=None,
        trace=replace(lru_result.trace, reuse_frac=0.0, gap_edges_s=(0.0, 1.0), gap_counts=(0,)),
        sizes=TierSizes(640, 0, 0),
        budgets_bytes=(40 * GIB, 0, 0),
        rows=(row,),
        curves=(),
        marginal=(),
        windows=(),
        trials=(),
        importance=(),
        break_even_tokens=None,
        assumptions=(),
    )


def _provenance() -> Provenance:
    return Provenance(
        tool_version="0.1.0",
        trace=TraceSource(format="sample", paths=("conversation.jsonl.gz",), sha256="ab" * 32, n_requests=1000),
        seed=7,
        sampler="tpe",
        trials=3,
        train_frac=0.6,
        simulation=SimulationFacts(
            timing=Timing.INSTANT,
            full_blocks=False,
            device_blocks=640,
            host_blocks=2560,
            measure_from_frac=0.6,
            itl_s=0.008,
        ),
    )


def _trace() -> TraceSummary:
    return TraceSummary(
        name="sample:conversation",
        requests=1000,
        accesses=12_345,
        span_s=1000.0,
        footprint_bytes=300 * GIB,
        block_tokens=512,
        reuse_frac=0.35,
        gap_edges_s=(0.0, 1.0, 10.0, 100.0, 1000.0),
        gap_counts=(5, 0, 30, 12),
    )


def _rows() -> tuple[PolicyRow, ...]:
    def row(name: str, host: float, saved_s: float, closed: float, stored: int, ttft_s: float) -> PolicyRow:
        return PolicyRow(
            name=name,
            device_hit_frac=0.125,
            host_hit_frac=host,
            disk_hit_frac=0.0,
            token_hit_frac=0.125 + host,
            net_seconds_saved=saved_s,
            cost_s=2000.0 - saved_s,
            gap_closed_frac=closed,
            hit_gap_closed_frac=closed,
            stored_bytes=stored,
            loaded_bytes=100,
            ttft_p50_s=ttft_s,
            ttft_p95_s=2 * ttft_s,
            ttft_p99_s=3 * ttft_s,
            goodput_frac=0.9,
        )

    return (
        row("lru", 0.05, 300.0, 0.0, 1000, 0.4),
        row("s3fifo", 0.04, 280.0, -0.1, 900, 0.41),
        row("tuned", 0.10, 362.0, 0.31, 400, 0.35),
        row("clairvoyant", 0.25, 500.0, 1.0, 150, 0.2),
    )


def _curve(policy: str, tier: str) -> Curve:
    return Curve(policy, tier, (20.0 * GIB, 40.0 * GIB, 80.0 * GIB), (0.1, 0.15, 0.2), (100.0, 150.0, 180.0))


def _window(start_s: float) -> WindowRow:
    return WindowRow(
        start_s=start_s,
        accesses=100,
        device_hit_blocks=20,
        loaded_blocks=10,
        computed_blocks=70,
        stored_blocks=60,
        evicted_host_blocks=55,
        cost_s=9.0 if start_s else 11.0,
        baseline_cost_s=10.0,
    )


def _trials(study: str, best: float) -> list[TrialRow]:
    values = (0.0, 0.5, best)
    return [TrialRow(number, study, SETTING if number else LRU_SETTING, value) for number, value in enumerate(values)]
