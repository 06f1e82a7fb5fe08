"""A bounded queue and one thread behind it, so that whoever has something to write never waits for a disk or a socket.

The thread looks into the queue ten times a second instead of being woken: waking it for every item would make it
compete with the engine's scheduler for the interpreter.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

_Item = TypeVar("_Item")

INTERVAL_S = 0.1
_LOGGER = logging.getLogger(__name__)


class Outbox(Generic[_Item]):
    """Hands items, one by one and in order, to a function that runs in a thread of its own.

    Args:
        name: Name of the thread, and of the output in warnings.
        write: Takes an item; whatever it raises is logged once per message and loses the item. Runs in the thread.
        max_cost: Bound of what may wait, in units of the items' own cost.
        finish: Runs in the thread after the last item.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[_Item], None],
        max_cost: int,
        finish: Callable[[], None] | None = None,
    ) -> None:
        self._name = name
        self._write = write
        self._max_cost = max_cost
        self._finish = finish
        self._waiting: deque[tuple[_Item, int]] = deque()
        # Each counter has one writer (the offering thread, or the writing one), so that none needs a lock.
        self._offered_cost = self._taken_cost = 0
        self._dropped = self._failed = self._told_lost = 0
        self._last_fault = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Items that were dropped because the queue was full, or could not be written."""
        return self._dropped + self._failed

    @property
    def dropped(self) -> int:
        """Items that were dropped because the queue was full or closed."""
        return self._dropped

    def take_lost(self) -> int:
        """Items lost since this was last asked."""
        lost = self.lost
        new, self._told_lost = lost - self._told_lost, lost
        return new

    def offer(self, item: _Item, cost: int = 1) -> bool:
        """Append an item, without ever waiting; ``False`` and counted where it would exceed the bound."""
        if self._offered_cost - self._taken_cost + cost > self._max_cost or self._stop.is_set():
            self._dropped += 1
            return False
        self._offered_cost += cost
        self._waiting.append((item, cost))
        return True

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what still waits and end the thread; what is not written in time is given up."""
        self._stop.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            self._write_waiting()
        self._write_waiting()
        if self._finish is not None:
            self._guard(self._finish)

    def _write_waiting(self) -> None:
        for _ in range(len(self._waiting)):  # what is offered meanwhile has its turn at the next look
            item, cost = self._waiting.popleft()
            self._failed += not self._guard(self._write, item)
            self._taken_cost += cost

    def _guard(self, action: Callable[..., None], *arguments: _Item) -> bool:
        try:
            action(*arguments)
        except Exception as fault:  # no output is worth more than the engine: counted, told once, tried again
            text = f"{type(fault).__name__}: {fault}"
            if text != self._last_fault:
                self._last_fault = text
                _LOGGER.warning("%s loses records: %s", self._name, text)
            return False
        return True
