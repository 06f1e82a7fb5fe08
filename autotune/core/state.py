"""Memory layout of one tier in the compiled simulator.

One row per block keeps what an access needs on one cache line. The layout lives here, free of Numba, because both
sides of the entry point ``autotune.kernels`` use it: the simulator allocates, the kernels read and write.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# Columns of ``nodes`` (int32), one row per block; list heads follow the blocks.
PREV, NEXT, WHERE, PINS, CHILDREN, SLOT, PARENT, DEPTH = range(8)
N_NODE_COLUMNS = 8
N_LIST_COLUMNS = 4  # the first ones are all that a policy needs which keeps nothing but lists

# Values of WHERE: 0 absent and unknown; residents are 1 to GHOST - 1; ghosts (remembered, not resident) from GHOST on.
ABSENT = 0
GHOST = 16

# Linked lists: list k has its head at row n_blocks + k; NEXT of the head is the newest, PREV of the head the oldest.
N_LISTS = 6

# Entries of ``ints`` (int64).
KIND, CAPACITY, SIZE, N_BLOCKS, NOW_NS, SEQUENCE, NEXT_USE, HEAP_SIZE, HAND, FLAG, REQUEST = range(11)
LIST_SIZES = 11  # ints[LIST_SIZES + k] is the length of list k
N_INTS = LIST_SIZES + N_LISTS + 6
SCRATCH = LIST_SIZES + N_LISTS  # six entries that a policy may use as it likes

# Columns of ``keys`` (int64): current rank and its tie-breaker; time of last access; request that made the block
# resident.
KEY, KEY_SEQUENCE, LAST_NS, INSERTED_BY = range(4)
N_KEY_COLUMNS = 4

# Columns of ``heap`` (int64), one row per slot: what the slot was last ordered by, and the block that stands in it.
HEAP_KEY, HEAP_SEQUENCE, HEAP_BLOCK = range(3)
N_HEAP_COLUMNS = 3

# Evictions that are handed on together.
N_VICTIMS = 256

N_FLOATS = 8
N_PARAMS = 8


class TierState(NamedTuple):
    """Arrays of one tier.

    Attributes:
        ints: ``(N_INTS,)`` int64 scalars, see the indices above.
        floats: ``(N_FLOATS,)`` float64 scalars that a policy may use as it likes.
        params: ``(n_params,)`` float64 parameters of the policy, in the order that its kernel documents.
        nodes: ``(n_blocks + N_LISTS, N_NODE_COLUMNS or N_LIST_COLUMNS)`` int32.
        keys: ``(n_blocks or 0, N_KEY_COLUMNS)`` int64, for policies that rank.
        counts: ``(n_blocks or 0,)`` float64 frequencies or small counters.
        heap: ``(n_blocks or 0, N_HEAP_COLUMNS)`` int64 binary heap of blocks.
        terms: ``(max_depth + 1,)`` int64 value term of the rank by depth, in nanoseconds.
        sketch: ``(n_counters,)`` uint8, for policies that count approximately.
        victims: ``(N_VICTIMS,)`` int64 blocks that left most recently, oldest eviction first.
        shared: ``(n_blocks or 0, N_SHARED_COLUMNS)`` int64, what all tiers of a learned policy know of each block; see
            :mod:`autotune.core.history`.
    """

    ints: npt.NDArray[np.int64]
    floats: npt.NDArray[np.float64]
    params: npt.NDArray[np.float64]
    nodes: npt.NDArray[np.int32]
    keys: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    heap: npt.NDArray[np.int64]
    terms: npt.NDArray[np.int64]
    sketch: npt.NDArray[np.uint8]
    victims: npt.NDArray[np.int64]
    shared: npt.NDArray[np.int64]
