"""Every example in the documentation and in docstrings runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")])
PACKAGES = ("autotune", "policies/autotune_policies", "configs/autotune_configs")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# A fence of examples, with the prompt on its first line: what a reader may paste into an interpreter.
_FENCE = re.compile(r"^```[a-z]*\n(>>> .*?)^```$", re.DOTALL | re.MULTILINE)


def _fenced_examples(page: Path) -> doctest.DocTest:
    text = page.read_text(encoding="utf-8")
    # Everything outside the fences becomes blank lines, so that a failure names the line of the page.
    lines = [""] * (text.count("\n") + 1)
    for fence in _FENCE.finditer(text):
        first = text.count("\n", 0, fence.start(1))
        examples = fence[1].splitlines()
        lines[first : first + len(examples)] = examples
    return doctest.DocTestParser().get_doctest("\n".join(lines), {}, page.name, str(page), 0)


def _modules_with_examples() -> list[str]:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE):
                parts = path.relative_to((ROOT / package).parent).with_suffix("").parts
                found.append(".".join(parts).removesuffix(".__init__"))
    return found


def _failures(examples: list[doctest.DocTest]) -> tuple[int, str]:
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    for test in examples:
        runner.run(test, out=output.append)
    return runner.summarize(verbose=False).failed, "".join(output)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter sessions of a page print what the page shows, run from an empty folder."""
    monkeypatch.chdir(tmp_path)
    failed, output = _failures([_fenced_examples(page)])
    assert failed == 0, output


@pytest.mark.parametrize("name", _modules_with_examples())
def test_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples in a module's docstrings print what they show, run from an empty folder."""
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    assert any(test.examples for test in examples), f"{name} shows '>>>', but no docstring of a public object does"
    failed, output = _failures(examples)
    assert failed == 0, output


def test_readme_has_examples() -> None:
    """The README shows at least one example, so that the page above is really tested."""
    assert _fenced_examples(ROOT / "README.md").examples


def test_wrong_example_is_reported(tmp_path: Path) -> None:
    """An example that prints something else fails, with the line of the page."""
    page = tmp_path / "page.md"
    page.write_text("# Title\n\ntext\n\n```pycon\n>>> 1 + 1\n3\n```\n", encoding="utf-8")
    failed, output = _failures([_fenced_examples(page)])
    assert failed == 1
    assert "line 6" in output
