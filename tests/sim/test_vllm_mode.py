"""The rules of vLLM's host tier, one case worked out by hand for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import autotune
from autotune.api import cost_profile
from autotune.core.errors import SimulationError, TraceError
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.vllm_decisions import Runs, VllmDecisions, vllm_decisions, vllm_decisions_plainly
from autotune.testing.streams import Ask, make_costs, make_trace

VLLM = EngineSemantics.VLLM_0_32
LRU = PolicySpec("lru")
VALUED = {"lambda_recency": 0.5, "tau_s": 100.0}  # one doubling of the frequency is worth 100 s


@dataclass(frozen=True)
class Case:
    """A run, with chunks called by the names that the requests gave to their last blocks."""

    decisions: VllmDecisions
    names: list[int]

    def offered(self) -> list[list[int]]:
        """Chunks offered, per request."""
        return self._named(self.decisions.offered)

    def stored(self) -> list[list[int]]:
        """Chunks stored, per request."""
        return self._named(self.decisions.stored)

    def evicted(self) -> list[list[int]]:
        """Chunks evicted, per request."""
        return self._named(self.decisions.evicted)

    def _named(self, runs: Runs) -> list[list[int]]:
        return [[self.names[i] for i in runs.of(r)] for r in range(len(runs.offsets) - 1)]


def run(asks: Sequence[Ask], device: int, host: int, policy: PolicySpec = LRU, **changes: object) -> Case:
    """The decisions of the compiled loop, which the plain one makes too."""
    config = CacheConfig(device, host, host_policy=policy, semantics=VLLM, **changes)  # type: ignore[arg-type]
    trace, costs = make_trace(asks), make_costs()
    decisions, plain = vllm_decisions(trace, config, costs), vllm_decisions_plainly(trace, config, costs)
    np.testing.assert_array_equal(decisions.evicted.ids, plain.evicted.ids)
    np.testing.assert_array_equal(decisions.stored.ids, plain.stored.ids)
    return Case(decisions, list(dict.fromkeys(name for ask in asks for name in ask.blocks)))


def test_a_fully_cached_prompt_loads_all_and_computes_one_token() -> None:
    """The device gives all but the last block, the host that one; nothing is offered and 11 of 12 tokens are spared."""
    case = run([Ask(0.0, [1, 2, 3]), Ask(1.0, [1, 2, 3])], device=2, host=4)
    result = case.decisions.result
    assert result.device_hit.tolist() == [0, 2]
    assert result.host_hit.tolist() == [0, 1]
    assert result.hit_tokens().tolist() == [0, 11]
    assert case.offered() == [[1, 2, 3], []]


def test_device_hits_are_offered_where_the_host_gives_nothing() -> None:
    """What the host has of an offer is reused and becomes recent, deepest first: the tail of the chain leaves first."""
    case = run([Ask(0.0, [1, 2]), Ask(1.0, [1, 2, 9]), Ask(2.0, [5, 6])], device=8, host=4)
    assert case.decisions.device_hit_chunks.tolist() == [0, 2, 0]
    assert case.offered() == [[1, 2], [1, 2, 9], [5, 6]]
    assert case.stored() == [[1, 2], [9], [5, 6]]
    assert case.evicted() == [[], [], [9]]


def test_only_what_follows_a_load_is_offered() -> None:
    """Chunks before the loaded run are neither offered nor refreshed, so the first one is the oldest now."""
    asks = [Ask(0.0, [1, 2, 3]), Ask(1.0, [1, 2, 3, 4]), Ask(2.0, [9])]
    case = run(asks, device=1, host=4)
    assert case.decisions.host_hit_chunks.tolist() == [0, 2, 0]
    assert case.offered()[1] == [4]
    assert case.evicted()[2] == [1]


def test_lru_may_evict_what_was_just_loaded() -> None:
    """Under vLLM's LRU a load does not make a chunk recent before its request ends."""
    case = run([Ask(0.0, [1, 2, 3]), Ask(1.0, [1, 2, 7, 8])], device=1, host=3)
    assert case.decisions.host_hit_chunks.tolist() == [0, 1]
    assert case.evicted()[1] == [3, 2]


def test_the_leaf_rule_keeps_what_the_first_candidate_continues() -> None:
    """With the parent of the offer kept, and so its prefix, one of two places can be made: then nothing changes."""
    policy = PolicySpec.of("rank", **VALUED)
    case = run([Ask(0.0, [1, 2, 3]), Ask(1.0, [1, 2, 7, 8]), Ask(2.0, [5])], device=1, host=3, policy=policy)
    assert case.stored() == [[1, 2, 3], [], [5]]
    assert case.evicted() == [[], [], [3]]
    assert case.decisions.failed.tolist() == [False, True, False]


def test_an_offer_larger_than_the_host_is_not_stored() -> None:
    """Three chunks do not fit into two places, and nothing is evicted for them."""
    case = run([Ask(0.0, [5]), Ask(1.0, [1, 2, 3]), Ask(2.0, [5])], device=1, host=2)
    assert case.decisions.failed.tolist() == [False, True, False]
    assert case.evicted() == [[], [], []]
    assert case.stored() == [[5], [], []]


def test_chunks_of_the_offer_stay() -> None:
    """Room for the missing chunk of an offer is made by others, although its own resident is the oldest."""
    asks = [Ask(0.0, [1]), Ask(1.0, [5]), Ask(2.0, [1, 2])]
    case = run(asks, device=8, host=2)
    assert case.offered()[2] == [1, 2]
    assert case.evicted()[2] == [5]


def test_recency_comes_with_the_end_of_a_request() -> None:
    """While request 0 runs its chunks stand as they came in, prefix first; its end makes them recent, deepest first."""
    long = Ask(0.0, [1, 2], output_tokens=90)
    early = run([long, Ask(1.0, [5]), Ask(20.0, [6])], 9, 3, timing=Timing.SERVICE, itl_s=1.0)
    assert early.evicted()[2] == [1]
    late = run([long, Ask(1.0, [5]), Ask(200.0, [6, 7])], 9, 3, timing=Timing.SERVICE, itl_s=1.0)
    assert late.evicted()[2] == [5, 2]
    assert late.decisions.calls.tolist() == [0, 1, -2, -1, 2, -3]
    assert late.decisions.end_ns.tolist() == [98_000_000_000, 5_000_000_000, 208_000_000_000]


def test_a_use_fades_from_the_end_of_its_request() -> None:
    """Chunk 1 is asked for again 2.5 s after its long request ended: its first use still counts, so chunk 5 leaves."""
    policy = PolicySpec.of("rank", half_life_s=10.0, **VALUED)
    asks = [Ask(0.0, [1], output_tokens=96), Ask(101.0, [1]), Ask(104.0, [5]), Ask(200.0, [6])]
    case = run(asks, device=9, host=2, policy=policy, timing=Timing.SERVICE, itl_s=1.0)
    assert case.decisions.end_ns[:2].tolist() == [100_000_000_000, 102_500_000_000]
    assert case.evicted() == [[], [], [], [5]]


def test_a_run_shorter_than_a_chunk_counts_as_none() -> None:
    """The host could add one block to the device's three, but loads whole chunks of two only; so all is offered."""
    case = run([Ask(0.0, [1, 2, 3, 4])] * 2, device=3, host=4, chunk_blocks=2)
    assert case.decisions.result.device_hit.tolist() == [0, 3]
    assert case.decisions.result.host_hit.tolist() == [0, 0]
    assert case.offered() == [[2, 4], [2, 4]]


def test_the_chunk_in_which_the_device_run_ends_is_loaded() -> None:
    """One block is on the device; the loads are two chunks, of which the first brings one block that is needed."""
    case = run([Ask(0.0, [1, 2, 3, 4]), Ask(1.0, [1, 2, 3, 4, 5, 6])], device=1, host=8, chunk_blocks=2)
    assert case.decisions.device_hit_chunks.tolist() == [0, 0]
    assert case.decisions.host_hit_chunks.tolist() == [0, 2]
    assert case.decisions.result.host_hit.tolist() == [0, 3]
    assert case.offered()[1] == [6]
    assert case.decisions.result.stored.tolist() == [4, 2]


def test_a_load_that_does_not_pay_leads_to_an_offer_of_everything() -> None:
    """A run below the shortest load counts as none: its chunks are offered again and reused."""
    asks = [Ask(0.0, [1, 2]), Ask(1.0, [1, 2, 3])]
    assert run(asks, device=1, host=4).offered()[1] == [3]
    assert run(asks, device=1, host=4, min_load_blocks=2).offered()[1] == [1, 2, 3]


def test_two_hit_admission_ends_at_the_first_unknown_chunk() -> None:
    """Chunks seen before come in up to the first that was not; with one ghost only the prefix is remembered."""
    asks = [Ask(0.0, [1, 2]), Ask(1.0, [1, 2, 3]), Ask(2.0, [1, 2, 3])]
    known = run(asks, device=1, host=4, policy=PolicySpec.of("rank", lambda_recency=1.0, admission=2.0))
    assert known.stored() == [[], [1, 2], [3]]
    one_ghost = PolicySpec.of("rank", lambda_recency=1.0, admission=2.0, ghost_ratio=0.25)
    assert run(asks, device=1, host=4, policy=one_ghost).stored() == [[], [1], [2]]


def test_marginal_admission_compares_with_the_next_victim() -> None:
    """Free places are free; then chunk 9 must outrank chunk 2, which was used twice, and does at its second use."""
    policy = PolicySpec.of("rank", admission=1.0, **VALUED)
    asks = [Ask(0.0, [1, 2]), Ask(1.0, [1, 2]), Ask(2.0, [9]), Ask(3.0, [9])]
    case = run(asks, device=9, host=2, policy=policy)
    assert case.stored() == [[1, 2], [], [], [9]]
    assert case.evicted() == [[], [], [], [2]]
    assert not case.decisions.failed.any()


def test_blocks_named_twice_are_refused() -> None:
    """Offers are sets of chunks, so a prompt that names one twice means nothing, whatever the timing."""
    trace = make_trace([Ask(0.0, [1, 1])])
    with pytest.raises(TraceError, match="names each of them once"):
        simulate_cache(trace, CacheConfig(2, 2, semantics=VLLM), make_costs())


def test_decisions_need_the_semantics() -> None:
    """The canonical engine makes no offers, so there is no log of them."""
    with pytest.raises(SimulationError, match="semantics of vLLM"):
        vllm_decisions(make_trace([Ask(0.0, [1])]), CacheConfig(2, 2), make_costs())


@pytest.fixture(scope="module")
def conversation() -> Trace:
    """The bundled trace."""
    return Trace.open("sample:conversation")


@pytest.mark.parametrize("timing", Timing)
def test_without_weight_the_rank_rule_is_lru(conversation: Trace, timing: Timing) -> None:
    """At lambda = 1 every offer, store and eviction on the bundled trace is LRU's, over 170,000 chunk accesses."""
    _, costs = cost_profile()
    specs = (LRU, PolicySpec.of("rank", lambda_recency=1.0))
    lru, rank = (
        vllm_decisions(conversation, CacheConfig(1000, 4000, host_policy=spec, timing=timing, semantics=VLLM), costs)
        for spec in specs
    )
    assert len(lru.chunks.ids) > 170_000
    for name in ("offered", "stored", "evicted"):
        np.testing.assert_array_equal(getattr(lru, name).offsets, getattr(rank, name).offsets)
        np.testing.assert_array_equal(getattr(lru, name).ids, getattr(rank, name).ids)
    assert len(lru.evicted.ids) > 150_000


def test_counts_on_the_bundled_trace(conversation: Trace) -> None:
    """A thousand blocks on the device and four on the host give so many hits under vLLM's LRU, and no others."""
    totals = autotune.simulate(conversation, "lru", device_blocks=1000, host_blocks=4000, engine="vllm").totals
    assert (totals.accesses, totals.device_hit_blocks, totals.host_hit_blocks) == (172_808, 7_956, 8_308)
