"""The page of an online run: what it says, and that it is safe and whole."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from autotune.api import simulate
from autotune.core.trace import Trace
from autotune.core.types import Arm, Timing
from autotune.report.formats import time_unit
from autotune.report.online.facts import headline, lru_names, rows
from autotune.report.online.page import render_online_report
from autotune.report.online.timeline import timeline_plots
from autotune.search.online_run import OnlineRun

PLOTS = {"plot-arms", "plot-regret", "plot-gains", "plot-reliability"}


@pytest.fixture(scope="module")
def run() -> OnlineRun:
    """A run that ends obeying what was learned."""
    trace = Trace.open("sample:conversation").slice(0, 2500)
    online = simulate(trace, "online", device_blocks=300, host_blocks=1500).online
    assert online is not None
    return online


@pytest.fixture(scope="module")
def page(run: OnlineRun) -> str:
    """Its page."""
    return render_online_report(run, run.document(), "sample:conversation")


def test_every_plot_is_there(page: str) -> None:
    """Arms, regret, gain curves and reliability, each as valid JSON beside its place."""
    found = dict(re.findall(r'<script type="application/json" data-plot="([^"]+)">(.*?)</script>', page, re.DOTALL))
    assert set(found) == PLOTS
    assert all(json.loads(text)["data"] for text in found.values())
    assert all(f'id="{key}"' in page for key in found)


def test_the_ways_cover_the_whole_time(run: OnlineRun) -> None:
    """The bars of the ways follow each other from the first request to the last, beginning with LRU."""
    arms, _ = timeline_plots(run)
    bars = [trace for trace in arms.figure.data if trace.type == "bar"]
    assert bars[0].base[0] == 0.0
    assert bars[0].name == "one LRU over both tiers, lazy stores"
    for before, after in pairwise(bars):
        assert before.base[0] + before.x[0] == pytest.approx(after.base[0])
    changes = [item for item in run.result.happenings if item.kind in {arm.name.lower() for arm in Arm}]
    assert len(bars) == len(changes) + 1
    unit = run.origin.trace.span_s / (bars[-1].base[0] + bars[-1].x[0])
    assert unit == pytest.approx(60.0)


def test_the_regret_ends_with_the_gain(run: OnlineRun) -> None:
    """The last point beside each LRU is what the run saved in all beside that one."""
    _, regret = timeline_plots(run)
    last = {trace.name: trace.y[-1] for trace in regret.figure.data}
    account = run.account
    for name, totals in zip(lru_names(run), (account.stock, account.staged, account.joint), strict=True):
        assert last[name] == pytest.approx(totals.cost_s - account.live.cost_s)
    assert len(last) == len(Arm) + 2


def test_under_a_backlog_the_ways_end_with_the_last_request() -> None:
    """Where requests wait long after the last arrival, bars and lines go on until the last one gets its turn."""
    trace = Trace.open("sample:conversation").slice(0, 1500)
    crowded = replace(trace, arrival_s=trace.arrival_s / 1000.0)
    run = simulate(crowded, "online", device_blocks=3000, host_blocks=1500, timing=Timing.SERVICE).online
    assert run is not None
    arms, regret = timeline_plots(run)
    bars = [bar for bar in arms.figure.data if bar.type == "bar"]
    assert all(bar.x[0] >= 0.0 for bar in bars)
    end = bars[-1].base[0] + bars[-1].x[0]
    assert end == pytest.approx((crowded.arrival_s[-1] + run.result.cache.wait_s[-1]) / time_unit(60.0).seconds)
    assert all(line.x[-1] == pytest.approx(end) for line in regret.figure.data)
    assert "Which way it ran" in render_online_report(run, run.document(), "crowded")


def test_the_table_has_the_accounts_figures(run: OnlineRun, page: str) -> None:
    """Every LRU, the run, and its learned shadows without a guard; the run is marked."""
    table = rows(run)
    lru = ["LRU, eager stores", "LRU, lazy stores", "one LRU over both tiers, lazy stores"]
    assert [row.cells[0] for row in table][:4] == [*lru, "online"]
    assert [row.chosen for row in table] == [False, False, False, True, False, False]
    assert page.count('<tr class="chosen">') == 1


def test_the_headline_says_when_lru_stayed(run: OnlineRun) -> None:
    """Where nothing was better for sure, the page begins with that and why."""
    stayed = replace(run, result=replace(run.result, arm=Arm.LRU, arm_frac={arm: float(arm is Arm.LRU) for arm in Arm}))
    why = "what was learned was not better by more than the error of the comparison"
    assert headline(stayed) == f"It stayed with LRU: {why}"
    never = replace(stayed, result=replace(stayed.result, fits=(), happenings=(), in_force=None))
    assert headline(never) == "It stayed with LRU: the trace ended before the first fit"
    assert "Nothing came into force in this run" in render_online_report(never, never.document(), "t")
    assert headline(run).startswith("Learning online saved")


def test_names_from_outside_are_text(run: OnlineRun) -> None:
    """A trace may be called anything."""
    hostile = "</script><script>alert(1)</script>{{ 7*7 }}\x1b[31m"
    page = render_online_report(run, run.document(), hostile)
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_the_same_run_is_the_same_page(run: OnlineRun, page: str) -> None:
    """Drawn twice, not a byte differs."""
    assert render_online_report(run, run.document(), "sample:conversation") == page
