"""What tuning is worth on time that it never saw, beside LRU, random search and good general rules.

Each trace is cut in the middle of its time. ``tune`` gets the first half alone, with its default settings: it searches
the first 60 % of that, judges on the rest, and may answer LRU. What it publishes then runs over the whole trace, warm,
and is counted on the second half, which neither the search nor the verdict has seen.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from statistics import median

import inputs
from tables import ranged, table

from autotune import api
from autotune.core.eviction import PolicySpec
from autotune.core.settings import Settings
from autotune.core.trace import Trace
from autotune.search.choice import split_in_time
from autotune.search.problem import Evaluation, Problem, ranked_tier, with_policy
from autotune.search.study import best_of
from autotune.sim.config import CacheConfig
from autotune.sim.from_policy import engine_of

FRACS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
TIERS = ("device", "host")
HOST_PER_DEVICE = 4
RIVALS = ("arc", "s3fifo", "two_hit")
MAX_LOSS_FRAC = 0.005
MIN_HIT_GAP_FRAC = 0.25
_SETTINGS = ("published", "tpe", "random")
_SEEDS = 5


@dataclass(frozen=True, slots=True)
class Job:
    """One tuning run: tiers, trace, device as a share of the footprint, seed and trials of the search."""

    tiers: str
    trace: str
    frac: float
    seed: int
    trials: int


@dataclass(frozen=True, slots=True)
class Score:
    """A policy on the second half.

    Attributes:
        hit_gap_frac: Share of the gap from LRU to the clairvoyant in block hits that it closes; None if there is none.
        saved_frac: Share of LRU's critical-path seconds that it saves; negative where it costs more.
    """

    hit_gap_frac: float | None
    saved_frac: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one tuning run came to.

    Attributes:
        job: The run.
        device_blocks: Capacity of the device.
        is_published: Whether anything but LRU was published.
        lru_hit_frac: Share of accesses that LRU finds on any tier.
        bound_hit_frac: Share that the clairvoyant finds.
        scores: By ``published``, ``tpe`` and ``random`` (the best that each search found, judged or not) and rival.
    """

    job: Job
    device_blocks: int
    is_published: bool
    lru_hit_frac: float
    bound_hit_frac: float
    scores: dict[str, Score]


@cache
def trace_named(name: str) -> Trace:
    """A trace by name, read once per process."""
    return next(one for one in inputs.all_inputs() if one.name == name).open()


def run(job: Job) -> Outcome:
    """Tune on the first half, count on the second."""
    trace, costs = trace_named(job.trace), api.cost_profile()[1]
    half = trace.first_request_at(trace.arrival_s[0] + trace.span_s / 2)
    device = max(1, round(trace.n_blocks * job.frac))
    engine = CacheConfig(device, HOST_PER_DEVICE * device if job.tiers == "host" else 0)
    settings = _settings(job)
    past = trace.slice(0, half)
    result = api.tune(past, device_blocks=device, host_blocks=engine.host_blocks, settings=settings)
    problem = Problem(trace, engine, costs, ranked_tier(engine))
    tuned_on = split_in_time(replace(problem, trace=past), settings.search.train_frac).past
    engines = {"published": engine_of(result.document, engine, trace.block_tokens)}
    for study in ("tpe", "random"):
        best = best_of([row for row in result.trials if row.study == study])
        engines[study] = tuned_on.configure(best.setting)
    for policy in (*RIVALS, "lru", "clairvoyant"):
        engines[policy] = with_policy(engine, problem.ranked, PolicySpec(policy))
    found = {name: problem.evaluate_engine(one, (half, trace.n_requests)) for name, one in engines.items()}
    lru, bound = found.pop("lru"), found.pop("clairvoyant")
    scores = {name: _score(evaluation, lru, bound) for name, evaluation in found.items()}
    return Outcome(job, device, result.chosen != "lru", _hit_frac(lru), _hit_frac(bound), scores)


def _settings(job: Job) -> Settings:
    settings = Settings()
    search = settings.search.model_copy(update={"seed": job.seed, "trials": job.trials, "learned": False})
    return settings.model_copy(update={"search": search})


def _score(evaluation: Evaluation, lru: Evaluation, bound: Evaluation) -> Score:
    gap = lru.totals.computed_blocks - bound.totals.computed_blocks
    closed = lru.totals.computed_blocks - evaluation.totals.computed_blocks
    saved_frac = 1.0 - evaluation.totals.cost_s / lru.totals.cost_s if lru.totals.cost_s else 0.0
    return Score(closed / gap if gap > 0 else None, saved_frac)


def _hit_frac(evaluation: Evaluation) -> float:
    return 1.0 - evaluation.totals.computed_blocks / max(1, evaluation.totals.accesses)


def report(outcomes: Sequence[Outcome]) -> str:
    """A table per trace and tiers, and whether the promises hold."""
    parts = []
    for (trace, tiers), group in groupby(outcomes, lambda outcome: (outcome.job.trace, outcome.job.tiers)):
        title = (
            f"{trace}, {'device only' if tiers == 'device' else f'device and host of {HOST_PER_DEVICE} times its size'}"
        )
        rows = [_row(list(runs)) for _, runs in groupby(group, lambda outcome: outcome.job.frac)]
        parts.append(f"### {title}\n\n{table(_HEADS, rows)}")
    names = ", ".join(dict.fromkeys(outcome.job.trace for outcome in outcomes))
    promises = "\n".join(f"- {line}" for line in _promises(outcomes))
    return "\n\n".join([*parts, f"### Promises on {names}\n\n{promises}"])


_HEADS = (
    "device, share of footprint",
    "LRU's hits",
    "clairvoyant's",
    "tuned",
    "hit gap closed",
    "seconds saved",
    "TPE's best",
    "random search's best",
    "ARC",
    "S3-FIFO",
    "two-hit",
)


def _row(runs: list[Outcome]) -> list[str]:
    first = runs[0]
    gaps = [100 * gap for run in runs if (gap := run.scores["published"].hit_gap_frac) is not None]
    saved = [[100 * run.scores[name].saved_frac for run in runs] for name in (*_SETTINGS, *RIVALS)]
    return [
        f"{100 * first.job.frac:g} % ({first.device_blocks:,})",
        f"{100 * first.lru_hit_frac:.1f} %",
        f"{100 * first.bound_hit_frac:.1f} %",
        f"{sum(run.is_published for run in runs)} of {len(runs)}",
        ranged(gaps, 0) if gaps else "no gap",
        *(ranged(values, 1) for values in saved),
    ]


def _promises(outcomes: Sequence[Outcome]) -> list[str]:
    worst = min(outcomes, key=lambda outcome: outcome.scores["published"].saved_frac)
    saved_frac = worst.scores["published"].saved_frac
    kept = "kept" if saved_frac >= -MAX_LOSS_FRAC else "BROKEN"
    lines = [
        f"No published setting costs more than {100 * MAX_LOSS_FRAC:g} % above LRU: {kept}. The worst of "
        f"{len(outcomes)} runs saves {100 * saved_frac:+.2f} % ({_named(worst.job)})."
    ]
    for frac in FRACS[:3]:
        runs = [o for o in outcomes if (o.job.trace, o.job.tiers, o.job.frac) == ("conversation", "device", frac)]
        if runs:
            middle = median(run.scores["published"].hit_gap_frac or 0.0 for run in runs)
            kept = "kept" if middle >= MIN_HIT_GAP_FRAC else "BROKEN"
            lines.append(
                f"On conversation at {100 * frac:g} % of the footprint, at least {100 * MIN_HIT_GAP_FRAC:g} % of the "
                f"hit gap closed: {kept}, {100 * middle:.1f} % in the median of {len(runs)} seeds."
            )
    return lines


def _named(job: Job) -> str:
    return f"{job.trace}, {job.tiers}, {100 * job.frac:g} %, seed {job.seed}"


def report_on(traces: Sequence[str]) -> str:
    """All tiers and capacities of these traces, five seeds."""
    return measured(jobs(traces, TIERS, FRACS, _SEEDS, Settings().search.trials), _processes())


def jobs(traces: Sequence[str], tiers: Sequence[str], fracs: Sequence[float], seeds: int, trials: int) -> list[Job]:
    """Every cell, trace by trace."""
    return [
        Job(tier, trace, frac, seed, trials)
        for trace in traces
        for tier in tiers
        for frac in fracs
        for seed in range(seeds)
    ]


def measured(wanted: Sequence[Job], processes: int) -> str:
    """The tables of these runs."""
    with ProcessPoolExecutor(processes) as pool:
        return report(list(pool.map(run, wanted)))


def _processes() -> int:
    return min(2, os.cpu_count() or 1)


def main() -> None:
    """Run all cells and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", default=",".join(one.name for one in inputs.all_inputs()))
    parser.add_argument("--fracs", default=",".join(map(str, FRACS)))
    parser.add_argument("--tiers", default=",".join(TIERS))
    parser.add_argument("--seeds", type=int, default=_SEEDS)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--processes", type=int, default=_processes())
    given = parser.parse_args()
    unknown = set(given.traces.split(",")) - {one.name for one in inputs.all_inputs()}
    if unknown:
        parser.error(f"unknown traces: {', '.join(sorted(unknown))}; set {inputs.FOLDER_VARIABLE} to a folder of them")
    fracs = [float(frac) for frac in given.fracs.split(",")]
    wanted = jobs(given.traces.split(","), given.tiers.split(","), fracs, given.seeds, given.trials)
    print(measured(wanted, given.processes))


if __name__ == "__main__":
    main()
