"""After a change of the load a search sees what came since, and what a trial promised is held against what came."""

from __future__ import annotations

from pathlib import Path

import pytest
from sidecar_parts import Bench, candidate

from autotune.daemon.jobs import Share
from autotune.daemon.status import Prediction
from autotune.daemon.status_view import daemon_status
from autotune.export import save
from autotune.testing.documents import example_document

BEFORE = 60 * 20  # requests of the first load


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A sidecar in mode auto whose engine obeys the example policy, and which has tuned once."""
    save(example_document(), tmp_path / "live.yaml")
    bench = Bench(tmp_path)
    bench.tuner.finds_nothing()
    bench.rounds(60, requests=20)
    assert len(bench.tuner.jobs) == 1
    return bench


def other_load(bench: Bench, rounds: int) -> None:
    """Rounds in which blocks come back after ten minutes instead of ten seconds."""
    for _ in range(rounds):
        bench.clock.advance(5.0)
        bench.telemetry.add(20, gap_s=600.0)
        bench.loop.step()


def test_a_search_after_a_change_sees_what_came_since(bench: Bench) -> None:
    """It waits for as many requests of the new load as any search needs, and gets no older ones."""
    assert bench.tuner.jobs[0].newest_requests == bench.settings.retune.min_requests
    other_load(bench, 40)
    assert len(bench.tuner.jobs) == 2
    given = bench.tuner.jobs[1].newest_requests
    assert given is not None
    assert bench.settings.retune.min_requests <= given < bench.parts.requests - BEFORE


def test_later_searches_keep_to_the_new_load(bench: Bench) -> None:
    """What was recorded before a change is not used again when the time for a search has come."""
    other_load(bench, 40)
    bench.tuner.finds_nothing()
    other_load(bench, 160)
    assert len(bench.tuner.jobs) == 3
    given = bench.tuner.jobs[2].newest_requests
    assert given is not None
    assert (bench.tuner.jobs[1].newest_requests or 0) < given < bench.parts.requests - BEFORE


def test_a_change_that_passes_leaves_the_old_load_in_use(bench: Bench) -> None:
    """A load that is itself again before anything was tuned is one load, and a search gets all of it."""
    other_load(bench, 6)
    bench.rounds(100, requests=20)
    assert len(bench.tuner.jobs) == 2
    given = bench.tuner.jobs[1].newest_requests
    assert given is not None and given > BEFORE


def promised(bench: Bench) -> float:
    """A policy that spares the mean request 10 ms is put on trial; the mean time to the first token before that."""
    other_load(bench, 1)
    saved = Share(value=0.010, low=0.008, high=0.012)
    bench.tuner.finds(candidate())
    document, outcome = bench.tuner.found[0]
    bench.tuner.found[0] = (document, outcome.model_copy(update={"saved_s_per_request": saved}))
    for _ in range(200):
        before = bench.loop.memory.recent
        bench.rounds(1)
        if bench.loop.trials.watch is not None:
            break
    was = before.ttft_mean(0.95)
    assert was is not None
    return was.value


def told(bench: Bench) -> Prediction:
    """The promise as the status has it."""
    status = daemon_status(bench.loop, bench.clock.utc_now(), False, "engine")
    return next(each for each in status.predictions if each.signal == "ttft_mean_s")


def test_the_promised_time_to_the_first_token_is_what_it_was_less_what_is_spared(bench: Bench) -> None:
    """A policy that spares the mean request 10 ms promises a mean that is lower by that, beside what is measured."""
    was_s = promised(bench)
    promise = bench.loop.memory.ttft_promise
    assert promise is not None
    assert promise.value_s == pytest.approx(was_s - 0.010, rel=0.05)
    bench.rounds(20)
    assert told(bench).predicted == pytest.approx(was_s - 0.010, rel=0.05)
    assert told(bench).observed == pytest.approx(was_s, rel=0.05)  # this engine is as slow as before


@pytest.mark.parametrize("slowness", [1.5, 0.7])
def test_the_promise_keeps_up_with_the_speed_of_the_machine(bench: Bench, slowness: float) -> None:
    """A machine that others slow down, or leave, takes as much longer for what was promised as for prefills."""
    was_s = promised(bench)
    bench.engine.slowness = bench.telemetry.slowness = slowness
    bench.rounds(20)
    prediction = told(bench)
    assert prediction.predicted == pytest.approx(slowness * (was_s - 0.010), rel=0.05)
    assert prediction.low < prediction.predicted < prediction.high
    assert prediction.observed == pytest.approx(slowness * was_s, rel=0.05)


def test_a_promise_whose_speed_is_not_measured_stays_as_it_was(bench: Bench) -> None:
    """Without a prefill after the change nothing says that the machine is another one."""
    promised(bench)
    promise = bench.loop.memory.ttft_promise
    assert promise is not None
    bench.rounds(3, requests=0)
    assert told(bench).predicted == promise.value_s
