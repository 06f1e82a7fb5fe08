"""What a policy document says beside its knobs: how often blocks come back, and what a byte is worth."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from autotune.core.policy import Prices, ReuseStep
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.core.units import GIB
from autotune.search.choice import Judged, Split
from autotune.search.problem import turnover_s
from autotune.search.result import MarginalValue
from autotune.sim.config import CacheConfig

_STEPS = (1, 2, 3, 5, 9, 17)
_GROWTH = 1.1


def reuse_steps(trace: Trace, horizon_s: float) -> tuple[ReuseStep, ...]:
    """P(asked for again within ``horizon_s``) by how often a block was asked for so far.

    Accesses within the last ``horizon_s`` of the trace do not count: nobody knows yet whether they were the last.
    """
    lengths = np.diff(trace.block_offsets)
    time_s = np.repeat(trace.arrival_s, lengths)
    order = np.argsort(trace.block_ids, kind="stable")
    ids, times = trace.block_ids[order], time_s[order]
    starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
    count = np.arange(len(ids)) - np.repeat(starts, np.diff(np.append(starts, len(ids)))) + 1
    gap_s = np.append(np.where(ids[1:] == ids[:-1], times[1:] - times[:-1], np.inf), np.inf)
    known = times <= trace.arrival_s[-1] - horizon_s
    edges = [*_STEPS, np.inf]
    steps = []
    for low, high in pairwise(edges):
        here = known & (count >= low) & (count < high)
        n = int(here.sum())
        if n:
            share = float((gap_s[here] <= horizon_s).mean())
            steps.append(ReuseStep(frequency_min=float(low), probability=share, n_samples=n))
    return tuple(steps)


def marginal_values(split: Split, judged: Judged) -> tuple[MarginalValue, ...]:
    """Seconds per GiB and hour that a tenth more of each tier would save, on the held-out part."""
    base = judged.evaluation
    hours = _span_s(split) / 3600.0
    values = []
    for tier in (Tier.DEVICE, Tier.HOST):
        larger = _grown(judged.engine, tier)
        if larger is None or hours <= 0.0:
            continue
        saved = judged.on(split, larger).totals.net_seconds_saved
        added_gib = (larger.capacities[tier] - judged.engine.capacities[tier]) * base.cache.block_bytes / GIB
        seconds = (saved - base.totals.net_seconds_saved) / added_gib / hours
        values.append(MarginalValue(tier.name.lower(), seconds, turnover_s(base.cache, tier)))
    return tuple(values)


def prices(marginal: tuple[MarginalValue, ...], reuse: tuple[ReuseStep, ...], horizon_s: float) -> Prices:
    """Rent of a byte over ``horizon_s``, the time for which the reuse probabilities hold.

    On the host it is what one more byte would have saved: the value density of the block that would otherwise have to
    go. Where there is a host, one more byte on the device saves only the load, for the host has the block anyway; a
    block kept on the device then pays for both, so that KEEP and OFFLOAD are weighed against each other by what the
    device adds. Prices are not below 0: a tier that is too large costs nothing to use.
    """
    rent = {m.tier: max(0.0, m.seconds_per_gib_hour) / GIB / 3600.0 * horizon_s for m in marginal}
    device, host = rent.get("device"), rent.get("host")
    if device is not None and host is not None:
        device += host
    return Prices(device_s_per_byte=device, host_s_per_byte=host, reuse=reuse)


def _grown(engine: CacheConfig, tier: Tier) -> CacheConfig | None:
    blocks = engine.capacities[tier]
    if blocks == 0:
        return None
    more = max(blocks + 1, round(blocks * _GROWTH))
    return replace(engine, device_blocks=more) if tier is Tier.DEVICE else replace(engine, host_blocks=more)


def _span_s(split: Split) -> float:
    arrival_s = split.whole.trace.arrival_s
    return float(arrival_s[-1] - arrival_s[split.held_out[0]])
