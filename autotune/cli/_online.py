"""``simulate --policy online``: what the loop did, as an object and as tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cli._out import unwritable
from autotune.core.units import MIB

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from autotune.search.online_run import OnlineRun
    from autotune.sim.result import Totals

_LABELS = {
    "stock": "LRU, eager stores (stock)",
    "staged": "LRU, {mode} stores (staged)",
    "joint": "one LRU over both tiers (joint)",
    "live": "online (live)",
    "shadow": "  its shadow: {name}",
}


def as_object(run: OnlineRun) -> dict[str, object]:
    """The JSON object: gains apart, shadows, arms, fits, speed, memory, and what happened."""
    result, account = run.result, run.account
    return {
        "store_mode": str(run.origin.engine.store_mode),
        "gain": asdict(account.gain),
        "stock": _figures(account.stock),
        "staged": _figures(account.staged),
        "joint": _figures(account.joint),
        "shadows": {arm.name.lower(): _figures(totals) for arm, totals in account.shadows.items()},
        "arm": result.arm.name.lower(),
        "arm_frac": {arm.name.lower(): share for arm, share in result.arm_frac.items()},
        "fits": [
            {
                "fitted_at_s": fit.fitted_at_s,
                "in_force_at_s": fit.in_force_at_s,
                "rows": fit.n_rows,
                "seconds": fit.fit_seconds,
                "near_horizon_s": fit.model.near.horizon_s,
                "far_horizon_s": fit.model.far.horizon_s,
                "device_age_s": fit.device_age_s,
                "rerank_s": fit.tick_s,
            }
            for fit in result.fits
        ],
        "happenings": [asdict(happening) for happening in result.happenings],
        "wall_s": result.wall_s,
        "accesses_per_s": account.accesses_per_s,
        "peak_rss_bytes": account.memory.peak_bytes,
        "grown_rss_bytes": account.memory.grown_bytes,
    }


def print_run(run: OnlineRun, console: Console) -> None:
    """What the loop cost beside LRU, what it gained, and what happened."""
    from rich.text import Text

    account, result = run.account, run.result
    gain = account.gain
    console.print()
    console.print(_beside_lru(run))
    for line in (
        f"Gain {_share(gain.total_frac)} of stock LRU's seconds: {_share(gain.mode_frac)} by the store mode, "
        f"{_share(gain.learning_frac)} by what was learned.",
        f"Requests under each way to run: {_arms(run)}; at the end: {result.arm.name.lower()}.",
        f"{len(result.fits)} fits took {sum(account.fit_seconds):.2f} s, the longest {max(account.fit_seconds):.2f} s."
        if result.fits
        else _why_nothing(run),
        f"{account.accesses_per_s:,.0f} block accesses per second, fits included; peak memory "
        f"{account.memory.peak_bytes / MIB:,.0f} MiB, {account.memory.grown_bytes / MIB:,.0f} MiB of it by this run.",
    ):
        console.print(Text(line))
    if result.happenings:
        console.print()
        console.print(_timeline(run))


def write_run(run: OnlineRun, out: Path, trace_name: str, *, report: bool) -> tuple[str, ...]:
    """Write ``policy.yaml`` and ``report.html``; returns a line about each.

    Raises:
        ConfigError: the folder cannot be written.
    """
    from autotune.export import save

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise unwritable(out, problem) from problem
    document = run.document()
    save(document, out / "policy.yaml")
    lines = [f"Policy: {out / 'policy.yaml'}"]
    if report:
        from autotune.report.online.page import save_online_report

        save_online_report(run, document, trace_name, out / "report.html")
        lines.append(f"Report: {out / 'report.html'}")
    return tuple(lines)


def _figures(totals: Totals) -> dict[str, object]:
    return asdict(totals) | {"cost_s": totals.cost_s}


def _beside_lru(run: OnlineRun) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    account = run.account
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    for heading in ("device\nhits %", "host\nhits %", "net seconds\nsaved", "cost\ns", "stored\nGB"):
        table.add_column(heading, justify="right", no_wrap=True)
    mode = str(run.origin.engine.store_mode)
    rows = [(_LABELS["stock"], account.stock)]
    if mode != "eager":
        rows.append((_LABELS["staged"].format(mode=mode), account.staged))
        rows.append((_LABELS["joint"], account.joint))
    rows.append((_LABELS["live"], account.live))
    rows += [(_LABELS["shadow"].format(name=arm.name.lower()), totals) for arm, totals in account.shadows.items()]
    for label, totals in rows:
        table.add_row(label, *_cells(totals), style="bold" if totals is account.live else "")
    return table


def _cells(totals: Totals) -> tuple[str, ...]:
    accesses = max(1, totals.accesses)
    return (
        f"{100 * totals.device_hit_blocks / accesses:.1f}",
        f"{100 * totals.host_hit_blocks / accesses:.1f}",
        f"{totals.net_seconds_saved:,.1f}",
        f"{totals.cost_s:,.1f}",
        f"{totals.stored_bytes / 1e9:,.0f}",
    )


def _timeline(run: OnlineRun) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title="What happened", title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("at s", justify="right", no_wrap=True)
    table.add_column("request", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for happening in run.result.happenings:
        words = Text(happening.reason)
        table.add_row(f"{happening.at_s:,.0f}", f"{happening.request:,}", happening.kind, words)
    return table


def _arms(run: OnlineRun) -> str:
    return ", ".join(f"{arm.name.lower()} {100 * share:.0f} %" for arm, share in run.result.arm_frac.items())


def _why_nothing(run: OnlineRun) -> str:
    """Why nothing was fitted, so that LRU stayed."""
    if not run.origin.engine.host_blocks:
        return "Nothing was learned: there is no host tier, so there is nothing to decide."
    waits = [happening.reason for happening in run.result.happenings if happening.kind == "waits"]
    return f"Nothing was learned: {waits[-1] if waits else 'the trace ended before the first fit'}."


def _share(frac: float) -> str:
    return f"{100 * frac:+.2f} %".replace("-", "−")
