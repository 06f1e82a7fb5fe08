"""The chosen setting beside its rivals on the held-out part, and over the whole range of capacities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from autotune.core.eviction import PolicySpec
from autotune.core.types import EngineSemantics, Tier
from autotune.search.choice import Judged, Split
from autotune.search.problem import Evaluation, with_policy
from autotune.search.result import Curve, PolicyRow, WindowRow
from autotune.sim.config import CacheConfig

BASELINES = {
    EngineSemantics.CANONICAL: ("arc", "s3fifo"),
    EngineSemantics.VLLM_0_32: ("vllm_arc",),  # what that engine has besides LRU
}
CLAIRVOYANTS = ("clairvoyant", "clairvoyant_seconds")
_FACTORS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
_WINDOWS = 40
_LONG_ACCESSES = 1_000_000
_T = TypeVar("_T")


def n_threads(split: Split, workers: int) -> int:
    """Simulations that run at once: one on a long trace, for each holds some hundred bytes per block access."""
    return workers if split.whole.trace.n_accesses <= _LONG_ACCESSES else 1


def in_threads(jobs: Sequence[Callable[[], _T]], workers: int) -> list[_T]:
    """Results of jobs that spend their time in compiled code, in order."""
    with ThreadPoolExecutor(max(1, workers)) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def compare(split: Split, lru: Evaluation, contenders: dict[str, Evaluation], workers: int) -> tuple[PolicyRow, ...]:
    """Rows of the table: LRU, the baselines, the contenders, and the better clairvoyant as the bound.

    Args:
        split: The problem.
        lru: LRU on the held-out part.
        contenders: Evaluations on the held-out part by the name of their row, such as ``tuned``.
        workers: Threads.
    """
    whole, names = split.whole, (*BASELINES[split.whole.engine.semantics], *CLAIRVOYANTS)
    engines = [with_policy(whole.engine, whole.ranked, PolicySpec(name)) for name in names]
    jobs = [partial(whole.evaluate_engine, engine, split.held_out, whole.queue) for engine in engines]
    found = dict(zip(names, in_threads(jobs, n_threads(split, workers)), strict=True))
    bound = min((found.pop(name) for name in CLAIRVOYANTS), key=lambda e: e.totals.cost_s)
    ranking = {"lru": lru, **found, **contenders, "clairvoyant": bound}
    return tuple(row(name, evaluation, lru, bound) for name, evaluation in ranking.items())


def row(name: str, evaluation: Evaluation, lru: Evaluation, bound: Evaluation) -> PolicyRow:
    """One policy's row of the table."""
    totals, base, best = evaluation.totals, lru.totals, bound.totals
    accesses, queue = max(1, totals.accesses), evaluation.queue
    return PolicyRow(
        name=name,
        device_hit_frac=totals.device_hit_blocks / accesses,
        host_hit_frac=totals.host_hit_blocks / accesses,
        disk_hit_frac=totals.disk_hit_blocks / accesses,
        token_hit_frac=totals.hit_tokens / max(1, totals.prompt_tokens),
        net_seconds_saved=totals.net_seconds_saved,
        cost_s=totals.cost_s,
        gap_closed_frac=share(base.cost_s - totals.cost_s, base.cost_s - best.cost_s),
        hit_gap_closed_frac=share(
            base.computed_blocks - totals.computed_blocks, base.computed_blocks - best.computed_blocks
        ),
        stored_bytes=totals.stored_bytes,
        loaded_bytes=totals.loaded_bytes,
        ttft_p50_s=queue.quantile_s(0.50) if queue else None,
        ttft_p95_s=queue.quantile_s(0.95) if queue else None,
        ttft_p99_s=queue.quantile_s(0.99) if queue else None,
        goodput_frac=queue.goodput_frac if queue else None,
    )


def share(part: float, whole: float) -> float | None:
    """``part / whole``; None where there is nothing to share."""
    return part / whole if whole > 1e-9 else None


def capacity_curves(split: Split, judged: Judged, workers: int) -> tuple[Curve, ...]:
    """Hit rate and net seconds of LRU, the chosen policy and the clairvoyant over the capacity of each tier."""
    tiers = [tier for tier in (Tier.DEVICE, Tier.HOST) if split.whole.engine.capacities[tier]]
    curves: list[Curve] = []
    for tier in tiers:
        capacities = _capacities(split, tier)
        jobs = [partial(_point, split, judged, tier, blocks) for blocks in capacities]
        points = in_threads(jobs, n_threads(split, workers))
        size = split.whole.trace.block_tokens * split.whole.costs.kv_bytes_per_token
        for i, policy in enumerate(("lru", judged.row_name, "clairvoyant")):
            curves.append(
                Curve(
                    policy=policy,
                    tier=tier.name.lower(),
                    capacity_bytes=tuple(float(c * size) for c in capacities),
                    hit_frac=tuple(p[i][0] for p in points),
                    net_seconds_saved=tuple(p[i][1] for p in points),
                )
            )
    return tuple(curves)


def _capacities(split: Split, tier: Tier) -> list[int]:
    blocks = split.whole.engine.capacities[tier]
    limit = max(blocks, split.whole.trace.n_blocks)
    return sorted({max(1, min(limit, round(blocks * factor))) for factor in _FACTORS})


def _point(split: Split, judged: Judged, tier: Tier, blocks: int) -> list[tuple[float, float]]:
    """Hit share and net seconds of the three policies with ``blocks`` on a tier."""
    whole = split.whole
    lru, tuned = _with_blocks(whole.engine, tier, blocks), _with_blocks(judged.engine, tier, blocks)
    plain = replace(whole.engine, device_blocks=tuned.device_blocks, host_blocks=tuned.host_blocks)
    spec = judged.setting.policy_spec(0.0 if judged.setting.is_lru else split.past.turnover_s(plain))
    clairvoyant = with_policy(lru, whole.ranked, PolicySpec("clairvoyant"))
    evaluations = (
        whole.evaluate_engine(lru, split.held_out),
        judged.on(split, with_policy(tuned, whole.ranked, spec)),
        whole.evaluate_engine(clairvoyant, split.held_out),
    )
    return [_measures(evaluation) for evaluation in evaluations]


def _with_blocks(engine: CacheConfig, tier: Tier, blocks: int) -> CacheConfig:
    """The engine with another capacity of one tier, and with chunks that fit it."""
    if tier is Tier.DEVICE:
        return replace(engine, device_blocks=blocks)
    return replace(engine, host_blocks=blocks, chunk_blocks=min(engine.chunk_blocks, blocks))


def _measures(evaluation: Evaluation) -> tuple[float, float]:
    totals = evaluation.totals
    return 1.0 - totals.computed_blocks / max(1, totals.accesses), totals.net_seconds_saved


def decisions_over_time(split: Split, judged: Judged, lru: Evaluation) -> tuple[WindowRow, ...]:
    """Windows of equal time over the whole trace."""
    cache, base = judged.evaluation.cache, lru.cache
    arrival_s = cache.trace.arrival_s - cache.trace.arrival_s[0]
    edges_s = np.linspace(0.0, cache.trace.span_s, _WINDOWS + 1)
    edges = np.searchsorted(arrival_s, edges_s)
    edges[-1] = cache.trace.n_requests
    accesses = np.diff(cache.trace.block_offsets)
    cost_s, base_s = cache.cost_s(), base.cost_s()
    rows = []
    for low, high, start_s in zip(edges[:-1].tolist(), edges[1:].tolist(), edges_s.tolist(), strict=False):
        part = slice(low, high)
        device, loaded = int(cache.device_hit[part].sum()), int((cache.host_hit + cache.disk_hit)[part].sum())
        n = int(accesses[part].sum())
        stored, evicted = int(cache.stored[part].sum()), int(cache.evicted_host[part].sum())
        seconds, base_seconds = float(cost_s[part].sum()), float(base_s[part].sum())
        rows.append(WindowRow(start_s, n, device, loaded, n - device - loaded, stored, evicted, seconds, base_seconds))
    return tuple(rows)
