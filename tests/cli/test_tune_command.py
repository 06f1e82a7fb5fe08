"""``kv-autotune tune``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autotune.cli.app import app
from autotune.core.policy import load

QUICK = ("--trace", "sample:synthetic", "--device-blocks", "300", "--host-blocks", "1200", "--trials", "6")


def run(*arguments: str | Path) -> Result:
    """The command with these arguments."""
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["tune", *map(str, arguments)])


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A finished run: its folder and its JSON object."""
    out = tmp_path_factory.mktemp("out")
    result = run(*QUICK, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    return out, json.loads(result.stdout)


def test_json_has_what_outside_checks_read(tuned: tuple[Path, dict[str, Any]]) -> None:
    """Every promised key is there, the gain lies within its bounds, and stdout holds nothing else."""
    _, payload = tuned
    assert payload.keys() >= {"policy_path", "chosen", "baseline", "gain_frac", "gap_closed_frac", "trials", "wall_s"}
    gain = payload["gain_frac"]
    assert gain["low"] <= gain["value"] <= gain["high"]
    assert payload["baseline"] == "lru"
    assert payload["chosen"] in ("lru", "rank")
    assert payload["trials"] == 6


def test_policy_and_report_are_written(tuned: tuple[Path, dict[str, Any]]) -> None:
    """The policy validates and says what was chosen; the report is one page."""
    out, payload = tuned
    document = load(out / "policy.yaml")
    assert payload["policy_path"] == str(out / "policy.yaml")
    assert document.kind == payload["chosen"]
    assert (out / "report.html").read_text("utf-8").lower().startswith("<!doctype html>")
    assert sorted(p.name for p in out.iterdir()) == ["policy.yaml", "report.html"]


def test_the_same_run_writes_the_same_policy(tuned: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Byte for byte, whatever the number of workers."""
    out, _ = tuned
    assert run(*QUICK, "--out", tmp_path, "--no-report", "--workers", "1").exit_code == 0
    assert (tmp_path / "policy.yaml").read_bytes() == (out / "policy.yaml").read_bytes()


def test_another_seed_is_another_search(tuned: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """The seed matters, and is written down."""
    assert run(*QUICK, "--out", tmp_path, "--no-report", "--seed", "7").exit_code == 0
    provenance = load(tmp_path / "policy.yaml").provenance
    assert provenance
    assert provenance.seed == 7


def test_the_table_fits_80_columns_and_names_the_rivals(tmp_path: Path) -> None:
    """LRU, ARC, S3-FIFO, tuned and the clairvoyant are rows; the paths come last; there is no report if unwanted."""
    result = run(*QUICK, "--out", tmp_path, "--no-report")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80 or len(str(tmp_path)) > 60
    for name in ("LRU", "ARC", "S3-FIFO", "tuned", "clairvoyant"):
        assert any(line.startswith(name) for line in lines), name
    assert not (tmp_path / "report.html").exists()


def test_a_study_in_a_file_goes_on(tmp_path: Path) -> None:
    """A second run with more trials keeps the first run's."""
    study = tmp_path / "study.db"
    assert run(*QUICK, "--out", tmp_path, "--no-report", "--study", study).exit_code == 0
    longer = (*QUICK[:-1], "9")
    result = run(*longer, "--out", tmp_path, "--no-report", "--study", study, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["trials"] == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sampler", "annealing"), "sampler"),
        (("--objective", "beauty"), "net_seconds"),
        (("--constraint", "beauty"), "ttft_p99"),
        (("--train-frac", "1.5"), "train_frac"),
        (("--trials", "0"), "trials"),
        (("--preset", "chart"), "chat"),
        (("--space", "nowhere"), "default"),
        (("--space", "missing.yaml"), "missing.yaml"),
        (("--settings", "missing.yaml"), "missing.yaml"),
        (("--servers", "1"), "stable load"),
        (("--objective", "ttft_p95"), "stable load"),
    ],
)
def test_bad_input_gives_one_line_and_writes_nothing(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """The line names what is wrong."""
    result = run(*QUICK, "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert not (tmp_path / "out" / "policy.yaml").exists()


def test_a_folder_that_cannot_be_written_is_found_out_before_the_search(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "out").write_text("in the way")
    result = run(*QUICK, "--out", tmp_path / "out")
    assert result.exit_code == 2, result.output
    assert "out" in result.stderr
