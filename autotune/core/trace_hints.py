"""What clients told about the requests of a trace, as columns beside the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

UNKNOWN_HINT = -1
MAX_IDLE_S = 30 * 86_400.0
MAX_PRIORITY = 2**31 - 1


class RequestHints(NamedTuple):
    """Hints of one request; -1 is unknown.

    Attributes:
        session_end: 1 if the session ends with it, as far as the client knows, 0 if not.
        expected_idle_s: Seconds until the client expects to come back.
        priority: How much it matters that the conversation's cache is there.
    """

    session_end: int = UNKNOWN_HINT
    expected_idle_s: float = float(UNKNOWN_HINT)
    priority: int = UNKNOWN_HINT


NO_HINTS = RequestHints()


@dataclass(frozen=True, slots=True)
class TraceHints:
    """Hints of each request; -1 is unknown.

    Attributes:
        session_end: ``(n_requests,)`` int32: 1 if the session ends with it, as far as the client knows, 0 if not.
        expected_idle_s: ``(n_requests,)`` float64 seconds until the client expects to come back.
        priority: ``(n_requests,)`` int32 how much it matters that the conversation's cache is there.
    """

    session_end: npt.NDArray[np.int32]
    expected_idle_s: npt.NDArray[np.float64]
    priority: npt.NDArray[np.int32]

    @classmethod
    def of(cls, rows: Sequence[RequestHints]) -> TraceHints:
        """Hints of requests, one by one."""
        return cls(
            np.array([row.session_end for row in rows], np.int32),
            np.array([row.expected_idle_s for row in rows], np.float64),
            np.array([row.priority for row in rows], np.int32),
        )

    @classmethod
    def unknown(cls, n_requests: int) -> TraceHints:
        """Hints of requests about which nobody told anything."""
        nothing = np.full(n_requests, UNKNOWN_HINT, np.int32)
        return cls(nothing, nothing.astype(np.float64), nothing.copy())

    @classmethod
    def joined(cls, parts: Sequence[tuple[TraceHints | None, int]]) -> TraceHints | None:
        """Hints one after the other, of parts with so many requests each; ``None`` if no part has any."""
        if all(hints is None for hints, _ in parts):
            return None
        known = [cls.unknown(n) if hints is None else hints for hints, n in parts]
        return cls(
            np.concatenate([hints.session_end for hints in known]),
            np.concatenate([hints.expected_idle_s for hints in known]),
            np.concatenate([hints.priority for hints in known]),
        )

    def __getitem__(self, chosen: slice | npt.NDArray[np.intp]) -> TraceHints:
        """The hints of some requests."""
        return TraceHints(self.session_end[chosen], self.expected_idle_s[chosen], self.priority[chosen])

    def __len__(self) -> int:
        return len(self.session_end)

    @property
    def faults(self) -> tuple[str, ...]:
        """Rules that values break; none where all of them mean something."""
        idle_s, end = self.expected_idle_s, self.session_end
        known = idle_s != UNKNOWN_HINT
        rules = (
            ("session_end must be -1, 0 or 1", bool(np.all((end >= -1) & (end <= 1)))),
            (
                f"expected_idle_s must be -1 or from 0 to {MAX_IDLE_S:g}",
                bool(np.all(np.isfinite(idle_s)) and np.all((idle_s[known] >= 0.0) & (idle_s[known] <= MAX_IDLE_S))),
            ),
            ("priority must not be below -1", bool(np.all(self.priority >= UNKNOWN_HINT))),
        )
        return tuple(rule for rule, holds in rules if not holds)
