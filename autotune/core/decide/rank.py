"""The rank rule: evict the block with the smallest ``last access + w * f``.

With w = tau * (1 - lambda) / lambda this is the score ``lambda * recency + (1 - lambda) * value`` with recency linear
in time. The order of two idle blocks does not change as time passes, so a heap over the ranks is exact. lambda = 1
gives w = 0, which is LRU.
"""

from __future__ import annotations

from autotune.core.decide.arithmetic import exp2_exactly_rounded_ops, log2_exactly_rounded_ops

NS_PER_S = 1_000_000_000
RANK_LIMIT_NS = 4_000_000_000_000_000_000


def rank_weight_s(lambda_recency: float, tau_s: float) -> float:
    """Seconds of recency that one unit of value is worth: ``tau * (1 - lambda) / lambda``.

    Args:
        lambda_recency: Weight of recency against value, in (0, 1].
        tau_s: Time scale of the cache, in seconds.
    """
    return tau_s * (1.0 - lambda_recency) / lambda_recency


def decayed_frequency(frequency: float, elapsed_s: float, half_life_s: float) -> float:
    """Accesses so far, each halved in weight for every ``half_life_s`` that has passed since.

    Args:
        frequency: Decayed count at the block's last access.
        elapsed_s: Seconds from that access to this one.
        half_life_s: Half-life in seconds; 0 means that nothing decays.
    """
    if half_life_s <= 0.0:
        return frequency
    return frequency * exp2_exactly_rounded_ops(-elapsed_s / half_life_s)


def rank_ns(last_access_ns: int, weight_ns: float, frequency: float, value_term_ns: int) -> int:
    """Rank of a block as an int64 number of nanoseconds; the smallest is evicted first.

    Args:
        last_access_ns: Time of the block's last access.
        weight_ns: ``w`` in nanoseconds.
        frequency: Decayed frequency at that access, at least 1.
        value_term_ns: ``w * cost_weight * log2(value of the block at its depth)``, constant per depth.
    """
    return last_access_ns + frequency_term_ns(weight_ns, frequency) + value_term_ns


def frequency_term_ns(weight_ns: float, frequency: float) -> int:
    """The part of a rank that the frequency contributes, in nanoseconds: ``w * log2(frequency)``."""
    if weight_ns == 0.0:
        return 0
    return round_half_up(weight_ns * log2_exactly_rounded_ops(frequency))


def value_term_ns(weight_ns: float, cost_weight: float, value_s: float) -> int:
    """The part of a rank that the seconds at stake contribute, in nanoseconds.

    Args:
        weight_ns: ``w`` in nanoseconds.
        cost_weight: How much the logarithm of the value counts beside that of the frequency; 0 switches it off.
        value_s: Seconds saved by one hit on the block at its depth. Values below 1 ns count as 1 ns.
    """
    if weight_ns == 0.0 or cost_weight == 0.0:
        return 0
    floor_s = value_s if value_s > 1e-9 else 1e-9
    return round_half_up(weight_ns * cost_weight * log2_exactly_rounded_ops(floor_s))


def round_half_up(x: float) -> int:
    """Nearest integer, halves upward, clamped to the range in which ranks can be added without overflow."""
    if x >= RANK_LIMIT_NS:
        return RANK_LIMIT_NS
    if x <= -RANK_LIMIT_NS:
        return -RANK_LIMIT_NS
    whole = int(x)
    if x < whole:
        whole -= 1
    return whole + 1 if x - whole >= 0.5 else whole
