"""The command plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autotune.cli.app import app

RUNNER = CliRunner()


def run(*arguments: str, exit_code: int = 0) -> str:
    """Output of a run with these arguments."""
    result = RUNNER.invoke(app, ["plan", *arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


def planned(*arguments: str) -> dict[str, Any]:
    """The JSON object of a plan."""
    found: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return found


def test_kv_of_deepseek_v3() -> None:
    """One sequence of 128K takes 9,210,691,584 bytes."""
    found = planned("--model", "deepseek-v3", "--context", "131072", "--concurrency", "1")
    assert found["kv_bytes"] == 9_210_691_584
    assert found["kv_bytes_per_token"] == 70_272


def test_json_says_what_fits() -> None:
    """Fits, capacities, times, break-even and the product of techniques are all there."""
    found = planned("--model", "llama-3.1-8b", "--context", "8192", "--concurrency", "100", "--resident", "0.5")
    assert found["fits_all"] is False
    assert [c["resident_frac"] for c in found["capacities"]] == ["1", "0.8", "0.5", "0.4", "0.3", "0.2", "0.1", "0"]
    assert found["step"]["transfer_s"] == pytest.approx(50 * 2**30 / 50e9)
    assert found["reload"][0]["break_even_tokens"] >= 1
    assert found["memory"]["host_bytes"] == 50 * 2**30
    product = found["waterfall"]["start_bytes"]
    for step in found["waterfall"]["steps"]:
        product *= step["ratio"]
    assert product == pytest.approx(found["waterfall"]["end_bytes"])


def test_table_is_the_same_plan() -> None:
    """The text says whether it fits, with the remedy, and lists the techniques."""
    text = run("--model", "llama-3.1-70b", "--devices", "4", "--context", "32768", "--concurrency", "40")
    flat = " ".join(text.split())
    assert "Does not fit: all sequences on the device; p 0.2 would fit" in flat
    assert "429,496,729,600 bytes (400 GiB, 429.50 GB)" in flat
    assert "grouped heads (GQA, MQA)" in flat
    assert "sparse reads" in flat


def test_page_has_the_picture(tmp_path: Path) -> None:
    """The page is one file with two plots, their figures in tables, and no request to anywhere."""
    path = tmp_path / "plan.html"
    run("--model", "gemma-3n-e4b", "--context", "32768", "--concurrency", "4", "--out", str(path))
    text = path.read_text(encoding="utf-8")
    assert text.count("data-plot=") == 2
    assert "default-src &#39;none&#39;" in text
    for word in ("grouped heads", "cross-layer sharing", "sliding windows", "What was assumed"):
        assert word in text
    figures = re.findall(r'data-plot="plot-\w+">(.*?)</script>', text)
    sizes = json.loads(figures[0])["data"][0]["x"]
    assert sizes == sorted(sizes, reverse=True)
    again = tmp_path / "again.html"
    run("--model", "gemma-3n-e4b", "--context", "32768", "--concurrency", "4", "--out", str(again))
    assert again.read_text(encoding="utf-8") == text


def test_scenario_gives_the_load() -> None:
    """The load is the scenario's where nothing else is given."""
    found = planned("--scenario", "offline-batch", "--concurrency", "7")
    request = found["request"]
    assert (request["context_tokens"], request["concurrency"], request["resident_frac"]) == (8192, 7, "0.1")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--model", "deepseek-v9"), "did you mean 'deepseek-v3'"),
        (("--kv-dtype", "int3"), "the KV element type must be a known one; got 'int3'"),
        (("--resident", "2"), "p is a number from 0 to 1; got '2'"),
        (("--link-gb-per-s", "0"), "the link's bandwidth must be positive"),
        (("--weights-gib", "-1"), "the size of the weights must be positive"),
        (("--scenario", "chat"), "a scenario is a known name"),
        (("--out", "/nowhere/at/all/plan.html"), "must be writable"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], line: str) -> None:
    """What cannot be planned is one line that says why."""
    output = run(*arguments, exit_code=2)
    assert line in output
    assert output.startswith("error: ")
    assert output.count("\n") == 1


def test_own_config_with_an_index_of_weights(tmp_path: Path) -> None:
    """The weights of a family that is not counted are those of the index beside config.json, or what is given."""
    config = {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_hidden_layers": 4,
        "num_attention_heads": 64,
        "torch_dtype": "bfloat16",
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    assert "--weights-gib" in run("--model", str(path), exit_code=2)
    assert planned("--model", str(path), "--weights-gib", "1")["memory"]["weights_bytes"] == 2**30
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 12345}}), encoding="utf-8")
    found = planned("--model", str(tmp_path))
    assert found["memory"]["weights_bytes"] == 12345
    assert found["step"] is None
