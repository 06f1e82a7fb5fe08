from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.units import GIB
from autotune.report.formats import duration, gib, number, percent, printable, time_unit, with_percent
from autotune.report.sentences import as_sentence


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(1234567.0, 0, "1,234,567"), (-12.345, 1, "−12.3"), (-0.04, 1, "0.0"), (None, 1, "–")],
)
def test_numbers(value: float | None, decimals: int, text: str) -> None:
    """Thousands are separated, minus is a minus, nothing is a dash, and a rounded zero has no sign."""
    assert number(value, decimals) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.061, "6.1 %"), (0.0012, "0.12 %"), (-0.5, "−50.0 %"), (0.0, "0.0 %"), (None, "–")]
)
def test_shares(share: float | None, text: str) -> None:
    """Shares are percent; small ones get a second decimal."""
    assert with_percent(share) == text


def test_shares_in_a_column_have_no_unit() -> None:
    """The heading has it."""
    assert percent(0.5) == "50.0"


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0.25, "250 ms"), (41.3, "41.3 s"), (90.0, "90.0 s"), (2190.0, "36.5 min"), (36_000.0, "10.0 h"), (0.0, "0.0 ms")],
)
def test_durations(time_s: float, text: str) -> None:
    """Times come in a unit that needs few digits."""
    assert duration(time_s) == text


@given(st.floats(0.0, 1e7))
def test_unit_of_time_keeps_numbers_short(span_s: float) -> None:
    """Every span up to some months is a number below 3,000 in its unit."""
    assert span_s / time_unit(span_s).seconds < 3_000


@pytest.mark.parametrize(("size", "text"), [(40.0, "40.0 GiB"), (0.5, "0.50 GiB"), (1536.0, "1,536 GiB")])
def test_sizes(size: float, text: str) -> None:
    """Bytes are GiB with about three figures."""
    assert gib(size * GIB) == text


@given(st.text())
def test_printable_text_fits_a_terminal_and_a_file(text: str) -> None:
    """What remains is one line of letters that can be encoded; ordinary letters stay as they are."""
    shown = printable(text)
    assert shown.isprintable()
    shown.encode("utf-8")
    assert printable(shown) == shown


@pytest.mark.parametrize(("text", "sentence"), [("it won", "It won."), ("Did it?", "Did it?"), ("", ""), ("λ", "Λ.")])
def test_sentences(text: str, sentence: str) -> None:
    """A text gets a capital letter and a full stop where it lacks them."""
    assert as_sentence(text) == sentence
