"""The command advise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from autotune.cli.app import app

RUNNER = CliRunner()


def run(*arguments: str, exit_code: int = 0, trace: str = "sample:conversation") -> str:
    """Output of a run with these arguments."""
    result = RUNNER.invoke(app, ["advise", "--trace", trace, *arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


def test_json_has_findings_and_all_techniques() -> None:
    """Findings carry evidence, and every technique an answer, a reason and a risk."""
    found: dict[str, Any] = json.loads(run("--device-gib", "40", "--json"))
    advice = found["advice"]
    assert "running requests" in [finding["pressure"] for finding in advice["findings"]]
    assert len(advice["techniques"]) == 12
    assert all(row["because"] and row["risk"] for row in advice["techniques"])
    assert found["classes"] == []


def test_text_says_what_is_short() -> None:
    """The text begins with what is short and why."""
    text = " ".join(run("--device-gib", "40").split())
    assert text.startswith("Short: running requests (running requests hold")
    assert "idle blocks (blocks are evicted before they come back" in text
    assert "Note: an engine allocates its pool" in text


def test_classes_of_a_scenario_are_judged() -> None:
    """Each class of the scenario has its own target and share."""
    found: dict[str, Any] = json.loads(run("--scenario", "multi-tenant-qos", "--host-gib", "160", "--json"))
    assert [each["name"] for each in found["classes"]] == ["interactive", "documents"]
    assert sum(each["requests"] for each in found["classes"]) == 7218
    text = run("--scenario", "multi-tenant-qos", "--host-gib", "160")
    assert "Class interactive: " in text


def test_latent_models_are_understood_and_hybrids_refused() -> None:
    """DeepSeek-V3's tokens all cost the same; a hybrid's do not, which is said with the command that can plan it."""
    found: dict[str, Any] = json.loads(run("--model", "deepseek-v3", "--device-gib", "100", "--json"))
    assert found["advice"]["observations"]["footprint_bytes"] % 70_272 == 0
    output = run("--model", "jamba-v0.1", exit_code=2)
    assert "every token costs the same" in output
    assert "kv-autotune plan" in output


def test_a_time_in_the_system_prompt_is_found(tmp_path: Path) -> None:
    """Prompts of 400 tokens that are equal but for token 40: the block is named, and the advice is to move it."""
    path = tmp_path / "clock.jsonl"
    rows = []
    for request in range(60):
        tokens = [*range(40), 50_000 + request, *range(41, 400)]
        rows.append({"arrival_time_ns": request * 10**9, "input_tok_ids": tokens, "output_toks": 10})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found: dict[str, Any] = json.loads(run("--json", trace=f"token-ids:{path}"))
    (place,) = found["advice"]["observations"]["places"]
    assert (place["block"], place["tokens"], place["request_frac"]) == (2, 32, 1.0)
    first = found["advice"]["techniques"][0]
    assert (first["technique"], first["answer"]) == ("prefix sharing", "first")
    assert "diverge at token 32" in first["because"]


def test_page_of_a_running_engine(tmp_path: Path) -> None:
    """A page of no engine, both sources at once and none at all are one line each."""
    page = tmp_path / "metrics.prom"
    page.write_text("up 1\n", encoding="utf-8")
    for arguments, line in (
        (["--metrics", str(page)], "must come from an engine that is known here"),
        (["--metrics", str(page), "--trace", "sample:conversation"], "either --trace or --metrics; got both"),
        ([], "either --trace or --metrics; got neither"),
        (["--trace", "sample:conversation", "--policy", "p.yaml"], "--policy serves the classes of a scenario"),
    ):
        result = RUNNER.invoke(app, ["advise", *arguments])
        assert result.exit_code == 2
        assert line in result.output


def test_page_from_stdin() -> None:
    """The page may come through a pipe."""
    series = ("num_requests_waiting", "num_preemptions_total", "prefix_cache_queries_total", "prefix_cache_hits_total")
    sums = ("request_prompt_tokens_count", "request_prompt_tokens_sum", "request_generation_tokens_sum")
    page = "".join(f"vllm:{name} 3\n" for name in (*series, *sums)) + "vllm:kv_cache_usage_perc 0.5\n"
    result = RUNNER.invoke(app, ["advise", "--metrics", "-", "--device-gib", "10", "--json"], input=page)
    assert result.exit_code == 0, result.output
    advice = json.loads(result.output)["advice"]
    assert advice["observations"]["running_bytes"] == 5 * 2**30
    assert advice["findings"][0]["evidence"] == "6 requests were preempted or wait for space"
