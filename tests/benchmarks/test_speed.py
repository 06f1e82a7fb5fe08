"""Speed of the simulator beside libCacheSim's LRU; what is asserted is that both did the same work, never the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar

import inputs
import pytest
import rivals
import speed
from pytest_benchmark.fixture import BenchmarkFixture

from autotune.core.trace import Trace

pytestmark = pytest.mark.benchmark

_ROUNDS = 5
_T = TypeVar("_T")


@cache
def _trace() -> Trace:
    return inputs.long_stream(speed.MIN_ACCESSES).open()


@pytest.fixture(autouse=True)
def one_core() -> Iterator[None]:
    """Every round on one core."""
    with speed.on_one_core():
        yield


def _timed(benchmark: BenchmarkFixture, footprint_frac: float, function: Callable[..., _T], *args: object) -> _T:
    benchmark.group = f"{100 * footprint_frac:g} % of footprint"
    result: _T = benchmark.pedantic(  # type: ignore[no-untyped-call]
        function, args=args, rounds=_ROUNDS, warmup_rounds=1
    )
    if benchmark.stats is not None:  # it is where benchmarks are switched off
        benchmark.extra_info["million_accesses_per_s"] = _trace().n_accesses / benchmark.stats["min"] / 1e6
    return result


@pytest.mark.parametrize("footprint_frac", speed.FRACTIONS)
@pytest.mark.parametrize("policy", speed.POLICIES)
def test_simulation(benchmark: BenchmarkFixture, policy: str, footprint_frac: float) -> None:
    """A whole simulation, set-up included, accounts for every access."""
    engine = speed.engine(_trace(), speed.POLICIES[policy], footprint_frac)
    totals = _timed(benchmark, footprint_frac, engine.whole).totals()
    assert totals.device_hit_blocks + totals.computed_blocks == _trace().n_accesses


@pytest.mark.engine("libcachesim")
@pytest.mark.parametrize("hashpower", [rivals.DEFAULT_HASHPOWER, 16])
@pytest.mark.parametrize("footprint_frac", speed.FRACTIONS)
def test_libcachesim(benchmark: BenchmarkFixture, footprint_frac: float, hashpower: int) -> None:
    """LibCacheSim's LRU on the flattened stream finds as much as ours, but for where prefixes matter."""
    engine = speed.engine(_trace(), speed.POLICIES["LRU"], footprint_frac)
    with rivals.lru_runner(_trace()) as run:
        capacity = engine.config.device_blocks
        miss_ratio = _timed(benchmark, footprint_frac, run, capacity, hashpower)
    ours = engine.whole().totals()
    assert miss_ratio == pytest.approx(ours.computed_blocks / ours.accesses, abs=0.05)
