"""The tables of the learned policy, from the runs that there are."""

from __future__ import annotations

from collections.abc import Callable

import online_aims
import online_safety
import online_signal_tables
import online_writes
from online_cells import Journal


def report(part: str, journal: Journal) -> str:
    """The tables of one part."""
    reports: dict[str, Callable[[Journal], str]] = {
        "aims": online_aims.report,
        "safety": online_safety.report,
        "budget": online_writes.report,
        "signals": online_signal_tables.report,
    }
    return reports[part](journal)
