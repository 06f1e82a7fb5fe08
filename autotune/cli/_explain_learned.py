"""What ``explain`` says about a learned policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.core.errors import PolicyError

if TYPE_CHECKING:
    from autotune.core.policy import Explanation, HorizonParts, KeyOnTier, KeyParts, LearnedParts

_PARTS_IN_A_LINE = 6


def features_of(options: list[str]) -> dict[str, float]:
    """Features by name, from ``NAME=VALUE``.

    Raises:
        PolicyError: one is not of that form, or a name comes twice.
    """
    values: dict[str, float] = {}
    for option in options:
        name, _, text = option.partition("=")
        try:
            value = float(text)
        except ValueError as problem:
            raise PolicyError("a feature is given as NAME=VALUE with a number", got=option) from problem
        if name in values:
            raise PolicyError("a feature is given once", got=f"{name} twice")
        values[name] = value
    return values


def one_line(told: Explanation, learned: LearnedParts) -> str:
    """Everything in one line: parts, score, probability, class, curve, rank, prices, decision."""
    near, far = learned.near, learned.far
    ranks = ", ".join(f"{rank.tier.name.lower()} {_rank(rank.saved_s_per_s)}" for rank in learned.ranks)
    stands = f"rank {ranks}" if learned.key is None else key_text(learned.key)
    steps = (
        f"{told.decision}: {_sum(near)}",
        f"P {near.probability:.3g} within {near.horizon_s:g} s; far score {_odds(far.log_odds)}",
        f"P {far.probability:.3g} within {far.horizon_s:g} s",
        f"class {learned.block_class}",
        f"hazard {learned.hazard_per_s:.3g} per s at {learned.age_s:g} s",
        f"P {learned.reuse_probability:.3g} within {far.horizon_s:g} s from now",
        stands,
        _prices(told, learned),
    )
    return " → ".join(steps)


def key_text(key: KeyParts) -> str:
    """The key and its parts, in seconds from now."""
    parts = f"last use {_seconds(key.recency_s)}, odds {_seconds(key.odds_shift_s)}, cost {_seconds(key.value_shift_s)}"
    copy = "leave first" if key.copy_shift_s is None else _seconds(key.copy_shift_s)
    return f"key {_seconds(key.key_s)} ({parts}; copies of what the device holds: {copy})"


def _seconds(time_s: float) -> str:
    return f"{time_s:+,.4g} s".replace("-", "−")


def part_rows(learned: LearnedParts) -> list[tuple[str, str, str]]:
    """One row per table: its features, and what it adds to the near and to the far score."""
    near, far = ({part.features: part.log_odds for part in parts.parts} for parts in (learned.near, learned.far))
    rows = [("average block", _odds(learned.near.base), _odds(learned.far.base))]
    rows += [
        (" × ".join(names), _odds(near.get(names)), _odds(far.get(names)))
        for names in sorted({*near, *far}, key=lambda names: -max(abs(near.get(names, 0.0)), abs(far.get(names, 0.0))))
    ]
    return [*rows, ("score", _odds(learned.near.log_odds), _odds(learned.far.log_odds))]


def rank_text(learned: LearnedParts, tier: str) -> str | None:
    """The rank on a tier; ``None`` where the rule does not govern it."""
    found = [rank.saved_s_per_s for rank in learned.ranks if rank.tier.name.lower() == tier]
    return _rank(found[0]) if found else None


def price_text(learned: LearnedParts, tier: str) -> str | None:
    """The rank or key that a block needs to stay on a tier; ``None`` where it was not measured."""
    return _price_texts(learned).get(tier)


def reason_by_rank(told: Explanation, learned: LearnedParts) -> str:
    """Why the ranks decide as they do."""
    where = [
        f"on the {rank.tier.name.lower()} it ranks {'at least as high as' if rank.pays else 'below'} the next to leave"
        for rank in learned.on_tiers
    ]
    if told.decision == "KEEP":
        return where[0]
    if learned.on_tiers[-1].tier.name != "HOST":  # LRU governs the host, or there is none
        where.append("the host takes what saves time" if told.decision == "OFFLOAD" else "no copy would save time")
    return ", ".join(where)


def _prices(told: Explanation, learned: LearnedParts) -> str:
    """What room costs: as ranks if they were measured, else by the byte."""
    if not learned.is_priced:
        return f"prices {told.device_price_s_per_byte:.3g} and {told.host_price_s_per_byte:.3g} s/byte"
    return "prices " + ", ".join(f"{tier} {price}" for tier, price in _price_texts(learned).items())


def _price_texts(learned: LearnedParts) -> dict[str, str]:
    """The rank or key that a block needs to stay, by tier, where it was measured."""
    if learned.key is None:
        found = {rank.tier: rank.price_s_per_s for rank in learned.ranks}
        return {tier.name.lower(): _rank(price) for tier, price in found.items() if price is not None}
    return {each.tier.name.lower(): _key_price(each) for each in learned.key.tiers if each.is_priced}


def _key_price(there: KeyOnTier) -> str:
    """The key that a block needs to stay on a tier."""
    return "room for every block" if there.has_room else _seconds(there.price_s or 0.0)


def _sum(parts: HorizonParts) -> str:
    shown = [f"{_odds(part.log_odds)} {'×'.join(part.features)}" for part in parts.parts[:_PARTS_IN_A_LINE]]
    rest = sum(part.log_odds for part in parts.parts[_PARTS_IN_A_LINE:])
    more = [f"{_odds(rest)} others"] if len(parts.parts) > _PARTS_IN_A_LINE else []
    return " ".join([f"near score {_odds(parts.log_odds)} = {_odds(parts.base)} average", *shown, *more])


def _rank(saved_s_per_s: float) -> str:
    return f"{1e6 * saved_s_per_s:.4g} µs saved per s"


def _odds(log_odds: float | None) -> str:
    return "" if log_odds is None else f"{log_odds:+.2f}".replace("-", "−")
