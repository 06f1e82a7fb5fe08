"""Hints of clients in a row of a trace: the object ``kv_autotune`` that requests carry, as ``docs/hints.md`` has it.

``session_id`` is left alone here, because each format has its own way to say what belongs together.
"""

from __future__ import annotations

from autotune.core.trace_hints import MAX_IDLE_S, NO_HINTS, UNKNOWN_HINT, RequestHints
from autotune.traces.fields import Fault, Malformed, Row, integer, number, shown

OBJECT = "kv_autotune"


def hints_in(row: Row) -> RequestHints:
    """The hints of a row; all unknown where it has none.

    Raises:
        Malformed: a hint is of another type, or out of range.
    """
    given = row.get(OBJECT)
    if given is None:
        return NO_HINTS
    if not isinstance(given, dict):
        raise Malformed(Fault.WRONG_TYPE, f"{OBJECT} must be an object", shown(given))
    end = given.get("session_end")
    if end is not None and not isinstance(end, bool):
        raise Malformed(Fault.WRONG_TYPE, "session_end must be true or false", shown(end))
    idle_s: float = UNKNOWN_HINT
    if given.get("expected_idle_s") is not None:
        idle_s = number(given, "expected_idle_s", low=0, high=MAX_IDLE_S)
    return RequestHints(
        session_end=UNKNOWN_HINT if end is None else int(end),
        expected_idle_s=float(idle_s),
        priority=UNKNOWN_HINT if given.get("priority") is None else integer(given, "priority"),
    )
