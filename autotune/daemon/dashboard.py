"""The sidecar in a terminal: a picture that renews itself, plain lines where there is no terminal, or JSON lines.

It sees the daemon through its status only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from enum import Enum
from types import TracebackType
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from autotune.daemon.figures import by_name, by_unit, gauge, machine_words, percent, plain, seconds, size, words
from autotune.daemon.status import ChangeKind, DaemonStatus, Phase

_SHOWN_CHANGES = 6
_REPEAT = timedelta(minutes=1)
_UTC = "%Y-%m-%dT%H:%M:%SZ"
_NARROW = 100  # columns below which the panels stand one below the other
_PHASES = {Phase.STEADY: "green", Phase.TUNING: "cyan", Phase.BLIND: "red", Phase.STOPPED: "red"}
_KINDS = {ChangeKind.CANARY_KEPT: "green", ChangeKind.ROLLED_BACK: "red", ChangeKind.LEASE_EXPIRED: "red"}


class Output(Enum):
    """How the status is shown."""

    LIVE = "live"
    LINES = "lines"
    JSON_LINES = "json_lines"

    @classmethod
    def of(cls, stream: TextIO, *, json_lines: bool) -> Output:
        """What fits a stream: a picture on a terminal, lines anywhere else, JSON where it was asked for."""
        if json_lines:
            return cls.JSON_LINES
        return cls.LIVE if Console(file=stream).is_terminal else cls.LINES


class _Console(Console):
    """A console that does not end the process where its stream is closed."""

    def on_broken_pipe(self) -> None:
        """Say so to the caller."""
        raise BrokenPipeError("nobody reads what is shown")


class Dashboard:
    """Shows one status after the other; a context manager.

    Args:
        output: How.
        stream: Where; standard output if not given.
        url: Address of the page, shown beside.
        width: Columns; those of the terminal if not given.
    """

    def __init__(
        self, output: Output, stream: TextIO | None = None, url: str | None = None, width: int | None = None
    ) -> None:
        self._console = _Console(file=stream or sys.stdout, width=width)
        self._url = url
        self._live = Live(console=self._console, auto_refresh=False) if output is Output.LIVE else None
        self._show: Callable[[DaemonStatus], None] = {
            Output.LIVE: self._show_picture,
            Output.LINES: self._show_lines,
            Output.JSON_LINES: self._show_json,
        }[output]
        self._told: tuple[datetime, tuple[object, ...]] | None = None
        self._seen: set[tuple[datetime, ChangeKind]] = set()

    def __enter__(self) -> Dashboard:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def show(self, status: DaemonStatus) -> None:
        """Show a status. Where nobody reads the stream any more nothing is shown from then on: the loop goes on."""
        try:
            self._show(status)
        except OSError:
            self._live, self._show = None, _ignore

    def _show_picture(self, status: DaemonStatus) -> None:
        if self._live is not None:
            self._live.update(picture(status, self._console.width, self._url), refresh=True)

    def _show_lines(self, status: DaemonStatus) -> None:
        for line in self._news(status):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _show_json(self, status: DaemonStatus) -> None:
        self._console.file.write(status.model_dump_json(by_alias=True) + "\n")
        self._console.file.flush()

    def _news(self, status: DaemonStatus) -> Iterator[str]:
        """Changes since the start that were not told yet, then the state: when it changed, and once a minute."""
        for change in status.history:
            key = (change.at, change.kind)
            if key not in self._seen and change.at >= status.started_at:
                yield plain(f"{change.at:{_UTC}} {change.kind.value}: {change.reason}; undo: {change.undo}")
            self._seen.add(key)
        state = (status.mode, status.phase, status.verdict.text, tuple(target.alive for target in status.targets))
        if self._told is None or self._told[1] != state or status.at - self._told[0] >= _REPEAT:
            self._told = (status.at, state)
            yield plain(f"{status.at:{_UTC}} {summary(status)}")


def _ignore(_status: DaemonStatus) -> None:
    """Show nothing."""


def summary(status: DaemonStatus) -> str:
    """The state in one line."""
    hits = ", ".join(f"{tier.tier.name.lower()} {percent(tier.hit_frac)}" for tier in status.tiers) or "unknown"
    alive = sum(target.alive for target in status.targets)
    return (
        f"{status.mode.value} {status.phase.value}: hits {hits}; saved {seconds(status.seconds.saved)}/s; "
        f"targets {alive}/{len(status.targets)}; rollbacks {status.guard.rollbacks}; {status.verdict.text}"
    )


def picture(status: DaemonStatus, width: int, url: str | None = None) -> RenderableType:
    """The state as panels that fit ``width`` columns."""
    panels = [
        Panel(_tiers(status), title="caches", title_align="left"),
        Panel(_seconds(status), title="seconds per second", title_align="left"),
        Panel(_promises(status), title="promised and come true", title_align="left"),
        Panel(_shadows(status), title="regret against", title_align="left"),
    ]
    if width < _NARROW:
        middle: RenderableType = Group(*panels)
    else:
        middle = Columns(panels, width=(width - 2) // 2, expand=True)
    parts: list[RenderableType] = [_head(status, url), middle, _changes(status), _sources(status)]
    return Group(*parts)


def _head(status: DaemonStatus, url: str | None) -> RenderableType:
    text = Text()
    text.append(f" {status.mode.value} ", style="reverse bold")
    text.append(f" {status.phase.value} ", style=f"bold {_PHASES.get(status.phase, 'yellow')}")
    text.append(f" {plain(status.group)}")
    if url is not None:
        text.append(f"   {url}", style="dim")
    text.append(f"\n{plain(status.verdict.text)}", style="bold")
    if status.hands_off is not None:
        text.append(f"\nhands off: {plain(status.hands_off)}", style="yellow")
    for finding in status.findings:
        text.append(f"\n! {plain(finding)}", style="yellow")
    return text


def _grid(*rows: tuple[str | Text, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    for row in rows or (("nothing known yet",),):
        table.add_row(*(Text(plain(cell)) if isinstance(cell, str) else cell for cell in row))
    return table


def _tiers(status: DaemonStatus) -> Table:
    return _grid(
        *(
            (
                tier.tier.name.lower(),
                gauge(tier.hit_frac),
                percent(tier.hit_frac),
                f"{size(tier.used_bytes)} of {size(tier.capacity_bytes)}",
            )
            for tier in status.tiers
        )
    )


def _seconds(status: DaemonStatus) -> Table:
    known = [(name, value) for name, value in status.seconds if value is not None]
    most = max((value for _, value in known), default=0.0) or 1.0
    return _grid(*((words(name), gauge(value / most), seconds(value)) for name, value in known))


def _promises(status: DaemonStatus) -> Table:
    rows = []
    for each in status.predictions:
        kept = each.observed is not None and each.low <= each.observed <= each.high
        colour = "" if each.observed is None else "green" if kept else "red"
        bounds = f"{by_name(each.signal, each.low)} to {by_name(each.signal, each.high)}"
        rows.append((words(each.signal), Text(by_name(each.signal, each.observed), style=colour), bounds))
    return _grid(*rows)


def _shadows(status: DaemonStatus) -> Table:
    rows = [
        (
            words(shadow.name),
            Text(seconds(shadow.regret_s), style="red" if (shadow.regret_s or 0.0) > 0.0 else "green"),
            f"saw {percent(shadow.sampled_frac)}",
        )
        for shadow in status.shadows
        if shadow.name != "live"
    ]
    return _grid(*rows)


def _changes(status: DaemonStatus) -> RenderableType:
    if not status.history:
        return Text("\nnothing was changed", style="dim")
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=True)
    for name, ratio in (("when (UTC)", None), ("what", None), ("why", 1)):
        table.add_column(name, ratio=ratio, no_wrap=ratio is None)
    for change in reversed(status.history[-_SHOWN_CHANGES:]):
        what = Text(change.kind.value.replace("_", " "), style=_KINDS.get(change.kind, "cyan"))
        table.add_row(f"{change.at:%d %b %H:%M:%S}", what, Text(plain(change.reason)))
    return table


def _sources(status: DaemonStatus) -> RenderableType:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("engine", "source", "age", "lost", ""):
        table.add_column(name, justify="right" if name in {"age", "lost"} else "left")
    for target in status.targets:
        state = "answers" if target.alive else "does not answer"
        table.add_row(
            Text(plain(target.url)), Text(state, style="green" if target.alive else "red"), "", "", target.grade.value
        )
        for source in target.sources:
            mark = Text(plain(source.name), style="" if source.ok else "red")
            table.add_row("", mark, seconds(source.age_s), f"{source.lost:,}", Text(plain(source.error or "")))
    estimates = [
        f"{words(each.name)} {by_unit(each.value, each.unit)} ({by_unit(each.low, each.unit)} to "
        f"{by_unit(each.high, each.unit)})"
        for each in status.estimates
        if each.value is not None
    ]
    machine = "; ".join(machine_words(status.host)) if status.host is not None else ""
    lines = [plain(text) for text in ("; ".join(estimates), machine and f"this machine: {machine}") if text]
    return Group(table, *(Text(line, style="dim") for line in lines))
