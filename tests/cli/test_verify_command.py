"""``kv-autotune verify``."""

from __future__ import annotations

import gzip
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autotune.cli.app import app
from autotune.export import save
from autotune.testing.documents import example_document


def run(*arguments: str | Path) -> Result:
    """The command line with these arguments."""
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, list(map(str, arguments)))


def run_json(*arguments: str | Path, status: int = 0) -> Any:
    """The object that a command prints, which must exit with this status."""
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def assert_refused(result: Result, *parts: str) -> None:
    """Exit status 2, nothing on stdout, and one line on stderr that has these parts."""
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two traces that are not bundled, and a policy tuned on the first."""
    folder = tmp_path_factory.mktemp("verify")
    packed = (files("autotune_configs") / "traces" / "conversation_trace.first60.jsonl.gz").read_bytes()
    rows = gzip.decompress(packed).splitlines(keepends=True)
    (folder / "mine.jsonl").write_bytes(b"".join(rows[:2500]))
    (folder / "other.jsonl").write_bytes(b"".join(rows[2500:5000]))
    search = ("--trials", "8", "--no-random-search", "--no-report")
    result = run(
        "tune",
        *("--trace", f"mooncake:{folder}/mine.jsonl", "--device-blocks", "400", "--host-blocks", "1600"),
        *(*search, "--out", folder),
    )
    assert result.exit_code == 0, result.output
    return folder


def test_tuned_policy_is_verified(folder: Path) -> None:
    """On its own requests the promise holds, every figure the same, and the object says all of it."""
    told = run_json("verify", folder / "policy.yaml", "--trace", f"mooncake:{folder}/mine.jsonl")
    assert told["holds"] is True
    assert told["same_requests"] is True
    assert told["differences"] == []
    assert all(figure["agrees"] for figure in told["figures"])
    assert told["trace_files"] == ["mine.jsonl"]
    assert told["gain_low_frac"] <= told["gain_frac"] <= told["gain_high_frac"]


def test_words_for_a_promise_that_holds(folder: Path) -> None:
    """The table has both columns, the verdict stands in a sentence, and nothing is wider than the terminal."""
    result = run("verify", folder / "policy.yaml", "--trace", f"mooncake:{folder}/mine.jsonl")
    assert result.exit_code == 0
    assert "promised" in result.stdout
    assert "The promise holds: every figure is the same." in result.stdout
    assert max(map(len, result.stdout.splitlines()[1:])) <= 80


def test_recording_of_the_same_requests_is_the_same(folder: Path) -> None:
    """A converted trace keeps the hash of what it was made from."""
    recording = folder / "mine.parquet"
    assert run("trace", "convert", f"mooncake:{folder}/mine.jsonl", "--out", recording).exit_code == 0
    assert run_json("verify", folder / "policy.yaml", "--trace", f"recording:{recording}")["same_requests"] is True


def test_altered_promise_does_not_hold(folder: Path) -> None:
    """One altered digit in the promised cost gives exit status 1 and names the figure."""
    lines = (folder / "policy.yaml").read_text(encoding="utf-8").splitlines()
    altered = [f"{line}1" if line.lstrip().startswith("cost_policy_s:") else line for line in lines]
    altered = [line.replace("cost_policy_s: ", "cost_policy_s: 1") for line in altered]
    (folder / "altered.yaml").write_text("\n".join(altered), encoding="utf-8")
    result = run("verify", folder / "altered.yaml", "--trace", f"mooncake:{folder}/mine.jsonl")
    assert result.exit_code == 1
    assert "The promise does not hold; not as promised: cost of the policy." in " ".join(result.stdout.split())


def test_other_requests_are_labelled(folder: Path) -> None:
    """Other requests are said to be others, and only the lower bound decides about the exit status."""
    arguments = ("verify", folder / "policy.yaml", "--trace", f"mooncake:{folder}/other.jsonl")
    result = run(*arguments)
    told = run_json(*arguments, status=result.exit_code)
    assert "OTHER requests" in result.stdout
    assert told["same_requests"] is False
    assert told["differences"]
    assert told["holds"] is (told["gain_frac"] >= told["gain_low_frac"])
    assert result.exit_code == (0 if told["holds"] else 1)


def test_trace_that_is_not_at_hand_is_asked_for(folder: Path) -> None:
    """Without a trace the error names format, file and hash."""
    assert_refused(run("verify", folder / "policy.yaml"), "--trace mooncake:PATH", "mine.jsonl", "sha256 ")


def test_trace_without_blocks_is_refused(folder: Path) -> None:
    """Arrivals alone cannot verify a cache policy."""
    azure = Path(__file__).parents[1] / "data/traces/azure/AzureLLMInferenceTrace_conv.first300.csv.gz"
    assert_refused(run("verify", folder / "policy.yaml", "--trace", f"azure:{azure}"), "arrivals and lengths only")


def test_policy_without_a_promise_is_refused(tmp_path: Path) -> None:
    """A policy that promises nothing cannot be verified."""
    save(example_document(), tmp_path / "policy.yaml")
    assert_refused(run("verify", tmp_path / "policy.yaml"), "expectation and provenance", "tune")


def test_missing_policy_and_stray_option_are_refused(tmp_path: Path) -> None:
    """A file that is not there, and an option for a trace that is not given, are one line each."""
    assert_refused(run("verify", tmp_path / "none.yaml"), "none.yaml")
    save(example_document(), tmp_path / "policy.yaml")
    assert_refused(run("verify", tmp_path / "policy.yaml", "--option", "seed=1"), "--option belongs to --trace")
