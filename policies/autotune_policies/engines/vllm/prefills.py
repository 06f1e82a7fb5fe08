"""How long the prefill of each request took, seen from the scheduler's steps.

It begins with the step in which a request first runs and ends when its first token is there, which is seen at the next
step or at the request's end. Others ran in the same steps, so the time is divided by tokens. What stays in it, such as
a step that was long for another reason, is for whoever fits costs to weigh down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autotune.core.clock import monotonic_ns
from autotune.core.units import NS_PER_S

_MAX_REQUESTS = 65_536


@dataclass(slots=True)
class _Prefill:
    request: Any
    begun_ns: int
    own_tokens: int
    all_tokens: int

    def seconds(self, now_ns: int) -> float:
        return (now_ns - self.begun_ns) / NS_PER_S * self.own_tokens / max(self.all_tokens, 1)


class PrefillTimes:
    """Follows the prefills that run.

    Args:
        now_ns: Monotonic nanoseconds.
    """

    def __init__(self, now_ns: Callable[[], int] = monotonic_ns) -> None:
        self._now_ns = now_ns
        self._running: dict[str, _Prefill] = {}
        self._done_s: dict[str, float] = {}

    def step(self, scheduler_output: Any, request_of: Callable[[str], Any]) -> None:
        """A step was scheduled.

        Args:
            scheduler_output: What runs in it.
            request_of: The engine's request by id; ``None`` where it is not known.
        """
        if not (self._running or scheduler_output.scheduled_new_reqs):
            return
        now_ns, scheduled = self._now_ns(), scheduler_output.num_scheduled_tokens
        for req_id in [r for r, prefill in self._running.items() if prefill.request.num_output_tokens > 0]:
            self._done_s[req_id] = self._running.pop(req_id).seconds(now_ns)
        total = scheduler_output.total_num_scheduled_tokens
        for req_id, prefill in self._running.items():
            prefill.own_tokens += scheduled.get(req_id, 0)
            prefill.all_tokens += total
        for new in scheduler_output.scheduled_new_reqs:
            request = request_of(new.req_id)
            if request is not None and len(self._running) + len(self._done_s) < _MAX_REQUESTS:
                self._running[new.req_id] = _Prefill(request, now_ns, scheduled.get(new.req_id, 0), total)

    def take(self, request: Any) -> float:
        """Seconds of the prefill of a request that has ended; 0 where that is not known, as after a preemption."""
        running = self._running.pop(request.request_id, None)
        seconds = self._done_s.pop(request.request_id, 0.0)
        if running is not None and request.num_output_tokens > 0:
            seconds = running.seconds(self._now_ns())
        return 0.0 if getattr(request, "num_preemptions", 0) else seconds
