"""The command ``calibrate`` on a real torch, with small copies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autotune.cli.app import build
from autotune.costs import load_hardware

pytestmark = pytest.mark.engine("torch")

SMALL = ["calibrate", "--largest-mib", "1", "--repeats", "2"]


def run(*arguments: str) -> str:
    """Output of the command, which must succeed."""
    done = CliRunner().invoke(build(), [*SMALL, *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_profile_is_one_that_other_commands_take(tmp_path: Path) -> None:
    """The written file loads as hardware; its links were measured, its compute is that of the given profile."""
    path = tmp_path / "new" / "mine.yaml"
    told = run("--out", str(path), "--hardware", "a100-sxm-80gb", "--name", "mine")
    machine = load_hardware(str(path))
    assert machine.name == "mine"
    assert machine.host_to_device.bytes_per_s > 1e7
    assert machine.peak_flop_per_s == pytest.approx(load_hardware("a100-sxm-80gb").peak_flop_per_s)
    assert "--hardware" in told
    assert "64 KiB" in told
    assert "1 MiB" in told


def test_json_has_every_copy(tmp_path: Path) -> None:
    """Three sizes, both directions, two measurements each, and an interval around each link's bandwidth."""
    found = json.loads(run("--json"))
    kinds = 2 if found["is_gpu"] else 1
    assert len(found["copies"]) == 3 * 2 * kinds
    assert {len(one["seconds"]) for one in found["copies"]} == {2}
    assert len(found["links"]) == 2 * kinds
    for link in found["links"]:
        low, value, high = link["bytes_per_s"]
        assert 0.0 < low <= value <= high
    assert ("no GPU" in found["origin"]) == (not found["is_gpu"])


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    """A base profile that nobody knows, and a place that cannot be written to, are one line each."""
    for arguments in (["--hardware", "no-such-machine"], ["--out", "/proc/none/mine.yaml"]):
        done = CliRunner().invoke(build(), [*SMALL, *arguments])
        assert done.exit_code == 2
        assert done.output.startswith("error: ")
