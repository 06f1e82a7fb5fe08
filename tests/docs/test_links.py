"""Pages refer to things that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")])
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
_TARGET = re.compile(r"`make ([a-z-]+)`")
_GROUP = re.compile(r'project\.entry-points\."([a-z.]+)"')


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page leads to a file or folder of the project."""
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page: Path) -> None:
    """Every ``make`` target that a page names is in the Makefile."""
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(_TARGET.findall(page.read_text(encoding="utf-8"))) <= rules


def test_guide_names_registered_groups() -> None:
    """The groups of plug-ins that the guide for contributors names are registered ones."""
    groups = _GROUP.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert groups
    assert set(groups) <= set(project["entry-points"])
