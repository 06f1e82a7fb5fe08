from __future__ import annotations

from typing import ClassVar

import pytest

from autotune.core import registry
from autotune.core.eviction import EvictionPolicy, TierContext
from autotune.testing.policies import PolicyConformance


class _Registered(PolicyConformance):
    """Conformance of a policy that is found by name."""

    policy_name: ClassVar[str]
    params: ClassVar[dict[str, float]] = {}

    def make_policy(self, context: TierContext) -> EvictionPolicy:
        policy: EvictionPolicy = registry.load(registry.POLICIES, self.policy_name)(context, **self.params)
        return policy


class TestFIFO(_Registered):
    policy_name = "fifo"


class TestLRU(_Registered):
    policy_name = "lru"


class TestSieve(_Registered):
    policy_name = "sieve"


class TestS3FIFO(_Registered):
    policy_name = "s3fifo"


class TestS3FIFOWithLargeSmallQueue(_Registered):
    policy_name = "s3fifo"
    params: ClassVar[dict[str, float]] = {"small_frac": 0.5, "ghost_frac": 0.0, "promote_uses": 1.0}


class TestLFU(_Registered):
    policy_name = "lfu"


class TestLRFU(_Registered):
    policy_name = "lrfu"
    params: ClassVar[dict[str, float]] = {"half_life_s": 3.0}


class TestWTinyLFU(_Registered):
    policy_name = "wtinylfu"


class TestWTinyLFUWithLargeWindow(_Registered):
    policy_name = "wtinylfu"
    params: ClassVar[dict[str, float]] = {"window_frac": 0.5, "protected_frac": 0.3, "sample_factor": 1.0}


class TestARC(_Registered):
    policy_name = "arc"


class TestVLLMARC(_Registered):
    policy_name = "vllm_arc"


class TestGDSF(_Registered):
    policy_name = "gdsf"


class TestEvoke(_Registered):
    policy_name = "evoke"


class TestEvokeWithShortMemory(_Registered):
    policy_name = "evoke"
    params: ClassVar[dict[str, float]] = {"recency_weight": 0.9, "half_life_touches": 2.0, "ghost_ratio": 0.5}


class TestMarconi(_Registered):
    policy_name = "marconi"
    params: ClassVar[dict[str, float]] = {"alpha": 0.7, "span_s": 9.0}


class TestTwoHit(_Registered):
    policy_name = "two_hit"


class TestTwoHitWithShortMemory(_Registered):
    policy_name = "two_hit"
    params: ClassVar[dict[str, float]] = {"threshold": 3.0, "tracker_blocks": 7.0}


class TestClairvoyant(_Registered):
    policy_name = "clairvoyant"


class TestClairvoyantSeconds(_Registered):
    policy_name = "clairvoyant_seconds"


class TestRank(_Registered):
    policy_name = "rank"


class TestRankWithAllTerms(_Registered):
    policy_name = "rank"
    params: ClassVar[dict[str, float]] = {
        "lambda_recency": 0.3,
        "tau_s": 5.0,
        "half_life_s": 4.0,
        "cost_weight": 1.0,
        "ghost_ratio": 0.5,
        "admission": 2.0,
    }


@pytest.mark.parametrize("name", registry.names(registry.POLICIES))
def test_the_class_bears_the_name_that_it_is_registered_under(name: str) -> None:
    """A policy's own name is the one that the user types."""
    assert registry.load(registry.POLICIES, name).name == name
