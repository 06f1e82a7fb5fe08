"""Write the presets: settings of the rank rule and of the online loop that a search may start from, by kind of traffic.

    python policies/make_presets.py --traces DIR [--trials N] [--kind NAME ...] [--journal DIR]

``chat`` and ``batch`` are found on traces that the project carries. ``agentic`` needs recorded sessions of coding
agents (format kv-cache-tester) in ``DIR/weka_agentic``; every third session is searched on, and those after them judge.
``unknown`` is the compromise over all of them: the mean over their cases less the spread.

A search sees the time from 20 % to 60 % of its traces, the loop running from the start; the rest of the time judges,
and so do traces that the search did not see. Beside what was found stand the fixed defaults under each store mode and
random search with as many trials. A preset holds what was found only where the later time confirms it against the
defaults in the store mode that did best where it was searched; else it holds those. The later time decides nothing
else.

The rank rule's setting is the middle (median, on the knob's own scale) of the best settings at several capacities, so
that it leans on none of them. A preset is never used where it would be judged on what it was found on: a search starts
from one only when asked to (``kv-autotune tune --preset NAME``).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from autotune.api import cost_profile
from autotune.core.clock import SystemClock
from autotune.core.files import write_atomically
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier, Timing
from autotune.online.settings import OnlineSettings
from autotune.search.objectives.net_seconds import NetSeconds
from autotune.search.online.case import Case, Engines, cases_of
from autotune.search.online.judging import Judged, judge
from autotune.search.online.setting import LoopSetting
from autotune.search.online.space import load_loop_space
from autotune.search.online.study import LoopPlan, LoopTrial, best_loop, search_loop
from autotune.search.presets import Preset
from autotune.search.problem import Problem
from autotune.search.setting import Setting
from autotune.search.space import load_space
from autotune.search.study import StudyPlan, best_of, run_study
from autotune.sim.config import CacheConfig

FOLDER = Path(__file__).parent / "autotune_policies" / "presets"
SEARCHED, JUDGED, UNSEEN = (0.2, 0.6), (0.6, 1.0), (0.2, 1.0)
RANK_FRACS, RANK_TRIALS = (0.0025, 0.005, 0.01, 0.02), 100
ALL_CELLS = ((0.005, Timing.INSTANT), (0.005, Timing.SERVICE), (0.01, Timing.INSTANT), (0.01, Timing.SERVICE))
FEW_CELLS = (ALL_CELLS[0], ALL_CELLS[3])  # agents' prompts are long, so that a trial takes ten times as long
PRUNE_AFTER = 6
HOST_PER_DEVICE = 4
UNKNOWN = "unknown"
SESSIONS_EVERY, MERGED_SPAN_S, AGENTIC_BLOCK_TOKENS = 3, 21_600.0, 512
KEPT_S = (5_400.0, 16_200.0)  # without the first hours of the merge, when few sessions run, and the last
_SIGNIFICANT = 3


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic of one kind.

    Attributes:
        name: The preset that is found on it; or, for what only judges, what it is called.
        source: What it is, in words for the preset's file.
        trace: The requests.
        cells: Capacities and timings to run it with.
    """

    name: str
    source: str
    trace: Trace
    cells: tuple[tuple[float, Timing], ...] = ALL_CELLS


def carried() -> tuple[Traffic, ...]:
    """Traffic that the project carries: chats, and questions to long documents as jobs ask them."""
    names = {"chat": "sample:conversation", "batch": "sample:synthetic"}
    return tuple(Traffic(name, source, Trace.open(source)) for name, source in names.items())


def agents(folder: Path, first: int) -> Traffic:
    """Every third session of coding agents from number ``first`` on: the middle three hours of six, merged."""
    files = sorted((folder / "weka_agentic").glob("*.json.gz"))[first::SESSIONS_EVERY]
    trace = Trace.open(
        [f"kv-cache-tester:{file}" for file in files],
        merge_span_s=MERGED_SPAN_S,
        seed=0,
        block_tokens=AGENTIC_BLOCK_TOKENS,
    )
    start, stop = (trace.first_request_at(time_s) for time_s in KEPT_S)
    kept = trace.slice(start, stop)
    kept = replace(kept, arrival_s=kept.arrival_s - kept.arrival_s[0])
    source = (
        f"{len(files)} sessions of kv-cache-tester, every third from number {first} on, merged over 6 h, middle 3 h"
    )
    return Traffic("agentic" if first == 0 else "other agents", source, kept, FEW_CELLS)


def main() -> None:
    """Write the presets and print what they are worth."""
    options = _options()
    known = (*carried(), *((agents(options.traces, 0),) if options.traces else ()))
    contenders = {f"defaults, {mode}": LoopSetting.of(OnlineSettings(), mode) for mode in StoreMode}
    for name in options.kind or (*(traffic.name for traffic in known), UNKNOWN):
        seen = tuple(traffic for traffic in known if name in (traffic.name, UNKNOWN))
        if not seen:
            raise SystemExit(f"no traffic of kind {name!r}; agentic needs --traces")
        tuned = [f"{one.name}, tuned" for one in seen] if name == UNKNOWN else []
        warm = tuple(contenders[key] for key in tuned if key in contenders)
        rows = _searched(name, seen, warm, options)
        contenders[f"{name}, random"] = best_loop(rows["random"]).setting
        contenders[f"{name}, tuned"] = _rounded(best_loop(rows["tpe"]).setting)
        contenders[name] = _confirmed(seen, contenders[f"{name}, tuned"])
        write_atomically(options.out / f"{name}.yaml", _preset(name, seen, contenders[name], options).to_yaml())
        print(f"\n## {name}\n\ntuned: {_settings_text(contenders[f'{name}, tuned'])}\n")
        print(f"preset: {_settings_text(contenders[name])}\n")
        print(_searched_table(rows), flush=True)
    for traffic in known if options.seeds else ():
        print(_judged_table(f"{traffic.name}, the time after what was searched", traffic, JUDGED, contenders, options))
    if options.traces and options.seeds:
        print(_judged_table("sessions that no search saw", agents(options.traces, 1), UNSEEN, contenders, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--traces", type=Path, help="folder with weka_agentic/*.json.gz")
    parser.add_argument("--trials", type=int, default=24, help="settings of the loop to try, per preset and sampler")
    parser.add_argument("--kind", action="append", help="only this preset; may be repeated")
    parser.add_argument("--journal", type=Path, help="folder that keeps the studies, to go on with")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the presets go")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of the loop that judge; 0 = no tables")
    return parser.parse_args()


def _cases(traffic: Sequence[Traffic], part: tuple[float, float]) -> list[Case]:
    costs = cost_profile()[1]
    return [case for one in traffic for case in cases_of(one.name, one.trace, Engines(one.cells, costs), part)]


def _searched(
    name: str, seen: Sequence[Traffic], first: tuple[LoopSetting, ...], options: argparse.Namespace
) -> dict[str, list[LoopTrial[LoopSetting]]]:
    """All trials of both samplers on the part that may be looked at; only the first is told where to start."""
    cases, space, found = _cases(seen, SEARCHED), load_loop_space(), {}
    for sampler in ("tpe", "random"):
        plan = LoopPlan(
            sampler=sampler,
            trials=options.trials,
            prune_after=PRUNE_AFTER,
            spread_weight=1.0 if name == UNKNOWN else 0.0,
            storage=str(options.journal / f"{name}-{sampler}.jsonl") if options.journal else None,
            first=first if sampler == "tpe" else (),
        )
        found[sampler] = search_loop(cases, space, plan, _report(name, plan))
    return found


def _confirmed(seen: Sequence[Traffic], found: LoopSetting) -> LoopSetting:
    """What was found if the time after the search confirms it, else the defaults in the store mode that did best."""
    base = OnlineSettings()
    modes = {str(mode): LoopSetting.of(base, mode) for mode in StoreMode}
    default = modes[max(judge(modes, _cases(seen, SEARCHED), base), key=_worth).name]
    later = judge({"default": default, "found": found}, _cases(seen, JUDGED), base)
    return found if _worth(later[1]) > _worth(later[0]) else default


def _worth(judged: Judged) -> float:
    """What the search maximised, without regard to the spread."""
    weight = LoopPlan().shadow_weight
    return (1.0 - weight) * judged.closed_frac + weight * judged.shadow_frac


def _report(name: str, plan: LoopPlan[LoopSetting]) -> Callable[[LoopTrial[LoopSetting], LoopTrial[LoopSetting]], None]:
    def report(row: LoopTrial[LoopSetting], best: LoopTrial[LoopSetting]) -> None:
        note = " (given up)" if row.pruned else ""
        position = f"{name} {plan.sampler} {row.number + 1}/{plan.trials}"
        print(f"{position}: {row.value:.3f}{note}, best {best.value:.3f}", file=sys.stderr, flush=True)

    return report


def _searched_table(rows: Mapping[str, list[LoopTrial[LoopSetting]]]) -> str:
    """What was maximised, on the part that was searched."""
    values = {"defaults": rows["tpe"][0].value} | {name: best_loop(trials).value for name, trials in rows.items()}
    return (
        "; ".join(f"{name} {100 * value:.1f}" for name, value in values.items()) + " % of the gap where it searched\n"
    )


def _judged_table(
    title: str,
    traffic: Traffic,
    part: tuple[float, float],
    contenders: Mapping[str, LoopSetting],
    options: argparse.Namespace,
) -> str:
    rows = judge(contenders, _cases((traffic,), part), OnlineSettings(), range(1, options.seeds + 1))
    lines = [
        f"**{title}**\n",
        "| setting | gap closed, % | spread over seeds | without guard | seconds saved, % | worst |",
    ]
    lines.append("| --- | --: | --: | --: | --: | --: |")
    for row in rows:
        shares = (row.closed_frac, row.seed_frac, row.shadow_frac, row.saved_frac, row.worst_saved_frac)
        lines.append(f"| {row.name} | " + " | ".join(f"{100 * share:.1f}" for share in shares) + " |")
    return "\n".join(lines) + "\n"


def _preset(name: str, seen: Sequence[Traffic], loop: LoopSetting, options: argparse.Namespace) -> Preset:
    settings = [setting for traffic in seen for setting in _best_rank_settings(traffic.trace)]
    weight = [(1.0 - s.lambda_recency) / s.lambda_recency * s.tau_turnovers for s in settings]
    sources = "; ".join(traffic.source for traffic in seen)
    return Preset(
        name=name,
        made_by=f"policies/make_presets.py --trials {options.trials}" + (" --traces DIR" if options.traces else ""),
        found_on=f"{sources}; time from {SEARCHED[0]:.0%} to {SEARCHED[1]:.0%} of each",
        written_on=SystemClock().utc_now().date().isoformat(),
        lambda_recency=round(float(1.0 / (1.0 + np.median(weight))), 4),
        tau_turnovers=1.0,
        half_life_turnovers=_middle_half_life([s.half_life_turnovers for s in settings]),
        cost_weight=round(float(np.median([s.cost_weight for s in settings])), 3),
        ghost_ratio=round(float(np.median([s.ghost_ratio for s in settings])), 1),
        online=loop,
    )


def _best_rank_settings(trace: Trace) -> list[Setting]:
    """The rank rule's best setting at each capacity, host tier four times the device, on the same part of the time."""
    costs, found = cost_profile()[1], []
    for frac in RANK_FRACS:
        device = max(1, round(trace.n_blocks * frac))
        whole = Problem(trace, CacheConfig(device, HOST_PER_DEVICE * device), costs, Tier.HOST)
        problem = whole.until(SEARCHED[1] * trace.span_s)
        rows = run_study(problem, load_space(), NetSeconds(), StudyPlan(trials=RANK_TRIALS, workers=2))
        found.append(best_of(rows).setting)
    return found


def _middle_half_life(turnovers: Sequence[float]) -> float:
    """The median, where 0 stands for no decay: longer than any other; of two in the middle the shorter."""
    ordered = sorted(value or math.inf for value in turnovers)
    middle = ordered[(len(ordered) - 1) // 2]
    return round(middle, 1) if math.isfinite(middle) else 0.0


def _rounded(setting: LoopSetting) -> LoopSetting:
    """The setting with as many digits as a reader wants to see."""
    values: dict[str, Any] = {
        name: float(f"{value:.{_SIGNIFICANT}g}") for name, value in setting if isinstance(value, float)
    }
    return setting.model_copy(update=values)


def _settings_text(setting: LoopSetting) -> str:
    return ", ".join(f"{name} {value}" for name, value in setting)


if __name__ == "__main__":
    main()
