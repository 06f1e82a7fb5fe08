"""One interface for costs, whether they stand in a table or were measured on the running engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

from autotune.core.break_even import MAX_RUN_TOKENS, break_even_tokens
from autotune.core.costs import CostProfile
from autotune.core.estimates import Estimate

# A table's figure is taken to be right within a factor of two: half of it is one standard deviation.
TABLE_SPREAD_FRAC = 0.5
_Z = 1.959963984540054
_POSITIVE_FRAC = 1.0 / 16.0  # lower end of what cannot be 0, as a share of the table's figure

PREFILL_FIXED = "prefill_fixed_s"
PREFILL_LINEAR = "prefill_linear_s"
PREFILL_QUADRATIC = "prefill_quadratic_s"
STORE_EXPOSED = "store_exposed_frac"


class CostModel(Protocol):
    """What recompute and transfer cost, as coefficients and as estimates with their intervals."""

    def profile(self) -> CostProfile:
        """The coefficients that decisions are computed from."""

    def estimates(self, now_s: float) -> tuple[Estimate, ...]:
        """The same with interval, evidence and age, each of its own name.

        Args:
            now_s: The present on the clock of the observations.
        """


class BreakEven(NamedTuple):
    """Length of the shortest run whose load is cheaper than its recompute; ``None`` = loading never pays.

    Attributes:
        tokens: At the values.
        low_tokens: Where recompute is as dear and loads are as cheap as their intervals allow.
        high_tokens: The other way round.
    """

    tokens: int | None
    low_tokens: int | None
    high_tokens: int | None

    def __str__(self) -> str:
        """For people, such as ``96 tokens (32 to 512)``."""
        value, low, high = ("never" if n is None else f"{n:,}" for n in self)
        unit = "" if self.tokens is None else " tokens"
        return f"{value}{unit} ({low} to {high})"


class TableCosts:
    """Costs from a hardware table: every figure within a factor of two, and no observation behind it.

    Args:
        profile: As :func:`autotune.costs.roofline.profile` makes it.
    """

    def __init__(self, profile: CostProfile) -> None:
        self._profile = profile

    def profile(self) -> CostProfile:
        """The table's coefficients."""
        return self._profile

    def estimates(self, now_s: float) -> tuple[Estimate, ...]:
        """The table's coefficients with the interval that a table deserves."""
        return tuple(_from_table(self._profile, name, unit) for name, unit in _UNITS)


_UNITS = (
    (PREFILL_LINEAR, "s/token"),
    (PREFILL_QUADRATIC, "s/token pair"),
    ("load_bytes_per_s", "bytes/s"),
    ("load_latency_s", "s"),
    ("store_bytes_per_s", "bytes/s"),
    ("store_latency_s", "s"),
    (STORE_EXPOSED, "1"),
)


def _from_table(profile: CostProfile, name: str, unit: str) -> Estimate:
    value = float(getattr(profile, name))
    if name == STORE_EXPOSED:
        return Estimate(name, value, 0.0, 1.0, unit, 0, None, profile.source)
    half = _Z * TABLE_SPREAD_FRAC * value
    least = value * _POSITIVE_FRAC if name.endswith("bytes_per_s") else 0.0
    return Estimate(name, value, max(least, value - half), value + half, unit, 0, None, profile.source)


def break_even(costs: CostModel, now_s: float, start_tokens: int = 0, block_tokens: int = 1) -> BreakEven:
    """Break-even length with bounds: all coefficients at the end of their intervals that makes it short, or long.

    Args:
        costs: The cost model.
        now_s: The present on the clock of the observations.
        start_tokens: Tokens before the run, already on the device.
        block_tokens: Granularity of the answer.

    Raises:
        ConfigError: ``start_tokens`` is negative or ``block_tokens`` is not positive.
    """
    profile = costs.profile()
    known = {estimate.name: estimate for estimate in costs.estimates(now_s)}
    linear, quadratic = known[PREFILL_LINEAR], known[PREFILL_QUADRATIC]
    bandwidth, latency = known["load_bytes_per_s"], known["load_latency_s"]
    soon = replace(
        profile,
        prefill_linear_s=linear.high,
        prefill_quadratic_s=quadratic.high,
        load_bytes_per_s=bandwidth.high,
        load_latency_s=latency.low,
    )
    late = replace(
        profile,
        prefill_linear_s=linear.low,
        prefill_quadratic_s=quadratic.low,
        load_bytes_per_s=bandwidth.low,
        load_latency_s=latency.high,
    )
    return BreakEven(*(break_even_tokens(each, start_tokens, block_tokens) for each in (profile, soon, late)))


def first_length(pays: Callable[[int], bool], block_tokens: int = 1) -> int | None:
    """Shortest run of whole blocks that pays, where it need not pay for every longer one; ``None`` if none does.

    Lengths are looked at in steps of a fifth, and between the last that did not pay and the first that does by halving.
    """
    too_short, n_blocks, most = 0, 1, MAX_RUN_TOKENS // block_tokens
    while not pays(n_blocks * block_tokens):
        too_short, n_blocks = n_blocks, max(n_blocks + 1, math.ceil(1.2 * n_blocks))
        if n_blocks > most:
            return None
    while n_blocks - too_short > 1:
        middle = (too_short + n_blocks) // 2
        if pays(middle * block_tokens):
            n_blocks = middle
        else:
            too_short = middle
    return n_blocks * block_tokens
