"""Which technique answers which pressure, by the rules that are documented."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.advise.advice import Answer, Pressure, advise
from autotune.advise.prefix import Divergence, Grade
from autotune.advise.pressure import Observations, observe, running_tokens
from autotune.advise.techniques import rule_of, rules
from autotune.core.errors import SimulationError
from autotune.core.trace import Trace
from autotune.core.units import GIB
from autotune.costs import load_hardware, profile
from autotune.geometry import load_model
from autotune.geometry.kinds import Technique

CALM = Observations(
    device_bytes=40 * GIB,
    footprint_bytes=30 * GIB,
    running_bytes=5 * GIB,
    running_tokens=40_960,
    mean_context_tokens=4000.0,
    idle_frac=0.1,
    idle_return_frac=0.5,
    idle_s=60.0,
    device_hit_frac=0.5,
    unbounded_hit_frac=0.5,
    read_frac=0.2,
    break_even_tokens=64,
    places=(),
)
PLACE = Divergence(1, 16, 80, 0.8, 4000, 300_000, Grade.PROVEN, "equal after it")


def answers(seen: Observations) -> dict[Technique, Answer]:
    """The answer of each technique."""
    return {row.technique: row.answer for row in advise(seen).techniques}


def test_nothing_is_short() -> None:
    """Where nothing is short, no technique of an engine is advised, and every technique is listed once."""
    advice = advise(CALM)
    assert advice.findings == ()
    assert {row.answer for row in advice.techniques} == {Answer.NO, Answer.MODEL}
    assert sorted(row.technique for row in advice.techniques) == sorted(Technique)


def test_running_requests_quantise_before_evicting() -> None:
    """If running requests do not fit, quantise first; a budget comes later and says why; sparse reads do not help."""
    seen = replace(CALM, running_bytes=60 * GIB)
    advice = advise(seen)
    assert [finding.pressure for finding in advice.findings] == [Pressure.RUNNING]
    found = answers(seen)
    assert found[Technique.QUANTISATION] is Answer.FIRST
    assert found[Technique.EVICTION_BUDGET] is Answer.LATER
    assert found[Technique.SPARSE_READS] is Answer.NO
    assert found[Technique.OFFLOAD] is Answer.LATER
    because = {row.technique: row.because for row in advice.techniques}
    assert "quantise before evicting" in because[Technique.EVICTION_BUDGET]
    assert "not memory" in because[Technique.SPARSE_READS]


@pytest.mark.parametrize(
    "changes", [{"idle_frac": 0.8, "idle_return_frac": 0.4}, {"unbounded_hit_frac": 0.7, "idle_frac": 0.0}]
)
def test_idle_blocks_that_come_back_are_offloaded(changes: dict[str, float]) -> None:
    """Idle blocks that fill the device, or that are evicted before they come back, are for the host."""
    seen = replace(CALM, footprint_bytes=400 * GIB, **changes)  # type: ignore[arg-type]
    assert [finding.pressure for finding in advise(seen).findings] == [Pressure.IDLE]
    assert answers(seen)[Technique.OFFLOAD] is Answer.FIRST
    assert answers(replace(seen, break_even_tokens=None))[Technique.OFFLOAD] is Answer.NO
    assert advise(replace(seen, footprint_bytes=20 * GIB)).findings == ()


def test_bandwidth_is_for_sparse_reads_where_contexts_are_long() -> None:
    """If a step reads mostly KV, sparse reads help long contexts first, short ones later."""
    seen = replace(CALM, read_frac=0.8, mean_context_tokens=30_000.0)
    assert [finding.pressure for finding in advise(seen).findings] == [Pressure.BANDWIDTH]
    assert answers(seen)[Technique.SPARSE_READS] is Answer.FIRST
    assert answers(replace(seen, mean_context_tokens=2000.0))[Technique.SPARSE_READS] is Answer.LATER
    assert answers(seen)[Technique.OFFLOAD] is Answer.NO


def test_unstable_prefixes_are_for_the_prompts() -> None:
    """A place where equal prefixes diverge is named by its token; one that may be a system prompt's end is not."""
    seen = replace(CALM, device_hit_frac=0.05, unbounded_hit_frac=0.05, places=(PLACE,))
    advice = advise(seen)
    assert [finding.pressure for finding in advice.findings] == [Pressure.PREFIX]
    assert "80.0 % of the requests diverge in block 1, after 16 tokens (proven" in advice.findings[0].evidence
    first = advice.techniques[0]
    assert (first.technique, first.answer) == (Technique.PREFIX_SHARING, Answer.FIRST)
    assert "token 16" in first.because
    unclear = replace(seen, places=(replace(PLACE, grade=Grade.OPEN),))
    assert [finding.pressure for finding in advise(unclear).findings] == [Pressure.NO_REUSE]
    assert "no place was found" in advise(unclear).notes[-1]
    assert advise(replace(seen, places=(replace(PLACE, request_frac=0.06),))).findings[0].pressure is Pressure.NO_REUSE


def test_the_pool_is_always_explained() -> None:
    """That a fixed pool hides what is saved is said whatever the pressure."""
    assert "nvidia-smi" in advise(CALM).notes[0]


def test_rules_of_techniques() -> None:
    """Every technique has one rule; those that drop or change values are not called exact."""
    assert [rule.technique for rule in rules()] == list(Technique)
    lossy = {rule.technique for rule in rules() if not rule.exact}
    assert lossy == {Technique.QUANTISATION, Technique.EVICTION_BUDGET, Technique.SPARSE_READS}
    sparse = rule_of(Technique.SPARSE_READS)
    assert (sparse.saves_memory, sparse.saves_bandwidth) == (False, True)


def test_observations_of_the_sample() -> None:
    """On one H100 the sample's running requests exceed 40 GiB, and LRU loses what an unbounded cache would find."""
    trace = Trace.open("sample:conversation")
    costs = profile(load_model("llama-3.1-8b"), load_hardware("h100-sxm"))
    seen = observe(trace, costs, device_bytes=40 * GIB, weights_bytes=16 * 10**9, break_even_tokens=1)
    assert seen.unbounded_hit_frac == pytest.approx(62_738 / 180_012)
    assert seen.footprint_bytes == trace.n_blocks * 512 * 131_072
    assert seen.running_bytes == seen.running_tokens * 131_072
    assert 0.0 < seen.device_hit_frac < 62_738 / 180_012
    assert {finding.pressure for finding in advise(seen).findings} >= {Pressure.RUNNING, Pressure.IDLE}
    with pytest.raises(SimulationError, match="must hold a block; got 1,000 bytes for blocks of 67,108,864"):
        observe(trace, costs, device_bytes=1000, weights_bytes=None, break_even_tokens=None)


def test_idle_blocks_are_measured() -> None:
    """With room for hours of traffic, most blocks on the device are idle, and a part of them comes back."""
    trace = Trace.open("sample:conversation")
    costs = profile(load_model("llama-3.1-8b"), load_hardware("h100-sxm"))
    seen = observe(trace, costs, device_bytes=1000 * GIB, weights_bytes=None, break_even_tokens=1, idle_s=30.0)
    assert seen.idle_frac is not None
    assert seen.idle_return_frac is not None
    assert 0.5 < seen.idle_frac < 1.0
    assert 0.0 < seen.idle_return_frac < 1.0
    assert seen.read_frac is None
    longer = observe(trace, costs, device_bytes=1000 * GIB, weights_bytes=None, break_even_tokens=1, idle_s=120.0)
    assert longer.idle_frac is not None
    assert longer.idle_frac < seen.idle_frac


def test_running_tokens_are_those_between_arrival_and_end() -> None:
    """Each request counts from its arrival until its last token."""
    trace = Trace.open("sample:conversation").slice(0, 200)
    costs = profile(load_model("llama-3.1-8b"), load_hardware("h100-sxm"))
    found = running_tokens(trace, costs, 0.008)
    tokens = trace.input_tokens.astype(np.int64) + trace.output_tokens
    end_s = trace.arrival_s + costs.prefill_s(trace.input_tokens) + 0.008 * trace.output_tokens
    for request in range(0, 200, 17):
        begun = np.arange(200) <= request
        expected = int(tokens[begun & (end_s >= trace.arrival_s[request])].sum())
        assert found[request] == expected
