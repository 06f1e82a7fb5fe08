"""The script that writes the presets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autotune.core.errors import SearchError
from autotune.core.strict_yaml import parse_mapping
from autotune.core.validation import validate
from autotune.search.presets import Preset

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[3] / "policies" / "make_presets.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script to its end."""
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_the_script_writes_a_preset_and_says_what_it_is_worth(tmp_path: Path) -> None:
    """One trial finds the defaults; the file is valid, and tables compare them on time that was not searched."""
    done = run("--kind", "batch", "--trials", "1", "--out", str(tmp_path), "--journal", str(tmp_path))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "batch.yaml").read_text("utf-8")
    assert validate(Preset, parse_mapping(text, SearchError), SearchError).name == "batch"
    assert (tmp_path / "batch-tpe.jsonl").exists()
    assert "**batch, the time after what was searched**" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith(("| defaults, lazy |", "| batch, tuned |"))]
    assert len({row.partition("|")[2].partition("|")[2] for row in rows}) == len(rows) / 2


def test_agents_need_a_folder() -> None:
    """Sessions of coding agents are not carried by the project."""
    done = run("--kind", "agentic")
    assert done.returncode != 0
    assert "agentic needs --traces" in done.stderr
