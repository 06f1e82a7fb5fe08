"""The script that searches both rules in one study."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[3] / "policies" / "search_jointly.py"


def test_the_script_judges_both_rules_beside_their_defaults(tmp_path: Path) -> None:
    """Two trials are the default and the preset's rank rule; both stand in the table of the later time."""
    trace = "adversarial:session_storm,seed=1,span_s=1800"
    arguments = ("--trace", trace, "--trials", "2", "--device-frac", "0.03", "--journal", str(tmp_path))
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("|")]
    later = names[names.index("on later time") + 2 :]
    assert later[:3] == ["loop's defaults, eager", "loop's defaults, lazy", "loop's defaults, exclusive"]
    assert later[3:] == ["rank rule of preset unknown, lazy", "found by tpe", "found by random"]
    assert "1 / 1 |" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["joint-random.jsonl", "joint-tpe.jsonl"]
