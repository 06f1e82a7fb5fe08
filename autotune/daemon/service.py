"""Running a sidecar: rounds at an even pace, new settings on SIGHUP, a good end on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from autotune.core.clock import Clock
from autotune.daemon.controller import LoopController

_ENDS = (signal.SIGTERM, signal.SIGINT)


class Service:
    """Rounds until somebody asks for the end.

    Args:
        controller: What does a round.
        interval_s: Seconds between the beginnings of two rounds, asked before each.
        clock: Tells the time.
        before_round: Called before each round, such as to take over new settings.
    """

    def __init__(
        self,
        controller: LoopController,
        interval_s: Callable[[], float],
        clock: Clock,
        before_round: Callable[[], None],
    ) -> None:
        self._controller, self._interval_s, self._clock = controller, interval_s, clock
        self._before_round = before_round
        self._end = threading.Event()

    def listen(self) -> None:
        """Let the usual signals end it; only the main thread may call this."""
        for number in _ENDS:
            signal.signal(number, self._on_signal)

    def stop(self) -> None:
        """End after the present round."""
        self._end.set()

    def run(self) -> None:
        """Rounds until the end; then what is on trial is taken back."""
        try:
            while not self._end.is_set():
                began_s = self._clock.monotonic_s()
                self._before_round()
                self._controller.step()
                took_s = self._clock.monotonic_s() - began_s
                # After a round that took too long the next follows at once; those that were missed are not made up.
                self._end.wait(max(0.0, self._interval_s() - took_s))
        finally:
            self._controller.close()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._end.set()
