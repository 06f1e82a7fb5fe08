from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core import registry
from autotune.core.decide.policy_codes import CODES
from autotune.core.decide.sketch import ROWS, sketch_width
from autotune.core.eviction import BlockAccess, EvictionPolicy, TierContext
from autotune.core.state import (
    CAPACITY,
    GHOST,
    KIND,
    N_BLOCKS,
    N_FLOATS,
    N_HEAP_COLUMNS,
    N_INTS,
    N_KEY_COLUMNS,
    N_LISTS,
    N_NODE_COLUMNS,
    N_VICTIMS,
    PINS,
    SIZE,
    SLOT,
    WHERE,
    TierState,
)
from autotune.testing.policies import Round, accesses, chain, round_lists
from autotune_policies.kernels import dispatch, lists
from autotune_policies.kernels.jit import from_python
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


_NO_NEXT_USE = np.zeros(0, np.int64)


_clear_lists = from_python(lists.clear_lists)


@cache
def _kernel(name: str) -> Any:
    """An operation as the simulator calls it."""
    return from_python(getattr(dispatch, name))


def _state(name: str, params: list[float], capacity_blocks: int, n_blocks: int) -> TierState:
    """The state that a simulator hands to a queue policy, with its scratch columns as they come."""
    nodes = np.zeros((n_blocks + N_LISTS, N_NODE_COLUMNS), np.int32)
    nodes[:, SLOT] = -1
    ints = np.zeros(N_INTS, np.int64)
    ints[KIND], ints[CAPACITY], ints[N_BLOCKS] = CODES[name], capacity_blocks, n_blocks
    state = TierState(
        ints=ints,
        floats=np.zeros(N_FLOATS),
        params=np.array([*params, *[0.0] * (8 - len(params))]),
        nodes=nodes,
        keys=np.zeros((0, N_KEY_COLUMNS), np.int64),
        counts=np.zeros(0),
        heap=np.zeros((0, N_HEAP_COLUMNS), np.int64),
        terms=np.zeros(1, np.int64),
        sketch=np.zeros(ROWS * sketch_width(capacity_blocks), np.uint8),
        shared=np.zeros((0, 2), np.int64),
        victims=np.zeros(N_VICTIMS, np.int64),
    )
    _clear_lists(state)
    return state


@dataclass
class _Twins:
    """The plain and the compiled form of a policy, which every call reaches."""

    plain: EvictionPolicy
    state: TierState

    @classmethod
    def make(cls, name: str, params: dict[str, float], capacity_blocks: int, n_blocks: int) -> _Twins:
        kind: type[ParameterisedPolicy] = registry.load(registry.POLICIES, name)
        values = [params.get(key, default) for key, default in kind.PARAMETERS.items()]
        return cls(kind(TierContext(capacity_blocks), **params), _state(name, values, capacity_blocks, n_blocks))

    def holds(self, block: int) -> bool:
        return bool(0 < self.state.nodes[block, WHERE] < GHOST)

    def pin(self, blocks: set[int], by: int) -> None:
        for block in blocks:
            self.state.nodes[block, PINS] += by

    def evict(self, n_blocks: int, pinned: set[int]) -> tuple[list[int], list[int]]:
        """Victims of the plain and of the compiled form, of at most ``n_blocks`` that are wanted."""
        reserved = int(self.state.ints[CAPACITY] - self.state.ints[SIZE]) + n_blocks
        self.pin(pinned, 1)
        n = _kernel("shrink")(self.state, reserved)
        self.pin(pinned, -1)
        victims = (self.plain.evict(pinned.__contains__) for _ in range(n_blocks))
        return list(itertools.takewhile(lambda b: b >= 0, victims)), self.state.victims[:n].tolist()

    def remove(self, block: int) -> None:
        self.plain.remove(block)
        _kernel("remove")(self.state, block)

    def refresh(self, request: list[BlockAccess], *, may_insert: bool) -> None:
        """One request, which lists its blocks deepest first, reaches the compiled form."""
        ids = np.array([access.block for access in reversed(request)], np.int32)
        _kernel("refresh")(self.state, ids, 0, len(ids), 1, _NO_NEXT_USE, may_insert)

    def n_excess(self) -> int:
        return max(0, len(self.plain) - self.plain.context.capacity_blocks)

    def same_residents(self) -> bool:
        return all((b in self.plain) == self.holds(b) for b in range(int(self.state.ints[N_BLOCKS])))


def _use(twins: _Twins, request: list[BlockAccess], *, may_insert: bool = True) -> None:
    """Report the accesses of a request to both forms."""
    twins.refresh(request, may_insert=may_insert)
    plain = twins.plain
    for access in request:
        if access.block in plain:
            plain.touch(access)
        elif may_insert and plain.admits(access):
            plain.insert(access)
        else:
            plain.refuse(access)


def _same_decisions(twins: _Twins, rounds: list[Round]) -> int:
    """Play rounds to both forms, compare every victim and every resident; the number of evictions."""
    n_evicted = 0
    for r, request in zip(rounds, accesses(rounds), strict=True):
        _use(twins, request)
        victims, compiled = twins.evict(twins.n_excess(), set(chain(r.pinned_block)))
        assert compiled == victims
        n_evicted += len(victims)
        if r.removed_block in twins.plain:
            twins.remove(r.removed_block)
        assert len(twins.plain) == twins.state.ints[SIZE]
    assert twins.same_residents()
    return n_evicted


@pytest.mark.parametrize(("name", "params"), _CASES)
@given(rounds=round_lists(), capacity_blocks=st.sampled_from([0, 1, 2, 3, 5, 8, 13, 40]))
def test_compiled_equals_plain(name: str, params: dict[str, float], rounds: list[Round], capacity_blocks: int) -> None:
    """Both forms evict the same blocks, whatever is used, pinned and removed."""
    twins = _Twins.make(name, params, capacity_blocks, _ROUND_BLOCKS)
    _same_decisions(twins, rounds)
    n_left = len(twins.plain)
    victims, compiled = twins.evict(n_left + 1, set())
    assert compiled == victims
    assert len(victims) == n_left


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
    plain, state = twins.plain, twins.state
    for request in accesses(rounds):
        _use(twins, request, may_insert=False)
        came = request[0]
        if came.block in plain:
            continue
        admits = plain.admits_demoted(came)
        assert admits == _kernel("admits_demoted")(state, came.block)
        if admits:
            plain.demote(came)
            _kernel("demote")(state, came.block)
        victims, compiled = twins.evict(twins.n_excess(), set())
        assert compiled == victims
    assert twins.same_residents()
