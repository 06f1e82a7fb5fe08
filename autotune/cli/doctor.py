"""``kv-autotune doctor``: the first-day answer from a page of metrics alone."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli import _sidecar as sidecar
from autotune.cli.common import print_json, progress, stdout_console
from autotune.core.errors import ConfigError
from autotune.core.units import MIB

if TYPE_CHECKING:
    from autotune.advise.doctor import Diagnosis, Window
    from autotune.core.signals import Snapshot, Target

EXIT_NO_GAIN = 1
EXIT_CANNOT_TELL = 3
_MAX_PAGE_BYTES = 64 * MIB
_DEFAULT_INTERVAL_S = 10.0


def doctor(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="URL|FILE [FILE]",
            help="Address of an engine, or one or two saved pages of it, the older first; - is stdin.",
            show_default=False,
        ),
    ],
    interval_s: Annotated[
        float | None,
        typer.Option(
            "--interval",
            metavar="SECONDS",
            help="Of a URL: time between two looks (10). Of two files: between them, else as their dates say. "
            "Of one file: how long the engine had been running, else as its start and the file's date say.",
        ),
    ] = None,
    devices: Annotated[
        int | None, typer.Option("--devices", help="Devices of the engine; one per rank on the page if not given.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="Served model, where the page is about several.")] = "",
    api_key_file: sidecar.ApiKeyFile = None,
    ca_file: sidecar.CaFile = None,
    cert_file: sidecar.CertFile = None,
    key_file: sidecar.KeyFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Say from a page of metrics whether tuning would pay, in device-hours per day with bounds, and what is wrong.

    A URL is asked twice, for rates; one file has sums since the engine's start; two files have the difference. Where
    the engine is on this machine, the machine is looked at too. Nothing is changed anywhere.

    Exit code: 0 = tuning may pay or does; 1 = it would not pay; 2 = no such page; 3 = it cannot be told, and what is
    missing is said.
    """
    from autotune.advise.doctor import Verdict, diagnose

    if not 1 <= len(sources) <= 2 or (len(sources) == 2 and any(_is_url(source) for source in sources)):
        raise ConfigError("doctor takes one URL, or one or two files", got=f"{len(sources)} sources")
    if interval_s is not None and not 0.0 < interval_s <= 1e10:
        raise ConfigError("--interval is a time in seconds", got=f"{interval_s:g}")
    if _is_url(sources[0]):
        (target,) = sidecar.engine_targets(sources, api_key_file, ca_file, cert_file, key_file)
        window = _two_looks(replace(target, model=model), interval_s)
        host = _host() if target.is_local else None
    else:
        window, host = _saved(sources, interval_s, model), None
    diagnosis = diagnose(window, devices, host)
    if as_json:
        print_json({"diagnosis": diagnosis, "tuning_possible": diagnosis.is_tuning_possible})
    else:
        _print(diagnosis)
    if not diagnosis.is_tuning_possible:
        raise typer.Exit(EXIT_CANNOT_TELL if diagnosis.worth.verdict is Verdict.CANNOT_TELL else EXIT_NO_GAIN)


def _is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _two_looks(target: Target, interval_s: float | None) -> Window:
    from autotune.advise.doctor import window_between
    from autotune.core import registry
    from autotune.core.clock import SystemClock

    seconds = interval_s or _DEFAULT_INTERVAL_S
    clock = SystemClock()
    collector = registry.load(registry.COLLECTORS, "prometheus")(target, clock)
    before: Snapshot = collector.snapshot(clock.monotonic_s())
    with progress() as display:
        task = display.add_task(f"looking again in {seconds:g} s", total=seconds)
        while (left_s := before.at_s + seconds - clock.monotonic_s()) > 0.0:
            time.sleep(min(left_s, 0.5))
            display.update(task, completed=clock.monotonic_s() - before.at_s)
    return window_between(before, collector.snapshot(clock.monotonic_s()))


def _host() -> Snapshot:
    """What this machine tells of itself."""
    from autotune.core import registry
    from autotune.core.clock import SystemClock

    clock = SystemClock()
    seen: Snapshot = registry.load(registry.COLLECTORS, "host")(clock).snapshot(clock.monotonic_s())
    return seen


def _saved(sources: list[str], interval_s: float | None, model: str) -> Window:
    from autotune.advise.doctor import window_between, window_since_start
    from autotune.advise.live import read_saved_page

    dates = [_date_s(source) for source in sources]
    if len(sources) == 1:
        page = read_saved_page(_page(sources[0]), target=sources[0], model=model)
        return window_since_start(page, interval_s or _uptime_s(page, dates[0]))
    seconds = interval_s or _positive(dates)
    if seconds is None:
        raise ConfigError(
            "two pages need the time between them",
            got="dates that do not tell",
            remedy="give --interval, older page first",
        )
    before = read_saved_page(_page(sources[0]), target=sources[0], at_s=0.0, model=model)
    return window_between(before, read_saved_page(_page(sources[1]), target=sources[1], at_s=seconds, model=model))


def _positive(dates: list[float | None]) -> float | None:
    before, after = dates
    return after - before if before is not None and after is not None and after > before else None


def _uptime_s(page: Snapshot, date_s: float | None) -> float | None:
    from autotune.core.signals import Signal

    start_s = page.value(Signal.PROCESS_START_S)
    return date_s - start_s if start_s is not None and date_s is not None and date_s > start_s else None


def _date_s(source: str) -> float | None:
    """When a file was written; of stdin that is unknown."""
    try:
        return None if source == "-" else Path(source).stat().st_mtime
    except OSError as problem:
        raise ConfigError(f"{source} must be a readable file or a URL", got=problem.strerror) from problem


def _page(source: str) -> bytes:
    data = sys.stdin.buffer.read(_MAX_PAGE_BYTES + 1) if source == "-" else _read(Path(source))
    if len(data) > _MAX_PAGE_BYTES:
        raise ConfigError(f"a page of metrics has at most {_MAX_PAGE_BYTES // MIB} MiB", got="more")
    return data


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_PAGE_BYTES + 1)
    except OSError as problem:
        raise ConfigError(f"{path} must be a readable file or a URL", got=problem.strerror) from problem


def _print(diagnosis: Diagnosis) -> None:
    from autotune.report.doctor import diagnosis_table, diagnosis_words

    console = stdout_console()
    for line in diagnosis_words(diagnosis):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if diagnosis.findings:
        console.print()
        console.print(diagnosis_table(diagnosis))
