"""``autotune.tune``: what it promises comes true, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import autotune
from autotune.api import Budget, Policy, simulate, tune
from autotune.core.errors import AutotuneError, ConfigError, SearchError, SimulationError, TraceError, UnknownNameError
from autotune.core.policy import parse
from autotune.core.settings import Settings
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, StoreMode, Timing
from autotune.search.knob import Knob
from autotune.search.result import TuneResult
from autotune.search.space import load_space
from autotune.testing.streams import Ask, make_trace

SIZES = {"device_blocks": 300, "host_blocks": 1500}


def settings(trials: int = 8, **sections: dict[str, Any]) -> Settings:
    """Settings for a short search, without random search beside it."""
    search = {"trials": trials, "random_search": False} | sections.pop("search", {})
    return Settings.model_validate({"search": search, **sections})


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The first 1,500 requests of the conversation sample."""
    return Trace.open("sample:conversation").slice(0, 1500)


@pytest.fixture(scope="module")
def tuned(trace: Trace) -> TuneResult:
    """A run on a device and a host, in which the rank rule wins."""
    return autotune.tune(trace, **SIZES, settings=settings(12))  # type: ignore[arg-type]


def measured_again(result: TuneResult, trace: Trace, **modes: Any) -> float:
    """Cost of the published policy, written as text, read back and simulated on what was held out."""
    policy = Policy(parse(Policy(result.document).to_yaml()))
    assert result.document.provenance
    from_s = result.document.provenance.simulation.measure_from_frac * trace.span_s
    return simulate(trace, policy, measure_from_s=from_s, **modes).totals.cost_s


def test_the_promise_comes_true(tuned: TuneResult, trace: Trace) -> None:
    """The policy file, simulated again, costs exactly what its expectation says, and less than LRU."""
    promise = tuned.document.expectation
    assert promise
    assert tuned.chosen == tuned.document.kind == "rank"
    assert measured_again(tuned, trace) == promise.cost_policy_s
    lru = simulate(trace, "lru", **SIZES, measure_from_s=0.6 * trace.span_s)  # type: ignore[arg-type]
    assert lru.totals.cost_s == promise.cost_baseline_s > promise.cost_policy_s
    gain = (promise.cost_baseline_s - promise.cost_policy_s) / promise.cost_baseline_s
    assert promise.gain_frac.value == pytest.approx(gain)


@pytest.mark.parametrize(
    ("sizes", "simulation"),
    [
        ({"device_blocks": 1000}, {}),
        ({"device_blocks": 300, "host_blocks": 1500}, {"store_mode": StoreMode.LAZY, "full_blocks": True}),
        ({"device_blocks": 300, "host_blocks": 1500}, {"store_mode": StoreMode.EXCLUSIVE}),
        ({"device_blocks": 500, "host_blocks": 1500}, {"timing": Timing.SERVICE}),
        ({"device_blocks": 300, "host_blocks": 1500}, {"engine": EngineSemantics.VLLM_0_32}),
    ],
)
def test_the_promise_comes_true_in_every_mode(trace: Trace, sizes: dict[str, int], simulation: dict[str, Any]) -> None:
    """Whatever the tiers and modes, simulating the file under the same modes gives the promised cost."""
    result = tune(trace, **sizes, settings=settings(simulation=simulation))  # type: ignore[arg-type]
    modes = {name: value for name, value in simulation.items() if name != "store_mode"}
    assert result.document.expectation
    assert measured_again(result, trace, **modes) == result.document.expectation.cost_policy_s


def test_every_knob_of_the_full_space_arrives_in_the_file(trace: Trace) -> None:
    """Split, admission, load length and chunks found in the full space are in the file: it costs what it promises."""
    result = tune(
        trace,
        budget=Budget(device_blocks=300, host_blocks=1500, disk_blocks=2000),
        settings=settings(24),
        space=load_space("full"),
    )
    assert result.document.expectation
    assert measured_again(result, trace) == result.document.expectation.cost_policy_s
    assert result.trials[0].setting.changes_nothing
    assert result.trials[0].value == 0.0
    assert sum(result.budgets_bytes) == 3800 * 64 * 2**20
    if result.setting.resident_frac is not None:
        assert result.sizes.device_blocks == round(1800 * result.setting.resident_frac)


def test_another_split_alone_may_be_the_answer(trace: Trace) -> None:
    """Where only the split moves, the answer is LRU with other budgets, and says so."""
    knobs = {"lambda_recency": Knob(value=1.0), "resident_frac": Knob(low=0.05, high=0.95)}
    space = load_space().model_copy(update=knobs)
    given = settings(10, search={"learned": False})
    result = tune(trace, device_blocks=40, host_blocks=1760, settings=given, space=space)
    assert result.document.kind == "lru"
    if result.chosen == "tuned lru":
        assert result.setting.resident_frac is not None
        assert result.document.budgets.device_bytes != 40 * 64 * 2**20
        assert result.gain_frac.low > 0.0
        assert "saves" in result.verdict
    assert result.document.expectation
    assert measured_again(result, trace) == result.document.expectation.cost_policy_s


def test_latencies_of_a_stable_load_are_reported(trace: Trace) -> None:
    """With enough servers every policy has its latencies, and the file names the servers."""
    result = tune(
        trace,
        **SIZES,  # type: ignore[arg-type]
        settings=settings(6, queue={"servers": 8, "prefetch_depth": 2}, search={"objective": "ttft_p95"}),
        constraints=("ttft_p99",),
    )
    assert all(row.ttft_p95_s is not None and row.goodput_frac is not None for row in result.rows)
    assert result.document.provenance
    facts = result.document.provenance.simulation
    assert (facts.servers, facts.time_scale, facts.prefetch_depth) == (8, 1.0, 2)
    assert "8 prefill servers" in result.ttft_note


def test_without_a_stable_load_nothing_is_said_about_latency(tuned: TuneResult) -> None:
    """One server cannot carry this load: no latencies, the reason is noted, and the file names no servers."""
    assert all(row.ttft_p95_s is None for row in tuned.rows)
    assert tuned.ttft_note.startswith("TTFT is not reported")
    assert tuned.document.provenance
    assert tuned.document.provenance.simulation.servers is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"device_blocks": None}, ConfigError),
        ({"device_blocks": -1}, SimulationError),
        ({"settings": settings(search={"objective": "beauty"})}, UnknownNameError),
        ({"constraints": ("beauty",)}, SearchError),
        ({"constraints": ("ttft_p99",)}, SimulationError),
        ({"require_ttft": True}, SimulationError),
        ({"preset": "chart"}, SearchError),
        ({"model": "gpt-9"}, ConfigError),
        ({"settings": settings(search={"train_frac": 0.001})}, SearchError),
        ({"settings": settings(search={"train_frac": 0.999})}, SearchError),
        ({"settings": settings(simulation={"device_policy": "lruu"})}, UnknownNameError),
        ({"storage": "sqlite:////no/such/folder/study.db"}, SearchError),
    ],
)
def test_bad_input_is_refused(trace: Trace, arguments: dict[str, Any], error: type[AutotuneError]) -> None:
    """Whatever is wrong is an error of this project."""
    with pytest.raises(error):
        tune(trace, **({"settings": settings(), **SIZES} | arguments))  # type: ignore[arg-type]


def test_a_trace_without_time_or_requests_is_refused() -> None:
    """Without a past and a future there is nothing to tune on or to judge by."""
    at_once = make_trace([Ask(0.0, [i % 7]) for i in range(100)])
    with pytest.raises(SearchError, match="in the past"):
        tune(at_once, device_blocks=3, settings=settings())
    with pytest.raises(TraceError, match="needs requests"):
        tune(at_once.slice(0, 0), device_blocks=3, settings=settings())
    with pytest.raises(TraceError, match="which blocks each request touched"):
        tune(replace(at_once, block_tokens=0), device_blocks=3, settings=settings())


def test_a_trace_without_reuse_stays_with_lru() -> None:
    """Where no block ever comes back no setting helps: LRU stays, without a gain, and nothing breaks."""
    trace = make_trace([Ask(float(i), [2 * i, 2 * i + 1]) for i in range(100)])
    result = tune(trace, device_blocks=5, host_blocks=10, settings=settings())
    assert result.chosen == "lru"
    assert result.setting.changes_nothing
    assert (result.gain_frac.value, result.gain_frac.low, result.gain_frac.high) == (0.0, 0.0, 0.0)
    assert result.gap_closed_frac is None
    assert result.importance == ()
    assert result.document.kind == "lru"
    assert result.verdict.startswith("Stay with LRU")


def test_a_trace_without_blocks_in_its_prompts_stays_with_lru() -> None:
    """Prompts shorter than a block leave nothing to cache."""
    trace = make_trace([Ask(float(i), [], input_tokens=3) for i in range(100)])
    assert tune(trace, device_blocks=5, settings=settings()).chosen == "lru"
