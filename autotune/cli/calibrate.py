"""``kv-autotune calibrate``: measures this machine's links, and writes a hardware profile of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli.common import print_json, progress, stdout_console
from autotune.core.units import GB, MIB

if TYPE_CHECKING:
    from autotune.core.estimates import Estimate
    from autotune.core.telemetry.wire import Direction
    from autotune.costs.calibrate import Calibration
    from autotune.costs.copy_bench import Memory


def calibrate(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.yaml", help="Where the profile goes, for --hardware.")
    ] = None,
    hardware: Annotated[
        str, typer.Option("--hardware", help="Profile whose compute, memory and disk are taken over.")
    ] = "h100-sxm",
    name: Annotated[str, typer.Option("--name", help="Name of the profile.")] = "this-machine",
    largest_mib: Annotated[
        float, typer.Option("--largest-mib", min=0.0625, help="Largest copy, as far as a quarter of free memory.")
    ] = 1024.0,
    repeats: Annotated[int, typer.Option("--repeats", min=1, max=1000, help="Measurements of each size.")] = 7,
    as_json: options.AsJson = False,
) -> None:
    """Measure copies between host and device, pinned and pageable, both ways; without a GPU, within host memory."""
    from autotune.cli._out import require_writable
    from autotune.core.clock import SystemClock
    from autotune.costs import load_hardware
    from autotune.costs.calibrate import measure, sizes
    from autotune.costs.hardware_text import hardware_yaml

    base = load_hardware(hardware)
    if out is not None:
        require_writable(out.parent)
    copy_sizes = sizes(round(largest_mib * MIB))
    with progress() as display:
        task = display.add_task("copies", total=None)
        found = measure(
            SystemClock(),
            copy_sizes,
            repeats,
            lambda what, done, total: display.update(task, description=what, completed=done, total=total),
        )
    if out is not None:
        _save(hardware_yaml(found, base, name), out)
    if as_json:
        print_json(as_object(found) | {"profile_path": None if out is None else str(out)})
    else:
        _print(found, out)


def as_object(found: Calibration) -> dict[str, object]:
    """The JSON object of a calibration: every size, and latency and bandwidth through all of them, with intervals."""
    return {
        "device": found.device,
        "is_gpu": found.is_gpu,
        "origin": found.origin,
        "copies": [
            {
                "memory": one.memory.value,
                "direction": one.direction.value,
                "size_bytes": one.size_bytes,
                "seconds": list(one.seconds),
                "median_s": one.median_s,
            }
            for one in found.copies
        ],
        "links": [
            {"memory": memory.value, "direction": way.value}
            | {each.name.removeprefix("link_"): [each.low, each.value, each.high] for each in estimates[:2]}
            for memory, way, estimates in _links(found)
        ],
    }


def _links(found: Calibration) -> list[tuple[Memory, Direction, tuple[Estimate, ...]]]:
    from autotune.core.telemetry.wire import Direction

    return [
        (memory, way, found.link(memory, way).estimates("link", 0.0)) for memory in found.memories for way in Direction
    ]


def _save(text: str, out: Path) -> None:
    from autotune.cli._out import unwritable
    from autotune.core.files import write_atomically

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, text)
    except OSError as problem:
        raise unwritable(out, problem) from problem


def _print(found: Calibration, out: Path | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = stdout_console()
    console.print(found.origin[0].upper() + found.origin[1:] + ".", markup=False, highlight=False)
    if not found.is_gpu:
        console.print("No GPU: this is no link to a device. A profile of it is for trying things out.", markup=False)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("memory", "direction", "size", "GB/s", "µs"):
        table.add_column(heading, justify="left" if heading in {"memory", "direction"} else "right")
    for one in found.copies:
        size = f"{one.size_bytes / MIB:g} MiB" if one.size_bytes >= MIB else f"{one.size_bytes / 1024:g} KiB"
        table.add_row(one.memory, one.direction, size, f"{one.gb_per_s:.3g}", f"{one.median_s * 1e6:.4g}")
    console.print(table)
    for memory, way, (bandwidth, latency, _) in _links(found):
        console.print(
            f"{memory} {way}: {bandwidth.value / GB:.3g} GB/s ({bandwidth.low / GB:.3g} to {bandwidth.high / GB:.3g}), "
            f"latency {latency.value * 1e6:.3g} µs ({latency.low * 1e6:.3g} to {latency.high * 1e6:.3g})",
            markup=False,
            highlight=False,
        )
    if out is not None:
        console.print(f"Profile: {out}; use it with --hardware {out}", markup=False, highlight=False)
