"""What the learned model makes of one block, in the order in which it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune.core.errors import PolicyError
from autotune.core.policy import Explanation, LearnedParts, explain
from autotune.core.reuse import gain_table
from autotune.core.types import Decision, Tier
from autotune.testing.documents import example_document, example_learned_document

DOCUMENT = example_learned_document()
AFTER_A_TOOL = {"gap_s": 10.0, "stop_code": 2.0}


def explained(features: dict[str, float] | None = None, **changes: Any) -> Explanation:
    """The example policy's explanation of a block deep in a prompt."""
    block: dict[str, Any] = {"depth_tokens": 8192, "frequency": 3.0, "age_s": 20.0, "size_tokens": 512, **changes}
    return explain(DOCUMENT, features=AFTER_A_TOOL if features is None else features, **block)


def parts_of(told: Explanation) -> LearnedParts:
    """The learned part, which there must be."""
    assert told.learned is not None
    return told.learned


def test_parts_add_up_to_the_score_the_largest_first() -> None:
    """Near: -1 for the average block, +1 for a short gap, +0.75 for that after a tool call, +0.5 for the depth."""
    near = parts_of(explained()).near
    assert near.base == -1.0
    assert [(part.features, part.log_odds) for part in near.parts] == [
        (("gap_s",), 1.0),
        (("stop_code", "gap_s"), 0.75),
        (("depth_tokens",), 0.5),
    ]
    assert near.log_odds == 1.25
    assert near.probability == pytest.approx(1.0 / (1.0 + np.exp(-1.25)))


def test_class_and_rank_follow_from_the_scores() -> None:
    """Both scores lie above all of their cuts: class 15, whose gain times the stake is the rank."""
    told = parts_of(explained())
    assert (told.near.log_odds, told.far.log_odds, told.block_class) == (1.25, 1.25, 15)
    model = DOCUMENT.class_hazard.model()
    bin_of_age = int(np.searchsorted(model.edges_s, 20.0, side="right"))
    assert told.hazard_per_s == model.hazard_per_s[15, bin_of_age]
    assert told.gain_per_s == gain_table(model, 12.0)[15, bin_of_age]
    assert [rank.tier for rank in told.ranks] == [Tier.DEVICE, Tier.HOST]
    assert [rank.saved_s_per_s for rank in told.ranks] == [rank.at_stake_s * told.gain_per_s for rank in told.ranks]
    assert told.ranks[0].at_stake_s > told.ranks[1].at_stake_s > 0.0


def test_the_longer_it_waits_the_less_it_is_worth() -> None:
    """The curve falls, so probability, value and rank fall with the age, and the decision follows."""
    young, old = explained(age_s=1.0), explained(age_s=4000.0)
    assert young.reuse_probability > old.reuse_probability > 0.0
    assert young.value_device_s > old.value_device_s
    assert parts_of(young).ranks[1].saved_s_per_s > parts_of(old).ranks[1].saved_s_per_s
    assert (young.decision, old.decision) == (Decision.OFFLOAD, Decision.EVICT)


def test_probability_is_that_of_the_curve_from_now_on() -> None:
    """P is one minus the share of those that waited so long and still wait a far horizon later."""
    model = DOCUMENT.class_hazard.model()
    edges = np.array((0.0, *model.edges_s))
    grid = np.linspace(20.0, 620.0, 60_001)
    rate = model.hazard_per_s[15, np.searchsorted(edges[1:], 0.5 * (grid[1:] + grid[:-1]), side="right")]
    expected = 1.0 - np.exp(-(rate * np.diff(grid)).sum())
    assert explained().reuse_probability == pytest.approx(expected, rel=1e-4)


def test_what_was_not_told_is_named() -> None:
    """Depth and number of uses are always known; what else the tables use is taken as unknown, and said."""
    told = explained({})
    assert parts_of(told).unknown == ("stop_code", "gap_s")
    assert any("stop_code, gap_s" in assumption for assumption in told.assumptions)
    assert parts_of(explained()).unknown == ()


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"gap": 1.0}, "did you mean 'gap_s'"),
        ({"gap_s": float("nan")}, "feature gap_s must be a finite number"),
    ],
)
def test_features_must_be_known_and_finite(features: dict[str, float], message: str) -> None:
    """A misspelt name and a number that is none are refused."""
    with pytest.raises(PolicyError, match=message):
        explained(features)


def test_other_kinds_take_no_features() -> None:
    """A policy without a model would ignore them, so it refuses them."""
    with pytest.raises(PolicyError, match="features are for a policy of kind 'class_hazard'; got kind 'rank'"):
        explain(example_document(), depth_tokens=0, frequency=1.0, age_s=0.0, size_tokens=16, features={"gap_s": 1.0})
