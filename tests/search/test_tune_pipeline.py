"""A tuning run from a trace to everything that the report shows."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from autotune.api import Policy, simulate, tune
from autotune.core import policy as documents
from autotune.core.errors import ConfigError, SearchError, SimulationError, TraceError, UnknownNameError
from autotune.core.settings import QueueSettings, SearchSettings, Settings
from autotune.core.trace import Trace
from autotune.export import render
from autotune.search.choice import Split
from autotune.search.presets import load_preset
from autotune.search.result import NO_GAIN, TuneResult
from autotune.search.setting import LRU_SETTING, Setting
from autotune.search.space import load_space
from autotune.search.study import best_of
from autotune.testing.streams import Ask, make_trace


def sortable(result: TuneResult) -> TuneResult:
    """The result without the time that the run took."""
    return replace(result, wall_s=0.0)


def test_the_rank_rule_is_chosen(tuned: TuneResult) -> None:
    """On real traffic with a host the search finds a setting that gains on the past and on the future."""
    assert tuned.chosen == tuned.document.kind == "rank"
    assert 0.0 < tuned.gain_frac.low <= tuned.gain_frac.value <= tuned.gain_frac.high
    assert tuned.setting == best_of([row for row in tuned.trials if row.study == "tpe"]).setting
    assert tuned.reason == "it beat LRU on the past and on the held-out part by more than the noise"
    assert tuned.verdict.startswith("The tuned policy saves")


def test_the_result_is_complete(tuned: TuneResult, chat: Trace) -> None:
    """Everything that the report needs is there and fits together."""
    assert tuned.trace.name == "sample:conversation"
    assert (tuned.trace.requests, tuned.trace.accesses) == (chat.n_requests, chat.n_accesses)
    assert tuned.budgets_bytes == (300 * 512 * 131_072, 1500 * 512 * 131_072, 0)
    assert (tuned.sizes.device_blocks, tuned.sizes.host_blocks, tuned.sizes.disk_blocks) == (300, 1500, 0)
    assert tuned.fit_until_s <= tuned.measured_from_s < chat.span_s
    assert [row.name for row in tuned.rows] == [*("lru", "arc", "s3fifo", "tuned", "random search", "clairvoyant")]
    assert len(tuned.curves) == 6
    assert [value.tier for value in tuned.marginal] == ["device", "host"]
    assert sum(window.accesses for window in tuned.windows) == chat.n_accesses
    assert sum(share for _, share in tuned.importance) == pytest.approx(1.0)
    assert tuned.break_even_tokens is not None
    assert len(tuned.assumptions) >= 5
    assert tuned.wall_s > 0.0
    assert tuned.confidence == 0.9


def test_random_search_stands_beside_the_sampler(tuned: TuneResult) -> None:
    """Both searches have the same number of trials, and both begin with LRU."""
    assert [(row.study, row.number) for row in tuned.trials] == [(s, n) for s in ("tpe", "random") for n in range(10)]
    assert all(row.setting == LRU_SETTING for row in tuned.trials if row.number == 0)
    assert tuned.document.provenance is not None
    assert tuned.document.provenance.trials == 10


def test_the_parts_agree(tuned: TuneResult) -> None:
    """Table, promise and gain are the same figures."""
    rows = {row.name: row for row in tuned.rows}
    promise = tuned.document.expectation
    assert promise is not None
    assert (promise.cost_baseline_s, promise.cost_policy_s) == (rows["lru"].cost_s, rows["tuned"].cost_s)
    assert promise.gap_closed_frac == tuned.gap_closed_frac == rows["tuned"].gap_closed_frac
    assert promise.gain_frac.value == tuned.gain_frac.value
    assert tuned.gain_frac.value == pytest.approx(1.0 - rows["tuned"].cost_s / rows["lru"].cost_s)
    knobs = tuned.document.rank.host if tuned.document.rank else None
    assert knobs is not None
    assert (knobs.lambda_recency, knobs.cost_weight) == (tuned.setting.lambda_recency, tuned.setting.cost_weight)


def test_the_published_policy_keeps_its_promise(tuned: TuneResult, chat: Trace) -> None:
    """The policy file simulated from either border of the split costs exactly what it promises."""
    policy = Policy(documents.parse(render(tuned.document)))
    assert policy.document.expectation is not None
    for from_s in (tuned.fit_until_s, tuned.measured_from_s):
        assert simulate(chat, policy, measure_from_s=from_s).totals.cost_s == policy.document.expectation.cost_policy_s
    assert policy.verify(chat).holds


def test_the_same_seed_gives_the_same_result(tuned: TuneResult, chat: Trace, ten_trials: Settings) -> None:
    """A second run differs in its duration only, and writes the same bytes."""
    again = tune(chat, device_blocks=300, host_blocks=1500, settings=ten_trials, trace_name="sample:conversation")
    assert sortable(again) == sortable(tuned)
    assert render(again.document) == render(tuned.document)


def test_workers_do_not_matter(tuned: TuneResult, chat: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers find what one finds."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    settings = Settings(search=SearchSettings(trials=10, workers=2, learned=False))
    again = tune(chat, device_blocks=300, host_blocks=1500, settings=settings, trace_name="sample:conversation")
    assert sortable(again) == sortable(tuned)


def test_another_seed_tries_other_settings(tuned: TuneResult, chat: Trace) -> None:
    """The seed moves the search, and LRU's row and the bound stay where they are."""
    settings = Settings(search=SearchSettings(trials=4, seed=1, random_search=False))
    other = tune(chat, device_blocks=300, host_blocks=1500, settings=settings)
    assert not {row.setting for row in other.trials[1:]} & {row.setting for row in tuned.trials}
    assert (other.rows[0], other.rows[-1]) == (tuned.rows[0], tuned.rows[-1])
    assert "random search" not in {row.name for row in other.rows}


def test_progress_is_reported(chat: Trace) -> None:
    """The callback hears of every trial of both searches, with a best value that never gets worse."""
    heard: list[tuple[str, int, int, float]] = []
    tune(
        chat.slice(0, 600),
        device_blocks=500,
        settings=Settings(search=SearchSettings(trials=4)),
        on_progress=lambda step, done, total, best: heard.append((step, done, total, best)),
    )
    assert [event[:3] for event in heard] == [(f"{s} search", n, 4) for s in ("tpe", "random") for n in (1, 2, 3, 4)]
    for name in ("tpe search", "random search"):
        best = [event[3] for event in heard if event[0] == name]
        assert best[0] == 0.0
        assert all(later <= earlier for earlier, later in pairwise(best))


def test_a_stored_study_is_not_searched_again(chat: Trace, storage: str) -> None:
    """A second run on the same file tries nothing, and ends with the same result as one without a file."""
    part = chat.slice(0, 600)
    heard: list[str] = []
    settings = Settings(search=SearchSettings(trials=4))
    first = tune(part, device_blocks=500, settings=settings, storage=storage)
    again = tune(
        part,
        device_blocks=500,
        settings=settings,
        storage=storage,
        on_progress=lambda step, done, total, best: heard.append(step),
    )
    assert heard == []
    assert sortable(first) == sortable(again) == sortable(tune(part, device_blocks=500, settings=settings))


def test_where_nothing_comes_back_lru_stays() -> None:
    """A trace without reuse ends with LRU's document, no gain and no gap, and shows the best that was found."""
    trace = make_trace([Ask(float(i), [3 * i, 3 * i + 1, 3 * i + 2]) for i in range(200)], 512)
    result = tune(trace, device_blocks=50, settings=Settings(search=SearchSettings(trials=4)))
    assert (result.chosen, result.document.kind) == ("lru", "lru")
    assert result.verdict == "Stay with LRU: no setting beat LRU on the past by more than the noise"
    assert (result.gain_frac, result.gap_closed_frac) == (NO_GAIN, None)
    assert result.setting == LRU_SETTING
    assert result.document.expectation is not None
    assert result.document.expectation.cost_policy_s == result.document.expectation.cost_baseline_s
    assert result.trace.reuse_frac == 0.0
    assert sum(result.trace.gap_counts) == 0


def test_what_was_found_and_not_published_is_shown(chat: Trace) -> None:
    """Where the future does not confirm the best setting, the table has LRU as the tuned policy and it beside."""
    result = tune(chat, device_blocks=1000, host_blocks=4000, settings=Settings(search=SearchSettings(trials=8)))
    assert result.chosen == "lru"
    rows = {row.name: row for row in result.rows}
    assert replace(rows["tuned"], name="lru") == rows["lru"]
    assert rows["best found, not published"].cost_s != rows["lru"].cost_s


def test_a_preset_is_tried_first(chat: Trace) -> None:
    """Trial 1 of both searches is the preset's setting, as near as the space allows."""
    preset = load_preset("chat").setting()
    settings = Settings(search=SearchSettings(trials=2))
    result = tune(chat.slice(0, 600), device_blocks=500, settings=settings, preset="chat")
    tried = [row.setting for row in result.trials if row.number == 1]
    assert [s.lambda_recency for s in tried] == [preset.lambda_recency] * 2
    assert [s.half_life_turnovers for s in tried] == [preset.half_life_turnovers] * 2


def test_the_row_of_random_search_is_its_own(chat: Trace, split: Split) -> None:
    """The row shows the best setting that random search found, judged like the sampler's."""
    settings = Settings(search=SearchSettings(trials=6, sampler="cmaes"))
    result = tune(chat, device_blocks=300, host_blocks=1500, settings=settings)
    best = {name: best_of([row for row in result.trials if row.study == name]) for name in ("cmaes", "random")}
    assert best["cmaes"].setting != best["random"].setting
    row = next(row for row in result.rows if row.name == "random search")
    assert row.cost_s == split.judge(best["random"].setting).evaluation.totals.cost_s


@pytest.mark.parametrize("objective", ["ttft_p95", "goodput", "weighted"])
def test_latency_objectives_run(objective: str, chat: Trace) -> None:
    """With servers enough every objective on latency is searched, and rows have latencies."""
    settings = Settings(
        search=SearchSettings(trials=4, objective=objective, random_search=False), queue=QueueSettings(servers=4)
    )
    result = tune(chat.slice(0, 600), device_blocks=500, settings=settings, constraints=("ttft_p99",))
    assert all(row.ttft_p95_s is not None for row in result.rows)
    assert result.trials[0].value == 0.0
    assert result.ttft_note.startswith("TTFT under a load of")


def test_latency_under_too_much_load_is_refused(chat: Trace) -> None:
    """An objective or a limit on latency needs a load that LRU can carry; net seconds does without."""
    one = Settings(search=SearchSettings(trials=2, objective="ttft_p95"))
    with pytest.raises(SimulationError, match=r"only under a stable load.*--servers"):
        tune(chat, device_blocks=500, settings=one)
    with pytest.raises(SimulationError, match="only under a stable load"):
        tune(chat, device_blocks=500, constraints=("ttft_p99",))
    result = tune(chat.slice(0, 600), device_blocks=500, settings=Settings(search=SearchSettings(trials=2)))
    assert result.rows[0].ttft_p95_s is None
    assert result.ttft_note.startswith("TTFT is not reported")


def test_the_full_space_is_tuned(chat: Trace) -> None:
    """All knobs move, and the promise holds all the same."""
    settings = Settings(search=SearchSettings(trials=12, random_search=False))
    result = tune(chat, device_blocks=300, host_blocks=1500, settings=settings, space=load_space("full"))
    assert len({row.setting.resident_frac for row in result.trials}) > 2
    assert result.document.expectation is not None
    again = simulate(chat, Policy(result.document), measure_from_s=result.fit_until_s)
    assert again.totals.cost_s == result.document.expectation.cost_policy_s
    assert Policy(result.document).verify(chat).holds


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ConfigError, "the size of the device's KV cache must be given"),
        ({"device_blocks": 10, "model": "lama"}, ConfigError, "lama"),
        ({"device_blocks": 10, "constraints": ("ttft",)}, SearchError, "a constraint is known by name"),
        ({"device_blocks": 10, "preset": "chart"}, SearchError, "a preset is known by name"),
        (
            {"device_blocks": 10, "settings": Settings(search=SearchSettings(objective="net_second"))},
            UnknownNameError,
            "did you mean 'net_seconds'",
        ),
    ],
)
def test_wrong_input_is_one_line(
    arguments: dict[str, object], error: type[Exception], message: str, chat: Trace
) -> None:
    """What is missing or unknown is refused before anything is searched."""
    with pytest.raises(error, match=message) as caught:
        tune(chat, **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_too_short_a_trace_is_refused(chat: Trace) -> None:
    """Thirty requests are not enough to tune on and to judge by."""
    with pytest.raises(SearchError, match="needs at least 20 requests"):
        tune(chat.slice(0, 30), device_blocks=10)


def test_a_trace_without_requests_is_refused(chat: Trace) -> None:
    """Nothing to tune on is an error of the trace."""
    with pytest.raises(TraceError, match="needs requests"):
        tune(chat.slice(0, 0), device_blocks=10)


def test_a_part_of_a_trace_keeps_its_promise(chat: Trace) -> None:
    """A slice from the middle, whose time does not begin at 0, is tuned and verified like any other."""
    part = chat.slice(400, 1500)
    result = tune(part, device_blocks=300, host_blocks=1500, settings=Settings(search=SearchSettings(trials=6)))
    assert result.document.expectation is not None
    for from_s in (result.fit_until_s, result.measured_from_s):
        again = simulate(part, Policy(result.document), measure_from_s=from_s)
        assert again.totals.cost_s == result.document.expectation.cost_policy_s


def test_the_split_of_a_run_is_that_of_its_settings(split: Split, tuned: TuneResult) -> None:
    """The border between past and future is 60 % of the time, and measuring begins with the next request."""
    assert tuned.fit_until_s == split.fit_until_s
    first = split.whole.trace.arrival_s[split.held_out[0]]
    assert tuned.measured_from_s == float(first - split.whole.trace.arrival_s[0])
    assert tuned.setting != Setting()
    assert np.isfinite(tuned.gain_frac.value)
