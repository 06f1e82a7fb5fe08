"""What several seeds of a cell come to, and the tables of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean, stdev

from peers_cells import Cell, Figures
from peers_policies import BOUND, LRU
from peers_traces import seeded_traces
from tables import table

MAX_LOSS_FRAC = 0.005
LEARNED = ("online, eager", "online, lazy", "online, exclusive")
SAME_MODE = {
    "learned once, lazy": "LRU, lazy stores",
    "online, lazy": "LRU, lazy stores",
    "online, exclusive": "LRU, exclusive",
}
_MODES = tuple(dict.fromkeys(SAME_MODE.values()))
_LEAST_GAP_FRAC = 0.002  # of LRU's cost; below it there is nothing to close
_LONG_WAIT_S = 1.0
Group = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A policy at one capacity, over all seeds.

    Attributes:
        trace: Name of the trace.
        tiers: ``two`` or ``one``.
        timing: ``instant`` or ``service``.
        device_frac: C1 as a share of the footprint.
        policy: Name of the policy.
        seeds: Seeds that there are.
        gap_closed: Per seed, 0 = LRU, 100 = the clairvoyant in seconds; empty where there is no gap.
        net_seconds: Per seed.
        hit_tokens: Per seed.
        stored_bytes: Per seed.
        lru_stored_bytes: LRU's, per seed.
        worst_window_frac: Smallest share of LRU's cost saved in any of 20 windows, per seed.
        excess_frac: Cost above LRU's as a share of it, per seed; negative where it saves.
        excess_in_mode_frac: The same above LRU in the policy's own store mode, which is what learning added.
        is_crowded: Whether requests had to wait for running ones, or were larger than the device.
        found: What it found on the past with the first seed.
    """

    trace: str
    tiers: str
    timing: str
    device_frac: float
    policy: str
    seeds: int
    gap_closed: tuple[float, ...]
    net_seconds: tuple[float, ...]
    hit_tokens: tuple[float, ...]
    stored_bytes: tuple[float, ...]
    lru_stored_bytes: tuple[float, ...]
    worst_window_frac: tuple[float, ...]
    excess_frac: tuple[float, ...]
    excess_in_mode_frac: tuple[float, ...]
    is_crowded: bool
    found: str


def rows_of(figures: Sequence[Figures]) -> list[Row]:
    """Results by trace, tiers, timing, capacity and policy, in the order in which these first appear."""
    by_policy = {name: {one.cell: one for one in figures if one.policy == name} for name in (LRU, BOUND, *_MODES)}
    lru, bound = by_policy[LRU], by_policy[BOUND]
    grouped: dict[tuple[str, str, str, float, str], list[Figures]] = {}
    for one in figures:
        cell = one.cell
        if cell in lru and cell in bound:
            grouped.setdefault((cell.trace, cell.tiers, cell.timing, cell.device_frac, one.policy), []).append(one)
    return [_row(group, lru, bound, by_policy[SAME_MODE.get(group[0].policy, LRU)]) for group in grouped.values()]


_By = dict[Cell, Figures]


def _row(group: list[Figures], lru: _By, bound: _By, in_mode: _By) -> Row:
    first, base = group[0], [lru[one.cell] for one in group]
    alike = [in_mode.get(one.cell, lru[one.cell]) for one in group]
    triples = [(one, lru[one.cell], bound[one.cell]) for one in group]
    gaps = [_gap_closed(*triple) for triple in triples]
    return Row(
        trace=first.cell.trace,
        tiers=first.cell.tiers,
        timing=first.cell.timing,
        device_frac=first.cell.device_frac,
        policy=first.policy,
        seeds=len(group),
        gap_closed=tuple(gap for gap in gaps if gap is not None),
        net_seconds=tuple(one.net_seconds for one in group),
        hit_tokens=tuple(float(one.hit_tokens) for one in group),
        stored_bytes=tuple(float(one.stored_bytes) for one in group),
        lru_stored_bytes=tuple(float(one.stored_bytes) for one in base),
        worst_window_frac=tuple(_worst_window(one, own) for one, own in zip(group, base, strict=True)),
        excess_frac=tuple(one.cost_s / own.cost_s - 1.0 for one, own in zip(group, base, strict=True)),
        excess_in_mode_frac=tuple(
            (one.cost_s - own.cost_s) / lru[one.cell].cost_s for one, own in zip(group, alike, strict=True)
        ),
        is_crowded=any(own.oversized_requests > 0 or own.waited_s > _LONG_WAIT_S * own.requests for own in base),
        found=first.found,
    )


def _gap_closed(one: Figures, lru: Figures, bound: Figures) -> float | None:
    gap_s = lru.cost_s - bound.cost_s
    return 100.0 * (lru.cost_s - one.cost_s) / gap_s if gap_s > _LEAST_GAP_FRAC * lru.cost_s else None


def _worst_window(one: Figures, lru: Figures) -> float:
    windows = zip(one.window_cost_s, lru.window_cost_s, strict=True)
    return min((1.0 - own / base for own, base in windows if base > 0.0), default=0.0)


def report(figures: Sequence[Figures], detailed_fracs: Sequence[float] | None = None) -> str:
    """All tables, and whether the promises of the learned policies hold.

    Args:
        figures: Results.
        detailed_fracs: Capacities of which all columns are shown; None for every one.
    """
    rows = rows_of(figures)
    parts = []
    for trace, of_trace in groupby(rows, lambda row: row.trace):
        parts.append(f"### Peers on {trace}\n\nSeeds vary {seeded_traces()[trace].varies}, and the draws of searches.")
        for (tiers, timing), group in groupby(of_trace, lambda row: (row.tiers, row.timing)):
            same = list(group)
            parts.append(_gap_table(tiers, timing, same))
            parts += _details([row for row in same if not detailed_fracs or row.device_frac in detailed_fracs])
    return "\n\n".join([*parts, *_promises(rows)])


def _gap_table(tiers: str, timing: str, rows: list[Row]) -> str:
    fracs = list(dict.fromkeys(row.device_frac for row in rows))
    crowded = {row.device_frac for row in rows if row.is_crowded}
    by_key = {(row.policy, row.device_frac): row for row in rows}
    labels = _labels(rows)
    lines = [
        [
            labels[policy],
            *(_spread(by_key[policy, frac].gap_closed, 0) if (policy, frac) in by_key else "" for frac in fracs),
        ]
        for policy in dict.fromkeys(row.policy for row in rows)
    ]
    heads = [f"{100 * frac:g} %{' †' if frac in crowded else ''}" for frac in fracs]
    where = "device C1, host 4 × C1" if tiers == "two" else "device C1 alone"
    title = f"**Gap closed, {where}, {timing} timing** (0 = LRU, 100 = clairvoyant in seconds), by C1:"
    note = "\n\n† Requests are larger than the device or wait for room, a second each on average." if crowded else ""
    return f"{title}\n\n{table(['policy', *heads], lines)}{note}"


def _labels(rows: list[Row]) -> dict[str, str]:
    """Names of the policies, with the number of seeds where some have more."""
    most = max(row.seeds for row in rows)
    fewest = {row.policy: min(one.seeds for one in rows if one.policy == row.policy) for row in rows}
    counts = {policy: f"{seeds} seed{'s' if seeds > 1 else ''}" for policy, seeds in fewest.items()}
    return {policy: policy if seeds == most else f"{policy} ({counts[policy]})" for policy, seeds in fewest.items()}


def _details(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    labels = _labels(rows)
    lines = [
        [
            f"{100 * row.device_frac:g} %",
            labels[row.policy],
            _spread(row.net_seconds, 1),
            _spread(row.gap_closed, 1),
            _spread([tokens / 1e6 for tokens in row.hit_tokens], 2),
            _spread([stored / 1e12 for stored in row.stored_bytes], 2),
            f"{100 * min(row.worst_window_frac):+.1f} %",
            _spread([100 * frac for frac in row.excess_frac], 2),
            f"{100 * max(row.excess_frac):+.2f} %",
            f"{100 * max(row.excess_in_mode_frac):+.2f} %" if row.policy in SAME_MODE else "",
            row.found,
        ]
        for row in rows
    ]
    return [f"<details><summary>All columns</summary>\n\n{table(_HEADS, lines)}\n\n</details>"]


_HEADS = (
    "C1",
    "policy",
    "net seconds saved",
    "gap closed",
    "hit tokens, M",
    "written, TB",
    "worst window",
    "cost against LRU, %",
    "worst seed",
    "worst seed against LRU in the same mode",
    "found on the past",
)


def _promises(rows: list[Row]) -> list[str]:
    lines = []
    for policy in LEARNED:
        own = [row for row in rows if row.policy == policy]
        if own:
            lines.append(_promise(own, "LRU with eager stores", [max(row.excess_frac) for row in own]))
        if own and policy in SAME_MODE:
            lines.append(_promise(own, "LRU in the same store mode", [max(row.excess_in_mode_frac) for row in own]))
    return ["### Promises of the learned policies\n\n" + "\n".join(lines)] if lines else []


def _promise(rows: list[Row], rival: str, excess_frac: list[float]) -> str:
    worst_frac, worst = max(zip(excess_frac, rows, strict=True), key=lambda pair: pair[0])
    kept = "kept" if worst_frac <= MAX_LOSS_FRAC else "BROKEN"
    where = f"{worst.trace}, {100 * worst.device_frac:g} %, {worst.timing}"
    return (
        f"- *{worst.policy}* costs at most {100 * MAX_LOSS_FRAC:g} % more than {rival}: {kept}. The worst of "
        f"{sum(row.seeds for row in rows)} runs costs {100 * worst_frac:+.2f} % ({where})."
    )


def _spread(values: Sequence[float], digits: int) -> str:
    """Mean and standard deviation over seeds; the mean alone where nothing varies."""
    if not values:
        return "no gap"
    middle = f"{mean(values):,.{digits}f}"
    deviation = f"{stdev(values):,.{digits}f}" if len(values) > 1 else "0"
    return f"{middle} ± {deviation}" if float(deviation.replace(",", "")) > 0.0 else middle
