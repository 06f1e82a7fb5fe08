"""The benchmark of the learned policy counts what it says, and goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import online
import online_aims
import online_gap
import online_plan
import online_runs
import online_safety
import online_signal_tables
import online_signals
import online_speed
import online_tables
import online_writes
import pytest
from online_cells import Journal, Run, Truth
from online_runs import CALIBRATION, HINTED, LAZY, LRU_LAZY, OnlineTask, budget_name, run, without_name
from peers_cells import Cell
from peers_policies import BOUND, LRU

from autotune.core.trace import Trace
from autotune.core.types import Timing

CELL = Cell("synthetic", "two", 0.01, "instant", 0)


def _run(name: str, cost_s: float, **changes: object) -> Run:
    plain = Run(CELL, name, cost_s, cost_s, 100, 100, 10.0, 0, 0.0, joint_cost_s=cost_s)
    return replace(plain, **changes)  # type: ignore[arg-type]


def _journal(path: Path, *runs: Run) -> Journal:
    journal = Journal(path / "online.jsonl")
    for one in runs:
        journal.add(one)
    return journal


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    """One cell of the bundled sample with every kind of run."""
    journal = Journal(tmp_path_factory.mktemp("online") / "online.jsonl")
    task = OnlineTask(CELL, 0, journal)
    names = (LRU, BOUND, LRU_LAZY, LAZY, budget_name(0.5), HINTED, without_name("chain"), CALIBRATION)
    for name in names:
        journal.add(run(task, name))
    return journal


def test_mode_and_learning_add_up_to_the_gap_closed(tmp_path: Path) -> None:
    """From 900 s over 880 s to 840 s with a bound of 800 s: 20 points by the mode, 40 by learning, 60 in all."""
    learned = _run(LAZY, 840.0, joint_cost_s=880.0, whole_stored_bytes=50)
    journal = _journal(tmp_path, _run(LRU, 900.0), _run(BOUND, 800.0), _run(LRU_LAZY, 880.0), learned)
    text = online_aims.report(journal)
    assert "| 60.0       | 20.0              | 40.0" in text
    assert "60.0 (35)" in text
    assert online_gap.points(journal, CELL, 900.0, 840.0) == pytest.approx(60.0)


def test_losses_are_counted_against_both(tmp_path: Path) -> None:
    """A run between LRU and LRU in its mode breaks one promise and keeps the other."""
    journal = _journal(tmp_path, _run(LRU, 1000.0), _run(LRU_LAZY, 900.0), _run(LAZY, 950.0))
    text = online_safety.report(journal)
    assert "above LRU with eager stores: kept of 1 runs; worst -5.00%" in text
    assert "above LRU with lazy stores: NOT kept in 1 of 1 runs; worst +5.00%" in text


def test_a_run_that_stayed_says_why(tmp_path: Path) -> None:
    """Stays are counted with their reason, without the figures in it."""
    why = "12 runs of blocks were used again; 40 are needed"
    journal = _journal(tmp_path, _run(LRU, 1000.0), _run(LRU_LAZY, 900.0), _run(LAZY, 1000.0, why=why))
    assert "too few runs of blocks were used again" in online_safety.report(journal)


def test_the_journal_gives_back_what_it_got(tmp_path: Path) -> None:
    """Runs are read as they were written; a line that was cut off counts as missing."""
    one = _run(CALIBRATION, 1.0, truths=(Truth("near", 5, 0.1, 0.05),))
    journal = _journal(tmp_path, _run(LRU, 2.0), one)
    path = tmp_path / "online.jsonl"
    assert Journal(path).records == journal.records
    path.write_text(path.read_text()[:-30])
    assert Journal(path).records == [_run(LRU, 2.0)]


def test_lines_of_another_version_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal whose runs have other fields counts as empty, and a line says so."""
    path = tmp_path / "online.jsonl"
    _journal(tmp_path, _run(LRU, 2.0), _run(LAZY, 1.0))
    path.write_text(path.read_text().replace("joint_cost_s", "staged_cost_s", 1))
    assert [one.name for one in Journal(path).records] == [LAZY]
    assert "1 lines with other fields, of another version, are left out" in capsys.readouterr().err


def test_work_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Everything a table needs is pending at first, and nothing of it once it is there."""
    journal = Journal(tmp_path / "online.jsonl")
    todo = list(online_plan.pending(["safety"], ["loops"], 1, journal))
    assert len(todo) == len(online_plan.FRACS) * len(Timing) * 3
    for job in todo:
        journal.add(replace(_run(job.name, 1.0), cell=job.cell))
    online.work(["safety"], ["loops"], 1, journal)
    assert len(journal.records) == len(todo)


def test_every_table_has_the_sample(ran: Journal) -> None:
    """The tables of all parts are written from runs of the bundled sample."""
    for part in online_plan.PARTS:
        assert "| synthetic" in online_tables.report(part, ran)
    assert "chain" in online_signal_tables.report(ran)


def test_the_budget_is_what_is_written_at_most(ran: Journal) -> None:
    """A budget of half of what LRU writes lets no more than that be written, but for what was saved up."""
    half, lru = ran[CELL, budget_name(0.5)], ran[CELL, LRU]
    burst_s = OnlineTask(CELL, 0, ran).settings.write_burst_s
    assert online_writes.written(ran, half) <= 0.5 * (1.0 + burst_s / lru.whole_span_s)


def test_the_picture_is_drawn_of_what_there_is(ran: Journal, tmp_path: Path) -> None:
    """The curve is an SVG file with the traces that were run."""
    text = online_writes.draw(ran, tmp_path / "curve.svg").read_text()
    assert text.startswith("<svg")
    assert "synthetic" in text
    assert "agentic" not in text


def test_hidden_features_are_in_no_model() -> None:
    """A fit without the chain has no table of it, and the next fit has all features again."""
    task = OnlineTask(CELL, 0, Journal(Path("none")))
    with online_signals.hidden(online_signals.GROUPS["chain"]):
        without = task.online()
    assert without.fits
    assert all("turn" not in fit.model.features for fit in without.fits)
    assert any("turn" in fit.model.features for fit in task.online().fits)


def test_calibration_is_judged_on_later_rows(ran: Journal) -> None:
    """Both horizons are judged, on rows that exist, with an error between 0 and 1."""
    truths = ran[CELL, CALIBRATION].truths
    assert [truth.horizon for truth in truths] == ["near", "far"]
    assert all(truth.rows > 0 and 0.0 <= truth.ece <= 1.0 for truth in truths)


def test_the_hint_is_true_but_for_the_share_that_is_not(toy: Trace) -> None:
    """Of two requests the first is continued and the second is not; at accuracy 0 each is told the wrong way round."""
    assert online_signals.session_ends(toy, 1.0, 0).session_end is not None
    assert np.array_equal(online_signals.session_ends(toy, 1.0, 0).session_end, [0, 1])  # type: ignore[arg-type]
    assert np.array_equal(online_signals.session_ends(toy, 0.0, 0).session_end, [1, 0])  # type: ignore[arg-type]


@pytest.fixture
def toy() -> Trace:
    """A request of two full blocks, and one that continues it by a third."""
    sample = online_runs.opened("synthetic", 0)
    return replace(
        sample,
        arrival_s=np.array([0.0, 1.0]),
        input_tokens=np.array([2, 3], sample.input_tokens.dtype) * sample.block_tokens,
        output_tokens=sample.output_tokens[:2],
        session=sample.session[:2],
        stop_reason=sample.stop_reason[:2],
        block_offsets=np.array([0, 2, 5]),
        block_ids=np.array([0, 1, 0, 1, 2], np.int32),
        n_blocks=3,
    )


def test_speed_has_both_tables() -> None:
    """The run with its fits stands beside LRU, and single fits below."""
    text = online_speed.report("synthetic", rounds=1)
    assert "online, lazy, refits included" in text
    assert "of the loop" in text
