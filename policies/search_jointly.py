"""Search both rules in one study: the rank rule or the loop, with their knobs, the store mode and the shortest load.

    python policies/search_jointly.py [--trace FORMAT:PATH] [--device-frac F ...] [--trials N] [--journal DIR]

The search sees the time from 20 % to 60 % of the trace; the rest judges. Beside what TPE found stand random search with
as many trials, the fixed defaults of the loop in every store mode, and the rank rule of a preset, which both searches
try second.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from autotune.api import cost_profile
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Timing
from autotune.online.settings import OnlineSettings
from autotune.search.online.case import Engines, cases_of
from autotune.search.online.joint_setting import JointSetting
from autotune.search.online.joint_space import load_joint_space
from autotune.search.online.judging import judge
from autotune.search.online.setting import LoopSetting
from autotune.search.online.study import LoopPlan, LoopTrial, best_loop, search_loop
from autotune.search.presets import load_preset

SEARCHED, JUDGED = (0.2, 0.6), (0.6, 1.0)
SAMPLERS = ("tpe", "random")
Trials = list[LoopTrial[JointSetting]]


def main() -> None:
    """Search, judge, and print both."""
    options = _options()
    trace = Trace.open(options.trace)
    cells = tuple((frac, timing) for frac in options.device_frac for timing in Timing)
    engines = Engines(cells, cost_profile()[1])
    preset = JointSetting.of_rank(load_preset(options.preset).setting(), StoreMode.LAZY)
    cases = cases_of(options.trace, trace, engines, SEARCHED)
    found: dict[str, Trials] = {}
    for sampler in SAMPLERS:
        plan = _plan(sampler, preset, options)
        found[sampler] = search_loop(cases, load_joint_space(options.space), plan, _report(plan))
    print(_searched_table(found))
    contenders = {
        f"loop's defaults, {mode}": JointSetting.of_loop(LoopSetting.of(OnlineSettings(), mode)) for mode in StoreMode
    }
    contenders[f"rank rule of preset {options.preset}, lazy"] = preset
    contenders |= {f"found by {sampler}": best_loop(rows).setting for sampler, rows in found.items()}
    later = cases_of(options.trace, trace, engines, JUDGED)
    print("| on later time | gap closed, % | spread over seeds | seconds saved, % | worst |")
    print("| --- | --: | --: | --: | --: |")
    for row in judge(contenders, later, OnlineSettings(), range(1, options.seeds + 1)):
        shares = (row.closed_frac, row.seed_frac, row.saved_frac, row.worst_saved_frac)
        print(f"| {row.name} | " + " | ".join(f"{100 * share:.1f}" for share in shares) + " |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trace", default="sample:conversation", metavar="FORMAT:PATH", help="what to search on")
    parser.add_argument(
        "--device-frac", type=float, nargs="+", default=[0.01], metavar="F", help="device as a share of the footprint"
    )
    parser.add_argument("--trials", type=int, default=24, help="settings to try, per sampler")
    parser.add_argument("--seed", type=int, default=0, help="seed of the samplers")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of the loop that judge")
    parser.add_argument("--preset", default="unknown", help="whose rank rule both searches try second")
    parser.add_argument("--space", type=Path, metavar="FILE", help="another joint space")
    parser.add_argument("--journal", type=Path, metavar="DIR", help="folder that keeps the studies, to go on with")
    return parser.parse_args()


def _plan(sampler: str, preset: JointSetting, options: argparse.Namespace) -> LoopPlan[JointSetting]:
    return LoopPlan(
        sampler=sampler,
        trials=options.trials,
        seed=options.seed,
        first=(preset,),
        storage=str(options.journal / f"joint-{sampler}.jsonl") if options.journal else None,
    )


def _report(
    plan: LoopPlan[JointSetting],
) -> Callable[[LoopTrial[JointSetting], LoopTrial[JointSetting]], None]:
    def report(row: LoopTrial[JointSetting], best: LoopTrial[JointSetting]) -> None:
        words = f"{row.setting.rule}, {row.setting.store_mode}{', given up' if row.pruned else ''}"
        position = f"{plan.sampler} {row.number + 1}/{plan.trials}"
        print(f"{position}: {row.value:.3f} ({words}), best {best.value:.3f}", file=sys.stderr, flush=True)

    return report


def _searched_table(found: Mapping[str, Trials]) -> str:
    """What was maximised where it was searched, by rule, and what each sampler found."""
    lines = ["| where it searched | best | best learned | best rank | trials learned / rank |"]
    lines.append("| --- | --: | --: | --: | --: |")
    for sampler, rows in found.items():
        whole = [row for row in rows if not row.pruned]
        by_rule = {rule: [row.value for row in whole if row.setting.rule == rule] for rule in ("learned", "rank")}
        best = " | ".join(f"{100 * max(values):.1f}" if values else "–" for values in by_rule.values())
        counts = " / ".join(str(sum(row.setting.rule == rule for row in rows)) for rule in by_rule)
        lines.append(f"| {sampler} | {100 * best_loop(rows).value:.1f} | {best} | {counts} |")
    return "\n".join([*lines, "", *(f"{name}: {_text(best_loop(rows).setting)}" for name, rows in found.items()), ""])


def _text(setting: JointSetting) -> str:
    knobs = setting.stored()
    own = {**(knobs.pop("rank") or {}), **(knobs.pop("loop") or {})}
    values = {"rule": setting.rule, **own, **knobs}
    return ", ".join(
        f"{name} {value:.4g}" if type(value) is float else f"{name} {value}" for name, value in values.items()
    )


if __name__ == "__main__":
    main()
