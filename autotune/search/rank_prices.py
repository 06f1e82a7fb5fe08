"""Prices of ranks for a learned policy: measured where it is in force, written into its document."""

from __future__ import annotations

from autotune.core.costs import CostProfile
from autotune.core.policy import ClassHazardDocument, RankPrices
from autotune.core.trace import Trace
from autotune.core.types import RankForm
from autotune.sim.config import CacheConfig
from autotune.sim.obeying import governed_tiers, rules_of
from autotune.sim.rank_prices import marginal_ranks

_UNITS = {RankForm.HAZARD: "s_per_block_s", RankForm.FIXED_KEY: "key_s"}


def with_rank_prices(
    document: ClassHazardDocument, trace: Trace, engine: CacheConfig, costs: CostProfile
) -> ClassHazardDocument:
    """The document with what room is worth on the tiers that its rule governs.

    Args:
        document: The policy.
        trace: Requests as those that it was learned from.
        engine: Capacities, timing and the store mode of the rule.
        costs: The cost model.
    """
    governed, write = governed_tiers(document), document.budgets.host_write
    found = marginal_ranks(trace, engine, costs, rules_of(document), governed, write=write)
    (start, stop), unit = found.measured, _UNITS[document.class_hazard.form]
    prices = RankPrices.model_validate(
        {
            f"device_{unit}": found.device,
            f"host_{unit}": found.host,
            "moments": found.moments,
            "measured_on": f"requests {start + 1:,} to {stop:,} of the trace, with the rule in force from the first on",
        }
    )
    section = document.class_hazard.model_copy(update={"prices": prices})
    return document.model_copy(update={"class_hazard": section})
