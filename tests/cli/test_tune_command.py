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
    assert payload["chosen"] in ("lru", "rank", "learned")
    assert payload["learned"]["reason"]
    assert payload["trials"] == 6


def test_policy_and_report_are_written(tuned: tuple[Path, dict[str, Any]]) -> None:
    """The policy validates and says what was chosen; the report is one page."""
    out, payload = tuned
    document = load(out / "policy.yaml")
    assert payload["policy_path"] == str(out / "policy.yaml")
    assert document.kind == {"learned": "class_hazard"}.get(payload["chosen"], payload["chosen"])
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
        (("--write-gb-per-s", "-1"), "write_bytes_per_s"),
        (("--preset", "chart"), "chat"),
        (("--space", "nowhere"), "default"),
        (("--space", "missing.yaml"), "missing.yaml"),
        (("--settings", "missing.yaml"), "missing.yaml"),
        (("--servers", "1"), "stable load"),
        (("--objective", "ttft_p95"), "stable load"),
        (("--constraint", "ttft_p99"), "stable load"),
        (("--host-blocks", "-5"), "a tier holds 0 to"),
        (("--device-gib", "1"), "GiB or in blocks"),
        (("--disk-gib", "nan"), "the disk must hold"),
        (("--trials", "many"), "--trials"),
        (("--seed", "-1"), "seed"),
        (("--workers", "0"), "--workers"),
        (("--train-frac", "nan"), "train_frac"),
        (("--train-frac", "0.9999"), "held-out part"),
        (("--time-scale", "inf"), "time_scale"),
        (("--store", "sometimes"), "--store"),
        (("--study", "/no/such/folder/study.db"), "folder that exists"),
        (("--model", "gpt-9"), "gpt-9"),
        (("--on-error", "ignore"), "on_error"),
        (("--trace", "mooncake:missing.jsonl"), "of one format"),
    ],
)
def test_bad_input_gives_one_line_and_writes_nothing(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """The line names what is wrong."""
    result = run(*QUICK, "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("inside", ["", "deeper/still"])
def test_a_folder_that_cannot_be_written_is_found_out_before_the_search(
    inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file stands where the folder should be, or above it: nothing is searched."""

    def searched(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("autotune.api.tune", searched)
    (tmp_path / "out").write_text("in the way")
    result = run(*QUICK, "--out", tmp_path / "out" / inside)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert "must be a folder that can be made and written to" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_settings_file_counts_unless_the_command_line_says_otherwise(tmp_path: Path) -> None:
    """Trials, seed and how malformed rows are treated come from the file; an option on the command line wins."""
    (tmp_path / "s.yaml").write_text(
        "search: {trials: 4, seed: 5, random_search: false}\ntrace: {on_error: skip}", "utf-8"
    )
    rows = [{"timestamp": 500 * i, "input_length": 512, "output_length": 1, "hash_ids": [i % 9]} for i in range(200)]
    lines = ["nonsense", *map(json.dumps, rows)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines), "utf-8")
    common = ("--trace", f"mooncake:{tmp_path}/t.jsonl", "--device-blocks", "4", "--out", tmp_path, "--no-report")
    assert run(*common, "--settings", tmp_path / "s.yaml").exit_code == 0
    provenance = load(tmp_path / "policy.yaml").provenance
    assert provenance
    assert (provenance.trials, provenance.seed) == (4, 5)
    assert [(skipped.rows) for skipped in provenance.trace.skipped_rows] == [1]
    assert run(*common, "--settings", tmp_path / "s.yaml", "--trials", "5").exit_code == 0
    provenance = load(tmp_path / "policy.yaml").provenance
    assert provenance
    assert provenance.trials == 5
    refused = run(*common, "--settings", tmp_path / "s.yaml", "--on-error", "fail")
    assert refused.exit_code == 2
    assert "t.jsonl:1" in refused.stderr


def test_stdout_is_json_and_nothing_else(tmp_path: Path) -> None:
    """Progress and notes never mix with the object, not even on a terminal of 80 columns."""
    result = run(*QUICK, "--out", tmp_path, "--no-report", "--json")
    assert json.loads(result.stdout)["report_path"] is None
    assert result.stderr == ""
