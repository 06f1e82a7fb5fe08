"""A run of the tests says which it left out, and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARKED_TESTS = """
import pytest

def test_plain():
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.fuzz
def test_fuzz():
    pass

@pytest.mark.engine("an_engine_that_nobody_has")
def test_absent_engine():
    pass

@pytest.mark.parser("an_engine_that_nobody_has")
def test_absent_parser():
    pass

@pytest.mark.engine("numpy")
def test_present_engine():
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with this project's test settings and one test of each kind."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/conftest.py", tmp_path / "tests")
    (tmp_path / "tests/test_marked.py").write_text(MARKED_TESTS, encoding="utf-8")
    return tmp_path


def run_tests(project: Path, *arguments: str) -> list[str]:
    """The lines that a run prints; the run must succeed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    # Whoever runs these tests may have said that an engine's own come next; a run by itself has nobody to say so.
    alone = {name: value for name, value in os.environ.items() if name != "ENGINE_TESTS_NEXT"}
    done = subprocess.run(command, cwd=project, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()


def test_plain_run_names_what_it_left_out(project: Path) -> None:
    """Long tests and tests of absent engines are left out by name, and pytest's own summary comes last."""
    lines = run_tests(project)
    assert "1 test: slow, see 'make test-slow'" in lines
    assert "1 test: fuzz, see 'make fuzz'" in lines
    assert "1 test: need an_engine_that_nobody_has, which this environment lacks" in lines
    assert "1 test: need the parser of an_engine_that_nobody_has, see 'make engine-parsers'" in lines
    assert "2 passed, 4 deselected" in lines[-1]


def test_chosen_marks_are_run(project: Path) -> None:
    """``-m slow`` runs the slow tests and nothing else."""
    lines = run_tests(project, "-m", "slow")
    assert "1 passed, 5 deselected" in lines[-1]


def test_absent_engine_stays_out_when_chosen(project: Path) -> None:
    """``-m engine`` runs the tests of installed engines and says which it could not run."""
    lines = run_tests(project, "-m", "engine")
    assert "1 test: need an_engine_that_nobody_has, which this environment lacks" in lines
    assert "1 passed, 5 deselected" in lines[-1]
