"""Asking all sources of all targets in one round: side by side, each with its own success and age."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from autotune.core.signals import Collected, Collector, EngineTold, Informed
from autotune.daemon.status import SourceHealth

_MAX_THREADS = 32


class Source:
    """One collector and how it fares.

    Args:
        collector: What is asked.
    """

    def __init__(self, collector: Collector[Any]) -> None:
        self.collector = collector
        self._pending: Future[Collected[Any]] | None = None
        self._ok_at_s: float | None = None
        self._last: Collected[Any] | None = None
        self._lost = 0
        self._error: str | None = None
        self._told: EngineTold | None = None
        self._heard: EngineTold | None = None

    @property
    def name(self) -> str:
        """Name of the collector."""
        return self.collector.name

    @property
    def pending(self) -> Future[Collected[Any]] | None:
        """A turn that has not come back yet."""
        return self._pending

    @property
    def last_ok(self) -> bool:
        """Whether the last turn succeeded."""
        return self._error is None and self._last is not None

    def tell(self, told: EngineTold) -> None:
        """What the engine's page tells; the collector hears of it at its next turn, where it can use it."""
        self._told = told

    def turn(self, now_s: float) -> Collected[Any]:
        """One turn of the collector, which first hears what is new."""
        told = self._told
        if told is not None and told != self._heard and isinstance(self.collector, Informed):
            self.collector.inform(told)  # here and not in the loop: it may have to wait for a look that goes on
            self._heard = told
        return self.collector.collect(now_s)

    def begin(self, pool: ThreadPoolExecutor, now_s: float) -> None:
        """Ask, unless the turn before still hangs."""
        if self._pending is None:
            self.give(pool.submit(self.turn, now_s))

    def give(self, turn: Future[Collected[Any]]) -> None:
        """Wait for a turn that was begun."""
        self._pending = turn

    def take(self, now_s: float, timeout_s: float) -> Collected[Any] | None:
        """What came, or ``None`` where nothing usable did."""
        if self._pending is None or not self._pending.done():
            self._error = f"no answer within {timeout_s:g} s"
            return None
        turn, self._pending = self._pending, None
        problem = turn.exception()
        if problem is not None:
            # A collector promises not to raise; one that does must not stop the others.
            self._error = f"{type(problem).__name__}: {problem}"
            return None
        self._last = turn.result()
        self._lost += self._last.lost
        self._error = None if self._last.ok else self._last.error or "it failed without a reason"
        if self._last.ok:
            self._ok_at_s = now_s
        return self._last

    def health(self, now_s: float) -> SourceHealth:
        """How it fares."""
        return SourceHealth(
            name=self.name,
            ok=self.last_ok,
            age_s=None if self._ok_at_s is None else max(0.0, now_s - self._ok_at_s),
            seconds=None if self._last is None else self._last.seconds,
            error=self._error,
            lost=self._lost,
        )


class Round:
    """Threads for the sources of a sidecar; closed with it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="collect")

    def collect(self, sources: Sequence[Source], now_s: float, timeout_s: float) -> list[Collected[Any] | None]:
        """Ask all sources at once and wait for them, no longer than ``timeout_s`` in all.

        Returns:
            One answer per source, in their order; ``None`` where none came in time.
        """
        for source in sources:
            source.begin(self._pool, now_s)
        wait([source.pending for source in sources if source.pending is not None], timeout=timeout_s)
        return [source.take(now_s, timeout_s) for source in sources]

    def start(self, source: Source, now_s: float) -> None:
        """Ask one source, and wait for nothing."""
        source.begin(self._pool, now_s)

    def close(self) -> None:
        """Let the threads end; a turn that hangs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
