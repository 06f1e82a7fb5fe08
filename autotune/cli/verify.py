"""``kv-autotune verify``: whether a policy keeps its promise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli import _options as options
from autotune.cli.common import print_json, reader_options, stdout_console
from autotune.core.errors import ConfigError

if TYPE_CHECKING:
    from autotune.advise.verify import Figure, Verification

EXIT_BROKEN_PROMISE = 1

_LABELS = {
    "cost_baseline_s": "cost of LRU",
    "cost_policy_s": "cost of the policy",
    "net_seconds_saved_baseline": "net seconds saved by LRU",
    "net_seconds_saved_policy": "net seconds saved by the policy",
    "gain_frac": "gain",
}


def verify(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="Policy file.")],
    trace: Annotated[
        list[str] | None,
        typer.Option(
            "--trace",
            metavar="FORMAT:PATH",
            help="Requests to verify on; may be repeated. Not needed for a policy tuned on a sample trace.",
        ),
    ] = None,
    on_error: options.OnError = "fail",
    option: options.ReaderOptions = None,
    as_json: options.AsJson = False,
) -> None:
    """Simulate a policy and LRU again, as its provenance says, and compare with what it promises.

    On the requests that it was judged on, every figure must come out equal. On other requests the gain must reach the
    lower bound that was promised. Exit status 0: the promise holds; 1: it does not; 2: it cannot be verified.
    """
    from autotune import api
    from autotune.core.trace import Trace

    if option and not trace:
        raise ConfigError("--option belongs to --trace", got="--option alone", remedy="give --trace FORMAT:PATH")
    document = api.Policy.load(policy)
    opened = Trace.open(trace, **reader_options(option or (), on_error=on_error)) if trace else None
    outcome = document.verify(opened)
    if as_json:
        print_json(outcome)
    else:
        _print(policy, outcome)
    if not outcome.holds:
        raise typer.Exit(EXIT_BROKEN_PROMISE)


def _print(policy: Path, outcome: Verification) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    table.add_column("promised", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    for figure in outcome.figures:
        table.add_row(_LABELS[figure.name], _shown(figure, figure.promised), _shown(figure, figure.measured))
    console = stdout_console()
    title = f"{policy} on {outcome.requests:,} requests of {_source(outcome)}"
    console.print(title, markup=False, highlight=False)
    console.print(table)
    for line in _sentences(outcome):
        console.print(line, markup=False, highlight=False)


def _source(outcome: Verification) -> str:
    names = ", ".join(outcome.trace_files[:2])
    more = len(outcome.trace_files) - 2
    return f"{outcome.trace_format}:{names}" + (f" and {more:,} more" if more > 0 else "")


def _shown(figure: Figure, value: float) -> str:
    return f"{100 * value:.2f} %" if figure.name == "gain_frac" else f"{value:,.1f} s"


def _sentences(outcome: Verification) -> list[str]:
    return _on_the_same(outcome) if outcome.same_requests else _on_others(outcome)


def _on_the_same(outcome: Verification) -> list[str]:
    broken = [_LABELS[figure.name] for figure in outcome.figures if not figure.agrees]
    found = f"does not hold; not as promised: {', '.join(broken)}" if broken else "holds: every figure is the same"
    return ["These are the requests that it was judged on.", f"The promise {found}."]


def _on_others(outcome: Verification) -> list[str]:
    gain, low = f"{100 * outcome.gain_frac:.2f} %", f"{100 * outcome.gain_low_frac:.2f} %"
    holds, reaches = ("holds", "reaches") if outcome.holds else ("does not hold", "is below")
    return [
        f"These are OTHER requests than it was judged on ({'; '.join(outcome.differences)}).",
        f"The promise {holds} on them: a gain of {gain} {reaches} {low}, the lower bound that was promised for the "
        "requests it was judged on.",
    ]
