"""Small traces, written by tests where they need them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data" / "traces"
WriteRows = Callable[..., Path]


@pytest.fixture
def data() -> Path:
    """Folder with cuts of published traces."""
    return DATA


@pytest.fixture
def write_rows(tmp_path: Path) -> WriteRows:
    """Function that writes rows as JSON lines (text rows as they are) and returns the file."""

    def write(rows: list[Any], name: str = "trace.jsonl") -> Path:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        file = tmp_path / name
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return file

    return write
