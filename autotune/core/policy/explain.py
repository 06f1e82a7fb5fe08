"""Why a policy decides as it does about one block: the numbers in the order in which they are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.core.break_even import break_even_tokens
from autotune.core.costs import CostProfile
from autotune.core.decide.rank import NS_PER_S, rank_ns, value_term_ns
from autotune.core.decide.value import EVICT, KEEP, OFFLOAD, decide, prefill_s, transfer_s
from autotune.core.decide.value import value_on_device_s as device_value_s
from autotune.core.decide.value import value_on_host_s as host_value_s
from autotune.core.errors import PolicyError
from autotune.core.policy.document import ClassHazardDocument, PolicyDocument
from autotune.core.policy.explain_learned import LearnedParts, decide_by_rank, learned_parts
from autotune.core.policy.quantities import MAX_SECONDS, MAX_TOKENS
from autotune.core.policy.tiers import WriteBudget
from autotune.core.types import Decision, Tier
from autotune.core.units import GB, seconds_to_ns

LEARNED = "class_hazard"
_DECISIONS = {KEEP: Decision.KEEP, OFFLOAD: Decision.OFFLOAD, EVICT: Decision.EVICT}


@dataclass(frozen=True, slots=True)
class RankParts:
    """Where a block stands on one tier, in seconds from now; the smallest rank leaves first.

    Attributes:
        tier: The tier.
        policy: ``lru`` or ``rank``.
        weight_s: ``w``: seconds of recency that one unit of value is worth; 0 under LRU.
        recency_s: Time of the last access, as seconds before now (negative).
        frequency_term_s: ``w * log2(frequency)``.
        value_term_s: ``w * cost_weight * log2(seconds at stake)``.
        rank_s: Their sum, the time to which the block counts as touched.
    """

    tier: Tier
    policy: str
    weight_s: float
    recency_s: float
    frequency_term_s: float
    value_term_s: float
    rank_s: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision about one idle block, with everything it follows from.

    Attributes:
        size_bytes: s: KV of the block.
        recompute_s: r: prefill that a hit saves, given that the block's prefix is present.
        load_s: l: one load of just this block from the host.
        store_exposed_s: st: part of one store that delays requests.
        reuse_probability: P: probability of reuse within one turnover; of a learned policy, within its far horizon.
        value_device_s: V_D = P * r.
        value_host_s: V_H = P * max(0, r - l) - st; minus infinity where there is no host tier.
        device_price_s_per_byte: Seconds that a byte on the device is worth.
        host_price_s_per_byte: Seconds that a byte on the host is worth.
        decision: KEEP, OFFLOAD or EVICT under these prices; of a learned policy, under those of its ranks if they were
            measured.
        ranks: One entry per tier whose policy is lru or rank.
        break_even_tokens: Shortest run at this depth whose load is cheaper than its recompute; ``None`` if none is.
        assumptions: What the document does not say and was therefore assumed, in words.
        learned: What the learned model makes of the block; ``None`` under another kind of policy.
    """

    size_bytes: int
    recompute_s: float
    load_s: float
    store_exposed_s: float
    reuse_probability: float
    value_device_s: float
    value_host_s: float
    device_price_s_per_byte: float
    host_price_s_per_byte: float
    decision: Decision
    ranks: tuple[RankParts, ...]
    break_even_tokens: int | None
    assumptions: tuple[str, ...]
    learned: LearnedParts | None = None


def explain(
    document: PolicyDocument,
    *,
    depth_tokens: int,
    frequency: float,
    age_s: float,
    size_tokens: int,
    features: Mapping[str, float] | None = None,
) -> Explanation:
    """What a policy makes of one idle block.

    Args:
        document: The policy.
        depth_tokens: Tokens of the prompt before the block.
        frequency: Decayed accesses so far, the last one included; at least 1.
        age_s: Seconds since the last access.
        size_tokens: Tokens in the block.
        features: What else is known about the block, by name, for a learned policy; those not given are unknown.

    Raises:
        PolicyError: an argument is out of range, or features were given to a policy that uses none.
    """
    _check_block(depth_tokens, frequency, age_s, size_tokens)
    costs = document.costs.profile()
    size_bytes = size_tokens * costs.kv_bytes_per_token
    recompute_s = _recompute_s(costs, depth_tokens, size_tokens)
    load_s = transfer_s(size_bytes, costs.load_bytes_per_s, costs.load_latency_s)
    store_s = costs.store_exposed_frac * transfer_s(size_bytes, costs.store_bytes_per_s, costs.store_latency_s)
    told = {"depth_tokens": float(depth_tokens), "uses": frequency, **(features or {})}
    at_stake_s = _at_stake_s(costs, Tier.HOST, recompute_s, size_bytes)
    learned = _learned(document, told, age_s, at_stake_s, size_tokens, given=bool(features))
    probability, device_price, host_price, assumptions = _beliefs(document, frequency, learned)
    value_device_s = device_value_s(probability, recompute_s)
    has_host = document.tiers.host is not None
    value_host_s = host_value_s(probability, recompute_s, load_s, store_s) if has_host else float("-inf")
    return Explanation(
        size_bytes=size_bytes,
        recompute_s=recompute_s,
        load_s=load_s,
        store_exposed_s=store_s,
        reuse_probability=probability,
        value_device_s=value_device_s,
        value_host_s=value_host_s,
        device_price_s_per_byte=device_price,
        host_price_s_per_byte=host_price,
        decision=(
            decide_by_rank(learned, value_host_s)
            if learned is not None and learned.is_priced
            else _DECISIONS[decide(value_device_s, value_host_s, device_price, host_price, size_bytes)]
        ),
        ranks=tuple(
            _rank_parts(document, costs, tier, frequency, age_s, recompute_s, size_bytes)
            for tier in Tier
            if (rule := document.tiers.of(tier)) is not None and rule.policy != LEARNED
        ),
        break_even_tokens=break_even_tokens(costs, depth_tokens),
        assumptions=assumptions,
        learned=learned,
    )


def _learned(
    document: PolicyDocument,
    told: Mapping[str, float],
    age_s: float,
    at_stake_s: float,
    size_tokens: int,
    *,
    given: bool,
) -> LearnedParts | None:
    """What a learned policy makes of the block."""
    if isinstance(document, ClassHazardDocument):
        return learned_parts(document, told, age_s, at_stake_s, size_tokens)
    if given:
        raise PolicyError(
            "features are for a policy of kind 'class_hazard'",
            got=f"kind {document.kind!r}",
            remedy="leave them away: depth, frequency and age say all",
        )
    return None


def _beliefs(
    document: PolicyDocument, frequency: float, learned: LearnedParts | None
) -> tuple[float, float, float, tuple[str, ...]]:
    """Probability of reuse and both prices, and in words what had to be assumed for want of a figure."""
    prices = document.prices
    assumptions: list[str] = []
    probability = prices.reuse_probability(frequency) if learned is None else learned.reuse_probability
    if learned is not None and learned.unknown:
        assumptions.append(f"taken as unknown, for they were not told: {', '.join(learned.unknown)}")
    if probability is None:
        assumptions.append("reuse was not measured at this access count: taken as certain, so values are upper bounds")
    by_rank = learned is not None and learned.is_priced
    if learned is not None and not by_rank:
        assumptions.append("the prices of ranks were not measured: decided by values and prices of bytes")
    if prices.device_s_per_byte is None and not by_rank:
        assumptions.append("the price of the device was not measured: taken as 0, so there is room for every block")
    if prices.host_s_per_byte is None and document.tiers.host is not None and not by_rank:
        assumptions.append("the price of the host was not measured: taken as 0, so there is room for every block")
    if document.budgets.host_write is not None:
        assumptions.append(_full_write_budget(document.budgets.host_write))
    return (
        1.0 if probability is None else probability,
        prices.device_s_per_byte or 0.0,
        prices.host_s_per_byte or 0.0,
        tuple(assumptions),
    )


def _full_write_budget(budget: WriteBudget) -> str:
    return (
        f"the write budget of the host, {budget.bytes_per_s / GB:,.4g} GB/s of which {budget.burst_s:,.4g} s may be "
        "saved up, has its reserve: the less is left, the more a block must outrank the next to leave"
    )


def _rank_parts(
    document: PolicyDocument,
    costs: CostProfile,
    tier: Tier,
    frequency: float,
    age_s: float,
    recompute_s: float,
    size_bytes: int,
) -> RankParts:
    knobs = document.rank.of(tier) if document.rank else None
    if knobs is None:
        return RankParts(tier, "lru", 0.0, -age_s, 0.0, 0.0, -age_s)
    at_stake_s = _at_stake_s(costs, tier, recompute_s, size_bytes)
    value_ns = value_term_ns(knobs.weight_ns, knobs.cost_weight, at_stake_s)
    last_access_ns = -seconds_to_ns(age_s)
    total_ns = rank_ns(last_access_ns, knobs.weight_ns, frequency, value_ns)
    return RankParts(
        tier=tier,
        policy="rank",
        weight_s=knobs.weight_ns / NS_PER_S,
        recency_s=last_access_ns / NS_PER_S,
        frequency_term_s=(total_ns - last_access_ns - value_ns) / NS_PER_S,
        value_term_s=value_ns / NS_PER_S,
        rank_s=total_ns / NS_PER_S,
    )


def _recompute_s(costs: CostProfile, depth_tokens: int, size_tokens: int) -> float:
    linear, quadratic = costs.prefill_linear_s, costs.prefill_quadratic_s
    return prefill_s(depth_tokens + size_tokens, linear, quadratic) - prefill_s(depth_tokens, linear, quadratic)


def _at_stake_s(costs: CostProfile, tier: Tier, recompute_s: float, size_bytes: int) -> float:
    """Seconds that a hit saves: below the device less what the block adds to a load (the latency is per load)."""
    if tier is Tier.DEVICE:
        return recompute_s
    return max(recompute_s - size_bytes / costs.load_bytes_per_s, 0.0)


def _check_block(depth_tokens: int, frequency: float, age_s: float, size_tokens: int) -> None:
    if not 0 <= depth_tokens <= MAX_TOKENS:
        raise PolicyError(f"a block's depth is 0 to {MAX_TOKENS} tokens", got=depth_tokens)
    if not 1 <= size_tokens <= MAX_TOKENS:
        raise PolicyError(f"a block holds 1 to {MAX_TOKENS} tokens", got=size_tokens)
    if not 1.0 <= frequency <= 1e9:
        raise PolicyError("a block that is cached was accessed at least once", got=f"frequency {frequency}")
    if not 0.0 <= age_s <= MAX_SECONDS:
        raise PolicyError(f"a block's age is 0 to {MAX_SECONDS:g} seconds", got=age_s)
