"""The past chooses, the future judges, and LRU stays where nothing is gained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.api import cost_profile
from autotune.core.errors import SearchError
from autotune.core.settings import ValidationSettings
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.search.choice import Goal, Judged, Split, choose, decide, gain_of, split_in_time
from autotune.search.objectives.constraints import Constraint
from autotune.search.objectives.net_seconds import NetSeconds
from autotune.search.problem import MIN_REQUESTS, Evaluation, Problem
from autotune.search.result import NO_GAIN, Interval, TrialRow
from autotune.search.setting import LRU_SETTING, Setting
from autotune.search.space import load_space
from autotune.search.study import StudyPlan, best_of, run_study
from autotune.sim.config import CacheConfig
from autotune.testing.streams import Ask, make_trace

RULES = ValidationSettings(bootstrap_samples=500)
GOAL = Goal(NetSeconds(), (), 0.002)
PAST = "no setting beat LRU on the past by more than the noise"
FUTURE = "what gained on the past did not gain on the held-out part by more than the noise"
LITTLE = "the gain is below 0.2 % of LRU's cost, too little to change anything"
PUBLISH = "it beat LRU on the past and on the held-out part by more than the noise"


def search(problem: Problem, seed: int = 0) -> list[TrialRow]:
    """A short search."""
    return run_study(problem, load_space(), NetSeconds(), StudyPlan(trials=12, seed=seed))


@pytest.mark.parametrize(
    ("past", "held_out", "reason"),
    [
        (Interval(0.10, 0.05, 0.15), Interval(0.04, 0.01, 0.07), PUBLISH),
        (Interval(0.10, -0.01, 0.15), Interval(0.04, 0.01, 0.07), PAST),
        (NO_GAIN, Interval(0.04, 0.01, 0.07), PAST),
        (Interval(0.10, 0.05, 0.15), Interval(0.04, 0.0, 0.07), FUTURE),
        (Interval(0.10, 0.05, 0.15), Interval(-0.04, -0.07, -0.01), FUTURE),
        (Interval(-0.10, -0.15, -0.05), Interval(-0.04, -0.07, -0.01), PAST),
        (Interval(0.10, 0.05, 0.15), Interval(0.0019, 0.001, 0.003), LITTLE),
        (Interval(0.0019, 0.001, 0.003), Interval(0.10, 0.05, 0.15), LITTLE),
        (Interval(0.002, 0.001, 0.003), Interval(0.002, 0.001, 0.003), PUBLISH),
    ],
)
def test_only_a_gain_on_both_sides_is_published(past: Interval, held_out: Interval, reason: str) -> None:
    """Past and future must both gain beyond their noise, and by more than a trifle; the reason says which did not."""
    verdict = decide(past, held_out, 0.002)
    assert verdict.reason == reason
    assert verdict.publish == (reason == PUBLISH)


def test_the_split_is_in_time(with_host: Problem, split: Split) -> None:
    """All requests before 60 % of the time are the past, all others are held out."""
    arrival_s = with_host.trace.arrival_s
    start, stop = split.held_out
    assert split.fit_until_s == pytest.approx(0.6 * with_host.trace.span_s)
    assert split.past.trace.n_requests == start
    assert stop == with_host.trace.n_requests
    assert arrival_s[start - 1] < split.fit_until_s <= arrival_s[start]
    assert split.whole is with_host


def test_the_first_tenth_warms_up(split: Split) -> None:
    """On the past all requests count but those of the first tenth of its time, which fill the caches."""
    past = split.past
    start, stop = past.warm
    assert past.trace.arrival_s[start - 1] < 0.1 * past.trace.span_s <= past.trace.arrival_s[start]
    assert stop == past.trace.n_requests
    assert past.baseline.measured == (start, stop)


@pytest.mark.parametrize(("n_requests", "train_frac"), [(MIN_REQUESTS, 0.5), (60, 0.2), (60, 0.8)])
def test_too_short_a_trace_is_refused(n_requests: int, train_frac: float) -> None:
    """Fewer than 20 requests before or after the split are an error that says what to do."""
    trace = make_trace([Ask(float(i), [i]) for i in range(n_requests)])
    problem = Problem(trace, CacheConfig(2), cost_profile()[1], Tier.DEVICE)
    with pytest.raises(SearchError, match=r"needs at least 20 requests .*give a longer trace"):
        split_in_time(problem, train_frac)


def test_just_enough_requests_are_split() -> None:
    """Twenty requests on either side of the split are enough."""
    trace = make_trace([Ask(float(i), [i]) for i in range(40)])
    split = split_in_time(Problem(trace, CacheConfig(2), cost_profile()[1], Tier.DEVICE), 0.5)
    assert split.held_out == (20, 40)


def test_the_future_does_not_choose(chat: Trace, with_host: Problem) -> None:
    """With other requests after the split, the same settings are tried on the past and the same one is chosen."""
    start, stop = split_in_time(with_host, 0.6).held_out
    first = int(chat.block_offsets[start])
    shuffled = chat.block_ids.copy()
    np.random.default_rng(0).shuffle(shuffled[first:])
    tokens = chat.input_tokens.copy()
    tokens[start:stop] //= 2
    other = replace(with_host, trace=replace(chat, block_ids=shuffled, input_tokens=tokens))
    splits = [split_in_time(problem, 0.6) for problem in (with_host, other)]
    rows = [search(split.past) for split in splits]
    assert rows[0] == rows[1]
    judged = [split.judge(best_of(rows[0]).setting) for split in splits]
    assert judged[0].setting == judged[1].setting
    assert judged[0].engine == judged[1].engine
    assert judged[0].evaluation.totals.cost_s != judged[1].evaluation.totals.cost_s


def test_scales_are_frozen_on_the_past(split: Split, ranked: Setting) -> None:
    """A setting is judged with the turnover that the past had, not that of the whole trace."""
    past_s, whole_s = split.past.turnover_s(), split.whole.turnover_s()
    assert past_s != whole_s
    assert split.judge(ranked).engine.host_policy == ranked.policy_spec(past_s)


def test_judging_counts_the_held_out_part_after_a_warm_up(split: Split) -> None:
    """LRU's cost on the held-out part is that of its requests in a simulation of the whole trace."""
    judged = split.judge(LRU_SETTING)
    whole = split.whole.evaluate(LRU_SETTING, (0, split.whole.trace.n_requests))
    assert judged.evaluation.measured == split.held_out
    np.testing.assert_array_equal(judged.evaluation.cache.cost_s(), whole.cache.cost_s())
    assert judged.evaluation.totals.cost_s == pytest.approx(float(whole.cache.cost_s()[split.held_out[0] :].sum()))


def nothing_comes_back(n_requests: int) -> Trace:
    """Requests of which every block is new."""
    return make_trace([Ask(float(i), [3 * i, 3 * i + 1, 3 * i + 2]) for i in range(n_requests)], 512)


def all_equally_likely(seed: int) -> Trace:
    """Requests for one of 200 blocks, each as likely as any other at any time, so that no history tells the future."""
    draws = np.random.default_rng(seed).integers(0, 200, 3000)
    return make_trace([Ask(float(i), [int(block)]) for i, block in enumerate(draws)], 512)


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(nothing_comes_back(200), id="nothing comes back"),
        pytest.param(make_trace([Ask(float(i), [i % 5]) for i in range(200)], 512), id="everything fits"),
        *(pytest.param(all_equally_likely(seed), id=f"equally likely {seed}") for seed in range(3)),
    ],
)
def test_where_nothing_helps_lru_stays(trace: Trace) -> None:
    """A trace from which there is nothing to learn ends with LRU, whatever the best trial was."""
    split = split_in_time(Problem(trace, CacheConfig(100), cost_profile()[1], Tier.DEVICE), 0.6)
    lru, best = split.judge(LRU_SETTING), split.judge(best_of(search(split.past)).setting)
    judged, verdict = choose(split, best, lru, GOAL, RULES, 0)
    assert judged is lru
    assert judged.gain_frac == NO_GAIN
    assert not verdict.publish


def often_and_once(n_requests: int) -> Trace:
    """Two of three requests ask for one of 20 blocks in turn, the third for a block that never comes back."""
    blocks = [(2 * (i // 3) + i % 3) % 20 if i % 3 else 1000 + i for i in range(n_requests)]
    return make_trace([Ask(float(i), [block]) for i, block in enumerate(blocks)], 512)


@pytest.fixture(scope="module")
def learnable() -> Split:
    """A problem that frequency solves: there is room for all that comes back, but LRU fills it with what does not."""
    return split_in_time(Problem(often_and_once(1500), CacheConfig(25), cost_profile()[1], Tier.DEVICE), 0.6)


def judge_both(split: Split) -> tuple[Judged, Judged]:
    """A setting that looks at frequency alone, and LRU."""
    return split.judge(Setting(lambda_recency=0.05, tau_turnovers=2.0)), split.judge(LRU_SETTING)


def test_where_something_helps_it_is_published(learnable: Split) -> None:
    """A real gain is published with its bounds."""
    best, lru = judge_both(learnable)
    judged, verdict = choose(learnable, best, lru, GOAL, RULES, 0)
    assert verdict.publish
    assert judged.setting == best.setting
    assert judged.gain_frac == gain_of(best.evaluation, lru.evaluation, RULES, 0)
    assert 0.0 < judged.gain_frac.low <= judged.gain_frac.value
    saved = 1.0 - best.evaluation.totals.cost_s / lru.evaluation.totals.cost_s
    assert judged.gain_frac.value == pytest.approx(saved)


def test_a_gain_that_ends_with_the_past_is_not_published(learnable: Split) -> None:
    """Where the future has nothing to gain any more, the gain on the past counts for nothing."""
    trace = learnable.whole.trace
    first = learnable.held_out[0]
    ids = trace.block_ids.copy()
    ids[first:] = np.arange(len(ids) - first) + trace.n_blocks
    ended = replace(learnable.whole, trace=replace(trace, block_ids=ids, n_blocks=int(ids.max()) + 1))
    split = split_in_time(ended, 0.6)
    best, lru = judge_both(split)
    judged, verdict = choose(split, best, lru, GOAL, RULES, 0)
    assert (judged, verdict.reason) == (lru, FUTURE)


def broken(evaluation: Evaluation, baseline: Evaluation) -> float:
    """A limit that everything breaks."""
    return 0.5


def kept(evaluation: Evaluation, baseline: Evaluation) -> float:
    """A limit that everything keeps."""
    return 0.0


@pytest.mark.parametrize(("limits", "publish"), [((kept,), True), ((kept, broken), False)])
def test_a_limit_must_hold_in_the_future(learnable: Split, limits: tuple[Constraint, ...], publish: bool) -> None:
    """What breaks a limit on the held-out part is not published, however much it gains."""
    best, lru = judge_both(learnable)
    judged, verdict = choose(learnable, best, lru, replace(GOAL, constraints=limits), RULES, 0)
    assert verdict.publish == publish
    assert (judged is lru) == (not publish)
    assert ("broke a limit" in verdict.reason) == (not publish)


def test_the_objective_must_improve_too(learnable: Split) -> None:
    """What saves seconds but does not improve the objective is not published."""
    best, lru = judge_both(learnable)
    cautious = replace(GOAL, objective=NetSeconds(risk=1e6, n_windows=37))
    judged, verdict = choose(learnable, best, lru, cautious, RULES, 0)
    assert judged is lru
    assert verdict.reason == "the objective net_seconds did not improve on the held-out part"
