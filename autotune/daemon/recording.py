"""The rolling recording of one engine: fed by the loop, turned into Parquet by a process that ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.core.clock import Clock
from autotune.core.errors import ConfigError
from autotune.core.sidecar_settings import RecordingSettings
from autotune.core.units import MIB
from autotune.traces.rolling.epochs import EvidenceGrade
from autotune.traces.rolling.feed import RecordingFeed
from autotune.traces.rolling.recorder import Recorder, RecordingBounds

_FLUSH_S = 5.0
_COMPACT_S = 300.0
_LOWEST_PRIORITY = "19"


class RollingRecording:
    """Writes what one engine's records say.

    Args:
        folder: Where segments lie.
        clock: Tells the time.
        settings: How much is kept.

    Raises:
        ConfigError: the folder cannot be made.
    """

    def __init__(self, folder: Path, clock: Clock, settings: RecordingSettings) -> None:
        bounds = RecordingBounds(settings.max_mib * MIB, settings.max_age_s, segment_s=settings.segment_s)
        try:
            self._recorder = Recorder(folder, clock, bounds)
        except OSError as problem:
            raise ConfigError(f"{folder} must be writable", got=problem.strerror or problem) from problem
        self._feed = RecordingFeed(self._recorder)
        self._folder, self._clock = folder, clock
        self._flushed_s = self._compacted_s = clock.monotonic_s()
        self._compaction: subprocess.Popen[bytes] | None = None

    @property
    def source(self) -> str:
        """The recording as ``FORMAT:PATH``."""
        return f"recording:{self._folder}"

    @property
    def requests(self) -> int:
        """Requests of the longest epoch in which every access is known: epochs are not joined."""
        known = [each for each in self._recorder.epochs if each.facts.grade is EvidenceGrade.TELEMETRY]
        return max((epoch.requests for epoch in known), default=0)

    def take(self, records: Sequence[Any]) -> str | None:
        """Write what came; what went wrong, in words."""
        self._feed.take(records)
        now_s = self._clock.monotonic_s()
        if records and now_s - self._flushed_s >= _FLUSH_S:
            self._flushed_s = now_s
            self._recorder.flush()
        if now_s - self._compacted_s >= _COMPACT_S:
            self._compacted_s = now_s
            self._compact()
        error = self._recorder.error
        return None if error is None else f"requests cannot be recorded: {error}"

    def flush(self) -> None:
        """Make what was taken readable for others."""
        self._recorder.flush()

    def close(self) -> None:
        """Write what waits, and let a process that compacts end."""
        self._recorder.close()
        if self._compaction is not None:
            self._compaction.terminate()
            self._compaction.wait()
            self._compaction = None

    def _compact(self) -> None:
        """Begin to turn closed segments into Parquet, unless that is still going on. One that fails is tried again."""
        if self._compaction is not None and self._compaction.poll() is None:
            return
        if self._recorder.has_work():
            command = ("nice", "-n", _LOWEST_PRIORITY, sys.executable, "-m", "autotune.traces.compact")
            nothing = subprocess.DEVNULL
            self._compaction = subprocess.Popen(
                (*command, str(self._folder)), stdin=nothing, stdout=nothing, stderr=nothing
            )
