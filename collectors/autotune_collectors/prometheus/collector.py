"""The collector of a target's page of metrics."""

from __future__ import annotations

from autotune.core.clock import Clock, SystemClock
from autotune.core.errors import AutotuneError
from autotune.core.signals import Collected, CollectError, Snapshot, Target
from autotune_collectors.prometheus.page import engine_of, read_page
from autotune_collectors.prometheus.scrape import ScrapeLimits, Scraper

_ASK_AGAIN_S = 600.0  # an engine may be replaced by a newer one under the same address


class PrometheusCollector:
    """Fetches a page and reads it, once per turn, and now and then the engine's version.

    Args:
        target: Whom to ask.
        clock: Measures how long a turn takes.
        limits: What the target may take.

    Raises:
        CollectError: a certificate or key cannot be used.
    """

    name = "prometheus"

    def __init__(self, target: Target, clock: Clock | None = None, limits: ScrapeLimits | None = None) -> None:
        self._target = target
        self._clock = clock or SystemClock()
        self._scraper = Scraper(target, limits or ScrapeLimits())
        self._version = ""
        self._asked_s: float | None = None

    @classmethod
    def bounded(cls, target: Target, clock: Clock, timeout_s: float, max_bytes: int) -> PrometheusCollector:
        """One whose target may take so long and send so much, as a caller says who knows this class by its name alone.

        Raises:
            CollectError: a certificate or key cannot be used.
        """
        return cls(target, clock, ScrapeLimits(total_s=timeout_s, read_s=timeout_s / 2.0, max_bytes=max_bytes))

    def collect(self, now_s: float) -> Collected[object]:
        """A snapshot of the page; a target that fails is reported, never raised."""
        began_s = self._clock.monotonic_s()
        try:
            snapshot = self.snapshot(now_s)
        except AutotuneError as problem:
            return Collected(ok=False, seconds=self._clock.monotonic_s() - began_s, error=str(problem))
        return Collected(ok=True, seconds=self._clock.monotonic_s() - began_s, snapshot=snapshot)

    def snapshot(self, now_s: float) -> Snapshot:
        """The same, for those who want the error.

        Raises:
            CollectError: the target does not answer, or what it says is no page of an engine that is known.
        """
        page = self._scraper.page()
        if self._asked_s is None or now_s - self._asked_s >= _ASK_AGAIN_S:
            self._asked_s = now_s
            self._version = self._ask_version(page)
        return read_page(page, target=self._target.name, at_s=now_s, version=self._version, model=self._target.model)

    def _ask_version(self, page: bytes) -> str:
        """What the engine says its version is; empty if it does not, which is no fault."""
        engine = engine_of(page)
        if engine is None or engine.version is None:
            return ""
        try:
            return self._scraper.field(engine.version.path, engine.version.field)
        except CollectError:
            return ""  # the page itself came: a server without this path is an older one
