"""The stretch of time that a diagnosis is about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autotune.core.errors import ConfigError
from autotune.core.signals import HistogramReading, Rates, Signal, Snapshot, rates, since_start


class Basis(StrEnum):
    """Where the figures come from: two looks, or the sums of one page since the engine's start."""

    INTERVAL = "interval"
    SINCE_START = "since_start"


@dataclass(frozen=True, slots=True)
class Window:
    """What was counted over some time.

    Attributes:
        page: The newest look.
        basis: Where the increases come from.
        seconds: Length; ``None`` where one page does not tell how long its engine runs.
        increases: Of counters and histograms.
        notes: What the reader should know about it.
    """

    page: Snapshot
    basis: Basis
    seconds: float | None
    increases: Rates
    notes: tuple[str, ...] = ()

    def count(self, signal: Signal) -> float | None:
        """Increase of a counter, ``None`` if it is unknown."""
        return self.increases.delta(signal)

    def histogram(self, signal: Signal) -> HistogramReading | None:
        """What was added to a histogram, ``None`` if it is unknown or nothing was."""
        found = self.increases.histograms.get(signal)
        return found if found is not None and found.count > 0.0 else None


def window_between(before: Snapshot, after: Snapshot) -> Window:
    """What happened between two looks. After a restart in between, what was counted since then.

    Raises:
        SignalError: the second is not the later one.
    """
    between = rates(before, after)
    if not between.reset:
        return Window(after, Basis.INTERVAL, between.seconds, between)
    note = f"the engine began anew between the two looks ({between.because}); counted is what it did since"
    return Window(after, Basis.SINCE_START, None, since_start(after, 0.0), (note,))


def window_since_start(page: Snapshot, seconds: float | None) -> Window:
    """All that an engine counted since its start.

    Args:
        page: The page.
        seconds: How long the engine had been running; ``None`` = unknown.

    Raises:
        ConfigError: it had been running for no time.
    """
    if seconds is not None and not 0.0 < seconds < 1e10:
        raise ConfigError("an engine has been running for some seconds", got=f"{seconds:g}", remedy="give --interval")
    note = "the figures are sums since the engine's start, idle hours included; a second look says how it is now"
    return Window(page, Basis.SINCE_START, seconds, since_start(page, seconds or 0.0), (note,))
