"""``kv-autotune plan``: what fits on a machine, how fast it decodes, and which technique would help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli.common import print_json, stdout_console
from autotune.core.units import GIB, MS_PER_S

if TYPE_CHECKING:
    from autotune.advise.plan import Plan


def plan(
    model: options.Model = "llama-3.1-8b",
    hardware: options.Hardware = "h100-sxm",
    context: Annotated[int | None, typer.Option("--context", min=1, help="Tokens of each sequence.")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", min=1, help="Sequences at once.")] = None,
    devices: Annotated[int, typer.Option("--devices", min=1, help="Devices that share the model.")] = 1,
    kv_dtype: Annotated[
        str | None, typer.Option("--kv-dtype", metavar="NAME", help="Format of the KV, such as fp8 or kivi2_g32.")
    ] = None,
    resident: Annotated[
        str | None, typer.Option("--resident", metavar="P", help="Share p of the KV that stays on the device; 1.")
    ] = None,
    prefetch_depth: Annotated[int, typer.Option("--prefetch-depth", min=0, help="Streamed layers loaded ahead.")] = 1,
    shared_prefix: Annotated[
        int, typer.Option("--shared-prefix", min=0, help="Tokens with which all sequences begin.")
    ] = 0,
    block_size: Annotated[int, typer.Option("--block-size", min=1, help="Tokens per block of the engine.")] = 16,
    memory_frac: Annotated[float, typer.Option("--memory-frac", help="Share of device memory for the engine.")] = 0.9,
    workspace_gib: Annotated[
        float, typer.Option("--workspace-gib", min=0.0, help="Neither weights nor KV, per device.")
    ] = 4.0,
    weights_gib: Annotated[
        float | None, typer.Option("--weights-gib", help="Size of all weights, where it is not known or differs.")
    ] = None,
    host_gib: options.HostGib = None,
    link_gb_per_s: options.LinkGbPerS = None,
    step_goal_ms: Annotated[
        float | None, typer.Option("--step-goal-ms", help="Longest decode step; a tenth above computing if not given.")
    ] = None,
    scenario: options.Scenario = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Write a page with a picture of the capacity.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what a model's KV takes under a load, what fits, how long a step is, and what techniques would change."""
    from autotune import api
    from autotune.advise.plan import PlanRequest
    from autotune.advise.scenarios import planned_load

    context_tokens, sequences, share = planned_load(scenario, context, concurrency, resident)
    request = PlanRequest(
        context_tokens=context_tokens,
        concurrency=sequences,
        ranks=devices,
        block_tokens=block_size,
        resident_frac=share,
        prefetch_depth=prefetch_depth,
        memory_frac=memory_frac,
        workspace_bytes=round(workspace_gib * GIB),
        shared_prefix_tokens=shared_prefix,
        step_goal_s=None if step_goal_ms is None else step_goal_ms / MS_PER_S,
        host_bytes=None if host_gib is None else round(host_gib * GIB),
    )
    made = api.plan(
        request,
        model=model,
        hardware=hardware,
        kv_dtype=kv_dtype,
        link_gb_per_s=link_gb_per_s,
        weights_gib=weights_gib,
    )
    if out is not None:
        from autotune.report.plan_page import save_plan

        save_plan(made, out)
    if as_json:
        print_json(as_object(made) | {"page_path": None if out is None else str(out)})
    else:
        _print(made, out)


def as_object(made: Plan) -> dict[str, object]:
    """The JSON object of a plan: exact ratios as numbers beside the bytes that they lead to."""
    from dataclasses import asdict

    found = asdict(made)
    found["fits_all"] = all(fit.fits for fit in made.fits)
    found["memory"] |= {"peak_bytes": made.memory.peak_bytes, "fits": made.memory.fits}
    found["waterfall"] = {
        "start_bytes": made.waterfall.start_bytes,
        "end_bytes": made.waterfall.end_bytes,
        "steps": [asdict(step) | {"ratio": float(step.ratio)} for step in made.waterfall.steps],
    }
    return found


def _print(made: Plan, out: Path | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from autotune.report.plan_facts import headline, plan_tables

    console = stdout_console()
    for line in headline(made):
        console.print(line, markup=False, highlight=False)
    for title, headings, rows in plan_tables(made):
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for position, heading in enumerate(headings):
            table.add_column(Text(heading), justify="right" if 0 < position < len(headings) - 1 else "left")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print()
        console.print(table)
    console.print()
    for note in made.notes:
        console.print(f"Note: {note}.", markup=False, highlight=False)
    if out is not None:
        console.print(f"Page: {out}", markup=False, highlight=False)
