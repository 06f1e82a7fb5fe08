"""Pages that list things list all of them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from autotune.core import registry
from autotune.core.decide.features import MEANINGS
from autotune.search.objectives.constraints import CONSTRAINTS

ROOT = Path(__file__).parents[2]
_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def text_of(page: str) -> str:
    """The page's text."""
    return (ROOT / page).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """The part of a page under a heading, up to the next one of the same level."""
    found = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text_of(page), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def test_architecture_names_every_folder() -> None:
    """The table of folders is the tree: nothing missing, nothing that is not there."""
    named = {cell.rstrip("/") for cell in _CELL.findall(section("docs/architecture.md", "What goes through it"))}
    there = {path.parent.name for path in (ROOT / "autotune").glob("*/__init__.py")}
    assert named == there


def test_every_trace_format_has_a_row() -> None:
    """The table of formats is the registry."""
    rows = _CELL.findall(section("docs/traces.md", "Formats"))
    assert set(rows) == set(registry.names(registry.TRACES))


@pytest.mark.parametrize("name", registry.names(registry.TRACES))
def test_every_reader_option_is_named(name: str) -> None:
    """The options of a reader are those in its row, but for ``on_error``, which all have."""
    parameters = inspect.signature(registry.load(registry.TRACES, name)).parameters.values()
    expected = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - {"on_error"}
    rows = re.findall(rf"^\| `{re.escape(name)}` \| ((?:`\w+`(?:, )?)+) \|$", text_of("docs/traces.md"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == expected


def test_every_objective_has_a_row() -> None:
    """The table of objectives is the registry, and says which need a stable load."""
    rows = re.findall(r"^\| `(\w+)` \| .* \| (yes|no) \|$", section("docs/tuning.md", "Objectives"), re.MULTILINE)
    needs = {
        name: registry.load(registry.OBJECTIVES, name)().needs_queue for name in registry.names(registry.OBJECTIVES)
    }
    assert {name: answer == "yes" for name, answer in rows} == needs


def test_every_constraint_is_named() -> None:
    """The page on tuning names each constraint."""
    assert set(CONSTRAINTS) <= set(re.findall(r"`(\w+)`", section("docs/tuning.md", "Objectives")))


def test_every_policy_has_a_row() -> None:
    """The table of policies names every registered one."""
    rows = re.findall(r"^\|[^|]*\| `(\w+)` \|", text_of("policies/README.md"), re.MULTILINE)
    assert set(rows) == set(registry.names(registry.POLICIES))


def test_every_feature_has_a_row_with_its_meaning() -> None:
    """The table of features is that of the code, word by word."""
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section("docs/learned-policy.md", "Features"), re.MULTILINE)
    assert dict(rows) == MEANINGS
