from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core import registry
from autotune.core.decide.sketch import ROWS, sketch_width
from autotune.core.eviction import BlockAccess, EvictionPolicy, TierContext
from autotune.core.state import (
    CAPACITY,
    GHOST,
    N_BLOCKS,
    N_FLOATS,
    N_INTS,
    N_KEY_COLUMNS,
    N_LISTS,
    N_NODE_COLUMNS,
    PINS,
    SIZE,
    SLOT,
    WHERE,
    TierState,
)
from autotune.testing.policies import Round, accesses, chain, round_lists
from autotune_policies.kernels import lists
from autotune_policies.parameters import ParameterisedPolicy

_ROUND_BLOCKS = 64
_CASES: list[tuple[str, dict[str, float]]] = [
    ("fifo", {}),
    ("lru", {}),
    ("sieve", {}),
    ("s3fifo", {}),
    ("s3fifo", {"small_frac": 0.5, "ghost_frac": 0.4, "promote_uses": 1.0}),
    ("s3fifo", {"small_frac": 0.3, "ghost_frac": 0.0}),
    ("arc", {}),
    ("wtinylfu", {}),
    ("wtinylfu", {"window_frac": 0.4, "protected_frac": 0.5, "sample_factor": 2.0}),
    ("wtinylfu", {"window_frac": 1.0, "protected_frac": 0.0, "sample_factor": 1.0}),
    ("two_hit", {}),
    ("two_hit", {"threshold": 3.0, "tracker_blocks": 1000.0}),
    ("two_hit", {"threshold": 1.0, "tracker_blocks": 1.0}),
    ("two_hit", {"threshold": 2.0, "tracker_blocks": 500.0}),
]


def _state(params: list[float], capacity_blocks: int, n_blocks: int) -> TierState:
    """The state that a simulator hands to a queue policy, with its scratch columns as they come."""
    nodes = np.zeros((n_blocks + N_LISTS, N_NODE_COLUMNS), np.int32)
    nodes[:, SLOT] = -1
    ints = np.zeros(N_INTS, np.int64)
    ints[CAPACITY], ints[N_BLOCKS] = capacity_blocks, n_blocks
    state = TierState(
        ints=ints,
        floats=np.zeros(N_FLOATS),
        params=np.array([*params, *[0.0] * (8 - len(params))]),
        nodes=nodes,
        keys=np.zeros((0, N_KEY_COLUMNS), np.int64),
        counts=np.zeros(0),
        heap=np.zeros(0, np.int32),
        terms=np.zeros(1, np.int64),
        sketch=np.zeros(ROWS * sketch_width(capacity_blocks), np.uint8),
    )
    lists.clear_lists(state)
    return state


@dataclass
class _Twins:
    """The plain and the compiled form of a policy, which every call reaches."""

    plain: EvictionPolicy
    kernel: ModuleType
    state: TierState

    @classmethod
    def make(cls, name: str, params: dict[str, float], capacity_blocks: int, n_blocks: int) -> _Twins:
        kind: type[ParameterisedPolicy] = registry.load(registry.POLICIES, name)
        values = [params.get(key, default) for key, default in kind.PARAMETERS.items()]
        kernel = import_module(f"autotune_policies.kernels.{name}")
        return cls(kind(TierContext(capacity_blocks), **params), kernel, _state(values, capacity_blocks, n_blocks))

    def holds(self, block: int) -> bool:
        return bool(0 < self.state.nodes[block, WHERE] < GHOST)

    def pin(self, blocks: set[int], by: int) -> None:
        for block in blocks:
            self.state.nodes[block, PINS] += by

    def evict(self, pinned: set[int]) -> tuple[int, int]:
        self.pin(pinned, 1)
        compiled = int(self.kernel.evict(self.state))
        self.pin(pinned, -1)
        return self.plain.evict(pinned.__contains__), compiled

    def remove(self, block: int) -> None:
        self.plain.remove(block)
        self.kernel.remove(self.state, block)


def _use(twins: _Twins, request: list[BlockAccess]) -> None:
    """Report the accesses of a request to both forms."""
    plain, kernel, state = twins.plain, twins.kernel, twins.state
    for access in request:
        b = access.block
        assert (b in plain) == twins.holds(b)
        if b in plain:
            plain.touch(access)
            kernel.touch(state, b)
            continue
        admits = plain.admits(access)
        assert admits == (kernel.admits(state, b) if hasattr(kernel, "admits") else True)
        if admits:
            plain.insert(access)
            kernel.insert(state, b)
        else:
            plain.refuse(access)
            kernel.refuse(state, b)


def _same_decisions(twins: _Twins, rounds: list[Round]) -> int:
    """Play rounds to both forms, compare every victim and every resident; the number of evictions."""
    n_evicted = 0
    for r, request in zip(rounds, accesses(rounds), strict=True):
        _use(twins, request)
        pinned, victim = set(chain(r.pinned_block)), 0
        while len(twins.plain) > twins.plain.context.capacity_blocks and victim >= 0:
            victim, compiled = twins.evict(pinned)
            assert compiled == victim
            n_evicted += victim >= 0
        if r.removed_block in twins.plain:
            twins.remove(r.removed_block)
        assert len(twins.plain) == twins.state.ints[SIZE]
    n_blocks = int(twins.state.ints[N_BLOCKS])
    assert all((b in twins.plain) == twins.holds(b) for b in range(n_blocks))
    return n_evicted


@pytest.mark.parametrize(("name", "params"), _CASES)
@given(rounds=round_lists(), capacity_blocks=st.sampled_from([0, 1, 2, 3, 5, 8, 13, 40]))
def test_compiled_equals_plain(name: str, params: dict[str, float], rounds: list[Round], capacity_blocks: int) -> None:
    """Both forms evict the same blocks, whatever is used, pinned and removed."""
    twins = _Twins.make(name, params, capacity_blocks, _ROUND_BLOCKS)
    _same_decisions(twins, rounds)
    while len(twins.plain):
        victim, compiled = twins.evict(set())
        assert compiled == victim
    assert twins.evict(set()) == (-1, -1)


@pytest.mark.parametrize(("name", "params"), _CASES)
@pytest.mark.parametrize("capacity_blocks", [30, 300])
def test_compiled_equals_plain_on_long_streams(name: str, params: dict[str, float], capacity_blocks: int) -> None:
    """Both forms agree over thousands of evictions, ghosts, halvings and second chances included."""
    rng = random.Random(capacity_blocks)
    last = 2047
    rounds = [
        Round(
            rng.randint(1, last) if rng.random() < 0.6 else min(int(rng.paretovariate(0.5)), last),
            rng.randint(1, last) if rng.random() < 0.5 else 0,
            rng.randint(1, 40) if rng.random() < 0.1 else 0,
        )
        for _ in range(1500)
    ]
    n_evicted = _same_decisions(_Twins.make(name, params, capacity_blocks, last + 1), rounds)
    assert n_evicted > 100


@given(rounds=round_lists(), capacity_blocks=st.sampled_from([1, 3, 8]))
@pytest.mark.parametrize(("name", "params"), [("two_hit", {}), ("two_hit", {"threshold": 3.0}), ("wtinylfu", {})])
def test_compiled_equals_plain_below_another_tier(
    name: str, params: dict[str, float], rounds: list[Round], capacity_blocks: int
) -> None:
    """Both forms agree where uses are refused and a block comes down from the nearer tier."""
    twins = _Twins.make(name, params, capacity_blocks, _ROUND_BLOCKS)
    plain, kernel, state = twins.plain, twins.kernel, twins.state
    for request in accesses(rounds):
        for access in request:
            if access.block in plain:
                plain.touch(access)
                kernel.touch(state, access.block)
            else:
                plain.refuse(access)
                kernel.refuse(state, access.block)
        came = request[0]
        if came.block in plain:
            continue
        admits = plain.admits_demoted(came)
        assert admits == (kernel.admits_demoted(state, came.block) if name == "two_hit" else True)
        if admits:
            plain.demote(came)
            kernel.demote(state, came.block)
        while len(plain) > capacity_blocks:
            victim, compiled = twins.evict(set())
            assert compiled == victim
    assert all((b in plain) == twins.holds(b) for b in range(_ROUND_BLOCKS))
