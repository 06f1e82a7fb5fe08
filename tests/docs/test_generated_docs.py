"""The generated references say what the code says, and a page that does not is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("cli.md", "configuration.md", "policy.md")


def generate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the generator as ``make docs`` and ``make gates`` do."""
    command = [sys.executable, ROOT / "docs/generate.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_committed_pages_are_current() -> None:
    """The references in docs/ are exactly what the generator writes."""
    done = generate("--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_drifted_page_is_named(page: str, tmp_path: Path) -> None:
    """One changed line in a page makes the check fail and name that page only, with the remedy."""
    for name in PAGES:
        shutil.copy(ROOT / "docs" / name, tmp_path)
    (tmp_path / page).write_text((tmp_path / page).read_text(encoding="utf-8") + "stale\n", encoding="utf-8")
    done = generate("--check", "--folder", tmp_path)
    assert done.returncode == 1
    assert [name for name in PAGES if name in done.stderr] == [page]
    assert "make docs" in done.stderr


def test_missing_page_is_drift(tmp_path: Path) -> None:
    """An empty folder fails the check for every page."""
    done = generate("--check", "--folder", tmp_path)
    assert done.returncode == 1
    assert all(name in done.stderr for name in PAGES)


def test_writing_makes_the_check_pass(tmp_path: Path) -> None:
    """What the generator writes, the check accepts; writing twice gives the same bytes."""
    assert generate("--folder", tmp_path).returncode == 0
    first = {name: (tmp_path / name).read_bytes() for name in PAGES}
    assert generate("--folder", tmp_path).returncode == 0
    assert {name: (tmp_path / name).read_bytes() for name in PAGES} == first
    assert generate("--check", "--folder", tmp_path).returncode == 0
