"""Scenarios on the command line of tune."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from autotune.cli.app import app

RUNNER = CliRunner()
SMALL = (
    "--trace",
    "sample:synthetic",
    "--device-gib",
    "40",
    "--host-gib",
    "160",
    "--trials",
    "3",
    "--no-random-search",
)


def tuned(out: Path, *arguments: str) -> dict[str, Any]:
    """The JSON object of a small run."""
    result = RUNNER.invoke(app, ["tune", *SMALL, *arguments, "--no-report", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_settings_come_from_the_scenario(tmp_path: Path) -> None:
    """Several tenants are tuned for goodput on eight servers, so TTFT is reported; what is given stays as given."""
    found = tuned(tmp_path, "--scenario", "multi-tenant-qos")
    assert found["trials"] == 3
    assert "8 prefill servers" in found["ttft_note"]
    assert all(row["goodput_frac"] is not None for row in found["rows"])
    assert "store_mode: lazy" not in (tmp_path / "policy.yaml").read_text(encoding="utf-8")


def test_modes_of_the_scenario_reach_the_policy(tmp_path: Path) -> None:
    """An offline batch stores when the device evicts, which its policy says."""
    tuned(tmp_path, "--scenario", "offline-batch")
    assert "lazy" in (tmp_path / "policy.yaml").read_text(encoding="utf-8")


def test_unknown_scenario_is_one_line(tmp_path: Path) -> None:
    """A name that is none is answered with the known ones."""
    result = RUNNER.invoke(app, ["tune", *SMALL, "--scenario", "chat", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "known: long-chat, multi-tenant-qos, offline-batch" in result.output
