"""What ``make demo-live`` shows at its end: what the engine counted, and what had been predicted of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from metrics_page import EngineCounters
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from autotune.core.units import MS_PER_S
from autotune.daemon.status import Prediction

HIT_POINTS, TTFT_FRAC = 2.0, 0.15  # how far a prediction may be off


@dataclass(frozen=True, slots=True)
class Scene:
    """One stretch of the demo.

    Attributes:
        load: Nature of the load.
        policy: What was in force.
        counters: What the engine's own page counted.
        predictions: What the sidecar had promised; empty = nothing.
    """

    load: str
    policy: str
    counters: EngineCounters
    predictions: tuple[Prediction, ...] = ()

    @property
    def device_frac(self) -> float:
        """Share of the prompt tokens that the device had."""
        return self.counters.device_tokens / max(1.0, self.counters.prompt_tokens)

    @property
    def host_frac(self) -> float:
        """Share of the prompt tokens that the host had."""
        return self.counters.host_tokens / max(1.0, self.counters.prompt_tokens)

    @property
    def ttft_s(self) -> float:
        """Mean time to the first token."""
        return self.counters.first_token_s / max(1.0, self.counters.first_tokens)

    @property
    def outcomes(self) -> Iterator[Outcome]:
        """Each promise beside what the engine counted."""
        promised = {each.signal: each for each in self.predictions}
        device, host = promised.get("device_hit_frac"), promised.get("host_hit_frac")
        if device is not None and host is not None:
            span = (device.low + host.low, device.high + host.high)
            hits = self.device_frac + self.host_frac
            yield Outcome(self, "hit rate", device.predicted + host.predicted, span, hits, is_share=True)
        ttft = promised.get("ttft_mean_s")
        if ttft is not None:
            yield Outcome(self, "TTFT mean", ttft.predicted, (ttft.low, ttft.high), self.ttft_s, is_share=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One promise and what came of it; shares are of 1, times in seconds.

    Attributes:
        scene: Where it was measured.
        name: What it is.
        predicted: What was promised.
        span: Its bounds.
        measured: What the engine counted.
        is_share: Whether it is a share of the prompt tokens.
    """

    scene: Scene
    name: str
    predicted: float
    span: tuple[float, float]
    measured: float
    is_share: bool

    @property
    def error(self) -> float:
        """Points by which a share is off, or share by which a time is off."""
        off = self.predicted - self.measured
        return 100.0 * off if self.is_share else off / self.measured

    @property
    def holds(self) -> bool:
        """Whether it came true within what is asked for."""
        return abs(self.error) <= (HIT_POINTS if self.is_share else TTFT_FRAC)


def show(console: Console, scenes: list[Scene]) -> None:
    """Print both tables and what follows from them."""
    console.print(_counted(scenes))
    console.print()
    console.print(_promised(scenes))
    for line in sentences(scenes):
        console.print(line, markup=False, highlight=False)


def _counted(scenes: list[Scene]) -> Table:
    table = _table("What the engine's own /metrics counted", "load", "in force")
    for heading in ("requests", "device hits", "host hits", "recomputed\ntokens", "TTFT mean"):
        table.add_column(heading, justify="right")
    for each in scenes:
        shares = (f"{100 * each.device_frac:.1f} %", f"{100 * each.host_frac:.1f} %")
        counted = each.counters
        row = (f"{counted.first_tokens:,.0f}", *shares, f"{counted.computed_tokens:,.0f}", _ms(each.ttft_s))
        table.add_row(each.load, each.policy, *row)
    return table


def _promised(scenes: list[Scene]) -> Table:
    table = _table("Predicted before the trial, and measured after it", "load", "figure")
    for heading in ("predicted", "bounds", "measured", "off by", ""):
        table.add_column(heading, justify="right")
    for outcome in (each for scene in scenes for each in scene.outcomes):
        say = _percent if outcome.is_share else _ms
        off = f"{outcome.error:+.1f} points" if outcome.is_share else f"{100 * outcome.error:+.0f} %"
        bounds = f"{say(outcome.span[0])} to {say(outcome.span[1])}"
        within = "within" if outcome.holds else "OUTSIDE"
        figures = (say(outcome.predicted), bounds, say(outcome.measured), off, within)
        table.add_row(outcome.scene.load, outcome.name, *figures)
    return table


def sentences(scenes: list[Scene]) -> Iterator[str]:
    """What the tables say."""
    outcomes = [each for scene in scenes for each in scene.outcomes]
    kept = sum(each.holds for each in outcomes)
    yield (
        f"{kept} of {len(outcomes)} predictions came true within {HIT_POINTS:g} points of hit rate "
        f"and {100 * TTFT_FRAC:.0f} % of the mean TTFT."
    )
    if any(not each.is_share for each in outcomes):
        yield (
            "Times are predicted for a machine as fast as it was while they were measured, by the prefills that "
            "telemetry told of: where others use its cores too, its speed changes from minute to minute."
        )


def _table(title: str, *headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _ms(seconds: float) -> str:
    return f"{seconds * MS_PER_S:.0f} ms"
