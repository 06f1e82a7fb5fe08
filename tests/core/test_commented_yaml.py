"""Models as YAML that explains itself."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from autotune.core.commented_yaml import scalar, to_commented_yaml
from autotune.core.errors import ConfigError
from autotune.core.strict_yaml import parse_mapping
from autotune.core.types import StoreMode
from autotune.core.validation import Strict


class Row(Strict):
    first: float = Field(description="First.")
    second: str = Field(default="s", description="Second.")


class Table(Strict):
    size_bytes: int = Field(default=3 * 2**30, description="Size.")
    share_frac: float = 0.125
    rate_bytes_per_s: float = 5e10
    mode: StoreMode = Field(default=StoreMode.LAZY, description="A long text. " * 20)
    rows: tuple[Row, ...] = Field(default=(), description="Rows.")
    nothing: Row | None = None


class Sparse(Table):
    leave_out_none = True


def test_layout() -> None:
    """Descriptions stand above their fields, once each, and hard numbers have a second form beside them."""
    text = to_commented_yaml(Table(mode=StoreMode.EAGER, rows=(Row(first=1.0), Row(first=1e-9))), "Head.\nLine.")
    lines = text.splitlines()
    assert lines[:6] == ["# Head.", "# Line.", "", "# Size.", "size_bytes: 3221225472  # 3 GiB", ""]
    assert "share_frac: 0.125  # 12.5 %" in lines
    assert "rate_bytes_per_s: 50000000000.0  # 50 GB/s" in lines
    assert "mode: eager" in lines
    start = lines.index("rows:")
    assert lines[start : start + 7] == [
        "rows:",
        "  # First.",
        "  - first: 1.0",
        "    # Second.",
        "    second: s",
        "  - first: 1.0e-09",
        "    second: s",
    ]
    assert lines[-1] == "nothing: null"


def test_lines_stay_short() -> None:
    """Comments are wrapped at 120 columns."""
    assert max(map(len, to_commented_yaml(Table()).splitlines())) <= 120


def test_absent_sections_can_be_left_out() -> None:
    """A model that says so leaves fields without a value out."""
    assert "nothing" not in to_commented_yaml(Sparse())


@pytest.mark.parametrize(
    "word", ["yes", "No", "null", "true", "~", "", "1", "1.5", "a: b", "a #b", " a", "-", "é", "y"]
)
def test_text_that_looks_like_something_else_is_quoted(word: str) -> None:
    """Text stays text for this reader and for YAML 1.1 readers."""
    line = f"a: {scalar(word)}"
    assert parse_mapping(line, ConfigError) == {"a": word} == yaml.safe_load(line)


@given(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
def test_scalars_survive(value: object) -> None:
    """Any scalar is read back as the same value of the same type, by this reader and by PyYAML's."""
    line = f"a: {scalar(value)}"
    for read in (parse_mapping(line, ConfigError)["a"], yaml.safe_load(line)["a"]):
        assert read == value
        assert type(read) is type(value)
        if isinstance(value, float) and isinstance(read, float):
            assert math.copysign(1.0, read) == math.copysign(1.0, value)
