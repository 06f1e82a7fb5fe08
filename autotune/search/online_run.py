"""An online run with what it came to: beside LRU, in time and memory, and as a policy document."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from autotune.core.policy import PolicyDocument
from autotune.core.settings import Settings
from autotune.costs.reuse import Rows
from autotune.online.account import LruRuns, Memory, OnlineAccount, account_for, lru_runs, peak_rss_bytes
from autotune.online.from_settings import online_settings
from autotune.online.measure import rows_of
from autotune.online.simulate import OnlineResult, simulate_online
from autotune.search.learned_document import Origin, online_document
from autotune.search.write_budget import copy_factor_of
from autotune.sim.client_hints import hints_of
from autotune.sim.learned import LearnedCache


@dataclass(frozen=True, slots=True)
class OnlineRun:
    """What an online run did, and what it cost.

    Attributes:
        result: What the loop did, and the caches.
        account: Beside LRU, on the measured requests.
        lru: LRU on the same requests.
        start: First request that counts.
        origin: What was served, on which engine.
        settings: Everything else.
    """

    result: OnlineResult
    account: OnlineAccount
    lru: LruRuns
    start: int
    origin: Origin
    settings: Settings

    @property
    def shadows_saw_all(self) -> bool:
        """Whether the shadow caches saw every request."""
        loop = online_settings(self.settings.online)
        return loop.shadow_frac_for(self.origin.engine.device_blocks) >= 1.0

    def document(self) -> PolicyDocument:
        """The way to run at the end: LRU as engines do it, or what was learned last.

        Its promise is judged on requests that came after the last fit; where there are too few it promises nothing.
        """
        factor = copy_factor_of(self.settings.online)
        return online_document(self.result, self.origin, factor, self.settings.validation)

    def rows(self) -> Rows:
        """The newest rows of the whole trace with what became of them, as an engine under LRU would have had them."""
        origin, section = self.origin, self.settings.online
        cache = LearnedCache(
            origin.trace,
            origin.engine,
            origin.costs,
            shadows=False,
            window_rows=section.window_rows,
            forget_s=section.forget_s,
            hints=hints_of(origin.trace),
        )
        cache.run(cache.trace.n_requests)
        return rows_of(cache.history)


def run_online(origin: Origin, start: int, settings: Settings) -> OnlineRun:
    """Run the loop over a trace.

    Args:
        origin: What to serve on which engine, with the store mode of the learned rule, and the seed.
        start: First request that counts.
        settings: Section ``online`` for the loop, ``validation`` for the bounds of the promise.
    """
    trace, engine, costs = origin.trace, origin.engine, origin.costs
    loop_settings = online_settings(settings.online, origin.seed)
    _get_ready(origin)
    before = peak_rss_bytes()
    result = simulate_online(trace, engine, costs, loop_settings, hints_of(trace))
    memory = Memory(peak_rss_bytes(), before)
    lru = lru_runs(trace, engine, costs, loop_settings)
    return OnlineRun(result, account_for(result, lru, start, memory), lru, start, origin, settings)


def why_lru(result: OnlineResult) -> str:
    """Why nothing but LRU is in force at the end of a run."""
    if not result.cache.config.host_blocks:
        return "there is no host tier, so there is nothing to decide"
    waits = [happening.reason for happening in result.happenings if happening.kind == "waits"]
    if not result.fits:
        return waits[-1] if waits else "the trace ended before the first fit"
    return "what was learned was not better by more than the error of the comparison"


def _get_ready(origin: Origin) -> None:
    """Compiling the simulator and loading scikit-learn are no part of a run, neither of its time nor of its memory."""
    import_module("sklearn.ensemble")
    simulate_online(origin.trace.slice(0, 1), origin.engine, origin.costs)
