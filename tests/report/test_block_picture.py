"""The picture of one block under a learned policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from autotune.core.errors import ConfigError
from autotune.core.policy import LearnedParts, ScorePart, explain
from autotune.report.block_picture import block_svg, save_picture
from autotune.testing.documents import example_learned_document

MODEL = example_learned_document().class_hazard.model()
SVG = "{http://www.w3.org/2000/svg}"


def parts(age_s: float = 20.0) -> LearnedParts:
    """What the example model makes of a block."""
    told = explain(
        example_learned_document(),
        depth_tokens=8192,
        frequency=3.0,
        age_s=age_s,
        size_tokens=512,
        features={"gap_s": 10.0, "stop_code": 2.0},
    )
    assert told.learned is not None
    return told.learned


def drawn(told: LearnedParts, title: str = "A block") -> ElementTree.Element:
    """The picture, parsed."""
    return ElementTree.fromstring(block_svg(MODEL, told, title, "KEEP: because."))


def texts(picture: ElementTree.Element) -> list[str]:
    """All words of a picture."""
    return [node.text or "" for node in picture.iter(f"{SVG}text")]


def test_picture_shows_parts_and_curve() -> None:
    """One bar for the average block and one per table with its figure, and sixteen curves, one of them this block's."""
    told = parts()
    picture = drawn(told)
    words = texts(picture)
    assert {"A block", "KEEP: because.", "average block", "gap_s", "stop_code × gap_s", "depth_tokens"} <= set(words)
    assert {"−1.00", "+1.00", "+0.75", "+0.50", "20 s"} <= set(words)
    bars = [node for node in picture.iter(f"{SVG}rect") if node.get("class") in ("up", "down", "base")]
    assert len(bars) == 4 + len(told.ranks)
    widths = [float(bar.get("width", "0")) for bar in bars]
    assert widths[2] == pytest.approx(0.75 * widths[1], abs=0.02)
    curves = [node.get("class") for node in picture.iter(f"{SVG}polyline")]
    assert (curves.count("curve"), curves.count("other")) == (1, 15)


def test_ranks_stand_beside_their_prices() -> None:
    """One bar per tier, blue where it reaches the line of its price, with both figures in words."""
    device, host = parts().ranks
    ranks = (
        replace(device, saved_s_per_s=1e-3, price_s_per_s=2e-3),
        replace(host, saved_s_per_s=1e-3, price_s_per_s=1e-4),
    )
    picture = drawn(replace(parts(), ranks=ranks))
    assert {"1000, price 2000", "1000, price 100"} <= set(texts(picture))
    bars = [node for node in picture.iter(f"{SVG}rect") if node.get("class") in ("up", "down")][-2:]
    assert [bar.get("class") for bar in bars] == ["down", "up"]
    marks = [float(node.get("x1", "0")) for node in picture.iter(f"{SVG}line") if node.get("class") == "mark"][-2:]
    end = float(bars[0].get("x", "0")) + float(bars[0].get("width", "0"))
    assert marks[1] < end < marks[0]


def test_age_is_marked_where_it_stands() -> None:
    """An older block's mark stands further to the right; ages beyond the picture stand at its ends."""
    at = []
    for age_s in (0.0, 1.0, 500.0, 1e6):
        mark = next(node for node in drawn(parts(age_s)).iter(f"{SVG}line") if node.get("class") == "mark")
        at.append(float(mark.get("x1", "0")))
    assert at == sorted(set(at))
    assert (at[0], at[-1]) == (70.0, 470.0)


def test_many_parts_are_summed_up() -> None:
    """Of forty tables the largest ten have a bar of their own, and one bar sums up the others."""
    told = parts()
    many = tuple(ScorePart((f"f{k}",), 1.0 / (k + 1)) for k in range(40))
    words = texts(drawn(replace(told, near=replace(told.near, parts=many))))
    assert "f9" in words
    assert "30 more" in words
    assert f"+{sum(1.0 / (k + 1) for k in range(10, 40)):.2f}" in words


def test_words_are_text_not_markup() -> None:
    """A title with signs of XML is shown as it is."""
    assert "<b>&" in texts(drawn(parts(), title="<b>&"))


def test_a_flat_model_can_be_drawn() -> None:
    """Curves that are 0 everywhere and no table at all still give a picture."""
    told = parts()
    flat = replace(MODEL, hazard_per_s=0.0 * MODEL.hazard_per_s)
    bare = replace(told, near=replace(told.near, parts=(), base=0.0))
    ElementTree.fromstring(block_svg(flat, bare, "", ""))


def test_saved_as_picture_or_page(tmp_path: Path) -> None:
    """The ending chooses; another ending, or a folder that is not there, is refused."""
    save_picture(MODEL, parts(), "t", "d", tmp_path / "a.svg")
    save_picture(MODEL, parts(), "t", "d", tmp_path / "a.html")
    assert (tmp_path / "a.svg").read_text("utf-8").startswith("<svg")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    with pytest.raises(ConfigError, match=r"ends in \.svg or \.html; got a\.png"):
        save_picture(MODEL, parts(), "t", "d", tmp_path / "a.png")
    with pytest.raises(ConfigError, match="must be writable"):
        save_picture(MODEL, parts(), "t", "d", tmp_path / "none" / "a.svg")
