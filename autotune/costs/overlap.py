"""Computing and transferring at once: what a step takes, what overlap is worth, and how much must stay resident.

``compute_s`` is the time of the computation alone, ``transfer_s`` that of the transfers alone, and β the share of the
shorter of the two that is hidden behind the longer: 0 adds them up, 1 leaves the longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autotune.core.errors import ConfigError


class Level(NamedTuple):
    """A place where KV may be found: the share of accesses that end there, and what one costs."""

    share: float
    access_s: float


def step_s(compute_s: float, transfer_s: float, overlap_beta: float = 1.0) -> float:
    """Seconds of one step: ``c + x - β * min(c, x)``.

    Raises:
        ConfigError: β is not between 0 and 1, or a time is negative.
    """
    if not 0.0 <= overlap_beta <= 1.0 or min(compute_s, transfer_s) < 0.0:
        raise ConfigError(
            "β is between 0 and 1 and times are not negative",
            got=f"β {overlap_beta:g}, {compute_s:g} s, {transfer_s:g} s",
        )
    return compute_s + transfer_s - overlap_beta * min(compute_s, transfer_s)


def speedup(compute_s: float, transfer_s: float, overlap_beta: float) -> float:
    """How much faster a step is with overlap than without.

    >>> round(speedup(10.0, 10.0, 0.5), 4), round(speedup(10.0, 5.0, 0.8), 4)
    (1.3333, 1.3636)

    Raises:
        ConfigError: β is not between 0 and 1, or a time is negative.
    """
    together = step_s(compute_s, transfer_s, overlap_beta)
    return (compute_s + transfer_s) / together if together else 1.0


def beta_needed(compute_s: float, transfer_s: float, goal_s: float) -> float | None:
    """Smallest β at which a step takes no more than ``goal_s``; ``None`` where full overlap is not enough."""
    hidden_s = compute_s + transfer_s - goal_s
    if hidden_s <= 0.0:
        return 0.0
    if goal_s < max(compute_s, transfer_s):
        return None
    return min(1.0, hidden_s / min(compute_s, transfer_s))


def resident_frac_that_hides(compute_s: float, bytes_per_s: float, kv_bytes: int) -> float:
    """Smallest p at which loads are no longer than the computation: ``max(0, 1 - T_c * B / S)``.

    Raises:
        ConfigError: the bandwidth is not positive.
    """
    if bytes_per_s <= 0.0:
        raise ConfigError("a link carries more than 0 bytes per second", got=bytes_per_s)
    return max(0.0, 1.0 - compute_s * bytes_per_s / kv_bytes) if kv_bytes else 0.0


def mean_access_s(levels: Sequence[Level], miss_s: float) -> float:
    """Mean seconds of an access to tiers, the rest of which are misses.

    >>> round(mean_access_s([Level(0.5, 0.0), Level(0.3, 0.020), Level(0.1, 0.080)], miss_s=0.165), 6)
    0.0305

    Raises:
        ConfigError: the shares are negative or more than everything.
    """
    found = sum(level.share for level in levels)
    if found > 1.0 + 1e-9 or any(level.share < 0.0 for level in levels):
        raise ConfigError("shares are not negative and at most 1 together", got=found)
    return sum(level.share * level.access_s for level in levels) + max(0.0, 1.0 - found) * miss_s
