"""Doubly linked lists inside a :class:`TierState`: the queues of the compiled policies.

A block is in at most one list at a time. List ``k`` starts at its head row ``n_blocks + k``: NEXT of the head is the
newest block, PREV of the head the oldest; an empty list's head points to itself. Every function is O(1), but for
:func:`oldest_idle`, which walks over pinned blocks.
"""

from __future__ import annotations

from autotune.core.state import LIST_SIZES, N_BLOCKS, N_LISTS, NEXT, PINS, PREV, TierState
from autotune_policies.kernels.jit import as_int64, compiled, step


def list_numbers(n: int) -> tuple[int, ...]:
    """Names for the first ``n`` lists of a policy.

    As Python integers they would be types of their own to Numba, and every function below compiled once for each.
    """
    return tuple(as_int64(k) for k in range(n))


@compiled
def clear_lists(s: TierState) -> None:
    """Make all lists empty."""
    for k in range(N_LISTS):
        head = s.ints[N_BLOCKS] + k
        s.nodes[head, PREV] = head
        s.nodes[head, NEXT] = head
        s.ints[LIST_SIZES + k] = 0


@step
def size(s: TierState, k: int) -> int:
    """Number of blocks in list ``k``."""
    return s.ints[LIST_SIZES + k]


@step
def push_newest(s: TierState, k: int, b: int) -> None:
    """Put block ``b``, which is in no list, at the newest end of list ``k``."""
    head = s.ints[N_BLOCKS] + k
    newest = as_int64(s.nodes[head, NEXT])
    s.nodes[b, PREV] = head
    s.nodes[b, NEXT] = newest
    s.nodes[newest, PREV] = b
    s.nodes[head, NEXT] = b
    s.ints[LIST_SIZES + k] += 1


@step
def unlink(s: TierState, k: int, b: int) -> None:
    """Take block ``b`` out of list ``k``, which holds it."""
    newer, older = as_int64(s.nodes[b, PREV]), as_int64(s.nodes[b, NEXT])
    s.nodes[newer, NEXT] = older
    s.nodes[older, PREV] = newer
    s.ints[LIST_SIZES + k] -= 1


@step
def make_newest(s: TierState, k: int, b: int) -> None:
    """Move block ``b`` of list ``k`` to the list's newest end."""
    unlink(s, k, b)
    push_newest(s, k, b)


@step
def oldest(s: TierState, k: int) -> int:
    """The oldest block of list ``k``; the head row itself, which is ``>= n_blocks``, if the list is empty."""
    return as_int64(s.nodes[s.ints[N_BLOCKS] + k, PREV])


@step
def newest(s: TierState, k: int) -> int:
    """The newest block of list ``k``; the head row itself, which is ``>= n_blocks``, if the list is empty."""
    return as_int64(s.nodes[s.ints[N_BLOCKS] + k, NEXT])


@compiled
def oldest_idle(s: TierState, k: int) -> int:
    """The oldest block of list ``k`` that is not pinned; -1 if there is none."""
    head = s.ints[N_BLOCKS] + k
    b = as_int64(s.nodes[head, PREV])
    while b != head and s.nodes[b, PINS] > 0:
        b = as_int64(s.nodes[b, PREV])
    return -1 if b == head else b
