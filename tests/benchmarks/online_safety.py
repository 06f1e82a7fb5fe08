"""Never worse than LRU: total cost of whole runs, nothing excluded, of every trace and capacity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from online_cells import Journal, Run
from online_gap import share
from online_runs import LAZY, LRU_LAZY
from peers_policies import LRU
from tables import table

MAX_LOSS_FRAC = 0.005


@dataclass(frozen=True, slots=True)
class _Compared:
    run: Run
    excess_frac: float
    excess_in_mode_frac: float


def report(journal: Journal) -> str:
    """Worst cells per trace, and the cells that stayed in LRU with the reason."""
    compared = [one for run in journal.named(LAZY) if (one := _compared(journal, run)) is not None]
    if not compared:
        return "### Never worse\n\nNo runs."
    traces = list(dict.fromkeys(one.run.cell.trace for one in compared))
    lines = [_line(trace, [one for one in compared if one.run.cell.trace == trace]) for trace in sorted(traces)]
    return "\n\n".join(
        [
            "### Never worse",
            "Total cost (recompute, loads, exposed stores) of the whole run, nothing excluded, of *online, lazy*, as a "
            "share of the total cost of LRU with eager stores. *In mode*: above LRU with lazy stores.",
            table(_HEADS, lines),
            _verdict(compared, "LRU with eager stores", [one.excess_frac for one in compared]),
            _verdict(compared, "LRU with lazy stores", [one.excess_in_mode_frac for one in compared]),
            "Runs that stayed in LRU from beginning to end, and why:",
            table(("trace", "runs", "C1", "why", "the shadow's saving, whole run"), _stays(compared)),
        ]
    )


def _compared(journal: Journal, run: Run) -> _Compared | None:
    if any((run.cell, name) not in journal for name in (LRU, LRU_LAZY)):
        return None
    lru_s, lazy_s = journal[run.cell, LRU].whole_cost_s, journal[run.cell, LRU_LAZY].whole_cost_s
    return _Compared(run, run.whole_cost_s / lru_s - 1.0, (run.whole_cost_s - lazy_s) / lru_s)


_HEADS = (
    "trace",
    "runs",
    "seeds",
    "C1",
    "worst against LRU",
    "at",
    "worst in mode",
    "at",
    "runs above 0.5 %, against LRU / in mode",
    "stayed in LRU",
)


def _line(trace: str, own: Sequence[_Compared]) -> list[str]:
    worst = max(own, key=lambda one: one.excess_frac)
    in_mode = max(own, key=lambda one: one.excess_in_mode_frac)
    above = sum(one.excess_frac > MAX_LOSS_FRAC for one in own)
    above_in_mode = sum(one.excess_in_mode_frac > MAX_LOSS_FRAC for one in own)
    fracs = sorted({one.run.cell.device_frac for one in own})
    return [
        trace,
        str(len(own)),
        str(len({one.run.cell.seed for one in own})),
        f"{100 * fracs[0]:g}–{share(fracs[-1])}",
        f"{100 * worst.excess_frac:+.2f} %",
        _where(worst),
        f"{100 * in_mode.excess_in_mode_frac:+.2f} %",
        _where(in_mode),
        f"{above} / {above_in_mode}",
        str(sum(one.run.stayed for one in own)),
    ]


def _where(one: _Compared) -> str:
    at = one.run.cell
    return f"{share(at.device_frac)}, {at.timing}, seed {at.seed}"


def _verdict(compared: Sequence[_Compared], rival: str, excess: Sequence[float]) -> str:
    above = sum(frac > MAX_LOSS_FRAC for frac in excess)
    kept = "kept" if above == 0 else f"NOT kept in {above}"
    return f"At most {100 * MAX_LOSS_FRAC:g} % above {rival}: {kept} of {len(compared)} runs; worst {max(excess):+.2%}."


def _stays(compared: Sequence[_Compared]) -> list[list[str]]:
    counts = Counter((one.run.cell.trace, _why(one.run)) for one in compared if one.run.stayed)
    found = []
    for (trace, why), count in sorted(counts.items()):
        same = [one.run for one in compared if one.run.cell.trace == trace and one.run.stayed and _why(one.run) == why]
        fracs = sorted({run.cell.device_frac for run in same})
        saved = [run.learned_frac for run in same]
        shown = f"{100 * min(saved):+.2f} to {100 * max(saved):+.2f} %" if same[0].fits else ""
        found.append([trace, str(count), ", ".join(share(frac) for frac in fracs), why, shown])
    return found


def _why(run: Run) -> str:
    """The reason without its figures, so that runs with the same one fall together."""
    if run.fits:
        gain = "saved no more than the guard asks for, or too late" if run.learned_frac > 0.0 else "was worse than LRU"
        return f"a model was fitted, but its shadow {gain}"
    if "was" in run.why.split() or "were used again" in run.why:
        return "too few runs of blocks were used again to learn from"
    if "older than the horizon" in run.why:
        return "too few runs of blocks are old enough to learn from"
    return run.why or "nothing was due"
