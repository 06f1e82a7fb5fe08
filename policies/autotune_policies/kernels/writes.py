"""The write budget of a host tier, compiled: stores are paid for by time that goes by.

``ints[WRITTEN_UP_TO_NS]`` is the moment up to which the budget is spent; a block is :data:`WRITE_NS` of it. See
:mod:`autotune.core.learned.write_bucket`, which says the same in plain Python.
"""

from __future__ import annotations

from autotune.core.hazard_layout import BUDGET_BEGAN_NS, WRITE_BURST_NS, WRITE_NS, WRITTEN_UP_TO_NS
from autotune.core.state import NOW_NS, TierState
from autotune_policies.kernels.decide import write_price, write_reserve_ns
from autotune_policies.kernels.jit import step


@step
def _reserve_ns(s: TierState) -> int:
    elapsed_ns = s.ints[NOW_NS] - s.ints[BUDGET_BEGAN_NS]
    return write_reserve_ns(elapsed_ns, int(s.params[WRITE_NS]), int(s.params[WRITE_BURST_NS]))


@step
def price(s: TierState) -> float:
    """By how much a block must outrank the next victim, now that the write budget is as empty as it is; 0 = no budget.

    Infinite once nothing is left of it.
    """
    return write_price(s.ints[NOW_NS] - s.ints[WRITTEN_UP_TO_NS], int(s.params[WRITE_NS]), _reserve_ns(s))


@step
def has_credit(s: TierState) -> bool:
    """Whether less was written ahead of the budget than the reserve."""
    return s.params[WRITE_NS] == 0.0 or s.ints[WRITTEN_UP_TO_NS] - s.ints[NOW_NS] <= _reserve_ns(s)


@step
def spend(s: TierState) -> None:
    """One block is stored: what the budget had saved up gets less by it."""
    if s.params[WRITE_NS] > 0.0:
        least_ns = s.ints[NOW_NS] - int(s.params[WRITE_BURST_NS])
        s.ints[WRITTEN_UP_TO_NS] = max(s.ints[WRITTEN_UP_TO_NS], least_ns) + int(s.params[WRITE_NS])


@step
def take_back(s: TierState) -> None:
    """A block left in the round that brought it, so it was never stored."""
    s.ints[WRITTEN_UP_TO_NS] -= int(s.params[WRITE_NS])
