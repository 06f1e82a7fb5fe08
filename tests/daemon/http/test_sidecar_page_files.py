"""The files of the page, as they lie there: complete, self-contained, and nothing inline."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from autotune.daemon.http.pages import PAGES

FOLDER = Path(str(files("autotune.daemon.http") / "static"))
HTML = (FOLDER / "index.html").read_text("utf-8")
CSS = (FOLDER / "page.css").read_text("utf-8")
SCRIPTS = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.js"))}


def test_every_file_is_served() -> None:
    """What lies in the folder is served, and what is served lies there."""
    assert {page.name for page in PAGES} == {path.name for path in FOLDER.iterdir()}


def test_every_reference_is_served() -> None:
    """What the page and its scripts ask for is there."""
    served = {page.path for page in PAGES}
    asked = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', HTML))
    asked |= {f"/static/{name}" for text in SCRIPTS.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert asked
    assert asked <= served


def test_page_runs_and_styles_nothing_inline() -> None:
    """No script, style or handler stands in the page itself, where the security policy would refuse it."""
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", HTML)
    assert all(not body.strip() for body in re.findall(r"<script[^>]*>(.*?)</script>", HTML, re.DOTALL))


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_make_no_markup_of_text(name: str) -> None:
    """No script turns text into markup or code, or styles inline."""
    assert not re.search(
        r"innerHTML|outerHTML\s*=|insertAdjacentHTML|document\.write|eval\(|new Function", SCRIPTS[name]
    )
    assert not re.search(r"\bstyle[\"']?\s*[:=]\s*[\"'`]", SCRIPTS[name])


@pytest.mark.parametrize("text", [HTML, CSS, *SCRIPTS.values()], ids=["html", "css", *SCRIPTS])
def test_nothing_comes_from_elsewhere(text: str) -> None:
    """No file names another host, but for the name space of SVG."""
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in text


def test_every_colour_has_a_dark_form() -> None:
    """Every colour that is set for light is set for dark, and none is used that is not set."""
    light, dark = CSS.split("@media (prefers-color-scheme: dark)")
    names = set(re.findall(r"(--[a-z-]+):", light.partition("}")[0]))
    assert names == set(re.findall(r"(--[a-z-]+):", dark.partition("}")[0]))
    assert set(re.findall(r"var\((--[a-z-]+)\)", CSS)) <= names


def test_every_place_that_scripts_fill_is_there() -> None:
    """Identifiers that scripts name stand in the page."""
    wanted = {
        name for text in SCRIPTS.values() for name in re.findall(r'(?:byId|fill|widthOf|table)\("([a-z-]+)"', text)
    }
    assert len(wanted) > 20
    assert wanted <= set(re.findall(r'id="([a-z-]+)"', HTML))
