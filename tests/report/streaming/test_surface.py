"""The picture of a step's time over p and d."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import product

import pytest

from autotune.report.streaming import SurfacePoint, surface_svg
from autotune.report.streaming.svg import ceiling, shade

POINTS = [SurfacePoint(p, d, 0.04 * (1.5 - p), 0.05 * (1.5 - p) / (d + 1)) for p, d in product((0, 0.5, 1), (0, 1))]


def test_every_setting_is_a_cell_with_prediction_and_measurement() -> None:
    """The picture is valid XML, and each cell says what was measured, predicted and the error between."""
    root = ET.fromstring(surface_svg(POINTS, "A & B", "note <1>"))
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert {"A & B", "note <1>"} <= set(texts)
    assert "75.0 ms" in texts
    assert "60.0 (-20 %)" in texts
    assert sum(words.endswith(" ms") for words in texts) == len(POINTS)


def test_each_depth_has_a_measured_and_a_predicted_line() -> None:
    """Two depths make four lines, the predicted ones dashed."""
    lines = [e for e in ET.fromstring(surface_svg(POINTS, "t", "n")).iter() if e.tag.endswith("polyline")]
    assert [line.get("stroke-dasharray") is not None for line in lines] == [False, True, False, True]


def test_slow_cells_are_shaded_darker_towards_red() -> None:
    """The ends of the scale differ, and values beyond them stay at the ends."""
    assert shade(0.0) == shade(-1.0) != shade(1.0) == shade(2.0)


@pytest.mark.parametrize(("value", "end"), [(0.3, 0.5), (7.2, 7.5), (107.0, 150.0), (150.0, 150.0)])
def test_axes_end_at_round_numbers(value: float, end: float) -> None:
    """At or above the largest value."""
    assert ceiling(value) == end
