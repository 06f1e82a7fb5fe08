"""From a document's tiers to registered policies."""

from __future__ import annotations

import pytest

from autotune.core import registry
from autotune.core.eviction import PolicySpec, TierContext
from autotune.core.policy import DeviceTier, Tiers, policy_spec
from autotune.core.types import Admission, Tier
from autotune.testing.documents import example_document

DOCUMENT = example_document()


def test_knobs_arrive_in_seconds() -> None:
    """Turnovers become seconds by the frozen turnover time, and admission its code."""
    assert policy_spec(DOCUMENT, Tier.HOST) == PolicySpec.of(
        "rank",
        lambda_recency=0.25,
        tau_s=600.0,
        half_life_s=0.0,
        cost_weight=0.5,
        ghost_ratio=1.0,
        admission=1.0,
    )


def test_other_tiers() -> None:
    """A tier under LRU is lru, one with two-hit admission two_hit, and one that is not there is None."""
    twice = Tiers(device=DeviceTier(admission=Admission.TWO_HIT), host=DOCUMENT.tiers.host)
    assert policy_spec(DOCUMENT, Tier.DEVICE) == PolicySpec("lru")
    assert policy_spec(DOCUMENT.model_copy(update={"tiers": twice}), Tier.DEVICE) == PolicySpec("two_hit")
    assert policy_spec(DOCUMENT, Tier.DISK) is None


@pytest.mark.parametrize("admission", list(Admission))
def test_registered_rank_policy_takes_the_knobs(admission: Admission) -> None:
    """The registered rank policy knows every parameter that a document sets."""
    assert DOCUMENT.tiers.host is not None
    host = DOCUMENT.tiers.host.model_copy(update={"admission": admission})
    spec = policy_spec(DOCUMENT.model_copy(update={"tiers": Tiers(host=host)}), Tier.HOST)
    assert spec is not None
    policy = registry.load(registry.POLICIES, spec.name)(TierContext(capacity_blocks=4), **dict(spec.params))
    assert len(policy) == 0
