"""``tune --engine transformers``: how to stream the KV of running requests, on real short generations."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli._out import require_writable, unwritable
from autotune.cli.common import print_json, progress, stdout_console
from autotune.core.errors import ConfigError
from autotune.core.units import GIB, MS_PER_S

if TYPE_CHECKING:
    from autotune.search.streaming import StreamingResult

ENGINE = "transformers"
_DEFAULT_SHARE = 0.5
_OWN = {"simulated_link_gib_s", "prompt_tokens", "max_batch", "max_depth"}
_SHARED = {"engine", "model", "device_gib", "trials", "seed", "out", "report", "as_json"}

Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="canonical|vllm|vllm-0.32|transformers",
        help="By whose rules the host works; vllm: those of the newest vLLM known here, on full blocks; transformers: "
        "no trace, but real generations that stream KV.",
    ),
]
SimulatedLink = Annotated[
    float | None,
    typer.Option(
        "--simulated-link-gib-s",
        metavar="X",
        help="With --engine transformers on a CPU: pace of a simulated host link, in GiB/s.",
    ),
]
PromptTokens = Annotated[
    int, typer.Option("--prompt-tokens", min=1, help="With --engine transformers: tokens of each prompt.")
]
MaxBatch = Annotated[
    int, typer.Option("--max-batch", min=1, help="With --engine transformers: the largest batch that is tried.")
]
MaxDepth = Annotated[
    int,
    typer.Option("--max-depth", min=0, help="With --engine transformers: the largest prefetch depth that is tried."),
]


@dataclass(frozen=True, slots=True)
class StreamingOptions:
    """What the command line says."""

    model: str
    prompt_tokens: int
    max_batch: int
    max_depth: int
    out: Path
    report: bool
    as_json: bool
    device_gib: float | None = None
    simulated_link_gib_s: float | None = None
    trials: int = 24
    seed: int = 0

    @classmethod
    def given_in(cls, context: typer.Context) -> StreamingOptions:
        """Those of the command ``tune``; what was not given keeps its default here."""
        given = {each.name: value for each in fields(cls) if (value := context.params[each.name]) is not None}
        return cls(**given | {"out": Path(given["out"])})


def tune_streaming_command(options: StreamingOptions) -> None:
    """Search p, d, placement and batch, and write policy.yaml and report.html."""
    from autotune.core import registry
    from autotune.core.streaming import Workload
    from autotune.search.streaming.study import tune_streaming

    _check(options)
    require_writable(options.out)
    workload = Workload(prompt_tokens=options.prompt_tokens, seed=options.seed)
    pace = options.simulated_link_gib_s
    engine = registry.load(registry.ENGINES, ENGINE)(
        options.model, workload, simulated_link_bytes_per_s=None if pace is None else pace * GIB
    )
    try:
        with progress() as display:
            result = tune_streaming(
                engine,
                _space(options, engine.describe(), workload),
                workload,
                trials=options.trials,
                seed=options.seed,
                link_is_simulated=pace is not None,
                on_trial=_shown_on(display),
            )
    finally:
        engine.close()
    _write(result, options)
    if options.as_json:
        print_json(as_object(result, options))
    else:
        _print(result, options)


def require_trace(trace: list[str] | None) -> list[str]:
    """The traces, which every other engine needs.

    Raises:
        ConfigError: none was given.
    """
    if not trace:
        raise ConfigError(
            "tuning on a trace needs --trace", got="none", remedy="for example --trace sample:conversation; see --help"
        )
    return trace


def refuse_options_of_others(context: typer.Context, engine: str | None) -> None:
    """What was given and has no meaning for the engine is not silently ignored.

    Raises:
        ConfigError: an option of traces with ``--engine transformers``, or one of that engine without it.
    """
    given = {
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    foreign = given - _OWN - _SHARED if engine == ENGINE else given & _OWN
    if foreign:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(foreign))
        raise ConfigError(
            f"options fit the engine, --engine {engine or 'canonical'}", got=names, remedy="leave them out; see --help"
        )


def as_object(result: StreamingResult, options: StreamingOptions) -> dict[str, object]:
    """The JSON object of a streaming search."""
    return {
        "policy_path": str(options.out / "policy.yaml"),
        "report_path": str(options.out / "report.html") if options.report else None,
        "model": asdict(result.model),
        "workload": asdict(result.workload),
        "budget_bytes": result.space.budget_bytes,
        "load_bytes_per_s": result.load_bytes_per_s,
        "link_is_simulated": result.link_is_simulated,
        "resident_frac": result.resident_frac,
        "setting": asdict(result.chosen.setting),
        "token_s": result.chosen.token_s,
        "comparisons": [asdict(each) | {"speed_up": each.speed_up} for each in result.comparisons],
        "median_error_frac": result.median_error_frac,
        "median_explained_error_frac": result.median_explained_error_frac,
        "unfit": result.unfit,
        "rows": [
            {
                "setting": asdict(row.setting),
                "planned_bytes": row.planned_bytes,
                "device_bytes": row.measured.device_bytes,
                "token_s": row.token_s,
                "step_s": row.measured.step_s,
                "predicted_step_s": row.predicted.step_s,
                "error_frac": row.error_frac,
                "explained_error_frac": row.explained_error_frac,
                "wait_s": row.measured.wait_s,
                "loaded_bytes": row.measured.loaded_bytes,
                "stored_bytes": row.measured.stored_bytes,
                "peak_slots": row.measured.peak_slots,
            }
            for row in result.rows
        ],
    }


def _check(options: StreamingOptions) -> None:
    for name, value in (
        ("--device-gib", options.device_gib),
        ("--simulated-link-gib-s", options.simulated_link_gib_s),
    ):
        if value is not None and not 0.0 < value < float("inf"):
            raise ConfigError(f"{name} is a positive number", got=value)


def _space(options: StreamingOptions, kv: Any, workload: Any) -> Any:
    from autotune.search.streaming import StreamingSpace

    if options.device_gib is None:  # half of what the largest batch would take
        whole = kv.layer_token_bytes * len(kv.candidates) * workload.longest_tokens * options.max_batch
        budget_bytes = int(_DEFAULT_SHARE * whole)
    else:
        budget_bytes = int(options.device_gib * GIB)
    return StreamingSpace(budget_bytes, max_depth=options.max_depth, max_batch=options.max_batch)


def _write(result: StreamingResult, options: StreamingOptions) -> None:
    from autotune.export import save
    from autotune.report.streaming import save_streaming_report
    from autotune.search.streaming import make_streaming_document

    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise unwritable(options.out, problem) from problem
    save(make_streaming_document(result), options.out / "policy.yaml")
    if options.report:
        save_streaming_report(result, options.out / "report.html")


def _shown_on(display: Any) -> Any:
    task = display.add_task("opening the model", total=None)

    def show(done: int, total: int, best_s: float) -> None:
        display.update(task, completed=done, total=total, description=f"best {MS_PER_S * best_s:.2f} ms per token")

    return show


def _print(result: StreamingResult, options: StreamingOptions) -> None:
    from rich.table import Table

    from autotune.report.streaming.page import HEADINGS, setting_cells, summary_sentences

    console = stdout_console()
    table = Table(title="Settings tried, fastest first (own: error given the run's own compute)")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for row in sorted(result.rows, key=lambda row: row.token_s):
        table.add_row(*setting_cells(row), style="bold" if row is result.chosen else None)
    console.print(table)
    for sentence in summary_sentences(result):
        console.print(sentence, markup=False, highlight=False)
    console.print(f"Policy: {options.out / 'policy.yaml'}", markup=False, highlight=False)
    if options.report:
        console.print(f"Report: {options.out / 'report.html'}", markup=False, highlight=False)
