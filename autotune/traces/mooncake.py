"""Format ``mooncake``: production traces of Kimi as published with the Mooncake paper.

JSON lines with ``timestamp`` (ms), ``input_length``, ``output_length`` (tokens) and ``hash_ids``: one id per block of
512 tokens, the last one possibly partial, so there are ``ceil(input_length / 512)`` of them. An id stands for the block
and its whole prefix, and the ids of all files given are one namespace.

Rows must be in order of time: a row that goes back is malformed, also at the border of two files. Beside the published
fields a row may have the hints that clients give, in an object ``kv_autotune``.

Source: kvcache-ai/Mooncake, FAST25-release/README.md; Qin et al., "Mooncake", FAST 2025, section 4.1.
"""

from __future__ import annotations

from autotune.core.trace import Trace
from autotune.traces.columns import Columns
from autotune.traces.fields import MAX_TIME_S, Fault, Malformed, Row, integer, integers, number
from autotune.traces.hint_fields import hints_in
from autotune.traces.intake import Intake
from autotune.traces.options import reader, whole

BLOCK_TOKENS = 512
_US_PER_S = 1_000_000
_US_PER_MS = 1_000


@reader
def read(paths: list[str], *, on_error: str = "fail", block_tokens: int = BLOCK_TOKENS) -> Trace:
    """Read Mooncake traces as one stream.

    Args:
        paths: Files or globs, in order of time.
        on_error: ``fail`` at the first malformed row, or ``skip`` and count them.
        block_tokens: Tokens per id, for traces of this form with other blocks.

    Raises:
        TraceError: a file cannot be read, or a row is malformed.
    """
    whole("block_tokens", block_tokens, low=1)
    intake = Intake("mooncake", paths, on_error)
    columns = Columns(units_per_s=_US_PER_S, must_be_sorted=True)
    intake.each_object(lambda row: _add(columns, row, block_tokens))
    differs = block_tokens if block_tokens != BLOCK_TOKENS else None
    return columns.trace(intake.provenance(block_tokens=differs), block_tokens=block_tokens)


def _add(columns: Columns, row: Row, block_tokens: int) -> None:
    time_ms = number(row, "timestamp", low=0, high=MAX_TIME_S * 1000)
    input_tokens = integer(row, "input_length")
    block_ids = integers(row, "hash_ids")
    expected = -(-input_tokens // block_tokens)
    if len(block_ids) != expected:
        rule = f"hash_ids must hold ceil({input_tokens} / {block_tokens}) = {expected} ids"
        raise Malformed(Fault.WRONG_BLOCK_COUNT, rule, f"{len(block_ids)} ids")
    time_us, output_tokens = round(time_ms * _US_PER_MS), integer(row, "output_length")
    columns.add(time_us, input_tokens, output_tokens, block_ids, hints=hints_in(row))
