"""Learned web caches of libCacheSim (LRB, 3L-Cache, GL-Cache) on block streams, with the prefix rule.

What is compared: the device tier alone, and blocks that count as found only in the unbroken run from the start of a
prompt, as everywhere here. A request's blocks are used deepest first, each as an object of size 1. Looking up and
bringing in is one call in libCacheSim, so what a request brings in may push out its own prefix before that is looked
up, which the simulator rules out. It hardly matters: LRU through this path finds within 0.5 % as many blocks as the
simulator's LRU on the conversation sample (``python tests/benchmarks/peers_web_caches.py`` prints both).

What is not: a host tier, pinned blocks of running requests, and what these caches were built for, which is objects of
many sizes in streams of hundreds of millions of requests. Their training intervals fit those: as packaged, LRB and
3L-Cache train for the first time after 131,072 samples and evict by recency until then. libCacheSim's Python package
lets nobody change that. GL-Cache's interval can be set, and is: a twentieth of the trace's time, in segments of at most
100 blocks and at least 20 segments. Its clock has whole seconds, as the format of its traces.

Each simulation runs in a process of its own, since a failed check inside libCacheSim ends the process.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune import api
from autotune.core.costs import CostProfile
from autotune.core.trace import Trace
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.result import CacheResult

KINDS = ("LRB", "3L-Cache", "GL-Cache")
_HASHPOWER = 18
_MOST_PER_SEGMENT, _LEAST_SEGMENTS, _TRAININGS = 100, 20, 20


def is_installed() -> bool:
    """Whether libCacheSim can be compared with."""
    return find_spec("libcachesim") is not None


def simulate(kind: str, trace: Trace, engine: CacheConfig, costs: CostProfile) -> CacheResult | None:
    """A web cache as the device tier; nothing where libCacheSim gave up."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            hits = pool.submit(prefix_hits, kind, trace, engine.device_blocks).result()
        except BrokenProcessPool:
            print(f"{kind} on {engine.device_blocks} blocks: libCacheSim ended the process", file=sys.stderr)
            return None
    empty = simulate_cache(trace, engine, costs)  # for the columns that a device tier alone leaves at zero
    return replace(empty, device_hit=hits)


def prefix_hits(kind: str, trace: Trace, capacity_blocks: int) -> npt.NDArray[np.int32]:
    """``(n_requests,)`` blocks of each request found in the unbroken run from its start."""
    import libcachesim

    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # libCacheSim prints its parameters
        os.dup2(nowhere, stream)
    cache, request = _cache(kind, trace, capacity_blocks), libcachesim.Request(obj_size=1)
    hits = np.zeros(trace.n_requests, np.int32)
    for number in range(trace.n_requests):
        request.clock_time = int(trace.arrival_s[number])
        run = 0
        for block in trace.blocks_of(number)[::-1].tolist():
            request.obj_id = block + 1  # id 0 ends a trace
            run = run + 1 if cache.get(request) else 0
        hits[number] = run  # of the blocks up to the first of the prompt
    return hits


def _cache(kind: str, trace: Trace, capacity_blocks: int) -> Any:
    import libcachesim

    if kind == "GL-Cache":
        return libcachesim.GLCache(
            capacity_blocks,
            hashpower=_HASHPOWER,
            segment_size=max(1, min(_MOST_PER_SEGMENT, capacity_blocks // _LEAST_SEGMENTS)),
            retrain_intvl=max(1, int(trace.span_s / _TRAININGS)),
        )
    kinds = {"LRB": libcachesim.LRB, "3L-Cache": libcachesim.ThreeLCache, "LRU": libcachesim.LRU}
    if kind == "LRU":
        return kinds[kind](capacity_blocks, hashpower=_HASHPOWER)
    return kinds[kind](capacity_blocks, hashpower=_HASHPOWER, objective="object-miss-ratio")


def main() -> None:
    """Say how many blocks LRU finds on the conversation sample through this path and in the simulator."""
    trace, costs = Trace.open("sample:conversation"), api.cost_profile()[1]
    for frac in (0.0025, 0.005, 0.01, 0.02, 0.05):
        engine = CacheConfig(round(trace.n_blocks * frac))
        through = simulate("LRU", trace, engine, costs)
        theirs = 0 if through is None else int(through.device_hit.sum())
        ours = int(simulate_cache(trace, engine, costs).device_hit.sum())
        print(f"{engine.device_blocks:,} blocks: {theirs:,} through libCacheSim, {ours:,} in the simulator")


if __name__ == "__main__":
    main()
