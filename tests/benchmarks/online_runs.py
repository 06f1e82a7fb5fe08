"""The runs by name: LRU, the clairvoyant, and the online loop: plain, with a budget, without features, with hints."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

import online_signals
import peers_traces
from online_cells import Journal, Run
from peers_cells import Cell
from peers_policies import BOUND, LRU, Task

from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import Arm, StoreMode, Timing
from autotune.online.settings import OnlineSettings
from autotune.online.simulate import OnlineResult, simulate_online
from autotune.sim.engine import simulate_cache
from autotune.sim.learned_rules import Hints
from autotune.traces.recording import write_recording

LAZY, EXCLUSIVE = "online, lazy", "online, exclusive"
LRU_LAZY, LRU_EXCLUSIVE = "LRU, lazy stores", "LRU, exclusive"
IN_MODE = {LAZY: LRU_LAZY, EXCLUSIVE: LRU_EXCLUSIVE}
BUDGETS = (1.0, 0.75, 0.5, 0.25, 0.125)
CALIBRATION, HINTED = "calibration", "simulated session-end hint"
MERGED = Path("out") / "traces"
_MODES = {LRU_LAZY: StoreMode.LAZY, LRU_EXCLUSIVE: StoreMode.EXCLUSIVE}


def budget_name(share: float) -> str:
    """The run whose writes are limited to a share of LRU's."""
    return f"budget {share:g}"


def without_name(group: str) -> str:
    """The run whose fits do not see a group of features."""
    return f"without {group}"


@lru_cache(maxsize=1)
def opened(name: str, seed: int) -> Trace:
    """A trace by name and seed; merged sessions are kept in a file, for merging them takes minutes."""
    if name != "agentic":
        return peers_traces.opened(name, seed)
    file = MERGED / f"agentic-{seed}.parquet"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_recording(peers_traces.opened(name, seed), file)
    return Trace.open(f"recording:{file}")


@dataclass(frozen=True)
class OnlineTask(Task):
    """A cell with everything that the loop runs on.

    Attributes:
        journal: Earlier runs; a budget is a share of what LRU wrote.
    """

    journal: Journal

    @cached_property
    def trace(self) -> Trace:
        """The requests."""
        return opened(self.cell.trace, self.cell.seed)

    @property
    def settings(self) -> OnlineSettings:
        """The loop's."""
        return OnlineSettings(seed=self.cell.seed)

    def lru(self) -> Run:
        """LRU with eager stores, from the journal or run now."""
        if (self.cell, LRU) not in self.journal:
            self.journal.add(run(self, LRU))
        return self.journal[self.cell, LRU]

    def online(
        self, settings: OnlineSettings | None = None, hints: Hints | None = None, mode: StoreMode = StoreMode.LAZY
    ) -> OnlineResult:
        """The loop."""
        engine = replace(self.engine, store_mode=mode)
        return simulate_online(self.trace, engine, self.costs, settings or self.settings, hints)


def run(task: OnlineTask, name: str) -> Run:
    """Run what a name stands for."""
    began = time.perf_counter()
    found = _lru(task, name) if name in (LRU, BOUND, *_MODES) else _online(task, name)
    return replace(found, took_s=time.perf_counter() - began)


def _lru(task: OnlineTask, name: str) -> Run:
    if name in _MODES:
        cache = simulate_cache(task.trace, replace(task.engine, store_mode=_MODES[name]), task.costs)
    else:
        cache = task.simulate(PolicySpec("clairvoyant_seconds" if name == BOUND else "lru"))
    return Run.of(task.cell, name, cache)


def _online(task: OnlineTask, name: str) -> Run:
    hiding = {without_name(group): features for group, features in online_signals.GROUPS.items()}
    budgets = {budget_name(share): share for share in BUDGETS}
    simulate = task.online
    if name == EXCLUSIVE:
        simulate = partial(task.online, mode=StoreMode.EXCLUSIVE)
    if name == HINTED:
        simulate = partial(
            task.online, hints=online_signals.session_ends(task.trace, online_signals.ACCURACY, task.cell.seed)
        )
    if name in budgets:
        lru = task.lru()
        per_s = budgets[name] * lru.whole_stored_bytes / lru.whole_span_s
        simulate = partial(task.online, replace(task.settings, write_bytes_per_s=per_s))
    with online_signals.hidden(hiding[name]) if name in hiding else nullcontext():
        result = simulate()
    found = with_loop(Run.of(task.cell, name, result.cache), result)
    if name != CALIBRATION:
        return found
    rows, end_s = online_signals.all_rows(task.trace, task.engine, task.costs)
    return replace(found, truths=online_signals.truths(result.fits, rows, end_s))


def with_loop(run: Run, result: OnlineResult) -> Run:
    """A run with what the loop did."""
    shadow, lru = (Run.of(run.cell, "", cache) for cache in (result.learned, result.lru))
    waits = [one.reason for one in result.happenings if one.kind == "waits"]
    return replace(
        run,
        joint_cost_s=lru.cost_s,
        learned_frac=1.0 - shadow.whole_cost_s / max(lru.whole_cost_s, 1e-9),
        arm_frac=tuple(result.arm_frac[arm] for arm in Arm),
        fits=len(result.fits),
        why=waits[-1] if waits else "",
    )


def cell(trace: str, frac: float, timing: Timing, seed: int) -> Cell:
    """A cell of two tiers."""
    return Cell(trace, "two", frac, timing.value, seed)
