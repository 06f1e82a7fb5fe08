"""Format ``libcachesim-csv``: requests for single objects, as libCacheSim reads them.

CSV with a header that names at least a time (seconds, decimal) and an object id (any text); which columns those are is
an option. Each row is one request for one block, and sizes are ignored, so this is for comparing eviction where
prefixes do not matter. Rows must be in order of time.

Source: 1a1a11a/libCacheSim, doc/quickstart_cachesim.md (CSV traces).
"""

from __future__ import annotations

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.columns import Columns
from autotune.traces.csv_rows import each_row
from autotune.traces.fields import Fault, Malformed, decimal_text
from autotune.traces.intake import Intake
from autotune.traces.options import reader, whole, word

_US_PER_S = 1_000_000


@reader
def read(
    paths: list[str],
    *,
    on_error: str = "fail",
    time_column: str = "time",
    id_column: str = "id",
    delimiter: str = ",",
    block_tokens: int = 1,
) -> Trace:
    """Read requests for single objects as one stream.

    Args:
        paths: Files or globs, in order of time.
        on_error: ``fail`` at the first malformed row, or ``skip`` and count them.
        time_column: Name of the column with seconds.
        id_column: Name of the column with object ids.
        delimiter: Character between fields.
        block_tokens: Tokens that one object stands for.

    Raises:
        TraceError: a file cannot be read, an option is unfit, or a row is malformed.
    """
    names = (word("time_column", time_column), word("id_column", id_column))
    whole("block_tokens", block_tokens, low=1)
    if len(word("delimiter", delimiter)) != 1 or delimiter in '"\r\n ':
        raise TraceError("delimiter must be one character", got=repr(delimiter), remedy="use ',' or ';' or a tab")
    intake = Intake("libcachesim-csv", paths, on_error)
    columns = Columns(units_per_s=_US_PER_S, must_be_sorted=True)
    numbers: dict[str, int] = {}
    each_row(intake, names, lambda row: _add(columns, numbers, block_tokens, *row), delimiter=delimiter)
    provenance = intake.provenance(
        time_column=time_column, id_column=id_column, delimiter=delimiter, block_tokens=block_tokens
    )
    return columns.trace(provenance, block_tokens=block_tokens)


def _add(columns: Columns, numbers: dict[str, int], block_tokens: int, time: str, object_id: str) -> None:
    if not object_id:
        raise Malformed(Fault.MISSING_FIELD, "the id must be given", "an empty field")
    time_us = decimal_text(time, "the time", per_unit=_US_PER_S)
    number = numbers.get(object_id, len(numbers))
    columns.add(time_us, block_tokens, 0, (number,))
    numbers[object_id] = number
