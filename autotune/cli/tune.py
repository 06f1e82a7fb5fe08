"""``kv-autotune tune``: search the best setting on a trace and write policy and report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli import _options as options
from autotune.cli import _tune_streaming as streaming
from autotune.cli._out import require_writable, unwritable
from autotune.cli.common import print_json, progress, reader_options, stdout_console
from autotune.core.types import StoreMode, Timing

if TYPE_CHECKING:
    from autotune.core.settings import Settings
    from autotune.search.result import TuneResult

_OUT = Path("out")
_SEARCH = ("trials", "seed", "sampler", "objective", "train_frac", "workers", "random_search", "learned")
_OPTION_OF = {
    "search": {name: name for name in _SEARCH},
    "simulation": {"store_mode": "store", "timing": "timing", "full_blocks": "full_blocks", "engine": "engine"},
    "queue": {"servers": "servers", "time_scale": "time_scale"},
    "trace": {"on_error": "on_error"},
}
"""Settings that have an option of their own, by section, and the parameter of :func:`tune` that gives it."""


def tune(
    context: typer.Context,
    trace: options.SourcesIfAny = None,
    model: options.Model = "llama-3.1-8b",
    hardware: options.Hardware = "h100-sxm",
    device_gib: options.DeviceGib = None,
    device_blocks: options.DeviceBlocks = None,
    host_gib: options.HostGib = None,
    host_blocks: options.HostBlocks = None,
    disk_gib: options.DiskGib = None,
    disk_blocks: options.DiskBlocks = None,
    link_gb_per_s: options.LinkGbPerS = None,
    write_gb_per_s: options.WriteGbPerS = None,
    trials: Annotated[int | None, typer.Option("--trials", help="Settings to try; the first is LRU's own.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the search.")] = None,
    sampler: Annotated[
        str | None, typer.Option("--sampler", metavar="tpe|random|cmaes|nsga2", help="How settings are chosen.")
    ] = None,
    objective: Annotated[str | None, typer.Option("--objective", metavar="NAME", help="What is optimised.")] = None,
    constraint: Annotated[
        list[str] | None, typer.Option("--constraint", metavar="ttft_p99|stored_bytes", help="Limit to keep.")
    ] = None,
    train_frac: Annotated[
        float | None, typer.Option("--train-frac", help="Share of the time that is tuned on; the rest judges.")
    ] = None,
    store: Annotated[StoreMode | None, typer.Option("--store", help="When the host gets a block.")] = None,
    timing: Annotated[Timing | None, typer.Option("--timing", help="When a request's blocks become idle.")] = None,
    full_blocks: Annotated[
        bool | None, typer.Option("--full-blocks/--partial-blocks", help="Whether partial tail blocks are dropped.")
    ] = None,
    engine: streaming.Engine = None,
    simulated_link_gib_s: streaming.SimulatedLink = None,
    prompt_tokens: streaming.PromptTokens = 512,
    max_batch: streaming.MaxBatch = 4,
    max_depth: streaming.MaxDepth = 4,
    servers: Annotated[int | None, typer.Option("--servers", help="Prefill servers, for TTFT.")] = None,
    time_scale: Annotated[float | None, typer.Option("--time-scale", help="Factor on arrival times, for TTFT.")] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; 2 are used at most, and not more than cores.")
    ] = None,
    random_search: Annotated[
        bool | None, typer.Option("--random-search/--no-random-search", help="Show random search beside the sampler.")
    ] = None,
    learned: Annotated[
        bool | None, typer.Option("--learned/--no-learned", help="Whether a learned rule is a candidate too.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="NAME", help="Setting to start from, such as chat.")
    ] = None,
    space: Annotated[
        str, typer.Option("--space", metavar="NAME|FILE", help="Search space: default, full, or a YAML file.")
    ] = "default",
    scenario: options.Scenario = None,
    settings: Annotated[Path | None, typer.Option("--settings", metavar="FILE", help="Settings in YAML.")] = None,
    study: Annotated[
        Path | None, typer.Option("--study", metavar="FILE.db", help="SQLite file that keeps the study, to resume it.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where policy.yaml and report.html go.")] = _OUT,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Whether to write report.html.")] = True,
    on_error: options.OnErrorOrSettings = None,
    option: options.ReaderOptions = None,
    as_json: options.AsJson = False,
) -> None:
    """Tune a policy on the past of a trace, judge it on the rest, and write policy.yaml and report.html.

    The candidates are the rank rule, by search, and a learned rule; LRU stays where neither is better for sure.

    With --engine transformers: how to stream the KV of running requests, tuned on real short generations with --model.
    """
    streaming.refuse_options_of_others(context, engine)
    if engine == streaming.ENGINE:
        streaming.tune_streaming_command(streaming.StreamingOptions.given_in(context))
        return
    from autotune import api
    from autotune.core.trace import Trace
    from autotune.search.space import load_space

    sources = streaming.require_trace(trace)
    chosen = options.with_write_budget(_settings(settings, scenario, context.params), write_gb_per_s)
    require_writable(out)
    loaded = Trace.open(sources, **reader_options(option or (), on_error=chosen.trace.on_error))
    with progress() as display:
        result = api.tune(
            loaded,
            model=model,
            hardware=hardware,
            link_gb_per_s=link_gb_per_s,
            budget=api.Budget(device_gib, host_gib, disk_gib, device_blocks, host_blocks, disk_blocks),
            settings=chosen,
            space=load_space(space),
            constraints=tuple(constraint or ()),
            preset=preset,
            require_ttft=servers is not None or time_scale is not None,
            trace_name=" + ".join(sources),
            storage=f"sqlite:///{study.resolve()}" if study else None,
            on_progress=_shown_on(display),
        )
    _write(result, out, report)
    if as_json:
        print_json(as_object(result, out, report))
    else:
        _print(result, out, report)


def _write(result: TuneResult, out: Path, report: bool) -> None:
    from autotune.export import save

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise unwritable(out, problem) from problem
    save(result.document, out / "policy.yaml")
    if report:
        from autotune.report.page import save_report

        save_report(result, out / "report.html")


def as_object(result: TuneResult, out: Path, report: bool) -> dict[str, object]:
    """The JSON object of a tuning run."""
    return {
        "policy_path": str(out / "policy.yaml"),
        "report_path": str(out / "report.html") if report else None,
        "chosen": result.chosen,
        "baseline": "lru",
        "reason": result.reason,
        "verdict": result.verdict,
        "setting": asdict(result.setting),
        "gain_frac": asdict(result.gain_frac),
        "confidence": result.confidence,
        "gap_closed_frac": result.gap_closed_frac,
        "trials": result.n_trials,
        "wall_s": result.wall_s,
        "rows": [asdict(row) | {"stored_per_loaded": row.stored_per_loaded} for row in result.rows],
        "learned": asdict(result.learned),
        "break_even_tokens": result.break_even_tokens,
        "importance": dict(result.importance),
        "ttft_note": result.ttft_note,
        "assumptions": list(result.assumptions),
    }


def _settings(path: Path | None, scenario: str | None, given: Mapping[str, Any]) -> Settings:
    """Settings from a scenario and a file, with what the command line gives on top.

    Raises:
        ConfigError: a value is out of range.
    """
    from autotune.advise.scenarios import scenario_settings
    from autotune.core.errors import ConfigError
    from autotune.core.settings import Settings
    from autotune.core.validation import validate

    loaded = scenario_settings(scenario, path)
    tree: dict[str, Any] = loaded.model_dump(mode="json")
    if "workers" not in loaded.search.model_fields_set:
        tree["search"]["workers"] = min(2, os.cpu_count() or 1)
    for section, names in _OPTION_OF.items():
        tree[section] |= {name: given[option] for name, option in names.items() if given[option] is not None}
    return validate(Settings, tree, ConfigError, "settings")


def _shown_on(display: Any) -> Any:
    """A callback that shows each step of the search as a bar with the best value so far."""
    tasks: dict[str, Any] = {}
    waiting = display.add_task("getting ready; a first run compiles the simulator", total=None)

    def show(step: str, position: int, total: int, best: float) -> None:
        display.update(waiting, visible=False)
        if step not in tasks:
            tasks[step] = display.add_task(step, total=total)
        # Objectives are relative to LRU's own value, so that below 0 is better.
        display.update(tasks[step], completed=position, description=f"{step}, best {100 * best:+.2f} % against LRU")

    return show


def _print(result: TuneResult, out: Path, report: bool) -> None:
    from autotune.report.table import policy_table, summary_lines

    console = stdout_console()
    console.print(policy_table(result))
    console.print()
    for line in summary_lines(result):
        console.print(line, markup=False, highlight=False)
    console.print()
    console.print(f"Policy: {out / 'policy.yaml'}", markup=False, highlight=False)
    if report:
        console.print(f"Report: {out / 'report.html'}", markup=False, highlight=False)
