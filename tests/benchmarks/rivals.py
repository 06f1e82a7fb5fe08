"""libCacheSim's compiled LRU on the flattened block stream, through its bulk interface."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from autotune.core.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_HASHPOWER = 24
_RECORD = np.dtype([("time_s", "<u4"), ("id", "<u8"), ("bytes", "<u4"), ("next_use", "<i8")])

Run = Callable[[int, int], float]


def is_installed() -> bool:
    """Whether libCacheSim can be compared with."""
    return find_spec("libcachesim") is not None


@contextmanager
def lru_runner(trace: Trace) -> Iterator[Run]:
    """A function from capacity in blocks and ``hashpower`` to LRU's miss ratio over the whole stream.

    Every block access is a request of size 1. The stream is a file in the ``oracleGeneral`` format, which libCacheSim
    maps into memory and reads without leaving compiled code. ``hashpower`` is the base-2 logarithm of the size of its
    hash table: 24 as shipped; one that fits the capacity is faster.
    """
    import libcachesim

    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "stream.oracleGeneral.bin")
        _write(trace, path)

        def run(capacity_blocks: int, hashpower: int) -> float:
            reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
            cache = libcachesim.LRU(capacity_blocks, hashpower=hashpower)
            miss_ratio: float = cache.process_trace(reader)[0]
            return miss_ratio

        yield run


def _write(trace: Trace, path: str) -> None:
    records = np.zeros(trace.n_accesses, _RECORD)
    records["time_s"] = np.repeat(trace.arrival_s, np.diff(trace.block_offsets)).astype(np.uint32)
    records["id"] = trace.block_ids.astype(np.uint64) + 1  # libCacheSim takes id 0 for the end of the trace
    records["bytes"] = 1
    records["next_use"] = -1
    records.tofile(path)
