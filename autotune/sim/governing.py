"""Who decides on the tiers of a simulated engine that learns: LRU, or a rule; and the change from one to the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.decide.policy_codes import CLASS_HAZARD, JOINT_LRU, LRU
from autotune.core.decide.reuse_layout import N_EDGES
from autotune.core.hazard_layout import ADMISSION, APART, COPY_FACTOR, EDGES, GAINS, SCALE_NS, TICK_NS, WRITE_NS
from autotune.core.history import IDLE_SINCE_NS
from autotune.core.state import ABSENT, CAPACITY, DEPTH, KIND, WHERE, TierState
from autotune.core.types import RankForm, StoreMode, Tier
from autotune.core.units import NS_PER_S
from autotune.sim.learned_loop import Side
from autotune.sim.learned_rules import HazardRules

BOTH_TIERS = (Tier.DEVICE, Tier.HOST)
_kernels = registry.load(registry.KERNELS, "tier")
_Values = npt.NDArray[np.int64]


def begin_as_lru(side: Side, store_mode: StoreMode) -> None:
    """Both tiers of a side are empty, and LRU from now on: one LRU over both unless stores are eager or limited."""
    side.device.ints[KIND] = LRU
    side.host.ints[KIND] = JOINT_LRU if side.host.ints[CAPACITY] else LRU
    side.host.params[APART] = _is_joint(side, store_mode)


def govern(
    side: Side, rules: HazardRules | None, governed: tuple[Tier, ...], store_mode: StoreMode, values_ns: _Values
) -> None:
    """Put a rule in force on the governed tiers of a side; none = LRU, as on its other tiers.

    Args:
        side: Its device and host.
        rules: The rule.
        governed: Tiers that it governs.
        store_mode: When blocks come to the host.
        values_ns: ``(max_depth + 1,)`` nanoseconds that a hit saves, by depth.
    """
    rules = None if rules is None else rules.for_stores(store_mode)
    of_device, of_host = (rules if tier in governed else None for tier in BOTH_TIERS)
    if of_device is None:
        _line_up(side.device, side.device, apart=False)
    else:
        _rank(side.device, side.device, Tier.DEVICE, of_device, values_ns)
    if not side.host.ints[CAPACITY]:
        return
    if of_host is None:
        _line_up(side.host, side.device, apart=of_device is None and _is_joint(side, store_mode))
    else:
        _rank(side.host, side.device, Tier.HOST, of_host, values_ns)


def _is_joint(side: Side, store_mode: StoreMode) -> bool:
    """Whether the host continues the LRU of the device; under a write budget a copy is worth a write."""
    return store_mode is not StoreMode.EAGER and side.host.params[WRITE_NS] == 0.0


def _rank(state: TierState, nearer: TierState, tier: Tier, rules: HazardRules, values_ns: _Values) -> None:
    was_lru = state.ints[KIND] != CLASS_HAZARD
    state.ints[KIND] = CLASS_HAZARD
    _put_in_force(state, tier, rules, values_ns)
    if was_lru:
        _kernels.take_over(state, nearer)
    _kernels.reorder_all(state)


def _line_up(state: TierState, nearer: TierState, *, apart: bool) -> None:
    """A tier is LRU, by the last use of what it holds already; blocks of one use leave deepest first."""
    if state.ints[KIND] != CLASS_HAZARD and state.params[APART] == apart:
        return
    residents = np.flatnonzero(state.nodes[: len(state.shared), WHERE] != ABSENT)
    residents = residents[np.lexsort((-state.nodes[residents, DEPTH], state.shared[residents, IDLE_SINCE_NS]))]
    state.ints[KIND] = LRU if nearer is state else JOINT_LRU
    state.params[APART] = apart
    _kernels.line_up(state, residents, (nearer.nodes[residents, WHERE] != ABSENT).astype(np.uint8))


def _put_in_force(state: TierState, tier: Tier, rules: HazardRules, values_ns: _Values) -> None:
    state.params[ADMISSION] = 1.0 if rules.marginal and tier is Tier.HOST else 0.0
    state.params[TICK_NS] = round(rules.tick_s * NS_PER_S)
    _rank_by(state, rules, values_ns)
    state.params[COPY_FACTOR] = rules.copy_factor if tier is Tier.HOST else 1.0
    state.params[EDGES : EDGES + N_EDGES] = rules.packed.edges_ns
    gains = rules.packed.gains if tier is Tier.HOST else rules.device_gains
    state.floats[GAINS : GAINS + gains.size] = gains.ravel()


def _rank_by(state: TierState, rules: HazardRules, values_ns: _Values) -> None:
    """The form of the keys, and what the seconds at stake contribute to them by depth."""
    if rules.form is RankForm.HAZARD:
        state.params[SCALE_NS], state.terms[:] = 0.0, values_ns
        return
    scale_ns = state.params[SCALE_NS] = rules.packed.scale_ns
    _kernels.fill_value_shifts(scale_ns, values_ns, state.terms)
