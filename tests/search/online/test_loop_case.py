"""Cases: what counts, what is seen, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.core.errors import SearchError
from autotune.core.trace import Trace
from autotune.core.trace_hints import RequestHints, TraceHints
from autotune.core.types import StoreMode, Timing
from autotune.online.settings import OnlineSettings
from autotune.online.simulate import simulate_online
from autotune.search.online.case import Case, Engines, cases_of, cheapest_first
from autotune.search.online.judging import judge
from autotune.search.online.setting import LoopSetting


def test_a_case_ends_where_its_part_ends(cases: list[Case], storm: Trace) -> None:
    """It holds the requests up to 80 % of the time, and counts from 20 % on; capacities are those of the whole."""
    for case in cases:
        before = storm.arrival_s < storm.arrival_s[0] + 0.8 * storm.span_s
        assert case.trace.n_requests == before.sum()
        assert storm.arrival_s[case.start - 1] < 0.2 * storm.span_s <= storm.arrival_s[case.start]
    assert [case.config.device_blocks for case in cases] == [217, 326]
    assert all(case.config.host_blocks == 4 * case.config.device_blocks for case in cases)


def test_a_case_does_not_know_the_future(
    cases: list[Case], storm: Trace, engines: Engines, quick: LoopSetting, base: OnlineSettings
) -> None:
    """Where the requests after the part are others, everything that is measured stays the same."""
    stop = cases[0].trace.n_requests
    ids = storm.block_ids.copy()
    ids[storm.block_offsets[stop] :] = 0
    case = cases_of("storm", replace(storm, block_ids=ids), engines, (0.2, 0.8))[0]
    assert (case.lru, case.clairvoyant) == (cases[0].lru, cases[0].clairvoyant)
    assert case.evaluate(quick, base) == cases[0].evaluate(quick, base)


def test_the_outcome_is_that_of_the_online_simulation(
    cases: list[Case], quick: LoopSetting, base: OnlineSettings
) -> None:
    """Shares are gains of the live cache over eager LRU on the measured part, over the clairvoyant's or LRU's cost."""
    case = cases[0]
    outcome = case.evaluate(quick, base)
    config = replace(case.config, store_mode=StoreMode.LAZY)
    live = simulate_online(case.trace, config, case.costs, quick.online(base)).cache.totals(case.start)
    gain_s = live.net_seconds_saved - case.lru.net_seconds_saved
    best_s = case.clairvoyant.net_seconds_saved - case.lru.net_seconds_saved
    assert outcome.closed_frac == pytest.approx(gain_s / best_s)
    assert outcome.saved_frac == pytest.approx(gain_s / case.lru.cost_s)
    assert outcome.stored_bytes == live.stored_bytes
    assert outcome.closed_frac != 0.0


def test_what_clients_told_counts(cases: list[Case], quick: LoopSetting, base: OnlineSettings) -> None:
    """A hint that knows which requests are continued is learned, and closes more of the gap than without it."""
    case = cases[0]
    ids, offsets = case.trace.block_ids, case.trace.block_offsets
    last_use = np.full(case.trace.n_blocks, -1)
    last_use[ids] = np.repeat(np.arange(case.trace.n_requests), np.diff(offsets))
    goes_on = last_use[ids[offsets[1:] - 1]] > np.arange(case.trace.n_requests)
    told = TraceHints.of([RequestHints(session_end=int(not on)) for on in goes_on])
    hinted = replace(case, trace=replace(case.trace, hints=told))
    assert hinted.evaluate(quick, base).shadow_frac > case.evaluate(quick, base).shadow_frac + 0.01


def test_the_store_mode_is_the_settings(cases: list[Case], quick: LoopSetting, base: OnlineSettings) -> None:
    """Another store mode is another outcome."""
    modes = [cases[0].evaluate(quick.model_copy(update={"store_mode": mode}), base) for mode in StoreMode]
    assert len({outcome.stored_bytes for outcome in modes}) == len(modes)


def test_too_few_requests_are_refused(storm: Trace, engines: Engines) -> None:
    """A part with next to nothing in it judges nothing."""
    with pytest.raises(SearchError, match=r"measures at least 20 requests.*of storm"):
        cases_of("storm", storm, engines, (0.5, 0.501))


def test_a_case_without_anything_to_gain_is_refused(storm: Trace, engines: Engines) -> None:
    """Where the tiers hold everything, there is no gap to close."""
    roomy = replace(engines, cells=((1.0, Timing.INSTANT),))
    with pytest.raises(SearchError, match=r"needs something to gain.*storm 1e\+02 % instant"):
        cases_of("storm", storm, roomy, (0.2, 0.6))


def test_cheap_cases_come_first(cases: list[Case], storm: Trace, engines: Engines) -> None:
    """Cases with fewer accesses come first, whatever order they are given in."""
    shorter = cases_of("shorter", storm, engines, (0.2, 0.6))
    ordered = cheapest_first([*cases, *shorter])
    assert [case.name.split()[0] for case in ordered] == ["shorter", "shorter", "storm", "storm"]


def test_judging_averages_over_cases_and_seeds(cases: list[Case], quick: LoopSetting, base: OnlineSettings) -> None:
    """A judged setting has the means of its outcomes, and the spread over the seeds of the loop."""
    seeds = (1, 2)
    judged, twin = judge({"quick": quick, "twin": quick.model_copy()}, cases, base, seeds)
    outcomes = [[case.evaluate(quick, replace(base, seed=seed)) for case in cases] for seed in seeds]
    closed = [[outcome.closed_frac for outcome in row] for row in outcomes]
    assert (judged.name, twin) == ("quick", replace(judged, name="twin"))
    assert judged.closed_frac == pytest.approx(sum(map(sum, closed)) / 4)
    assert judged.by_case == pytest.approx([(a + b) / 2 for a, b in zip(*closed, strict=True)])
    assert judged.worst_saved_frac == min(outcome.saved_frac for row in outcomes for outcome in row)
    assert judged.seed_frac == pytest.approx(abs(sum(closed[0]) - sum(closed[1])) / 4)


def test_a_share_weighs_the_shadow_in(cases: list[Case], quick: LoopSetting, base: OnlineSettings) -> None:
    """Weight 0 is what the live cache closed, 1 what its unguarded shadow did, and both differ here."""
    outcome = cases[0].evaluate(quick, base)
    assert outcome.closed_frac != outcome.shadow_frac
    assert [outcome.share(weight) for weight in (0.0, 1.0)] == [outcome.closed_frac, outcome.shadow_frac]
    assert outcome.share(0.25) == pytest.approx(0.75 * outcome.closed_frac + 0.25 * outcome.shadow_frac)
