"""``kv-autotune trace``: look at traces and convert them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.common import print_json, progress, reader_options, stdout_console
from autotune.core.errors import ConfigError, TraceError
from autotune.core.units import bytes_to_gib

if TYPE_CHECKING:
    from autotune.core.shapes import ModelShape
    from autotune.core.trace import Trace, TraceProvenance
    from autotune.traces.stats import HintStats, TraceStats

app = typer.Typer(
    help="Look at traces and convert them.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE", help="FORMAT:PATH; the path may be a glob, .gz or .zst; several of one format are one stream."
    ),
]
OnError = Annotated[
    str,
    typer.Option("--on-error", metavar="fail|skip", help="What becomes of malformed rows: fail, or skip and count."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Option of the format's reader; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


@app.command()
def info(
    source: Sources,
    model: Annotated[
        str | None, typer.Option("--model", help="Model (name or config.json) for the footprint in GiB.")
    ] = None,
    on_error: OnError = "fail",
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Show what a trace holds: requests, span, blocks, footprint, and how its blocks are reused."""
    from autotune.core.trace import Trace
    from autotune.traces.stats import describe

    shape = _shape(model)
    trace = Trace.open(source, **reader_options(option or (), on_error=on_error))
    stats = describe(trace)
    footprint_bytes = None
    if shape is not None:
        trace.require_blocks()
        footprint_bytes = stats.unique_blocks * trace.block_tokens * shape.kv_bytes_per_token
    if as_json:
        print_json(
            asdict(stats)
            | {"model": None if shape is None else shape.name, "footprint_bytes": footprint_bytes}
            | {"provenance": provenance_object(trace.provenance)}
        )
        return
    _print_table(stats, trace.provenance, shape, footprint_bytes)


@app.command()
def convert(
    source: Sources,
    out: Annotated[Path, typer.Option("--out", metavar="F.parquet", help="Recording to write.")],
    merge_span_s: Annotated[
        float | None,
        typer.Option(help="Take each file as a session, start them at random times in this span, cut at its end."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random starts; 0 if not given.")] = None,
    block_tokens: Annotated[int | None, typer.Option(help="Coarsen to blocks of so many tokens.")] = None,
    on_error: OnError = "fail",
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Write a trace as a recording (Parquet), as it is, with larger blocks, or merged from sessions."""
    from autotune.core.trace import Trace
    from autotune.traces.coarsen import coarsen
    from autotune.traces.merge import merge_sessions
    from autotune.traces.recording import write_recording

    if seed is not None and merge_span_s is None:
        raise ConfigError(
            "--seed belongs to --merge-span-s", got="--seed alone", remedy="a reader's seed is --option seed=N"
        )
    options = reader_options(option or (), on_error=on_error)
    if merge_span_s is not None:
        trace = merge_sessions(
            _each_session(source, options), span_s=merge_span_s, seed=seed or 0, block_tokens=block_tokens
        )
    else:
        trace = Trace.open(source, **options)
        trace = trace if block_tokens is None else coarsen(trace, block_tokens)
    write_recording(trace, out)
    written = {
        "out": str(out),
        "requests": trace.n_requests,
        "span_s": trace.span_s,
        "accesses": trace.n_accesses,
        "unique_blocks": trace.n_blocks,
        "block_tokens": trace.block_tokens,
        "provenance": provenance_object(trace.provenance),
    }
    if as_json:
        print_json(written)
        return
    typer.echo(
        f"{out}: {trace.n_requests:,} requests over {trace.span_s:,.0f} s, {trace.n_accesses:,} block accesses, "
        f"{trace.n_blocks:,} blocks of {trace.block_tokens} tokens"
    )


def provenance_object(provenance: TraceProvenance) -> dict[str, object]:
    """Provenance with its pairs as objects, which is easier to read from JSON."""
    return asdict(provenance) | {"options": dict(provenance.options), "skipped_rows": dict(provenance.skipped_rows)}


def _each_session(sources: list[str], options: dict[str, object]) -> Iterator[Trace]:
    from autotune.core.trace import Trace
    from autotune.traces.files import expand

    files = []
    for text in sources:
        name, colon, path = text.partition(":")
        if not (name and colon and path):
            raise TraceError("a trace is given as FORMAT:PATH", got=repr(text), remedy="for example mooncake:F.jsonl")
        files += [f"{name}:{file}" for file in expand([path])]
    with progress() as display:
        for file in display.track(files, description="sessions"):
            yield Trace.open(file, **options)


def _shape(model: str | None) -> ModelShape | None:
    if model is None:
        return None
    from autotune.geometry import load_model

    return load_model(model)


def _print_table(
    stats: TraceStats, provenance: TraceProvenance, shape: ModelShape | None, footprint_bytes: int | None
) -> None:
    from rich.table import Table

    table = Table(show_header=False, title=f"{provenance.trace_format}: {_shortened(provenance.paths)}")
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in _rows(stats):
        table.add_row(name, value)
    if shape is not None and footprint_bytes is not None:
        table.add_row(f"footprint for {shape.name}", f"{bytes_to_gib(footprint_bytes):,.2f} GiB")
    for kind, count in provenance.skipped_rows:
        table.add_row(f"skipped: {kind}", f"{count:,}")
    for name, value in provenance.options:
        table.add_row(f"option {name}", value)
    stdout_console().print(table)


def _shortened(paths: tuple[str, ...]) -> str:
    return ", ".join(paths) if len(paths) <= 3 else f"{paths[0]} … {paths[-1]} ({len(paths)} files)"


def _rows(stats: TraceStats) -> list[tuple[str, str]]:
    rows = [
        ("requests", f"{stats.requests:,}"),
        ("sessions", f"{stats.sessions:,}" if stats.sessions else "not given"),
        ("span", f"{stats.span_s:,.1f} s"),
        ("mean rate", "all at once" if stats.rate_per_s is None else f"{stats.rate_per_s:,.3f} requests/s"),
        ("resolution of times", f"{stats.tick_s:g} s"),
        ("prompt tokens", f"{stats.input_tokens:,}"),
        ("generated tokens", f"{stats.output_tokens:,}"),
    ]
    rows += _hint_rows(stats.hints)
    if not stats.block_tokens:
        return [*rows, ("blocks", "none: arrivals and lengths only")]
    rows += [
        ("block size", f"{stats.block_tokens} tokens"),
        ("block accesses", f"{stats.accesses:,}"),
        ("different blocks", f"{stats.unique_blocks:,}"),
        ("requests without a block", f"{stats.requests_without_blocks:,}"),
        ("hits of an unbounded cache", f"{stats.infinite_hits:,} ({_percent(stats.infinite_hit_frac)})"),
    ]
    if stats.reuse_gap is not None:
        gap = stats.reuse_gap
        quantiles = f"{gap.p10_s:,.1f} / {gap.p50_s:,.1f} / {gap.p90_s:,.1f} / {gap.p99_s:,.1f} s"
        rows.append(("reuse gap p10 / p50 / p90 / p99", quantiles))
    return [
        *rows,
        ("reuse in the hottest 1 % of blocks", _percent(stats.hottest_reuse_frac)),
        ("accesses that break a prefix chain", f"{stats.chain_violations:,}"),
    ]


def _hint_rows(hints: HintStats | None) -> list[tuple[str, str]]:
    """What clients told; nothing where no format said anything."""
    if hints is None:
        return []
    idle = "" if hints.expected_idle_p50_s is None else f", median {hints.expected_idle_p50_s:,.1f} s"
    return [
        ("hint: session ends", f"told of {hints.session_end_told:,} requests, {hints.session_ends:,} end one"),
        ("hint: expected idle time", f"told of {hints.expected_idle_told:,} requests{idle}"),
        ("hint: priority", f"told of {hints.priority_told:,} requests"),
    ]


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"
