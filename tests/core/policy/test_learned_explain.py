"""What the learned model makes of one block, in the order in which it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune.core.errors import PolicyError
from autotune.core.policy import ClassHazardDocument, Explanation, KeyParts, LearnedParts, RankPrices, explain
from autotune.core.policy.rank_prices import ROOM_S
from autotune.core.reuse import gain_table
from autotune.core.types import Decision, RankForm, Tier
from autotune.testing.documents import example_document, example_fixed_key_document, example_learned_document

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
    """Both scores lie above all of their cuts: class 15, whose gain times the stake is the rank on each tier.

    As where the rule is obeyed, both tiers count what a hit on the host saves, and on the host alone reuses that the
    device catches anyway gain nothing.
    """
    told = parts_of(explained())
    assert (told.near.log_odds, told.far.log_odds, told.block_class) == (1.25, 1.25, 15)
    model = DOCUMENT.class_hazard.model()
    bin_of_age = int(np.searchsorted(model.edges_s, 20.0, side="right"))
    assert told.hazard_per_s == model.hazard_per_s[15, bin_of_age]
    assert [rank.tier for rank in told.ranks] == [Tier.DEVICE, Tier.HOST]
    for rank, caught_s in zip(told.ranks, (0.0, 12.0), strict=True):
        assert rank.gain_per_s == gain_table(model, caught_s)[15, bin_of_age]
        assert rank.saved_s_per_s == rank.at_stake_s * rank.gain_per_s
        assert rank.price_s_per_s is None
    assert told.ranks[0].at_stake_s == told.ranks[1].at_stake_s > 0.0


def priced(device: float | None, host: float | None, **changes: Any) -> ClassHazardDocument:
    """The example with prices of its ranks, in shares of the ranks of :func:`explained`'s block."""
    ranks = parts_of(explained()).ranks
    shares = zip((device, host), ranks, strict=True)
    on_device, on_host = (None if share is None else share * rank.saved_s_per_s for share, rank in shares)
    prices = RankPrices(device_s_per_block_s=on_device, host_s_per_block_s=on_host, moments=64, measured_on="a test")
    section = DOCUMENT.class_hazard.model_copy(update={"prices": prices})
    return DOCUMENT.model_copy(update={"class_hazard": section, **changes})


def explained_by(document: ClassHazardDocument, size_tokens: int = 512) -> Explanation:
    """The same block under another document."""
    block = {"depth_tokens": 8192, "frequency": 3.0, "age_s": 20.0, "size_tokens": size_tokens}
    return explain(document, features=AFTER_A_TOOL, **block)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "host", "decision"),
    [
        (1.0, 0.5, Decision.KEEP),
        (0.9, 1.1, Decision.KEEP),
        (1.1, 1.0, Decision.OFFLOAD),
        (1.1, 1.1, Decision.EVICT),
        (0.0, 0.0, Decision.KEEP),
    ],
)
def test_ranks_decide_where_their_prices_were_measured(device: float, host: float, decision: Decision) -> None:
    """A block stays where it ranks at least as high as the next to leave, whatever a byte costs."""
    told = explained_by(priced(device, host))
    assert told.decision is decision
    assert [rank.pays for rank in parts_of(told).ranks] == [device <= 1.0, host <= 1.0]
    assert not any("price" in assumption for assumption in told.assumptions)


def test_a_larger_block_needs_a_higher_rank() -> None:
    """The price is that of one block of the trace; four times the tokens take four times the room."""
    document = priced(1.0, 1.0)
    small, large = (parts_of(explained_by(document, size)).ranks for size in (512, 2048))
    assert [rank.price_s_per_s for rank in large] == [4.0 * (rank.price_s_per_s or 0.0) for rank in small]


def test_a_tier_that_the_rule_does_not_govern_has_no_price() -> None:
    """Beside an LRU device the question is what comes after it; an LRU host takes what saves time."""
    tiers = DOCUMENT.tiers
    lru_device = tiers.model_copy(update={"device": tiers.device.model_copy(update={"policy": "lru"})})
    for share, decision in ((1.0, Decision.OFFLOAD), (1.1, Decision.EVICT)):
        told = explained_by(priced(None, share, tiers=lru_device))
        assert told.decision is decision
        assert [rank.tier for rank in parts_of(told).ranks] == [Tier.HOST]
    assert tiers.host is not None
    host = tiers.host.model_copy(update={"policy": "lru", "admission": "all"})
    lru_host = tiers.model_copy(update={"host": host})
    assert explained_by(priced(1.1, None, tiers=lru_host)).decision is Decision.OFFLOAD


def test_without_prices_values_decide_and_that_is_said() -> None:
    """An older document has no prices of ranks, so values and prices of bytes decide as in every other kind."""
    told = explained()
    assert not parts_of(told).is_priced
    assert any("prices of ranks were not measured" in assumption for assumption in told.assumptions)


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


def test_a_fixed_key_is_explained_by_its_parts() -> None:
    """Last use, odds of reuse and seconds at stake add up to the key; where copies stand is told apart."""
    section = DOCUMENT.class_hazard.model_copy(
        update={"form": RankForm.FIXED_KEY, "rerank_s": None, "copy_factor": 0.5}
    )
    document = DOCUMENT.model_copy(update={"class_hazard": section})
    block: dict[str, Any] = {"depth_tokens": 8192, "frequency": 4.0, "age_s": 20.0, "size_tokens": 512}
    told = explain(document, features=AFTER_A_TOOL, **block)
    learned = parts_of(told)
    key = learned.key
    assert key is not None
    assert learned.ranks == ()
    assert not learned.is_priced
    assert "the prices of ranks were not measured: decided by values and prices of bytes" in told.assumptions
    scale_s = 3.0 * learned.near.horizon_s
    assert key.scale_s == pytest.approx(scale_s)
    assert key.recency_s == -20.0
    log_odds = (learned.near.log_odds + learned.far.log_odds + 0.7 * 2.0) / 3.0
    assert key.odds_shift_s == pytest.approx(scale_s * log_odds, rel=1e-6)
    assert key.copy_shift_s == pytest.approx(scale_s * np.log(0.5))
    assert key.key_s == pytest.approx(key.recency_s + key.odds_shift_s + key.value_shift_s)
    first = document.model_copy(update={"class_hazard": section.model_copy(update={"copy_factor": 0.0})})
    other = parts_of(explain(first, features=AFTER_A_TOOL, **block)).key
    assert other is not None
    assert other.copy_shift_s is None


def keyed(device_s: float | None, host_s: float | None, **changes: Any) -> ClassHazardDocument:
    """The example with keys that stay, and prices so many seconds after the key of :func:`explained_by`'s block."""
    document = example_fixed_key_document()
    key_s = key_of(explained_by(document)).key_s
    on_device, on_host = (
        None if after is None else ROOM_S if after == ROOM_S else key_s + after for after in (device_s, host_s)
    )
    prices = RankPrices(device_key_s=on_device, host_key_s=on_host, moments=64, measured_on="a test")
    section = document.class_hazard.model_copy(update={"prices": prices})
    return document.model_copy(update={"class_hazard": section, **changes})


def key_of(told: Explanation) -> KeyParts:
    """The key, which there must be."""
    key = parts_of(told).key
    assert key is not None
    return key


@pytest.mark.parametrize(
    ("device_s", "host_s", "decision"),
    [
        (0.0, -5.0, Decision.KEEP),
        (-1.0, 1.0, Decision.KEEP),
        (1.0, 0.0, Decision.OFFLOAD),
        (1.0, ROOM_S, Decision.OFFLOAD),
        (1.0, 1.0, Decision.EVICT),
    ],
)
def test_keys_decide_where_their_prices_were_measured(device_s: float, host_s: float, decision: Decision) -> None:
    """A block stays where its key is at least that of the next to leave, whatever a byte costs."""
    told = explained_by(keyed(device_s, host_s))
    assert told.decision is decision
    assert parts_of(told).is_priced and parts_of(told).ranks == ()
    assert [there.pays for there in key_of(told).tiers] == [device_s <= 0.0, host_s <= 0.0]
    assert not any("price" in assumption for assumption in told.assumptions)


def test_a_larger_block_needs_a_later_key() -> None:
    """Four times the tokens take four times the room, so four times as much must be at stake; room stays room."""
    document = keyed(0.0, ROOM_S)
    small, large = (key_of(explained_by(document, size)) for size in (512, 2048))
    device, host = zip(small.tiers, large.tiers, strict=True)
    later_s = (device[1].price_s or 0.0) - (device[0].price_s or 0.0)
    assert later_s == pytest.approx(small.scale_s * np.log(4.0))
    assert host[0].has_room and host[1].has_room


def test_a_key_has_prices_on_governed_tiers_alone() -> None:
    """Beside an LRU device the question is what comes after it."""
    tiers = DOCUMENT.tiers
    lru_device = tiers.model_copy(update={"device": tiers.device.model_copy(update={"policy": "lru"})})
    for after_s, decision in ((0.0, Decision.OFFLOAD), (1.0, Decision.EVICT)):
        told = explained_by(keyed(None, after_s, tiers=lru_device))
        assert told.decision is decision
        assert [there.tier for there in key_of(told).tiers] == [Tier.HOST]
