"""Why a policy decides as it does: the numbers are those of the decision arithmetic, in the order they are used."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import PolicyError
from autotune.core.policy import DeviceTier, Explanation, LruDocument, PolicyDocument, Prices, RankDocument, explain
from autotune.core.types import Decision, Tier
from autotune.testing.documents import example_document, policy_documents

DOCUMENT = example_document()


def explained(
    document: PolicyDocument = DOCUMENT,
    *,
    depth_tokens: int = 4096,
    frequency: float = 2.0,
    age_s: float = 60.0,
    size_tokens: int = 512,
) -> Explanation:
    """The explanation of an ordinary block: the ninth of 512 tokens, used twice, idle for a minute."""
    return explain(document, depth_tokens=depth_tokens, frequency=frequency, age_s=age_s, size_tokens=size_tokens)


def with_prices(device_s_per_byte: float | None, host_s_per_byte: float | None) -> RankDocument:
    """The example document at other prices."""
    prices = DOCUMENT.prices.model_copy(
        update={"device_s_per_byte": device_s_per_byte, "host_s_per_byte": host_s_per_byte}
    )
    return DOCUMENT.model_copy(update={"prices": prices})


def test_values_by_hand() -> None:
    """r, l, P, V_D and V_H of one block agree with the formulas worked out by hand."""
    told = explained()
    costs = DOCUMENT.costs
    recompute_s = 512 * costs.prefill_linear_s_per_token + costs.prefill_quadratic_s_per_token_pair * (
        512 * 4096 + 512 * 513 / 2
    )
    load_s = 20e-6 + 512 * 131_072 / 5e10
    assert told.size_bytes == 67_108_864
    assert told.recompute_s == pytest.approx(recompute_s, rel=1e-9)
    assert told.load_s == pytest.approx(load_s, rel=1e-12)
    assert told.store_exposed_s == 0.0
    assert told.reuse_probability == 0.5
    assert told.value_device_s == pytest.approx(0.5 * recompute_s, rel=1e-9)
    assert told.value_host_s == pytest.approx(0.5 * (recompute_s - load_s), rel=1e-9)
    assert told.assumptions == ()


@pytest.mark.parametrize(
    ("device", "host", "decision"),
    [
        (0.0, 0.0, Decision.KEEP),  # nothing is scarce, and the device saves the load
        (1e-9, 0.0, Decision.OFFLOAD),  # a dear device, a free host
        (1e-9, 1e-9, Decision.EVICT),  # both dearer than the block is worth
        (1e-10, 1e-9, Decision.KEEP),  # a dear host
    ],
)
def test_prices_decide(device: float, host: float, decision: Decision) -> None:
    """The same block is kept, offloaded or evicted as the prices of the tiers say."""
    assert explained(with_prices(device, host)).decision is decision


def test_without_a_host_nothing_is_offloaded() -> None:
    """Where there is no host tier its value is minus infinity, so a dear device means EVICT."""
    document = LruDocument(
        fingerprint=DOCUMENT.fingerprint,
        budgets=DOCUMENT.budgets.model_copy(update={"host_bytes": 0}),
        costs=DOCUMENT.costs,
        prices=Prices(device_s_per_byte=1e-6),
    )
    told = explained(document)
    assert (told.value_host_s, told.decision) == (-math.inf, Decision.EVICT)
    assert [parts.tier for parts in told.ranks] == [Tier.DEVICE]


def test_what_was_not_measured_is_said() -> None:
    """Missing prices and an access count without a measured reuse are assumed, and the assumptions are listed."""
    told = explained(with_prices(None, None), frequency=1.0)
    assert [text.split(" was ")[0] for text in told.assumptions] == ["the price of the device", "the price of the host"]
    bare = DOCUMENT.model_copy(update={"prices": Prices()})
    assert explained(bare).reuse_probability == 1.0
    assert "reuse was not measured" in explained(bare).assumptions[0]


def test_rank_by_hand() -> None:
    """The host's rank is last access + w log2(f) + w * cost_weight * log2(r - l); the device's, under LRU, the age."""
    told = explained()
    device, host = told.ranks
    weight_s = 2.0 * 300.0 * 0.75 / 0.25
    at_stake_s = told.recompute_s - 512 * 131_072 / 5e10
    assert (device.policy, device.weight_s, device.rank_s) == ("lru", 0.0, -60.0)
    assert (host.policy, host.weight_s, host.recency_s) == ("rank", weight_s, -60.0)
    assert host.frequency_term_s == pytest.approx(weight_s * 1.0, abs=1e-6)
    assert host.value_term_s == pytest.approx(weight_s * 0.5 * math.log2(at_stake_s), abs=1e-6)
    assert host.rank_s == pytest.approx(host.recency_s + host.frequency_term_s + host.value_term_s, abs=1e-6)


def test_a_block_used_more_often_stands_higher() -> None:
    """More accesses raise the rank, more idle time lowers it."""
    often, seldom, later = explained(frequency=4.0), explained(frequency=1.0), explained(age_s=600.0)
    assert often.ranks[1].rank_s > explained().ranks[1].rank_s > seldom.ranks[1].rank_s
    assert later.ranks[1].rank_s == pytest.approx(explained().ranks[1].rank_s - 540.0, abs=1e-6)


def test_lambda_one_is_lru() -> None:
    """With λ = 1 the rank is the last access and nothing else."""
    knobs = DOCUMENT.rank.host
    assert knobs is not None
    section = DOCUMENT.rank.model_copy(update={"host": knobs.model_copy(update={"lambda_recency": 1.0})})
    host = explained(DOCUMENT.model_copy(update={"rank": section}), frequency=9.0).ranks[1]
    assert (host.frequency_term_s, host.value_term_s, host.rank_s) == (0.0, 0.0, -60.0)


def test_break_even_is_in_tokens() -> None:
    """A slow link makes short runs not worth loading, and the length that is worth it is told."""
    slow = DOCUMENT.costs.model_copy(update={"load_bytes_per_s": 2.0 * 2**30})
    assert explained(DOCUMENT.model_copy(update={"costs": slow}), depth_tokens=0).break_even_tokens == pytest.approx(
        31_864, abs=16
    )


@pytest.mark.parametrize(
    "change",
    [
        {"depth_tokens": -1},
        {"size_tokens": 0},
        {"frequency": 0.5},
        {"frequency": math.nan},
        {"age_s": -1.0},
        {"age_s": math.inf},
    ],
)
def test_impossible_blocks_are_refused(change: dict[str, Any]) -> None:
    """A block outside of what can be cached is an error, not a number."""
    with pytest.raises(PolicyError):
        explained(**change)


@given(policy_documents(), st.floats(1.0, 1e6), st.integers(1, 2**16))
def test_any_document_explains_itself(document: PolicyDocument, frequency: float, size_tokens: int) -> None:
    """Every valid document gives finite values, and a rank per tier that it has or one learned key that stays."""
    told = explained(document, frequency=frequency, size_tokens=size_tokens)
    assert math.isfinite(told.value_device_s)
    assert all(math.isfinite(parts.rank_s) for parts in told.ranks)
    rules: list[DeviceTier | None] = [document.tiers.of(tier) for tier in Tier]
    learned = told.learned.ranks if told.learned else ()
    assert all(math.isfinite(rank.saved_s_per_s) for rank in learned)
    ranked = sorted([*(parts.tier for parts in told.ranks), *(rank.tier for rank in learned)])
    by_key = told.learned is not None and told.learned.key is not None  # one key that does not change, for all tiers
    expected = [rule for rule in rules if rule and not (by_key and rule.policy == "class_hazard")]
    assert ranked == [tier for tier in Tier if document.tiers.of(tier) in expected]
