"""What the learned model makes of one block: parts of the score, class, curve and rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.decide.features import FEATURES, N_FEATURES, UNKNOWN, USES
from autotune.core.decide.fixed import factor_shift_ns, odds_shift_ns, reuse_odds, scale_ns, value_shift_ns
from autotune.core.errors import PolicyError
from autotune.core.policy.class_hazard import ClassHazardSection
from autotune.core.policy.document import ClassHazardDocument
from autotune.core.policy.rank_prices import ROOM_S
from autotune.core.policy.reuse_tables import to_score
from autotune.core.reuse import (
    NO_FEATURE,
    HorizonModel,
    ReuseModel,
    classify,
    contributions,
    curves,
    gain_table,
    probability,
    score_rows,
)
from autotune.core.types import Decision, RankForm, Tier
from autotune.core.units import NS_PER_S, seconds_to_ns
from autotune.core.validation import nearest


@dataclass(frozen=True, slots=True)
class ScorePart:
    """What one table adds to a score.

    Attributes:
        features: Its one or two features.
        log_odds: What it adds; positive means that reuse is likelier than for the average block.
    """

    features: tuple[str, ...]
    log_odds: float


@dataclass(frozen=True, slots=True)
class HorizonParts:
    """A score and where it comes from: ``base + sum of parts``.

    Attributes:
        horizon_s: The horizon.
        base: Log odds of the average block.
        parts: What the tables add, the largest first.
        log_odds: The score.
        probability: Probability, when the block fell idle, of reuse within the horizon.
    """

    horizon_s: float
    base: float
    parts: tuple[ScorePart, ...]
    log_odds: float
    probability: float


@dataclass(frozen=True, slots=True)
class LearnedRank:
    """Rank on one tier; the smallest leaves first.

    Attributes:
        tier: The tier.
        at_stake_s: Seconds that a reuse saves: recompute less load, on both tiers, so that their ranks compare.
        gain_per_s: Best expected reuse per second of keeping from now on; on the host without reuses that the device
            catches anyway.
        saved_s_per_s: Expected seconds saved per second of keeping from now on: ``at_stake_s`` times the gain.
        price_s_per_s: Rank that a block of this size needs to stay; ``None`` = not measured.
    """

    tier: Tier
    at_stake_s: float
    gain_per_s: float
    saved_s_per_s: float
    price_s_per_s: float | None = None

    @property
    def is_priced(self) -> bool:
        """Whether the price was measured."""
        return self.price_s_per_s is not None

    @property
    def pays(self) -> bool:
        """Whether the block is worth its room there; at a price that was not measured it is."""
        return self.saved_s_per_s >= (self.price_s_per_s or 0.0)


@dataclass(frozen=True, slots=True)
class KeyOnTier:
    """A key that does not change beside that of the next to leave a tier, in seconds from now.

    Attributes:
        tier: The tier.
        key_s: The key; the smallest leaves first.
        price_s: Key that a block of this size needs to stay; ``None`` = not measured.
    """

    tier: Tier
    key_s: float
    price_s: float | None = None

    @property
    def is_priced(self) -> bool:
        """Whether the price was measured."""
        return self.price_s is not None

    @property
    def has_room(self) -> bool:
        """Whether there was room for every block."""
        return self.price_s == ROOM_S

    @property
    def pays(self) -> bool:
        """Whether the block stays there; at a price that was not measured it does."""
        return self.price_s is None or self.has_room or self.key_s >= self.price_s


@dataclass(frozen=True, slots=True)
class KeyParts:
    """Where a block stands under a key that does not change, in seconds from now; the smallest leaves first.

    Attributes:
        scale_s: Seconds by which one unit of logarithm puts a block off.
        recency_s: Time of the last use, as seconds before now (negative).
        odds_shift_s: What the odds of reuse put it off: a third of both scores and 0.7 * log2(uses), times the scale.
        value_shift_s: What the seconds at stake put it off, against a block with one second at stake.
        copy_shift_s: What that changes on the host as long as the device holds the block too; ``None`` = such copies
            leave first.
        key_s: The sum without that, the time to which the block counts as used.
        tiers: One entry per tier that the rule governs.
    """

    scale_s: float
    recency_s: float
    odds_shift_s: float
    value_shift_s: float
    copy_shift_s: float | None
    key_s: float
    tiers: tuple[KeyOnTier, ...] = ()


@dataclass(frozen=True, slots=True)
class LearnedParts:
    """What the model makes of a block.

    Attributes:
        near: The near horizon.
        far: The far horizon.
        block_class: Class of the block, 0 to 15.
        age_s: Its age.
        hazard_per_s: Reuses per second that the class's curve has at that age.
        reuse_probability: Probability of reuse within the far horizon from now, given that it has waited so long.
        ranks: One entry per tier that the rule governs; none where a key ranks that does not change.
        unknown: Features that the model uses and that were not told.
        key: That key, which is the same on all tiers; ``None`` = blocks are ranked anew in every tick.
    """

    near: HorizonParts
    far: HorizonParts
    block_class: int
    age_s: float
    hazard_per_s: float
    reuse_probability: float
    ranks: tuple[LearnedRank, ...]
    unknown: tuple[str, ...]
    key: KeyParts | None = None

    @property
    def is_priced(self) -> bool:
        """Whether the prices of the ranks were measured, so that they decide."""
        return any(rank.is_priced for rank in self.on_tiers)

    @property
    def on_tiers(self) -> tuple[LearnedRank | KeyOnTier, ...]:
        """Where the block stands on each tier that the rule governs, by rank or by key."""
        return self.ranks if self.key is None else self.key.tiers

    def rank_on(self, tier: Tier) -> LearnedRank | KeyOnTier | None:
        """The rank or key on a tier; ``None`` where the rule does not govern it."""
        return next((rank for rank in self.on_tiers if rank.tier is tier), None)


def feature_row(values: Mapping[str, float]) -> npt.NDArray[np.float64]:
    """Values by name as a row ``(n_features,)``; the others are unknown.

    Raises:
        PolicyError: there is no feature of that name, or its value is not finite.
    """
    row = np.full(N_FEATURES, UNKNOWN)
    for name, value in values.items():
        if name not in FEATURES:
            raise PolicyError("a feature must be one that the model knows", got=name, remedy=nearest(name, FEATURES))
        if not np.isfinite(value):
            raise PolicyError(f"feature {name} must be a finite number", got=value)
        row[FEATURES.index(name)] = value
    return row


def learned_parts(
    document: ClassHazardDocument, values: Mapping[str, float], age_s: float, at_stake_s: float, size_tokens: int
) -> LearnedParts:
    """What the document's model makes of a block.

    Args:
        document: The policy.
        values: Features by name.
        age_s: Seconds since the block fell idle.
        at_stake_s: Seconds that a reuse saves where the block has to be loaded.
        size_tokens: Tokens in the block.

    Raises:
        PolicyError: a feature is unknown or its value not finite.
    """
    section = document.class_hazard
    model = section.model()
    row = feature_row(values)
    block_class = int(classify(model, row[np.newaxis])[0])
    age_bin = int(np.searchsorted(model.edges_s, age_s, side="right"))
    used = section.near.used_features | section.far.used_features
    share = size_tokens / document.fingerprint.trace_block_tokens
    is_fixed = section.form is RankForm.FIXED_KEY
    rules = ((tier, document.tiers.of(tier)) for tier in (Tier.DEVICE, Tier.HOST))
    prices = {
        tier: None if section.prices is None else section.prices.of(tier)
        for tier, rule in rules
        if rule is not None and rule.policy == document.kind
    }
    ranks = []
    for tier, price in () if is_fixed else prices.items():
        gains = gain_table(model, 0.0 if tier is Tier.DEVICE else section.device_age_s)
        gain_per_s = float(gains[block_class, age_bin])
        room = None if price is None else price * share
        ranks.append(LearnedRank(tier, at_stake_s, gain_per_s, at_stake_s * gain_per_s, room))
    return LearnedParts(
        near=_horizon_parts(model.near, row),
        far=_horizon_parts(model.far, row),
        block_class=block_class,
        age_s=age_s,
        hazard_per_s=float(model.hazard_per_s[block_class, age_bin]),
        reuse_probability=_reuse_from_now(model, block_class, age_s),
        ranks=tuple(ranks),
        unknown=tuple(name for name in FEATURES if name in used and row[FEATURES.index(name)] == UNKNOWN),
        key=_key_parts(section, model, row, age_s, at_stake_s, prices, share) if is_fixed else None,
    )


def decide_by_rank(learned: LearnedParts, host_value_s: float) -> Decision:
    """KEEP where the block stands up to the next to leave the device, OFFLOAD where it does on the host, else EVICT.

    A device that the rule does not govern lets every block go sometime, so the question there is what comes then; a
    host that it does not govern takes what saves anything.

    Args:
        learned: What the model makes of the block, with prices.
        host_value_s: Expected seconds that a copy on the host saves; minus infinity where there is no host.
    """
    device, host = learned.rank_on(Tier.DEVICE), learned.rank_on(Tier.HOST)
    if device is not None and device.pays:
        return Decision.KEEP
    pays_on_host = host_value_s > 0.0 if host is None else host.pays
    return Decision.OFFLOAD if pays_on_host else Decision.EVICT


def _key_parts(
    section: ClassHazardSection,
    model: ReuseModel,
    row: npt.NDArray[np.float64],
    age_s: float,
    at_stake_s: float,
    prices: Mapping[Tier, float | None],
    share: float,
) -> KeyParts:
    """The key, beside the prices of the governed tiers for a block of so many times the trace's size."""
    unit_ns = scale_ns(model.near.horizon_s)
    near, far = (int(score_rows(horizon, row[np.newaxis])[0]) for horizon in (model.near, model.far))
    recency_ns = -seconds_to_ns(age_s)
    odds_ns = odds_shift_ns(unit_ns, reuse_odds(near, far, max(float(row[USES]), 1.0)))
    value_ns = value_shift_ns(unit_ns, seconds_to_ns(at_stake_s))
    key_s, factor = (recency_ns + odds_ns + value_ns) / NS_PER_S, section.copy_factor
    size_shift_s = factor_shift_ns(unit_ns, share) / NS_PER_S  # so many times the room is to save as many times as much
    return KeyParts(
        scale_s=unit_ns / NS_PER_S,
        recency_s=recency_ns / NS_PER_S,
        odds_shift_s=odds_ns / NS_PER_S,
        value_shift_s=value_ns / NS_PER_S,
        copy_shift_s=factor_shift_ns(unit_ns, factor) / NS_PER_S if factor > 0.0 else None,
        key_s=key_s,
        tiers=tuple(
            KeyOnTier(tier, key_s, price if price in (None, ROOM_S) else price + size_shift_s)
            for tier, price in prices.items()
        ),
    )


def _horizon_parts(model: HorizonModel, row: npt.NDArray[np.float64]) -> HorizonParts:
    score = score_rows(model, row[np.newaxis])
    parts = [
        ScorePart(tuple(FEATURES[f] for f in (part.first, part.second) if f != NO_FEATURE), to_score(part.score))
        for part in contributions(model, row)
    ]
    return HorizonParts(
        horizon_s=model.horizon_s,
        base=to_score(model.base),
        parts=tuple(parts),
        log_odds=to_score(int(score[0])),
        probability=float(probability(model, score)[0]),
    )


def _reuse_from_now(model: ReuseModel, block_class: int, age_s: float) -> float:
    """Share of blocks of a class that come back within the far horizon, among those that waited until ``age_s``."""
    now, later = curves(model, np.array([age_s, age_s + model.far.horizon_s])).survival[block_class].tolist()
    return 1.0 - later / now if now > 0.0 else 1.0
