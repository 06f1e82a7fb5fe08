"""The learned policy: as it goes, in each store mode, and learned once on the past."""

from __future__ import annotations

from dataclasses import replace

from autotune.core.costs import CostProfile
from autotune.core.trace import Trace
from autotune.core.types import StoreMode
from autotune.online.settings import OnlineSettings
from autotune.online.simulate import simulate_online
from autotune.sim.config import CacheConfig
from autotune.sim.result import CacheResult

_NEVER = 10**9


def online(
    trace: Trace, engine: CacheConfig, costs: CostProfile, mode: StoreMode, seed: int
) -> tuple[CacheResult, str]:
    """``--policy online``: starts with LRU, learns on what has passed, and obeys where its guard lets it."""
    result = simulate_online(trace, replace(engine, store_mode=mode), costs, OnlineSettings(seed=seed))
    return result.cache, f"obeyed for {100 * result.learned_frac:.0f} % of requests, {len(result.fits)} fits"


def learned_once(
    trace: Trace, engine: CacheConfig, costs: CostProfile, mode: StoreMode, seed: int, until_s: float
) -> tuple[CacheResult, str]:
    """Fitted once on the requests before ``until_s``, obeyed from then on whatever comes of it; LRU before."""
    first = max(1, trace.first_request_at(trace.arrival_s[0] + until_s))
    settings = OnlineSettings(
        first_fit_requests=first, refit_growth=_NEVER, refit_max_requests=_NEVER, publish_delay_s=0.0, seed=seed
    )
    result = simulate_online(trace, replace(engine, store_mode=mode), costs, settings)
    words = f"{result.fits[0].n_rows:,} rows" if result.fits else "nothing: " + result.happenings[-1].reason
    return result.learned, words
