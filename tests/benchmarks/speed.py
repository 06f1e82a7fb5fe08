"""Speed, side by side in one run: block accesses per second, tuning, start-up. ``python tests/benchmarks/speed.py``."""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import inputs
import numpy as np
import rivals
from tables import table

from autotune.api import cost_profile
from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.sim import columns
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.loop import run_instant
from autotune.sim.prepare import make_rules, make_tiers
from autotune.sim.result import CacheResult
from autotune.sim.stream import make_stream

FRACTIONS = (0.005, 0.01, 0.05, 0.2)
RANK = PolicySpec.of(
    "rank", lambda_recency=0.1, tau_s=100.0, half_life_s=900.0, cost_weight=0.5, ghost_ratio=16.0, admission=1.0
)
POLICIES = {"LRU": PolicySpec("lru"), "rank rule": RANK}
MIN_ACCESSES = 3_000_000
_COPIES = (1, 10, 50)
_HASHPOWERS = (rivals.DEFAULT_HASHPOWER, 20, 18, 16)
_COMMAND = Path(sys.executable).with_name("kv-autotune")


@dataclass(frozen=True, slots=True)
class Engine:
    """One simulated engine with one policy on its only tier."""

    trace: Trace
    config: CacheConfig
    costs: CostProfile

    def whole(self) -> CacheResult:
        """The whole call, set-up included."""
        return simulate_cache(self.trace, self.config, self.costs)

    def loop_s(self) -> float:
        """Seconds of the compiled loop alone."""
        stream = make_stream(self.trace, self.config)
        tiers = make_tiers(self.trace, self.config, self.costs)
        rules = make_rules(self.trace, self.config, self.costs)
        out = np.zeros((self.trace.n_requests, columns.N_COLUMNS), np.int32)
        started_s = time.perf_counter()
        run_instant(stream, *tiers, rules, np.zeros(0, np.int64), out, 0, self.trace.n_requests)
        return time.perf_counter() - started_s


def seconds(function: Callable[[], object]) -> float:
    """How long a call takes."""
    started_s = time.perf_counter()
    function()
    return time.perf_counter() - started_s


def engine(trace: Trace, policy: PolicySpec, footprint_frac: float) -> Engine:
    """A device that holds this share of the trace's footprint."""
    blocks = max(1, int(trace.n_blocks * footprint_frac))
    return Engine(trace, CacheConfig(blocks, device_policy=policy), cost_profile()[1])


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep to one core meanwhile."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def throughput(trace: Trace, rounds: int) -> str:
    """Block accesses per second of the policies and of libCacheSim's LRU, which take turns; best of all rounds."""
    heads = ["share of footprint", "policy", "whole call", "loop alone"]
    if not rivals.is_installed():
        with on_one_core():
            return table(heads, [row for frac in FRACTIONS for row in _rows(trace, frac, rounds, {})])
    heads += ["libCacheSim LRU as shipped", "ratio", "libCacheSim LRU, best hash table", "ratio"]
    with rivals.lru_runner(trace) as run, on_one_core():
        rows = []
        for frac in FRACTIONS:
            capacity = max(1, int(trace.n_blocks * frac))
            theirs = {power: partial(run, capacity, power) for power in _HASHPOWERS}
            rows += _rows(trace, frac, rounds, theirs)
    return table(heads, rows)


def _rows(trace: Trace, frac: float, rounds: int, theirs: Mapping[int, Callable[[], object]]) -> list[list[str]]:
    engines = {name: engine(trace, spec, frac) for name, spec in POLICIES.items()}
    for one in engines.values():
        one.whole()  # compiles, or reads what was compiled before
    best_s: dict[str | int, float] = {}
    loop_s = dict.fromkeys(engines, math.inf)
    for _ in range(rounds):
        for name, one in engines.items():
            best_s[name] = min(best_s.get(name, math.inf), seconds(one.whole))
            loop_s[name] = min(loop_s[name], one.loop_s())
        for power, run in theirs.items():
            best_s[power] = min(best_s.get(power, math.inf), seconds(run))
    rows = []
    for name in engines:
        row = [f"{100 * frac:g} %", name, _rate(trace, best_s[name]), _rate(trace, loop_s[name])]
        if theirs:
            shipped_s, fastest_s = best_s[rivals.DEFAULT_HASHPOWER], min(best_s[power] for power in theirs)
            row += [_rate(trace, shipped_s), f"{shipped_s / best_s[name]:.1f}"]
            row += [_rate(trace, fastest_s), f"{fastest_s / best_s[name]:.1f}"]
        rows.append(row)
    return rows


def _rate(trace: Trace, taken_s: float) -> str:
    return f"{trace.n_accesses / taken_s / 1e6:.1f} M/s"


def growth(trace: Trace, rounds: int) -> str:
    """Block accesses per second on copies of a trace, one after the other, each with blocks of its own."""
    traces = [inputs.repeated(trace, times) for times in _COPIES]
    rows = []
    with on_one_core():
        for name, spec in POLICIES.items():
            for host in (0, 20_000):
                tiers = {"host_policy" if host else "device_policy": spec}
                config = CacheConfig(5_000, host, **tiers)  # type: ignore[arg-type]
                engines = [Engine(each, config, cost_profile()[1]) for each in traces]
                taken_s = [min(seconds(one.whole) for _ in range(rounds)) for one in engines]
                place = "host of 20,000 blocks" if host else "device of 5,000 blocks"
                rates = [_rate(each, one_s) for each, one_s in zip(traces, taken_s, strict=True)]
                rows.append([f"{name} on a {place}", *rates])
    return table(["simulation", *(f"{each.n_accesses:,} accesses" for each in traces)], rows)


def commands(rounds: int) -> str:
    """Wall-clock seconds of whole commands, start-up included."""
    with TemporaryDirectory() as folder:
        source = ["--trace", "sample:conversation", "--device-blocks", "5000"]
        tuned = ["tune", *source, "--trials", "50", "--out", folder]
        asked = {
            "`simulate`, nothing compiled yet": (["simulate", *source], f"{folder}/cache"),
            "`simulate`": (["simulate", *source], None),
            "`tune --trials 50`: search, random search beside it, table, report": (tuned, None),
            "`tune --trials 50 --no-random-search --no-report`": ([*tuned, "--no-random-search", "--no-report"], None),
        }
        rows = []
        for name, (arguments, cache) in asked.items():
            n = 1 if cache else rounds
            rows.append([name, f"{min(_command_s(arguments, cache) for _ in range(n)):.1f} s"])
    return table(["command, on `sample:conversation` with a device of 5,000 blocks", "wall clock"], rows)


def _command_s(arguments: list[str], cache: str | None) -> float:
    environment = {**os.environ, **({"XDG_CACHE_HOME": cache} if cache else {})}
    return seconds(lambda: subprocess.run([_COMMAND, *arguments], env=environment, capture_output=True, check=True))


def report(rounds: int) -> str:
    """All tables."""
    stream = inputs.long_stream(MIN_ACCESSES)
    trace = stream.open()
    size = f"{trace.n_accesses:,} block accesses, {trace.n_blocks:,} different blocks, {trace.n_requests:,} requests"
    return "\n\n".join(
        [
            f"Simulated block accesses per second, one core, {stream.name}: {size}. Best of {rounds} rounds in turns.",
            throughput(trace, rounds),
            "Block accesses per second as the trace grows (the conversation sample, repeated with fresh blocks):",
            growth(inputs.sample("conversation"), rounds),
            "Whole commands:",
            commands(min(rounds, 3)),
        ]
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(".")[0])
    parser.add_argument("--rounds", type=int, default=7)
    print(report(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
