"""When to search again: by time, by drift, never too soon after a change, and less often the more trials failed."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.sidecar_settings import RetuneSettings

_MAX_DOUBLINGS = 4  # of the cool-down after trials that were not kept


@dataclass(slots=True)
class Schedule:
    """Times on the monotonic clock.

    Attributes:
        settings: Interval and cool-down.
        tuned_s: When the last search ended; ``None`` = none did.
        changed_s: When a policy was last changed; ``None`` = never.
        failed_trials: Trials in a row that were not kept.
    """

    settings: RetuneSettings
    tuned_s: float | None = None
    changed_s: float | None = None
    failed_trials: int = 0

    @property
    def cooldown_s(self) -> float:
        """Seconds of rest now; twice as long after each trial that was not kept, so that nothing oscillates."""
        return float(self.settings.cooldown_s * 2.0 ** min(self.failed_trials, _MAX_DOUBLINGS))

    @property
    def quiet_until_s(self) -> float | None:
        """Before this no search begins; ``None`` = no rest is due."""
        marks = [mark for mark in (self.tuned_s, self.changed_s) if mark is not None]
        return max(marks) + self.cooldown_s if marks else None

    @property
    def next_s(self) -> float | None:
        """When the next search is due by time; ``None`` = as soon as enough is recorded."""
        if self.tuned_s is None:
            return None
        quiet_s = self.quiet_until_s or self.tuned_s
        return max(self.tuned_s + self.settings.interval_s, quiet_s)

    def reason(self, now_s: float, requests: int, drift: str | None) -> str | None:
        """Why a search should begin now; ``None`` = it should not."""
        if requests < self.settings.min_requests:
            return None
        quiet_s = self.quiet_until_s
        if quiet_s is not None and now_s < quiet_s:
            return None
        if drift is not None:
            return drift
        next_s = self.next_s
        if next_s is None:
            return f"{requests:,} requests are recorded and none were tuned on yet"
        return "the time for it has come" if now_s >= next_s else None

    def searched(self, now_s: float) -> None:
        """A search ended."""
        self.tuned_s = now_s

    def changed(self, now_s: float) -> None:
        """A policy was put in force or taken back."""
        self.changed_s = now_s

    def judged(self, kept: bool) -> None:
        """A trial ended."""
        self.failed_trials = 0 if kept else self.failed_trials + 1
