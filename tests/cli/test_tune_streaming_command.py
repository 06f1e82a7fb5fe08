"""``tune --engine transformers`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autotune.cli.app import app

RUNNER = CliRunner()


def error_of(*arguments: str) -> str:
    """The one line on stderr of a refused command."""
    result = RUNNER.invoke(app, ["tune", "--engine", "transformers", *arguments])
    assert result.exit_code == 2
    return result.stderr.strip()


@pytest.mark.parametrize(
    "arguments",
    [["--trace", "sample:conversation"], ["--host-gib", "4"], ["--sampler", "random"], ["--no-random-search"]],
)
def test_options_of_traces_are_refused(arguments: list[str]) -> None:
    """What has no meaning for a generation on one device is not silently ignored."""
    assert f"got {arguments[0].replace('--no-', '--')}; leave them out" in error_of(*arguments)


def test_options_of_generations_are_refused_with_traces() -> None:
    """And the other way round."""
    result = RUNNER.invoke(app, ["tune", "--trace", "sample:conversation", "--max-batch", "2"])
    assert result.exit_code == 2
    assert "got --max-batch; leave them out" in result.stderr


@pytest.mark.parametrize("option", ["--device-gib", "--simulated-link-gib-s"])
def test_sizes_and_paces_are_positive(option: str) -> None:
    """Zero and less are refused before a model is opened."""
    assert f"{option} is a positive number" in error_of(option, "0")


def test_tuning_on_a_trace_still_needs_one() -> None:
    """Without an engine of its own, the command asks for a trace."""
    result = RUNNER.invoke(app, ["tune"])
    assert result.exit_code == 2
    assert "needs --trace" in result.stderr


@pytest.mark.engine("torch", "transformers", "optuna")
def test_a_model_that_is_not_there_is_refused() -> None:
    """A name is no model: the message asks for a path."""
    assert "give the path" in error_of("--model", "llama-3.1-8b")


@pytest.mark.engine("torch", "transformers", "optuna")
def test_a_real_model_is_tuned(tmp_path: Path) -> None:
    """A small random model is tuned on a simulated link: policy and report are written, and predictions have errors."""
    from transformers import LlamaConfig

    LlamaConfig(
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=64,
        max_position_embeddings=128,
    ).save_pretrained(tmp_path / "model")
    arguments = ["--model", str(tmp_path / "model"), "--simulated-link-gib-s", "0.01", "--prompt-tokens", "48"]
    arguments += ["--trials", "5", "--max-batch", "2", "--out", str(tmp_path / "out"), "--json"]
    result = RUNNER.invoke(app, ["tune", "--engine", "transformers", *arguments])
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    budget = found["budget_bytes"]
    assert budget == 4 * 60 * 2 * 2 * 4 * 16 * 4 // 2
    for row in found["rows"]:
        assert row["device_bytes"] <= row["planned_bytes"] <= budget
        assert row["peak_slots"] <= 1 + row["setting"]["prefetch_depth"]
    fixed, native = found["comparisons"]
    assert fixed["chosen_token_s"] <= fixed["token_s"]
    assert native["token_s"] or "does not run on cpu" in native["note"]
    assert "streaming:" in (tmp_path / "out/policy.yaml").read_text("utf-8")
    assert (tmp_path / "out/report.html").exists()
