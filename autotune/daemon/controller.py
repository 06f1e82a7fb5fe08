"""The daemon as its surface sees it: status that never waits, and orders that come from other threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from autotune.core.settings import Settings
from autotune.daemon.loop import Loop
from autotune.daemon.status import Change, DaemonStatus, Mode
from autotune.daemon.status_view import changes, daemon_status, explain, ready
from autotune.export import render


class LoopController:
    """Runs rounds and takes orders, one at a time; fulfils :class:`autotune.daemon.status.Controller`.

    Args:
        loop: What it controls.
        group: Name of the targets together.
    """

    def __init__(self, loop: Loop, group: str) -> None:
        self._loop, self._group = loop, group
        self._lock = threading.RLock()
        self._started_at = loop.parts.clock.utc_now()
        self._stopped = False
        self._publish()

    def step(self) -> None:
        """One round. Engines are asked outside the lock, so that an order waits for no engine."""
        answers = self._loop.collect()
        with self._lock:
            if not self._stopped:
                self._loop.after_collecting(answers)
                self._publish()

    def reload(self, settings: Settings) -> None:
        """Take over new settings between two rounds."""
        with self._lock:
            self._loop.reload(settings)

    def close(self) -> None:
        """End: what is on trial is taken back."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._loop.close()
            self._publish()

    def status(self) -> DaemonStatus:
        """The state after the last round or order; never waits."""
        return self._status

    def ready(self) -> bool:
        """Whether the figures of at least one target are fresh."""
        return not self._stopped and ready(self._loop)

    def policy(self) -> str | None:
        """The live policy as YAML; ``None`` = nothing is published."""
        policies = self._loop.parts.transitions
        document = policies.in_force
        return None if document is None or policies.live_path is None else render(document)

    def recommendation(self) -> str | None:
        """The recommended policy as YAML; ``None`` = none."""
        document = self._loop.memory.recommendation
        return None if document is None else render(document)

    def history(self) -> Sequence[Change]:
        """All changes that the state folder knows, oldest first."""
        with self._lock:
            return changes(self._loop)

    def explain(self) -> str:
        """Why the present policy and advice are what they are, in words."""
        status = self._status
        return explain(status, status.findings)

    def set_mode(self, mode: Mode, who: str) -> None:
        """Let the sidecar do more or less from now on.

        Raises:
            AutotuneError: the mode needs what is not there, such as a policy file to publish to.
        """
        with self._lock:
            try:
                self._loop.set_mode(mode, who)
            finally:
                self._publish()

    def rollback(self, reason: str, who: str) -> None:
        """Put the policy before in force now: the confirmed one during a trial, else the one before the last trial.

        Raises:
            AutotuneError: there is none, or it cannot be written.
        """
        with self._lock:
            try:
                self._loop.trials.roll_back(reason, who)
            finally:
                self._publish()

    def freeze(self, who: str) -> None:
        """Change nothing from now on; what is on trial is taken back."""
        self.set_mode(Mode.FREEZE, who)

    def _publish(self) -> None:
        self._status = daemon_status(self._loop, self._started_at, self._stopped, self._group)
