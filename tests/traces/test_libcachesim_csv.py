"""Format ``libcachesim-csv``: one block per request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.core.errors import TraceError
from autotune.core.trace import Trace


def read(folder: Path, content: str, **options: Any) -> Trace:
    """The trace of a file with this content."""
    (folder / "t.csv").write_text(content)
    return Trace.open(f"libcachesim-csv:{folder}/t.csv", **options)


def test_each_row_is_one_block(tmp_path: Path) -> None:
    """Objects become blocks by first appearance, whatever their size and the form of their ids."""
    trace = read(tmp_path, "time,id,size\n0,x,1\n0.25,99999999999999999999,7\n3,x,1\n")
    assert trace.block_ids.tolist() == [0, 1, 0]
    assert trace.block_offsets.tolist() == [0, 1, 2, 3]
    assert trace.arrival_s.tolist() == [0, 0.25, 3]
    assert trace.input_tokens.tolist() == [1, 1, 1]


def test_columns_and_delimiter_are_options(tmp_path: Path) -> None:
    """Other headers are read on request, and the provenance says how."""
    trace = read(
        tmp_path,
        "obj;clock\n5;1\n5;2\n",
        time_column="clock",
        id_column="obj",
        delimiter=";",
        block_tokens=16,
    )
    assert (trace.block_ids.tolist(), trace.block_tokens) == ([0, 0], 16)
    options = {"time_column": "clock", "id_column": "obj", "delimiter": ";", "block_tokens": "16"}
    assert dict(trace.provenance.options) == options


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("1", "malformed CSV"),
        ("1,", "missing field"),
        ("nan,5", "wrong type"),
        ("inf,5", "wrong type"),
        ("-1,5", "wrong type"),
        ("1e3,5", "wrong type"),
        ("9999999999999999999,5", "out of range"),
        ("0.5,5", "time goes back"),
    ],
)
def test_malformed_row_fails_or_is_counted(tmp_path: Path, row: str, kind: str) -> None:
    """Each kind of malformed row is refused by line and counted when skipped."""
    content = f"time,id\n1,5\n{row}\n1,7\n"
    with pytest.raises(TraceError, match=r"t\.csv:3: "):
        read(tmp_path, content)
    trace = read(tmp_path, content, on_error="skip")
    assert trace.block_ids.tolist() == [0, 1]
    assert trace.provenance.skipped_rows == ((kind, 1),)


@pytest.mark.parametrize(
    "options", [{"time_column": "t"}, {"id_column": ""}, {"delimiter": ",,"}, {"delimiter": '"'}, {"block_tokens": 0}]
)
def test_unfit_option_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    """A column that is not there, or an option that cannot be meant, is refused."""
    with pytest.raises(TraceError):
        read(tmp_path, "time,id\n1,5\n", **options)
