"""The commands read a sidecar's folder like any other trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rolling_samples import record
from typer.testing import CliRunner

from autotune.cli.app import app
from autotune.traces.compact import compact


def run(*arguments: str) -> Any:
    """A command's JSON."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_info_says_which_epoch(tmp_path: Path) -> None:
    """The provenance that it shows has epoch, grade and model."""
    record(tmp_path, range(30))
    record(tmp_path, range(20))
    told = run("trace", "info", f"recording:{tmp_path}", "--option", "epoch=2")
    assert told["requests"] == 20
    assert told["provenance"]["options"] == {"epoch": "2", "grade": "telemetry", "model": "tiny"}


def test_a_simulation_is_the_same_to_the_last_digit_after_compaction(tmp_path: Path) -> None:
    """Journals or Parquet: same figures, same provenance."""
    record(tmp_path, range(300))
    command = ("simulate", "--trace", f"recording:{tmp_path}", "--policy", "lru", "--device-blocks", "40")
    before = run(*command)
    assert compact(tmp_path).written > 1
    assert run(*command) == before


def test_a_refusal_is_one_line(tmp_path: Path) -> None:
    """An epoch that is not there ends with status other than 0 and names those that are."""
    record(tmp_path, range(30))
    result = CliRunner().invoke(app, ["trace", "info", f"recording:{tmp_path}", "--option", "epoch=9"])
    assert result.exit_code != 0
    assert "there are 1 (30 requests)" in " ".join(result.output.split())
