"""One search at a time, in a process of its own that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from autotune.core.clock import Clock
from autotune.core.errors import ConfigError
from autotune.core.files import write_atomically
from autotune.daemon.jobs import OutcomeKind, TuneJob, TuneOutcome

_MODULE = "autotune.daemon.child"
_MAX_SAID_BYTES = 2000  # of what a search that failed wrote last


class Tuner:
    """Starts searches and collects what they found.

    Args:
        work: Folder for jobs and results.
        clock: Tells the time.
        command: What to run before the names of the two files; a Python that runs the search if not given.
    """

    def __init__(self, work: Path, clock: Clock, command: tuple[str, ...] | None = None) -> None:
        self._work, self._clock = work, clock
        self._command = command or (sys.executable, "-m", _MODULE)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self._timeout_s = 0.0

    @property
    def running(self) -> bool:
        """Whether a search was started whose result was not collected yet."""
        return self._process is not None

    def start(self, job: TuneJob) -> None:
        """Start a search.

        Raises:
            ConfigError: one is running, or it cannot be started.
        """
        if self._process is not None:
            raise ConfigError("one search runs at a time", got="a second one", remedy="wait for the first")
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            self._outcome_path.unlink(missing_ok=True)
            write_atomically(self._job_path, job.model_dump_json(indent=1))
            with self._said_path.open("wb") as said:
                self._process = self._spawn(said)
        except OSError as problem:
            raise ConfigError("a search must be able to start", got=problem.strerror or problem) from problem
        self._started_s, self._timeout_s = self._clock.monotonic_s(), job.timeout_s

    def poll(self) -> TuneOutcome | None:
        """What the search found, once; ``None`` while it runs or where none was started."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            if self._clock.monotonic_s() - self._started_s < self._timeout_s:
                return None
            self.stop()
            text = f"the search was stopped after its {self._timeout_s:g} s"
            failed = TuneOutcome(kind=OutcomeKind.FAILED, text=text, seconds=self._timeout_s)
            return self._written() or failed
        code = self._process.returncode
        self._close()
        return self._written() or self._died(code)

    def stop(self) -> None:
        """End the search, if one runs, and forget it."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._close()

    def _spawn(self, said: BinaryIO) -> subprocess.Popen[bytes]:
        # The pipe is never written to: its end tells the search that nobody waits for it any more. A session of its
        # own keeps the terminal's signals away from it.
        return subprocess.Popen(
            [*self._command, str(self._job_path), str(self._outcome_path)],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            cwd=self._work,
            start_new_session=True,
        )

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def _written(self) -> TuneOutcome | None:
        """What it wrote, which may be what it knew before its last step; ``None`` = nothing yet."""
        try:
            return TuneOutcome.model_validate_json(self._outcome_path.read_bytes())
        except (OSError, ValidationError):
            return None

    def _died(self, code: int) -> TuneOutcome:
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        text = f"the search ended without a result ({why}): {self._last_words()}"
        return TuneOutcome(kind=OutcomeKind.FAILED, text=text)

    def _last_words(self) -> str:
        try:
            said = self._said_path.read_bytes()[-_MAX_SAID_BYTES:]
        except OSError:
            return "it left no message"
        lines = said.decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it left no message")[:300]

    @property
    def _job_path(self) -> Path:
        return self._work / "job.json"

    @property
    def _outcome_path(self) -> Path:
        return self._work / "outcome.json"

    @property
    def _said_path(self) -> Path:
        return self._work / "search.log"
