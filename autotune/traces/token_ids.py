"""Format ``token-ids``: prompts as token ids.

JSON lines with ``arrival_time_ns``, ``input_tok_ids`` (the prompt) and ``output_toks`` (number of generated tokens).
Blocks are full blocks of ``block_tokens`` tokens; their identity is ``chain_hash`` over the ids as little-endian int64.
All files given are one namespace. Requests are sorted by time (``sorted_by = time`` in the provenance where the files
were not). A row may have the hints that clients give, in an object ``kv_autotune``.

Source: casys-kaist/LLMServingSim, workloads/ and README.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from autotune.core.trace import Trace
from autotune.core.units import NS_PER_S
from autotune.traces.columns import Columns
from autotune.traces.fields import MAX_TIME_S, Row, integer, integers
from autotune.traces.hashing import BlockNumbers
from autotune.traces.hint_fields import hints_in
from autotune.traces.intake import Intake
from autotune.traces.options import reader, whole

_ID_BYTES = 8


@reader
def read(paths: list[str], *, on_error: str = "fail", block_tokens: int = 16) -> Trace:
    """Read prompts of token ids as one stream.

    Args:
        paths: Files or globs.
        on_error: ``fail`` at the first malformed row, or ``skip`` and count them.
        block_tokens: Tokens per block (16 is vLLM's default).

    Raises:
        TraceError: a file cannot be read, or a row is malformed.
    """
    whole("block_tokens", block_tokens, low=1)
    intake = Intake("token-ids", paths, on_error)
    columns = Columns(units_per_s=NS_PER_S, must_be_sorted=False)
    numbers = BlockNumbers()
    intake.each_object(lambda row: _add(columns, row, numbers, block_tokens))
    sorted_by = None if columns.is_sorted else "time"
    return columns.trace(intake.provenance(block_tokens=block_tokens, sorted_by=sorted_by), block_tokens=block_tokens)


def _add(columns: Columns, row: Row, numbers: BlockNumbers, block_tokens: int) -> None:
    time_ns = integer(row, "arrival_time_ns", high=int(MAX_TIME_S) * NS_PER_S)
    tokens = integers(row, "input_tok_ids")
    output_tokens = integer(row, "output_toks")
    blocks = numbers.of(_full_blocks(tokens, block_tokens))
    columns.add(time_ns, len(tokens), output_tokens, blocks, hints=hints_in(row))


def _full_blocks(tokens: array[int], block_tokens: int) -> Iterator[bytes]:
    content = np.asarray(tokens, "<i8").tobytes()
    size_bytes = block_tokens * _ID_BYTES
    return (content[start : start + size_bytes] for start in range(0, len(content) - size_bytes + 1, size_bytes))
