"""The past that the page draws: what the status said, one point per round, in bounded memory."""

from __future__ import annotations

from collections import deque

from autotune.daemon.http.models import Trend, TrendPoint
from autotune.daemon.status import DaemonStatus


class TrendKeeper:
    """Remembers the last points; one thread writes and others may read.

    Args:
        max_points: Points that are kept.
    """

    def __init__(self, max_points: int) -> None:
        self._points: deque[TrendPoint] = deque(maxlen=max_points)

    def add(self, status: DaemonStatus) -> None:
        """Remember a status, unless it is the one that is remembered already."""
        if not self._points or status.at > self._points[-1].at:
            self._points.append(_point(status))

    def trend(self) -> Trend:
        """All that is remembered."""
        return Trend(points=tuple(self._points))


def _point(status: DaemonStatus) -> TrendPoint:
    seconds = status.seconds
    return TrendPoint(
        at=status.at,
        phase=status.phase,
        hit_fracs=tuple((tier.tier, tier.hit_frac) for tier in status.tiers),
        recompute=seconds.recompute,
        load=seconds.load,
        exposed_store=seconds.exposed_store,
        queue=seconds.queue,
        preemption=seconds.preemption,
        saved=seconds.saved,
        lru_regret_s=next((shadow.regret_s for shadow in status.shadows if shadow.name == "lru"), None),
        live_hash=status.live_hash,
    )
