"""The policy ``vllm_arc`` of the simulator and vLLM's own ARC decide alike, key by key."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.vllm_decisions import VllmDecisions
from autotune.testing.streams import make_costs, traces

pytestmark = pytest.mark.engine("vllm", "numba")

CACHES = {"lru": "lru", "arc": "vllm_arc"}


def decisions(trace: Trace, policy: str, device: int, host: int, timing: Timing) -> VllmDecisions:
    """What the simulator decides; every host run is loaded, as vLLM does."""
    from autotune.sim.vllm_decisions import vllm_decisions

    config = CacheConfig(
        device,
        host,
        host_policy=PolicySpec(policy),
        timing=timing,
        check_break_even=False,
        semantics=EngineSemantics.VLLM_0_32,
    )
    return vllm_decisions(trace, config, make_costs())


def assert_vllm_decides_so(script: VllmDecisions, cache_policy: str, host: int, block_tokens: int) -> None:
    """VLLM's manager with one of its own policies, led through the same calls, answers the same."""
    from call_script import ManualTime, lead_through
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    manager = CPUOffloadingManager(host, cache_policy=cache_policy)
    answers = lead_through(manager, script, block_tokens, ManualTime())
    for r, answer in enumerate(answers):
        assert answer.host_hits == script.host_hit_chunks[r]
        assert answer.evicted == tuple(script.evicted.of(r).tolist())
        assert answer.stored == (None if script.failed[r] else tuple(script.stored.of(r).tolist()))


@pytest.mark.parametrize("timing", Timing)
def test_arc_is_vllms_own(timing: Timing) -> None:
    """On the bundled trace, 172,808 chunk accesses, every hit, store and eviction is the same."""
    trace = Trace.open("sample:conversation")
    script = decisions(trace, "vllm_arc", 1000, 4000, timing)
    assert len(script.chunks.ids) == 172_808
    assert len(script.evicted.ids) > 100_000
    assert_vllm_decides_so(script, "arc", 4000, trace.block_tokens)


@pytest.mark.parametrize("cache_policy", CACHES)
@settings(max_examples=100)
@given(trace=traces(), device=st.integers(1, 8), host=st.integers(1, 12), timing=st.sampled_from(Timing))
def test_small_hosts_too(cache_policy: str, trace: Trace, device: int, host: int, timing: Timing) -> None:
    """Where the host is small, offers fail and ghosts come back at once, LRU and ARC are vLLM's own all the same."""
    script = decisions(trace, CACHES[cache_policy], device, host, timing)
    assert_vllm_decides_so(script, cache_policy, host, trace.block_tokens)
