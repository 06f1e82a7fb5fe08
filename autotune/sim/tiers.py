"""From a policy's name and parameters to what runs it: the state of its compiled twin, or the plain class."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.core import registry
from autotune.core.costs import CostProfile
from autotune.core.decide.policy_codes import CODES
from autotune.core.decide.rank import NS_PER_S, rank_weight_s, round_half_up
from autotune.core.decide.reuse_layout import N_AGE_BINS, N_CLASSES, N_EDGES
from autotune.core.decide.sketch import ROWS, sketch_width
from autotune.core.eviction import EvictionPolicy, PolicySpec, TierContext
from autotune.core.hazard_layout import EDGES
from autotune.core.history import N_SHARED_COLUMNS
from autotune.core.state import (
    CAPACITY,
    KIND,
    N_BLOCKS,
    N_FLOATS,
    N_HEAP_COLUMNS,
    N_INTS,
    N_KEY_COLUMNS,
    N_LIST_COLUMNS,
    N_LISTS,
    N_NODE_COLUMNS,
    N_PARAMS,
    N_VICTIMS,
    NEXT,
    PREV,
    TierState,
)
from autotune.core.trace import Trace
from autotune.core.types import Tier

_fill_value_terms = registry.load(registry.KERNELS, "tier").fill_value_terms
_FIRST_RANKED = CODES["lfu"]
_BY_VALUE = ("gdsf", "clairvoyant_seconds")
_LISTS_ONLY = ("lru", "fifo", "sieve", "arc", "wtinylfu")


def tier_context(
    capacity_blocks: int, tier: Tier, trace: Trace, costs: CostProfile, unit_blocks: int = 1
) -> TierContext:
    """What the policy of a tier may know: its capacity, and the seconds at stake per depth.

    On the device a hit saves the recomputation; below it, the recomputation less the load.

    Args:
        capacity_blocks: What the tier holds, in whatever it stores together.
        tier: Which one.
        trace: The requests.
        costs: The cost model.
        unit_blocks: Blocks that depth and seconds are counted by.
    """
    depths = max(1, int(np.diff(trace.block_offsets).max(initial=1)) // unit_blocks)
    unit_tokens = unit_blocks * trace.block_tokens
    edges = costs.prefill_s(np.arange(depths + 1, dtype=np.float64) * unit_tokens)
    value_s = np.diff(edges)
    if tier is not Tier.DEVICE:
        value_s = np.maximum(value_s - costs.block_load_s(unit_tokens), 0.0)
    return TierContext(capacity_blocks, tuple(value_s.tolist()))


def disk_path_bytes_per_s(costs: CostProfile) -> float:
    """Bandwidth from disk to the device: what was read from disk crosses the host link afterwards."""
    return 1.0 / (1.0 / costs.disk_bytes_per_s + 1.0 / costs.load_bytes_per_s)


def plain_policy(spec: PolicySpec, context: TierContext) -> EvictionPolicy:
    """The plain Python policy of that name.

    Raises:
        UnknownNameError: no policy of that name is registered.
        PolicyError: a parameter is unknown or out of range.
    """
    policy: EvictionPolicy = registry.load(registry.POLICIES, spec.name)(context, **dict(spec.params))
    return policy


def has_compiled_twin(spec: PolicySpec) -> bool:
    """Whether the compiled simulator knows the policy; plug-ins may be plain only."""
    return spec.name in CODES


def has_compiled_vllm_twin(spec: PolicySpec) -> bool:
    """Whether the compiled vllm mode knows the policy as that of a host."""
    return spec.name == "lru" or (has_compiled_twin(spec) and is_ranked(spec))


def is_ranked(spec: PolicySpec) -> bool:
    """Whether the policy's compiled twin evicts the smallest key, so that it asks for parent and depth."""
    return CODES[spec.name] >= _FIRST_RANKED


def empty_tier() -> TierState:
    """State of a tier that does not exist: capacity 0."""
    nothing = np.zeros(0, np.int64)
    return TierState(
        ints=np.zeros(N_INTS, np.int64),
        floats=np.zeros(N_FLOATS),
        params=np.zeros(N_PARAMS),
        nodes=np.zeros((0, N_NODE_COLUMNS), np.int32),
        keys=np.zeros((0, N_KEY_COLUMNS), np.int64),
        counts=np.zeros(0),
        heap=np.zeros((0, N_HEAP_COLUMNS), np.int64),
        terms=nothing,
        sketch=np.zeros(0, np.uint8),
        victims=np.zeros(N_VICTIMS, np.int64),
        shared=np.zeros((0, N_SHARED_COLUMNS), np.int64),
    )


def compiled_tier(spec: PolicySpec, context: TierContext, n_blocks: int) -> TierState:
    """State of the compiled twin of a policy, empty; one that ranks must still be told where the blocks stand.

    Args:
        spec: Policy and parameters.
        context: Capacity and values.
        n_blocks: Distinct blocks of the trace.
    """
    plain_policy(spec, TierContext(1))  # validates the parameters, by the same rules as everywhere
    n_columns = N_LIST_COLUMNS if spec.name in _LISTS_ONLY else N_NODE_COLUMNS
    nodes = empty_nodes(n_blocks, n_columns)
    ints = np.zeros(N_INTS, np.int64)
    ints[KIND], ints[CAPACITY], ints[N_BLOCKS] = CODES[spec.name], context.capacity_blocks, n_blocks
    params, terms = _parameters(spec, context)
    size = n_blocks if is_ranked(spec) else 0
    # A tier that holds every block never evicts, so nothing larger than the trace is ever looked up.
    counted = min(context.capacity_blocks, max(1, n_blocks)) if spec.name == "wtinylfu" else 0
    return TierState(
        ints=ints,
        floats=np.zeros(N_FLOATS),
        params=params,
        nodes=nodes,
        keys=np.zeros((size, N_KEY_COLUMNS), np.int64),
        counts=np.zeros(size),
        heap=np.zeros((size, N_HEAP_COLUMNS), np.int64),
        terms=terms,
        sketch=np.zeros(ROWS * sketch_width(counted) if counted else 0, np.uint8),
        victims=np.zeros(N_VICTIMS, np.int64),
        shared=np.zeros((0, N_SHARED_COLUMNS), np.int64),
    )


def empty_nodes(n_blocks: int, n_columns: int = N_NODE_COLUMNS) -> npt.NDArray[np.int32]:
    """``(n_blocks + N_LISTS, n_columns)`` rows of blocks that are nowhere, and of lists that are empty."""
    nodes = np.zeros((n_blocks + N_LISTS, n_columns), np.int32)
    heads = np.arange(n_blocks, n_blocks + N_LISTS)
    nodes[heads, PREV] = nodes[heads, NEXT] = heads
    return nodes


def learned_tier(context: TierContext, nodes: npt.NDArray[np.int32], shared: npt.NDArray[np.int64]) -> TierState:
    """State of a tier of the learned policy, empty; whoever asks says what governs it.

    Args:
        context: Capacity and values.
        nodes: Where the blocks stand, see :func:`autotune.sim.scan.place_blocks`.
        shared: ``(n_blocks, N_SHARED_COLUMNS)`` what all tiers know of each block.
    """
    n_blocks = len(shared)
    ints = np.zeros(N_INTS, np.int64)
    ints[CAPACITY], ints[N_BLOCKS] = context.capacity_blocks, n_blocks
    return TierState(
        ints=ints,
        floats=np.zeros(N_FLOATS + N_CLASSES * N_AGE_BINS),
        params=np.zeros(EDGES + N_EDGES),
        nodes=nodes,
        keys=np.zeros((n_blocks, N_KEY_COLUMNS), np.int64),
        counts=np.zeros(n_blocks),
        heap=np.zeros((n_blocks, N_HEAP_COLUMNS), np.int64),
        terms=_in_ns(context.value_s),
        sketch=np.zeros(0, np.uint8),
        victims=np.zeros(N_VICTIMS, np.int64),
        shared=shared,
    )


def learned_values_ns(trace: Trace, costs: CostProfile) -> npt.NDArray[np.int64]:
    """``(max_depth + 1,)`` nanoseconds that a hit saves by depth, as every tier of a learned policy counts them."""
    return _in_ns(tier_context(1, Tier.HOST, trace, costs).value_s)


def _in_ns(value_s: Sequence[float]) -> npt.NDArray[np.int64]:
    return np.array([round_half_up(value * NS_PER_S) for value in value_s], np.int64)


def _parameters(spec: PolicySpec, context: TierContext) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Parameter vector and value terms by depth, as the kernels document them."""
    given = {**registry.load(registry.POLICIES, spec.name).PARAMETERS, **dict(spec.params)}
    params, terms = np.zeros(N_PARAMS), np.zeros(len(context.value_s), np.int64)
    if spec.name == "rank":
        weight_ns = rank_weight_s(given["lambda_recency"], given["tau_s"]) * NS_PER_S
        params[:4] = weight_ns, given["half_life_s"], _ghosts(given, context), given["admission"]
        _fill_value_terms(weight_ns, given["cost_weight"], np.array(context.value_s), terms)
    elif spec.name == "lfu":
        params[2] = _ghosts(given, context)
    elif spec.name == "lrfu":
        params[:2] = given["half_life_s"] * NS_PER_S, given["half_life_s"]
    else:
        params[: len(given)] = list(given.values())
    if spec.name in _BY_VALUE:
        terms[:] = [round_half_up(value_s * NS_PER_S) for value_s in context.value_s]
    return params, terms


def _ghosts(given: dict[str, float], context: TierContext) -> int:
    return math.ceil(given["ghost_ratio"] * context.capacity_blocks)
