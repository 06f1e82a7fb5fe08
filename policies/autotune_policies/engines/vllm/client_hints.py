"""What clients and routers may tell about a request, in ``kv_transfer_params``; described in ``docs/hints.md``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HINTS_NAME = "kv_autotune"
MAX_IDLE_S = 30 * 86_400.0
MAX_PRIORITY = 1_000_000
MAX_SESSION_CHARS = 256
_UNKNOWN_S = -1.0


@dataclass(frozen=True, slots=True)
class ClientHints:
    """Hints of one request; -1 and ``None`` are unknown.

    Attributes:
        session_id: What ties requests of one conversation together.
        session_end: 1 if the session ends with this request, 0 if not.
        expected_idle_s: Seconds until the client expects to come back.
        priority: Priority of the request.
        ignored: Names of hints whose values could not be used.
    """

    session_id: str | None = None
    session_end: int = -1
    expected_idle_s: float = _UNKNOWN_S
    priority: int = -1
    ignored: tuple[str, ...] = ()


def hints_of(params: Any) -> ClientHints:
    """The hints in a request's ``kv_transfer_params``. Never raises; what cannot be used is ignored and named."""
    given = params.get(HINTS_NAME) if isinstance(params, Mapping) else None
    if given is None:
        return ClientHints()
    if not isinstance(given, Mapping):
        return ClientHints(ignored=(HINTS_NAME,))
    ignored: list[str] = []

    def take(name: str, valid: bool) -> bool:
        if name in given and not valid:
            ignored.append(name)
        return name in given and valid

    session: Any = given.get("session_id")
    end: Any = given.get("session_end")
    idle_s: Any = given.get("expected_idle_s")
    priority: Any = given.get("priority")
    has_session = take("session_id", isinstance(session, str) and 0 < len(session) <= MAX_SESSION_CHARS)
    has_end = take("session_end", isinstance(end, bool))
    has_idle = take("expected_idle_s", _is_number(idle_s) and 0 <= idle_s <= MAX_IDLE_S)
    has_priority = take("priority", type(priority) is int and 0 <= priority <= MAX_PRIORITY)
    known = {"session_id", "session_end", "expected_idle_s", "priority"}
    ignored += ["unknown names"] if any(name not in known for name in given) else []
    return ClientHints(
        session_id=session if has_session else None,
        session_end=int(end) if has_end else -1,
        expected_idle_s=float(idle_s) if has_idle else _UNKNOWN_S,
        priority=priority if has_priority else -1,
        ignored=tuple(ignored),
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
