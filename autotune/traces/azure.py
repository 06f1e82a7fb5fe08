"""Format ``azure``: arrivals and lengths of Azure's LLM inference services; no block ids.

CSV with ``TIMESTAMP`` (``2023-11-16 18:17:03.9799600``, UTC, optionally with an offset), ``ContextTokens`` and
``GeneratedTokens``. Usable for the queueing model only. Rows must be in order of time.

Source: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md; Patel et al., "Splitwise", ISCA 2024.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from autotune.core.trace import Trace
from autotune.core.units import NS_PER_S
from autotune.traces.columns import Columns
from autotune.traces.csv_rows import each_row
from autotune.traces.fields import Fault, Malformed, integer_text, shown
from autotune.traces.intake import Intake
from autotune.traces.options import reader

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)


@reader
def read(paths: list[str], *, on_error: str = "fail") -> Trace:
    """Read arrivals of Azure's traces as one stream.

    Args:
        paths: Files or globs, in order of time.
        on_error: ``fail`` at the first malformed row, or ``skip`` and count them.

    Raises:
        TraceError: a file cannot be read, or a row is malformed.
    """
    intake = Intake("azure", paths, on_error)
    columns = Columns(units_per_s=NS_PER_S, must_be_sorted=True)
    each_row(intake, COLUMNS, lambda row: _add(columns, *row))
    return columns.trace(intake.provenance(), block_tokens=0)


def _add(columns: Columns, timestamp: str, context_tokens: str, generated_tokens: str) -> None:
    columns.add(
        _time_ns(timestamp),
        integer_text(context_tokens, "ContextTokens"),
        integer_text(generated_tokens, "GeneratedTokens"),
    )


def _time_ns(text: str) -> int:
    """Nanoseconds since 1970; ``datetime`` alone keeps six of the seven digits."""
    match = _TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError("no time")
        moment = datetime.fromisoformat(match[1] + (match[3] or "+00:00"))
        whole_s = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    except ValueError as error:
        rule = "TIMESTAMP must be a time such as 2023-11-16 18:17:03.9799600"
        raise Malformed(Fault.WRONG_TYPE, rule, shown(text)) from error
    if not 0 <= whole_s < 2**33:
        raise Malformed(Fault.OUT_OF_RANGE, "TIMESTAMP must be from 1970 to 2242", shown(text))
    return whole_s * NS_PER_S + int((match[2] or "0").ljust(9, "0"))
