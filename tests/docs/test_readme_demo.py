"""The output that the README shows is what the demo prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autotune.cli.app import app

ROOT = Path(__file__).parents[2]
# Rows that no search has a part in: the same on every machine and with every version of the search library.
ROWS = ("LRU", "ARC", "S3-FIFO", "clairvoyant (bound)")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the command of ``make demo`` prints, after a search of one trial instead of a real one."""
    recipe = re.search(r"kv-autotune (tune .*?) --out", (ROOT / "Makefile").read_text(encoding="utf-8"), re.DOTALL)
    assert recipe
    quick = ("--trials", "1", "--no-random-search", "--no-report", "--out", str(tmp_path_factory.mktemp("demo")))
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*recipe[1].replace("\\\n", " ").split(), *quick])
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(text: str, name: str) -> list[str]:
    """Lines that begin with a policy's name, without differences in spacing."""
    return [" ".join(line.split()) for line in text.splitlines() if re.match(rf"{re.escape(name)} +[0-9]", line)]


@pytest.mark.parametrize("name", ROWS)
def test_row_of_the_readme_is_current(name: str, printed: str) -> None:
    """The README's table has the very figures of a run today."""
    shown = rows_of((ROOT / "README.md").read_text(encoding="utf-8"), name)
    assert len(shown) == 1
    assert shown == rows_of(printed, name)


def test_output_of_the_readme_fits_a_terminal() -> None:
    """No line of the shown output is wider than 80 columns, and it ends with the two paths."""
    output = re.search(r"```text\n(Held-out.*?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert output
    lines = output[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-2:] == ["Policy: out/policy.yaml", "Report: out/report.html"]
