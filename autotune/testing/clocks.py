"""A clock that moves only when a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from autotune.core.units import NS_PER_S


class ManualClock:
    """Both kinds of time, advanced together or set apart as when an administrator sets the wall clock."""

    def __init__(self, utc: datetime = datetime(2026, 1, 31, 12, tzinfo=UTC)) -> None:
        self.now_ns = 1_000 * NS_PER_S
        self._utc = utc

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back."""
        return self.now_ns / NS_PER_S

    def utc_now(self) -> datetime:
        """The present moment in UTC."""
        return self._utc

    def advance(self, seconds: float) -> int:
        """Let time pass; the monotonic nanoseconds afterwards."""
        self.now_ns += round(seconds * NS_PER_S)
        self._utc += timedelta(seconds=seconds)
        return self.now_ns

    def set_wall_clock(self, seconds: float) -> None:
        """Move the wall clock alone, forwards or backwards."""
        self._utc += timedelta(seconds=seconds)
