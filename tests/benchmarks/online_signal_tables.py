"""Tables of what the learned policy sees: calibration, features hidden, and a simulated hint."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from online_aims import AIMS
from online_cells import Journal, Run
from online_gap import gap_s, gaps_closed, points, share, spread
from online_runs import CALIBRATION, HINTED, LAZY, without_name
from online_signals import ACCURACY, GROUPS
from tables import table

MAX_ECE = 0.05


def report(journal: Journal) -> str:
    """All three."""
    parts = ["### Signals", *_calibration(journal), *_ablation(journal), *_hint(journal)]
    return "\n\n".join(parts if len(parts) > 1 else [*parts, "No runs."])


def _calibration(journal: Journal) -> list[str]:
    lines = []
    fitted = [run for run in journal.named(CALIBRATION) if run.truths]
    for trace in dict.fromkeys(run.cell.trace for run in fitted):
        own = [run for run in fitted if run.cell.trace == trace]
        for number, horizon in enumerate(("near", "far")):
            truths = [run.truths[number] for run in own if run.truths[number].rows]
            if truths:
                ece = [truth.ece for truth in truths]
                lines.append(
                    [
                        trace,
                        horizon,
                        str(len(truths)),
                        f"{mean(run.fits for run in own):.0f}",
                        f"{mean(truth.rows for truth in truths):,.0f}",
                        spread(ece, 3),
                        f"{mean(truth.chance_ece for truth in truths):.3f}",
                        "yes" if max(ece) <= MAX_ECE else "no",
                    ]
                )
    heads = ("trace", "horizon", "seeds", "fits", "rows", "ECE", "of it chance", f"all ≤ {MAX_ECE:g}")
    unfitted = sorted({run.cell.trace for run in journal.named(CALIBRATION)} - {run.cell.trace for run in fitted})
    note = [f"Nothing was fitted on: {', '.join(unfitted)}."] if unfitted else []
    title = (
        "**Calibration on unseen time**: every fit is judged on the rows from it until the next fit, by blocks, all "
        "fits of a run together; instant timing, C1 = 1 %. *Chance* is the error that a model without fault would show."
    )
    return [title, table(heads, lines), *note] if lines else []


def _ablation(journal: Journal) -> list[str]:
    names = {group: without_name(group) for group in GROUPS}
    aimed = dict.fromkeys(name for name, _ in AIMS)
    seeds = {trace: max(len(_lost(journal, trace, name)) for name in names.values()) for trace in aimed}
    traces = [trace for trace, count in seeds.items() if count]
    if not traces:
        return []
    lines = [["nothing", *(_whole(journal, trace) for trace in traces)]]
    for group, name in names.items():
        losses = [_lost(journal, trace, name) for trace in traces]
        lines.append([group, *(spread(lost) if lost else "not run" for lost in losses)])
    return [
        "**Points of the gap lost where a signal is absent** (the fits do not see it; negative: better without it); "
        "instant timing, C1 = 1 %; *nothing* is the gap closed with all of them. Engines may tell neither output "
        "length nor stop reason, so those rows are also what absent signals cost. Seeds: "
        + ", ".join(f"{trace} {seeds[trace]}" for trace in traces)
        + ".",
        table(("hidden", *traces), lines),
    ]


def _lost(journal: Journal, trace: str, name: str) -> list[float]:
    runs = [run for run in journal.named(name) if run.cell.trace == trace and (run.cell, LAZY) in journal]
    return [
        points(journal, run.cell, run.cost_s, journal[run.cell, LAZY].cost_s)
        for run in runs
        if gap_s(journal, run.cell) is not None
    ]


def _whole(journal: Journal, trace: str) -> str:
    cells = {run.cell for run in journal.records if run.cell.trace == trace and run.name in map(without_name, GROUPS)}
    return spread(gaps_closed(journal, journal.named(LAZY, cells)))


def _hint(journal: Journal) -> list[str]:
    runs = [
        run for run in journal.named(HINTED) if (run.cell, LAZY) in journal and gap_s(journal, run.cell) is not None
    ]
    lines = [
        _hint_line(journal, [run for run in runs if run.cell.timing == timing])
        for timing in dict.fromkeys(run.cell.timing for run in runs)
    ]
    title = (
        f"**A simulated hint that the session ends**, told rightly for {ACCURACY:.0%} of requests (drawn by the seed): "
        "it is made from the trace's own future, no client gave it."
    )
    heads = ("trace", "C1", "timing", "seeds", "gap closed without", "gap closed with the simulated hint")
    return [title, table(heads, lines)] if lines else []


def _hint_line(journal: Journal, runs: Sequence[Run]) -> list[str]:
    at = runs[0].cell
    plain = [journal[run.cell, LAZY] for run in runs]
    where = [at.trace, share(at.device_frac), at.timing, str(len(runs))]
    return [*where, spread(gaps_closed(journal, plain)), spread(gaps_closed(journal, runs))]
