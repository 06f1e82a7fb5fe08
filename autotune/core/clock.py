"""Time as a dependency: nothing else in the project asks the operating system what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

# Nanoseconds of the same clock as monotonic_s, for code inside an engine's scheduler, where a call has to cost nothing.
monotonic_ns = time.monotonic_ns


class Clock(Protocol):
    """Source of time that callers pass in."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back; for intervals."""

    def utc_now(self) -> datetime:
        """The present moment in UTC; for records."""


class SystemClock:
    """The operating system's clocks."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back; for intervals."""
        return time.monotonic()

    def utc_now(self) -> datetime:
        """The present moment in UTC; for records."""
        return datetime.now(UTC)
