"""Scenarios on the command line of tune."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
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
    """Several tenants are tuned for goodput on eight servers, so TTFT is reported; what is given stays as given.

    The trials are those of the search, also where the learned rule, which has none, is chosen.
    """
    found = tuned(tmp_path, "--scenario", "multi-tenant-qos")
    assert found["trials"] == 3
    assert "8 prefill servers" in found["ttft_note"]
    assert all(row["goodput_frac"] is not None for row in found["rows"])


@pytest.mark.parametrize(("scenario", "is_lazy"), [("multi-tenant-qos", False), ("offline-batch", True)])
def test_modes_of_the_scenario_reach_the_policy(tmp_path: Path, scenario: str, is_lazy: bool) -> None:
    """An offline batch stores when the device evicts, which its policy says; the rank rule takes no mode by itself."""
    tuned(tmp_path, "--scenario", scenario, "--no-learned")
    assert ("store_mode: lazy" in (tmp_path / "policy.yaml").read_text(encoding="utf-8")) == is_lazy


def test_unknown_scenario_is_one_line(tmp_path: Path) -> None:
    """A name that is none is answered with the known ones."""
    result = RUNNER.invoke(app, ["tune", *SMALL, "--scenario", "chat", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "known: long-chat, multi-tenant-qos, offline-batch" in result.output
