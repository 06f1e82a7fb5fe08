"""Engines that misbehave, disks that fill up, clocks that jump, processes that are killed: nothing breaks."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from page_server import EnginePage, Fault, serving
from sidecar_parts import SETTINGS, Bench, better_under, candidate, only_confirmed_or_leased

from autotune.core.clock import SystemClock
from autotune.core.policy import load
from autotune.core.settings import Settings
from autotune.core.sidecar_settings import CollectSettings
from autotune.core.signals.target import Target
from autotune.daemon.audit import AuditLog
from autotune.daemon.loop import Loop
from autotune.daemon.status import Mode
from autotune.daemon.target_view import TargetView
from autotune.daemon.trial import identity
from autotune.daemon.wiring import Wanted, build
from autotune.export import save
from autotune.testing.clocks import ManualClock
from autotune.testing.documents import example_document

QUICK = SETTINGS.model_copy(update={"collect": CollectSettings(interval_s=0.1, timeout_s=0.4, max_page_mib=4)})


def real_loop(url: str, folder: Path) -> Loop:
    """A sidecar with the real scraper, beside a stand-in."""
    wanted = Wanted(targets=(Target(url),), state=folder / "state")
    return Loop(build(wanted, QUICK, SystemClock()), Settings(sidecar=QUICK), Mode.OBSERVE)


def lives(target: TargetView) -> bool:
    """Whether it answered in the last round."""
    return target.alive


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE])
def test_a_page_that_misbehaves_costs_one_round(tmp_path: Path, fault: Fault) -> None:
    """Whatever the engine serves, the round ends, says why, and the next good page is taken as if nothing had been."""
    page = EnginePage()
    with serving(page) as url:
        loop = real_loop(url, tmp_path)
        loop.step()
        loop.step()
        assert len(loop.memory.window) == 1
        page.fault = fault
        loop.step()
        target = loop.parts.targets[0]
        source = target.sources[0].health(0.0)
        assert not lives(target) and not source.ok
        assert source.error
        page.fault = Fault.NONE
        loop.step()
        loop.step()
        assert lives(target) and target.epoch == 0 and len(loop.memory.window) >= 2
        loop.close()


def test_counters_that_go_back_begin_an_epoch(tmp_path: Path) -> None:
    """After a restart of the engine nothing is joined: no interval spans it, and the epoch counts on."""
    page = EnginePage()
    with serving(page) as url:
        loop = real_loop(url, tmp_path)
        for _ in range(3):
            loop.step()
        page.restart()
        loop.step()
        target = loop.parts.targets[0]
        assert target.alive and target.epoch == 1 and loop.memory.interval is None
        assert len(loop.memory.window) == 2
        loop.step()
        assert all((each.prompt_tokens or 0.0) >= 0.0 for each in loop.memory.window)
        loop.close()


def test_an_engine_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    """The sidecar outlives its engine, at the same address as before."""
    page = EnginePage()
    with serving(page) as url:
        loop = real_loop(url, tmp_path)
        loop.step()
        port = int(url.rpartition(":")[2])
    loop.step()
    assert not lives(loop.parts.targets[0])
    later = EnginePage()
    later.restart()
    with serving(later, port):
        loop.step()
        assert lives(loop.parts.targets[0])
    loop.close()


@pytest.mark.parametrize("when", ["scrape", "begin", "trial", "keep"])
def test_an_engine_that_dies_at_any_phase_leaves_a_confirmed_policy(tmp_path: Path, when: str) -> None:
    """Dead before, at the beginning of, during, or at the end of a trial: what is live is confirmed one round later."""
    save(example_document(), tmp_path / "live.yaml")
    bench = Bench(tmp_path)
    bench.react = better_under(candidate())
    if when == "scrape":
        bench.rounds(5)
    else:
        bench.into_trial(candidate())
        bench.rounds({"begin": 0, "trial": 20, "keep": 60}[when])
    bench.engine.up = False
    bench.rounds(2, requests=0)
    live = bench.live_document()
    assert live is not None and live.lease is None
    only_confirmed_or_leased(bench.live, bench.state.path)
    bench.engine.up = True
    bench.engine.restart()
    bench.rounds(30)
    assert bench.parts.targets[0].alive and bench.loop.memory.findings == {}


def _in_a_child(work: Callable[[], None]) -> int:
    """Do something in a process of its own; its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def _ended_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_full_disk_stops_nothing_but_changes(tmp_path: Path) -> None:
    """Where no file can grow, rounds go on, no trial begins, and the live policy is the confirmed one."""
    save(example_document(), tmp_path / "live.yaml")

    def run() -> None:
        bench = Bench(tmp_path)
        bench.rounds(5)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        bench.tuner.finds_nothing()
        bench.rounds(30)
        save_path = bench.state.candidate_path
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        save(candidate(), save_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        bench.rounds(30)
        assert bench.loop.memory.findings
        assert bench.loop.trials.watch is None

    assert _ended_well(_in_a_child(run))
    assert identity(load(tmp_path / "live.yaml")) == identity(example_document())
    only_confirmed_or_leased(tmp_path / "live.yaml", tmp_path / "state")


def test_a_disk_that_fills_up_during_a_trial_lets_the_lease_end(tmp_path: Path) -> None:
    """A lease that cannot be renewed ends by itself in the engine; the sidecar notices and owes the file a rollback."""
    save(example_document(), tmp_path / "live.yaml")

    def run() -> None:
        bench = Bench(tmp_path)
        bench.into_trial(candidate())
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        bench.rounds(30)
        assert bench.loop.trials.watch is None and bench.parts.transitions.owed
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        bench.rounds(2)
        assert not bench.parts.transitions.owed

    assert _ended_well(_in_a_child(run))
    live = load(tmp_path / "live.yaml")
    assert live.lease is None and identity(live) == identity(example_document())
    assert AuditLog(tmp_path / "state" / "audit.jsonl").entries[-1].kind.value == "rolled_back"


def _kill_at_random_points(folder: Path, times: int, seed: int) -> None:
    """Start a sidecar, kill it at a random moment, look at what lies there, and start the next one on it."""
    draw = random.Random(seed)
    save(example_document(), folder / "live.yaml")
    begun = 0
    for run in range(times):
        clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC) + timedelta(days=run))
        good = candidate(0.01 + 0.9 * draw.random())
        pause_s = draw.random() * 0.5

        def work(clock: ManualClock = clock, good: object = good, run: int = run) -> None:
            bench = Bench(folder, clock=clock)
            bench.react = better_under(good) if run % 2 else bench.react  # type: ignore[arg-type]
            bench.engine.hit_frac = 0.2
            while True:
                save(good, bench.state.candidate_path)  # type: ignore[arg-type]
                bench.rounds(1)

        child = _in_a_child(work)
        time.sleep(0.05 + pause_s)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        only_confirmed_or_leased(folder / "live.yaml", folder / "state")
        log = AuditLog(folder / "state" / "audit.jsonl")
        begun = sum(entry.kind.value == "canary_started" for entry in log.entries)
        assert log.torn <= run + 1
    last = Bench(folder, clock=ManualClock(datetime(2027, 1, 31, tzinfo=UTC)))
    assert last.parts.transitions.hands_off is None
    live = last.live_document()
    assert live is not None and live.lease is None
    assert last.parts.transitions.confirmed is not None
    assert identity(live) == identity(last.parts.transitions.confirmed)
    last.into_trial(candidate(0.33))
    assert begun > times // 10


def test_a_sidecar_that_is_killed_twenty_times(tmp_path: Path) -> None:
    """SIGKILL at random points: state and live policy are confirmed, or a trial that ends by itself, and it resumes."""
    _kill_at_random_points(tmp_path, 20, seed=1)


@pytest.mark.slow
def test_a_sidecar_that_is_killed_two_hundred_times(tmp_path: Path) -> None:
    """The same two hundred times."""
    _kill_at_random_points(tmp_path, 200, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_faults_in_any_order(tmp_path: Path, seed: int) -> None:
    """Engines that die, restart or stall, clocks that jump, sidecars that start anew: never without a policy."""
    draw = random.Random(seed)
    save(example_document(), tmp_path / "live.yaml")
    bench = Bench(tmp_path)
    for _ in range(60):
        bench.tuner.finds(candidate(0.01 + 0.9 * draw.random()))
        match draw.randrange(8):
            case 0:
                bench.engine.up = not bench.engine.up
            case 1:
                bench.engine.restart()
            case 2:
                bench.clock.set_wall_clock(draw.uniform(-1e5, 1e5))
            case 3:
                bench.telemetry.ok = not bench.telemetry.ok
            case 4:
                bench.engine.hit_frac = draw.random() * 0.6
            case 5:
                bench = bench.restarted()
            case 6:
                bench.engine.slow_frac = draw.random()
            case _:
                bench.engine.idle = not bench.engine.idle
        bench.rounds(draw.randrange(1, 30))
        only_confirmed_or_leased(bench.live, bench.state.path)
        assert bench.parts.transitions.hands_off is None
