"""The comparison with peers counts what it says, and goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import peers_learned
import peers_plots
import pytest
from peers import Plan, cells, run
from peers_cells import N_WINDOWS, Cell, Figures, Results, figures_of
from peers_policies import BOUND, LRU, Peer, Task, peers
from peers_tables import report, rows_of
from peers_traces import opened, seeded_traces

from autotune.core.types import StoreMode
from autotune.sim.joint_lru import simulate_joint_lru
from autotune.traces.adversarial import KINDS

CELL = Cell("loops", "two", 0.02, "instant", 0)
COMPILED = ("LRU", "LRU, lazy stores", "ARC", "two-hit LRU", "clairvoyant, seconds")


def _figures(policy: str, cost_s: float, seed: int = 0, **changes: object) -> Figures:
    plain = Figures(
        cell=replace(CELL, seed=seed),
        policy=policy,
        found="",
        requests=100,
        net_seconds=1000.0 - cost_s,
        cost_s=cost_s,
        hit_tokens=int(1e6),
        hit_blocks=10,
        stored_bytes=int(1e12),
        loaded_bytes=0,
        oversized_requests=0,
        waited_s=0.0,
        window_cost_s=(cost_s / N_WINDOWS,) * N_WINDOWS,
        took_s=0.0,
        code="",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def _chosen(*names: str) -> list[Peer]:
    return [peer for peer in peers() if peer.name in names]


def test_the_gap_is_closed_from_lru_to_the_bound() -> None:
    """LRU is 0, the clairvoyant in seconds 100, halfway 50; per seed, against that seed's own LRU and bound."""
    figures = [
        *(_figures(LRU, 900.0, seed) for seed in (0, 1)),
        *(_figures("ARC", cost_s, seed) for seed, cost_s in enumerate((850.0, 925.0))),
        *(_figures(BOUND, cost_s, seed) for seed, cost_s in enumerate((800.0, 850.0))),
    ]
    rows = {row.policy: row for row in rows_of(figures)}
    assert rows[LRU].gap_closed == (0.0, 0.0)
    assert rows["ARC"].gap_closed == (50.0, -50.0)
    assert rows[BOUND].gap_closed == (100.0, 100.0)
    assert rows["ARC"].excess_frac == pytest.approx((-50 / 900, 25 / 900))


def test_no_gap_is_no_number() -> None:
    """Where the clairvoyant saves next to nothing, a share of that means nothing."""
    rows = rows_of([_figures(LRU, 900.0), _figures("ARC", 899.9), _figures(BOUND, 899.0)])
    assert all(row.gap_closed == () for row in rows)
    assert "no gap" in report([_figures(LRU, 900.0), _figures(BOUND, 899.0)])


def test_fewer_seeds_are_said() -> None:
    """A policy of which only some seeds were run says how many; the others say nothing."""
    figures = [_figures(name, cost_s, seed) for seed in (0, 1) for name, cost_s in ((LRU, 900.0), (BOUND, 800.0))]
    text = report([*figures, _figures("ARC", 850.0)])
    assert "| ARC (1 seed)" in text
    assert f"| {LRU} " in text
    assert f"{LRU} (" not in text


def test_the_worst_window_may_lose_where_the_whole_gains() -> None:
    """The smallest share saved in any window counts, and windows without requests do not."""
    windows = (0.0, *(1.0,) * (N_WINDOWS - 1))
    lru = _figures(LRU, 19.0, window_cost_s=windows)
    arc = _figures("ARC", 18.0, window_cost_s=(0.0, 1.25, *(0.9,) * (N_WINDOWS - 2)))
    rows = {row.policy: row for row in rows_of([lru, arc, _figures(BOUND, 10.0, window_cost_s=windows)])}
    assert rows["ARC"].worst_window_frac == pytest.approx((-0.25,))


def test_what_the_mode_gains_is_not_what_learning_gains() -> None:
    """The promise beside LRU in the same store mode is about that mode's LRU."""
    figures = [
        _figures(LRU, 1000.0),
        _figures("LRU, lazy stores", 900.0),
        _figures("online, lazy", 950.0),
        _figures(BOUND, 500.0),
    ]
    row = next(row for row in rows_of(figures) if row.policy == "online, lazy")
    assert row.excess_frac == pytest.approx((-0.05,))
    assert row.excess_in_mode_frac == pytest.approx((0.05,))
    text = report(figures)
    assert "more than LRU with eager stores: kept. The worst of 1 runs costs -5.00 %" in text
    assert "more than LRU in the same store mode: BROKEN. The worst of 1 runs costs +5.00 %" in text


def test_windows_add_up_to_the_measured_cost() -> None:
    """Every counted request falls into one window, and those of the first fifth of the time into none."""
    task = Task(CELL, trials=2)
    outcome = _chosen(LRU)[0].run(task)
    assert outcome is not None
    figures = figures_of(CELL, LRU, "", outcome[0], 0.0)
    late = task.trace.arrival_s >= 0.2 * task.trace.span_s
    assert figures.requests == late.sum()
    assert sum(figures.window_cost_s) == pytest.approx(figures.cost_s)
    assert figures.cost_s == pytest.approx(outcome[0].cost_s()[late].sum())


def test_the_past_ends_where_counting_begins() -> None:
    """What a policy looks at to find its settings is never counted."""
    task = Task(CELL, trials=2)
    start = task.trace.first_request_at(0.2 * task.trace.span_s)
    assert task.past.trace.n_requests == start


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Only what is missing runs; a line that an interruption cut off counts as missing."""
    path = tmp_path / "results" / "peers.jsonl"
    plan = Plan(cells(["loops"], [0.02], ["instant"], ["two"], 1), _chosen(*COMPILED), trials=2)
    run(plan, Results(path))
    whole = path.read_text()
    assert [peer.name for _, peer in plan.pending(Results(path), ())] == []
    path.write_text(whole[:-20])
    assert [peer.name for _, peer in plan.pending(Results(path), ())] == ["clairvoyant, seconds"]
    path.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    run(plan, Results(path))
    again, first = Results(path).of([CELL], COMPILED), [line for line in whole.splitlines() if line]
    assert len(again) == len(first) == len(COMPILED)
    assert [peer.name for _, peer in plan.pending(Results(path), ("ARC",))] == ["ARC"]


def test_a_line_cut_off_does_not_swallow_the_next(tmp_path: Path) -> None:
    """What is appended after an interruption stands on a line of its own."""
    path = tmp_path / "peers.jsonl"
    Results(path).add(_figures(LRU, 900.0))
    path.write_text(path.read_text()[:-30])
    Results(path).add(_figures("ARC", 800.0))
    assert [one.policy for one in Results(path).of([CELL], (LRU, "ARC"))] == ["ARC"]


def test_every_trace_at_hand_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Samples and adversarial traces are always there, others where their folder is."""
    monkeypatch.delenv("KV_AUTOTUNE_TRACES", raising=False)
    assert set(seeded_traces()) == {"conversation", "synthetic", *KINDS}
    (tmp_path / "weka_agentic").mkdir()
    (tmp_path / "mooncake").mkdir()
    (tmp_path / "mooncake" / "toolagent_trace.jsonl.gz").touch()
    (tmp_path / "mooncake" / "conversation_trace.first60.jsonl.gz").touch()
    monkeypatch.setenv("KV_AUTOTUNE_TRACES", str(tmp_path))
    assert set(seeded_traces()) == {"conversation", "synthetic", "agentic", "mooncake toolagent_trace", *KINDS}


def test_seeds_spread_arrivals_within_a_tick() -> None:
    """Two seeds give the same requests in the same order, at other moments of the same ticks."""
    one, other = (opened("conversation", seed) for seed in (0, 1))
    assert np.array_equal(one.block_ids, other.block_ids)
    assert not np.array_equal(one.arrival_s, other.arrival_s)
    assert np.abs(one.arrival_s - other.arrival_s).max() < 2 * one.tick_s
    assert one.arrival_s[0] == 0.0


def test_learned_once_is_lru_until_it_has_learned() -> None:
    """Up to the fit every request is served as under one LRU over both tiers; the fit sees nothing later."""
    task = Task(replace(CELL, trace="stopping_reuse"), trials=2)
    until_s = 0.2 * task.trace.span_s
    cache, words = peers_learned.learned_once(task.trace, task.engine, task.costs, StoreMode.LAZY, 0, until_s)
    lru = simulate_joint_lru(task.trace, replace(task.engine, store_mode=StoreMode.LAZY), task.costs)
    start = task.trace.first_request_at(until_s)
    assert np.array_equal(cache.hit_blocks()[:start], lru.hit_blocks()[:start])
    assert "rows" in words


def test_pictures_are_drawn_of_what_there_is(tmp_path: Path) -> None:
    """Both pictures are SVG files with the traces and policies that were run, and no others."""
    figures = [_figures(LRU, 900.0), _figures("ARC", 850.0), _figures(BOUND, 800.0)]
    rows = [replace(row, device_frac=0.01) for row in rows_of(figures)]
    files = peers_plots.write(rows, tmp_path)
    for file in files:
        text = file.read_text()
        assert text.startswith("<svg")
        assert "loops, instant" in text
        assert "ARC" in text
        assert "online" not in text
