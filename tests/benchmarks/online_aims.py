"""The learned policy beside its aims: gap closed, and what the store mode and learning gained of it, apart."""

from __future__ import annotations

from statistics import mean

from online_cells import Journal, Run
from online_gap import gap_s, gaps_closed, points, share, spread
from online_runs import EXCLUSIVE, IN_MODE, LAZY
from peers_policies import LRU
from tables import table

from autotune.core.types import Arm

_AIM_FRACS = (0.0025, 0.005, 0.01, 0.02)
AIMS: dict[tuple[str, str], tuple[float | None, ...]] = {
    ("conversation", "instant"): (33.0, 36.0, 28.0, 33.0),
    ("conversation", "service"): (None, 30.0, 25.0, 28.0),
    ("synthetic", "instant"): (36.0, 36.0, 35.0, 35.0),
    ("synthetic", "service"): (None, 32.0, 26.0, 26.0),
    ("agentic", "instant"): (105.0, 105.0, 98.0, 55.0),
    ("agentic", "service"): (None, None, 95.0, 50.0),
}
Place = tuple[str, str, float]


def report(journal: Journal) -> str:
    """Gap closed beside the aims, and what store mode and learning gained of it, apart."""
    parts = []
    for name in (LAZY, EXCLUSIVE):
        by_place = places(journal, name)
        if by_place:
            parts.append(f"**{name}: gap closed (aim), mean ± standard deviation over seeds, by C1**")
            parts.append(_against_aims(journal, by_place))
            lines = [_line(journal, place, by_place[place]) for place in sorted(by_place, key=_order)]
            parts.append(f"<details><summary>All columns</summary>\n\n{table(_HEADS, lines)}\n\n</details>")
    return "\n\n".join(["### Aims", *(parts or ["No runs."])])


def places(journal: Journal, name: str) -> dict[Place, list[Run]]:
    """The runs of a name by trace, timing and capacity, of cells with an aim whose LRU and bound were run."""
    found: dict[Place, list[Run]] = {}
    for run in journal.named(name):
        at = run.cell
        if (at.trace, at.timing) in AIMS and at.device_frac in _AIM_FRACS and gap_s(journal, at) is not None:
            found.setdefault((at.trace, at.timing, at.device_frac), []).append(run)
    return found


def _order(place: Place) -> tuple[int, float]:
    return list(AIMS).index((place[0], place[1])), place[2]


def _against_aims(journal: Journal, by_place: dict[Place, list[Run]]) -> str:
    lines = []
    for where, aimed in AIMS.items():
        cells = []
        for frac, aim in zip(_AIM_FRACS, aimed, strict=True):
            runs = by_place.get((*where, frac), [])
            mark = " †" if any(_is_crowded(journal[run.cell, LRU]) for run in runs) else ""
            goal = "–" if aim is None else f"{aim:g}"
            cells.append(f"{spread(gaps_closed(journal, runs))}{mark} ({goal})" if runs else f"not run ({goal})")
        seeds = sorted({len(runs) for place, runs in by_place.items() if place[:2] == where})
        lines.append([*where, "–".join(str(n) for n in dict.fromkeys((*seeds[:1], *seeds[-1:]))), *cells])
    heads = ["trace", "timing", "seeds", *(share(frac) for frac in _AIM_FRACS)]
    reached, judged = _reached(journal, by_place)
    note = f"The mean reaches the aim in {reached} of {judged} cells that have one and were run. "
    note += "† Requests are larger than the device or wait longer for room than they take to prefill and load."
    return f"{table(heads, lines)}\n\n{note}"


def _reached(journal: Journal, by_place: dict[Place, list[Run]]) -> tuple[int, int]:
    """Cells whose mean is at the aim or above, and cells with an aim."""
    aimed = {(*where, frac): aim for where, own in AIMS.items() for frac, aim in zip(_AIM_FRACS, own, strict=True)}
    judged = {place: aim for place in by_place if (aim := aimed[place]) is not None}
    return sum(mean(gaps_closed(journal, by_place[place])) >= aim for place, aim in judged.items()), len(judged)


def _is_crowded(lru: Run) -> bool:
    return lru.oversized_requests > 0 or lru.waited_s > lru.cost_s


_HEADS = (
    "trace",
    "timing",
    "C1",
    "seeds",
    "gap closed",
    "of it by the mode",
    "of it by learning",
    "LRU in the mode",
    "written, % of LRU's",
    "LRU / hazard / fixed key, % of requests",
    "total cost against LRU, worst seed",
)


def _line(journal: Journal, place: Place, runs: list[Run]) -> list[str]:
    lru = [journal[run.cell, LRU] for run in runs]
    in_mode = [(run.cell, IN_MODE[run.name]) for run in runs]
    shadows = zip(runs, lru, strict=True)
    by_mode = [points(journal, run.cell, own.cost_s, run.joint_cost_s) for run, own in shadows]
    by_learning = [points(journal, run.cell, run.joint_cost_s, run.cost_s) for run in runs]
    written = [100.0 * run.whole_stored_bytes / own.whole_stored_bytes for run, own in zip(runs, lru, strict=True)]
    worst = max(run.whole_cost_s / own.whole_cost_s - 1.0 for run, own in zip(runs, lru, strict=True))
    return [
        place[0],
        place[1],
        share(place[2]),
        str(len(runs)),
        spread(gaps_closed(journal, runs)),
        spread(by_mode),
        spread(by_learning),
        spread(gaps_closed(journal, [journal[key] for key in in_mode if key in journal])),
        spread(written, 0),
        " / ".join(f"{100 * mean(run.arm_frac[arm] for run in runs):.0f}" for arm in Arm),
        f"{100 * worst:+.2f} %",
    ]
