"""What tuning is worth on time that it never saw, beside LRU, random search and good general rules.

    python tests/benchmarks/quality.py [--traces A,B] [--fracs 0.005,...] [--seeds 5] [--trials 100] [--tiers device,host]

Each trace is cut in the middle of its time. The first half is tuned on as ``kv-autotune tune`` does it by default: it
splits that half again, and may answer LRU. What it publishes then runs over the whole trace, warm, and is counted on the
second half. Output: a Markdown table per tier set-up and trace, one row per capacity; medians over the seeds of the
search, with the smallest and the largest.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from statistics import median

import inputs

from autotune.api import cost_profile
from autotune.core.eviction import PolicySpec
from autotune.core.settings import Settings
from autotune.core.trace import Trace
from autotune.search.choice import Goal, Judged, Split, choose, split_in_time
from autotune.search.problem import Problem, ranked_tier, with_policy
from autotune.search.setting import LRU_SETTING
from autotune.search.space import load_space
from autotune.search.study import StudyPlan, best_of, run_study
from autotune.search.tune import MIN_GAIN_FRAC, load_objective
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.result import Totals

FRACS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
RIVALS = ("arc", "s3fifo", "two_hit")
HOST_PER_DEVICE = 4
MAX_LOSS_FRAC = 0.005


@dataclass(frozen=True, slots=True)
class Job:
    """One tuning run."""

    tiers: str
    trace: str
    frac: float
    seed: int
    trials: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What it came to on the second half; gaps and savings in %, of the clairvoyant's and of LRU's cost."""

    published: bool
    hit_gap: float
    cost_gap: float
    saved: float
    unjudged_saved: float
    random_saved: float
    rivals_saved: tuple[float, ...]


@cache
def trace_named(name: str) -> Trace:
    """A trace by name, read once per process."""
    return next(one for one in inputs.all_inputs() if one.name == name).open()


def run(job: Job) -> Outcome:
    """Tune on the first half, count on the second."""
    trace, costs = trace_named(job.trace), cost_profile()[1]
    half = trace.first_request_at(trace.arrival_s[0] + trace.span_s / 2)
    device = max(1, round(trace.n_blocks * job.frac))
    engine = CacheConfig(device, HOST_PER_DEVICE * device if job.tiers == "host" else 0)
    given = Problem(trace.slice(0, half), engine, costs, ranked_tier(engine))
    split = split_in_time(given, Settings().search.train_frac)
    found, luck = (_search(split, sampler, job) for sampler in ("tpe", "random"))
    published = _publish(split, found, job.seed)

    def second_half(config: CacheConfig) -> Totals:
        return simulate_cache(trace, config, costs).totals(half)

    def ruled_by(policy: str) -> Totals:
        return second_half(with_policy(engine, given.ranked, PolicySpec(policy)))

    lru, bound = second_half(engine), ruled_by("clairvoyant")

    def saved(totals: Totals) -> float:
        return 100.0 * (1.0 - totals.cost_s / lru.cost_s) if lru.cost_s else 0.0

    tuned = second_half(published.engine)
    return Outcome(
        published=not published.setting.is_lru,
        hit_gap=_percent(lru.computed_blocks - tuned.computed_blocks, lru.computed_blocks - bound.computed_blocks),
        cost_gap=_percent(lru.cost_s - tuned.cost_s, lru.cost_s - bound.cost_s),
        saved=saved(tuned),
        unjudged_saved=saved(second_half(found.engine)),
        random_saved=saved(second_half(luck.engine)),
        rivals_saved=tuple(saved(ruled_by(rival)) for rival in RIVALS),
    )


def _search(split: Split, sampler: str, job: Job) -> Judged:
    plan = StudyPlan(sampler=sampler, trials=job.trials, seed=job.seed)
    rows = run_study(split.past, load_space(), load_objective("net_seconds"), plan)
    return split.judge(best_of(rows).setting)


def _publish(split: Split, found: Judged, seed: int) -> Judged:
    goal = Goal(load_objective("net_seconds"), (), MIN_GAIN_FRAC)
    return choose(split, found, split.judge(LRU_SETTING), goal, Settings().validation, seed)[0]


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole > 1e-9 else 0.0


def print_tables(jobs: list[Job], outcomes: list[Outcome]) -> None:
    """A table per tier set-up and trace, and the worst cell of all."""
    pairs = list(zip(jobs, outcomes, strict=True))
    for (tiers, trace), of_trace in groupby(pairs, key=lambda pair: (pair[0].tiers, pair[0].trace)):
        print(f"\n{trace}, {'device and host of four times its size' if tiers == 'host' else 'device only'}\n")
        print(
            "| size, % of footprint | published | hit gap closed, % | cost gap closed, % | cost saved, % | not judged, % | "
            "random search, % | ARC, % | S3-FIFO, % | two-hit, % |"
        )
        print("|---" * 10 + "|")
        for frac, of_cell in groupby(of_trace, key=lambda pair: pair[0].frac):
            print(_line(frac, [outcome for _, outcome in of_cell]))
    worst = min(outcomes, key=lambda outcome: outcome.saved)
    cell = jobs[outcomes.index(worst)]
    print(
        f"\nWorst published cell: {worst.saved:+.2f} % ({cell.trace}, {cell.tiers}, {100 * cell.frac:g} %, seed {cell.seed}); "
        f"limit {-100 * MAX_LOSS_FRAC:g} %."
    )


def _line(frac: float, outcomes: list[Outcome]) -> str:
    spread = [
        _spread([getattr(outcome, name) for outcome in outcomes])
        for name in ("hit_gap", "cost_gap", "saved", "unjudged_saved", "random_saved")
    ]
    rivals = [f"{value:.1f}" for value in outcomes[0].rivals_saved]
    published = f"{sum(outcome.published for outcome in outcomes)} of {len(outcomes)}"
    return f"| {100 * frac:g} | {published} | {' | '.join([*spread, *rivals])} |"


def _spread(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{median(values):.1f}" + (f" ({low:.1f} to {high:.1f})" if high - low >= 0.05 else "")


def main() -> None:
    """Run all cells and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", default=",".join(one.name for one in inputs.all_inputs()))
    parser.add_argument("--fracs", default=",".join(map(str, FRACS)))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--tiers", default="device,host")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    jobs = [
        Job(tiers, trace, float(frac), seed, given.trials)
        for tiers in given.tiers.split(",")
        for trace in given.traces.split(",")
        for frac in given.fracs.split(",")
        for seed in range(given.seeds)
    ]
    with ProcessPoolExecutor(given.processes) as pool:
        print_tables(jobs, list(pool.map(run, jobs)))


if __name__ == "__main__":
    main()
