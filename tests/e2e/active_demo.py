"""``make demo-active``: a real model streams part of its layers, and the time of a step over p and d becomes a picture.

A random Llama generates on the CPU. Its link to the host is simulated, and so slow that to load all layers takes twice
the compute of a step. Every p and d is predicted by the recurrence, from times measured with everything resident, and
then run; each run must give the tokens that the resident one gave. It needs torch and Transformers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import product
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from autotune.core.errors import AutotuneError
from autotune.core.files import write_atomically
from autotune.core.streaming import GenerationSetting, Placement, Workload, resident_count
from autotune.core.units import GIB, MS_PER_S
from autotune.report.streaming import SurfacePoint, surface_svg
from autotune.search.streaming import StreamingRow, measure
from autotune_policies.engines.transformers.open_engine import open_engine

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
DEPTHS = (0, 1, 2, 3)
TRANSFER_PER_COMPUTE = 2.0
BATCH = 1
WORKLOAD = Workload(prompt_tokens=384, new_tokens=9, repeats=2)
MODEL = {
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "dtype": "float32",
}


def run(console: Console) -> tuple[list[tuple[float, StreamingRow]], float]:
    """Every setting with its p, and the pace of the link in bytes per second."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        pace = pace_of_link(folder)
        engine = open_engine(folder, WORKLOAD, simulated_link_bytes_per_s=pace)
        try:
            n_layers = len(engine.describe().candidates)
            rows = []
            for share, depth in product(SHARES, DEPTHS):
                setting = GenerationSetting(resident_count(n_layers, share), depth, Placement.EVEN, BATCH)
                # Measured anew before each: what a core gives changes with its neighbours.
                rows.append((share, measure(engine, engine.layer_times(BATCH), setting, WORKLOAD)))
        finally:
            engine.close()
    return rows, pace


def write_model(folder: Path) -> None:
    """The configuration of the model; its weights are random."""
    from transformers import LlamaConfig

    LlamaConfig(**MODEL).save_pretrained(folder)


def pace_of_link(folder: str) -> float:
    """A pace at which all layers take a fixed multiple of a step's compute, in bytes per second."""
    engine = open_engine(folder, WORKLOAD)
    try:
        times, kv = engine.layer_times(BATCH), engine.describe()
    finally:
        engine.close()
    kv_bytes = kv.layer_token_bytes * len(kv.candidates) * WORKLOAD.longest_tokens * BATCH
    return kv_bytes / (TRANSFER_PER_COMPUTE * sum(times.compute_s))


def show(console: Console, rows: list[tuple[float, StreamingRow]]) -> None:
    """The surface as a table, and the size of the errors."""
    table = Table(title="ms per decode step: measured (predicted, error)")
    table.add_column("p", justify="right")
    for depth in DEPTHS:
        table.add_column(f"d = {depth}", justify="right")
    for share in SHARES:
        cells = [row for own_share, row in rows if own_share == share]
        table.add_row(f"{share:g}", *(_cell(row) for row in cells))
    console.print(table)
    errors = 100 * median(abs(row.error_frac) for _, row in rows)
    own = 100 * median(abs(row.explained_error_frac) for _, row in rows)
    console.print(
        f"median error of the recurrence: {errors:.1f} % from times measured beforehand, {own:.1f} % given the compute "
        "of the same run; all runs gave the tokens of the resident one"
    )


def _cell(row: StreamingRow) -> str:
    measured, predicted = row.measured.step_s * MS_PER_S, row.predicted.step_s * MS_PER_S
    return f"{measured:.1f} ({predicted:.1f}, {100 * row.error_frac:+.0f} %)"


def save_picture(rows: list[tuple[float, StreamingRow]], pace: float, path: Path) -> None:
    """The surface as an SVG file."""
    points = [
        SurfacePoint(share, row.setting.prefetch_depth, row.predicted.step_s, row.measured.step_s)
        for share, row in rows
    ]
    note = (
        f"{MODEL['num_hidden_layers']} layers on a CPU, {WORKLOAD.prompt_tokens} tokens, simulated link of "
        f"{pace / GIB:.3f} GiB/s: all layers take twice a step's compute to load"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, surface_svg(points, "Decode step over resident share p and prefetch depth d", note))


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/active"), help="folder of the picture")
    out = parser.parse_args(arguments).out
    console = Console()
    try:
        rows, pace = run(console)
        show(console, rows)
        save_picture(rows, pace, out / "surface.svg")
    except (AutotuneError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    console.print(f"Picture: {out / 'surface.svg'}", markup=False, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
