"""Hints of clients on their way from a trace into a simulated engine."""

from __future__ import annotations

import numpy as np

from autotune.core.trace import Trace
from autotune.sim.learned_rules import Hints


def hints_of(trace: Trace) -> Hints | None:
    """What clients told of the trace's requests; ``None`` where the trace has nothing of the kind."""
    told = trace.hints
    if told is None:
        return None
    return Hints(
        session_end=told.session_end.astype(np.int64),
        expected_idle_s=told.expected_idle_s,
        priority=told.priority.astype(np.int64),
    )
