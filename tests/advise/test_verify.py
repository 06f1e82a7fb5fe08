"""A promise is checked by running it again, on the requests that it was made for or on others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune import api
from autotune.advise.verify import Verification, verify
from autotune.core.errors import PolicyError, SimulationError, TraceError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import (
    Expectation,
    GainFrac,
    PolicyDocument,
    Provenance,
    RankDocument,
    SimulationFacts,
    TraceSource,
)
from autotune.core.settings import SearchSettings, Settings, SimulationSettings
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, Timing
from autotune.search.knob import Knob
from autotune.search.space import SearchSpace, load_space
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.testing.documents import example_document

FIGURES = ("cost_baseline_s", "cost_policy_s", "net_seconds_saved_baseline", "net_seconds_saved_policy", "gain_frac")


@pytest.fixture(scope="module")
def sample() -> Trace:
    """The bundled conversation trace."""
    return Trace.open("sample:conversation")


@pytest.fixture(scope="module")
def promise(sample: Trace) -> RankDocument:
    """A rank rule on the host, judged on the last 40 % of the sample by hand-made engines."""
    document = example_document()
    knobs = document.rank.host
    assert knobs is not None
    rule = PolicySpec.of(
        "rank",
        lambda_recency=0.25,
        tau_s=600.0,
        half_life_s=0.0,
        cost_weight=0.5,
        ghost_ratio=1.0,
        admission=1.0,
    )
    lru = CacheConfig(device_blocks=640, host_blocks=2560, itl_s=0.008)
    costs = document.costs.profile()
    start = sample.first_request_at(sample.arrival_s[0] + 0.6 * sample.span_s)
    baseline, policy = (
        simulate_cache(sample, engine, costs).totals(start) for engine in (lru, replace(lru, host_policy=rule))
    )
    gain = (baseline.cost_s - policy.cost_s) / baseline.cost_s
    expectation = Expectation(
        cost_baseline_s=baseline.cost_s,
        cost_policy_s=policy.cost_s,
        gain_frac=GainFrac(value=gain, low=gain - 0.01, high=gain + 0.01),
        confidence=0.9,
        net_seconds_saved_baseline=baseline.net_seconds_saved,
        net_seconds_saved_policy=policy.net_seconds_saved,
        measured_on="the last 40 % of the time",
    )
    simulation = SimulationFacts(
        timing=Timing.INSTANT,
        full_blocks=False,
        device_blocks=640,
        host_blocks=2560,
        measure_from_frac=0.6,
        itl_s=0.008,
    )
    provenance = Provenance(
        tool_version="0.1.0",
        trace=TraceSource.of(sample),
        seed=0,
        sampler="tpe",
        trials=1,
        train_frac=0.6,
        simulation=simulation,
    )
    return document.model_copy(update={"expectation": expectation, "provenance": provenance})


def with_gain(document: PolicyDocument, low: float) -> PolicyDocument:
    """The same document, its lower bound moved."""
    assert document.expectation
    gain = document.expectation.gain_frac.model_copy(update={"low": low, "high": 1.0})
    return document.model_copy(update={"expectation": document.expectation.model_copy(update={"gain_frac": gain})})


def with_expectation(document: PolicyDocument, name: str, value: object) -> PolicyDocument:
    """The same document with one other figure in its promise."""
    assert document.expectation
    return document.model_copy(update={"expectation": document.expectation.model_copy(update={name: value})})


def figures(outcome: Verification) -> dict[str, bool]:
    """Which figures agree, by name."""
    return {figure.name: figure.agrees for figure in outcome.figures}


def test_promise_on_a_sample_holds_without_a_trace(promise: RankDocument) -> None:
    """The bundled sample is found by its hash, and every figure comes out as engines made by hand gave it."""
    outcome = verify(promise)
    assert outcome.holds
    assert outcome.same_requests
    assert outcome.differences == ()
    assert outcome.trace_files == ("conversation",)
    assert outcome.requests == 3100
    assert tuple(figures(outcome)) == FIGURES
    assert all(figures(outcome).values())
    assert outcome.gain_frac > 0.0


def test_the_engine_of_the_promise_is_simulated(sample: Trace) -> None:
    """A policy that was tuned by the rules of vLLM is verified by them, and fails by others."""
    settings = Settings(
        search=SearchSettings(trials=4, random_search=False),
        simulation=SimulationSettings(engine=EngineSemantics.VLLM_0_32),
    )
    document = api.tune(sample, device_blocks=640, host_blocks=2560, settings=settings).document
    assert document.provenance
    facts = document.provenance.simulation
    assert (facts.engine, facts.full_blocks) == (EngineSemantics.VLLM_0_32, True)
    assert verify(document).holds
    other = facts.model_copy(update={"engine": EngineSemantics.CANONICAL})
    provenance = document.provenance.model_copy(update={"simulation": other})
    assert not verify(document.model_copy(update={"provenance": provenance})).holds


def test_sample_is_found_by_hash_whatever_it_is_called(promise: RankDocument, sample: Trace) -> None:
    """A policy judged on a file of the same content under another name is verified on the bundled sample."""
    assert promise.provenance
    source = promise.provenance.trace.model_copy(update={"format": "mooncake", "paths": ("mine.jsonl",)})
    renamed = promise.model_copy(update={"provenance": promise.provenance.model_copy(update={"trace": source})})
    assert verify(renamed).holds
    assert verify(renamed, sample).same_requests


@pytest.mark.parametrize("name", ["cost_baseline_s", "cost_policy_s", "net_seconds_saved_policy"])
def test_altered_figure_breaks_the_promise(name: str, promise: RankDocument, sample: Trace) -> None:
    """One figure that is off by a millionth is found, and only that one."""
    assert promise.expectation
    altered = with_expectation(promise, name, getattr(promise.expectation, name) * (1 + 1e-6))
    outcome = verify(altered, sample)
    assert not outcome.holds
    assert [figure for figure, agrees in figures(outcome).items() if not agrees] == [name]


def test_altered_knob_breaks_the_promise(promise: RankDocument, sample: Trace) -> None:
    """Another λ than was judged gives other costs for the policy, and the same for LRU."""
    assert promise.rank.host
    knobs = promise.rank.host.model_copy(update={"lambda_recency": 0.9})
    altered = promise.model_copy(update={"rank": promise.rank.model_copy(update={"host": knobs})})
    outcome = verify(altered, sample)
    assert not outcome.holds
    assert figures(outcome)["cost_baseline_s"]
    assert not figures(outcome)["cost_policy_s"]


def test_costs_are_those_of_the_document(promise: RankDocument, sample: Trace) -> None:
    """Dearer prefill in the document changes what is measured: no hardware profile is looked at."""
    costs = promise.costs.model_copy(update={"prefill_linear_s_per_token": 1e-4})
    outcome = verify(promise.model_copy(update={"costs": costs}), sample)
    assert outcome.figures[0].measured > 1.5 * outcome.figures[0].promised


def test_other_requests_are_compared_with_the_bounds(promise: RankDocument) -> None:
    """On other requests the figures differ, the label says so, and the lower bound decides."""
    other = Trace.open("sample:synthetic")
    reached = verify(with_gain(promise, -0.5), other)
    missed = verify(with_gain(promise, 0.9), other)
    assert reached.holds
    assert not missed.holds
    assert not reached.same_requests
    assert not any(figures(reached).values())
    assert [text.partition(":")[0] for text in reached.differences] == ["sha256 of the content", "requests"]


def test_part_of_the_requests_is_not_the_same(promise: RankDocument, sample: Trace) -> None:
    """The same file, but only half of its requests, counts as other requests."""
    outcome = verify(with_gain(promise, -0.5), sample.slice(0, 3000))
    assert [text.partition(":")[0] for text in outcome.differences] == ["requests"]


def test_without_a_promise_nothing_is_verified(promise: RankDocument) -> None:
    """A document without expectation or provenance is refused, and the missing section named."""
    with pytest.raises(PolicyError, match="none of expectation and provenance"):
        verify(example_document())
    with pytest.raises(PolicyError, match="none of provenance;"):
        verify(promise.model_copy(update={"provenance": None}))


def test_missing_requests_are_named(promise: RankDocument) -> None:
    """Where no bundled trace has the content, the error names format, files, hash and options."""
    assert promise.provenance
    source = promise.provenance.trace.model_copy(
        update={"format": "azure", "paths": ("a.csv", "b.csv", "c.csv", "d.csv"), "sha256": "ab" * 32}
    )
    document = promise.model_copy(update={"provenance": promise.provenance.model_copy(update={"trace": source})})
    with pytest.raises(TraceError, match=r"--trace azure:PATH for a\.csv, b\.csv, c\.csv and 1 more") as caught:
        verify(document)
    assert "ab" * 32 in str(caught.value)


def test_empty_trace_is_refused(promise: RankDocument, sample: Trace) -> None:
    """There must be a request to count."""
    with pytest.raises(SimulationError, match="requests to count"):
        verify(promise, sample.slice(0, 0))


def tuned(
    trace: Trace, space: SearchSpace | None = None, device_policy: str = "lru", tier_blocks: int = 400
) -> PolicyDocument:
    """A quick tuning run on a host as large as the device."""
    settings = Settings(
        search=SearchSettings(trials=8, random_search=False, learned=False),
        simulation=SimulationSettings(device_policy=device_policy),
    )
    return api.tune(trace, device_blocks=tier_blocks, host_blocks=tier_blocks, settings=settings, space=space).document


def test_tuned_policy_keeps_its_promise(sample: Trace) -> None:
    """What a tuning run promises is what verifying finds, with the device under another policy than LRU too."""
    trace = sample.slice(0, 2500)
    for device_policy in ("lru", "arc"):
        document = tuned(trace, device_policy=device_policy)
        assert document.provenance
        assert document.provenance.simulation.device_policy == (None if device_policy == "lru" else "arc")
        assert verify(document, trace).holds


def test_promise_holds_where_the_search_moved_the_border(sample: Trace) -> None:
    """The baseline keeps the split between device and host that it was given, the policy has its own."""
    trace = sample.slice(0, 2500)
    knobs = {"lambda_recency": Knob(low=0.05, high=0.9), "resident_frac": Knob(value=0.1)}
    document = tuned(trace, load_space().model_copy(update=knobs))
    assert document.kind == "rank"
    assert document.provenance
    facts = document.provenance.simulation
    assert (facts.device_blocks, facts.host_blocks, facts.baseline_device_blocks) == (80, 720, 400)
    assert verify(document, trace).holds


def test_promise_of_lru_with_other_knobs_holds(sample: Trace) -> None:
    """Where only the border moved and LRU stays the rule, LRU on the old split is still the baseline."""
    trace = sample.slice(0, 4000)
    knobs = {"lambda_recency": Knob(value=1.0), "resident_frac": Knob(value=0.1)}
    document = tuned(trace, load_space().model_copy(update=knobs), tier_blocks=3000)
    assert document.kind == "lru"
    outcome = verify(document, trace)
    assert outcome.holds
    assert outcome.gain_frac > 0.0
