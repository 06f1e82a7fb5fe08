"""Format ``lmcache-agent``: prompts of agents as raw text.

JSON lines with ``timestamp`` (µs since 1970), ``input`` and ``output`` (text) and ``session_id``. There are no tokens
in these files, so tokens and blocks are defined here, the same everywhere and without a tokeniser:

- A token is 4 characters (Unicode code points) of text, rounded down.
- A block is 16 tokens, which is 64 characters; a partial block at the end of a prompt is no block.
- The identity of a block is ``chain_hash``: its text as UTF-8 after the hash of the block before it.

Since identity comes from content, any number of files share one namespace. Times are absolute but several of the files
are not in order of time, and sessions overlap: requests are sorted by time, and the provenance says so
(``sorted_by = time``) where the files were not.

Source: LMCache/lmcache-agent-trace, README.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.trace import UNKNOWN, Trace
from autotune.traces import fields
from autotune.traces.columns import Columns
from autotune.traces.fields import MAX_TIME_S, Row, integer
from autotune.traces.hashing import BlockNumbers
from autotune.traces.intake import Intake
from autotune.traces.options import reader

CHARS_PER_TOKEN = 4
BLOCK_TOKENS = 16
BLOCK_CHARS = CHARS_PER_TOKEN * BLOCK_TOKENS
_US_PER_S = 1_000_000


@reader
def read(paths: list[str], *, on_error: str = "fail") -> Trace:
    """Read raw prompts as one stream.

    Args:
        paths: Files or globs.
        on_error: ``fail`` at the first malformed row, or ``skip`` and count them.

    Raises:
        TraceError: a file cannot be read, or a row is malformed.
    """
    intake = Intake("lmcache-agent", paths, on_error)
    columns = Columns(units_per_s=_US_PER_S, must_be_sorted=False)
    numbers = BlockNumbers()
    sessions: dict[str, int] = {}
    intake.each_object(lambda row: _add(columns, row, numbers, sessions))
    sorted_by = None if columns.is_sorted else "time"
    return columns.trace(intake.provenance(sorted_by=sorted_by), block_tokens=BLOCK_TOKENS)


def _add(columns: Columns, row: Row, numbers: BlockNumbers, sessions: dict[str, int]) -> None:
    time_us = integer(row, "timestamp", high=int(MAX_TIME_S) * _US_PER_S)
    prompt, answer = fields.text(row, "input"), fields.text(row, "output")
    session = UNKNOWN
    if row.get("session_id") is not None:
        session = sessions.setdefault(fields.text(row, "session_id"), len(sessions))
    columns.add(time_us, n_tokens(prompt), n_tokens(answer), numbers.of(full_blocks(prompt)), session=session)


def n_tokens(text: str) -> int:
    """Tokens in a text: 4 characters each, rounded down."""
    return len(text) // CHARS_PER_TOKEN


def full_blocks(text: str) -> Iterator[bytes]:
    """Contents of the full blocks of a text, in order."""
    for start in range(0, len(text) - BLOCK_CHARS + 1, BLOCK_CHARS):
        # JSON can escape half a surrogate pair, which plain UTF-8 has no bytes for.
        yield text[start : start + BLOCK_CHARS].encode("utf-8", "surrogatepass")
