"""``kv-autotune simulate``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autotune import api
from autotune.cli.app import app
from autotune.core.registry import POLICIES, names
from autotune.core.trace import Trace
from autotune.export import save
from autotune.testing.documents import example_document

TRACE = ("--trace", "sample:synthetic")
DATA = Path(__file__).parent.parent / "data" / "traces"
KEYS = {
    *("accesses", "device_hit_blocks", "host_hit_blocks", "disk_hit_blocks", "computed_blocks", "prompt_tokens"),
    *("hit_tokens", "recompute_s", "recompute_saved_s", "load_s", "store_exposed_s", "net_seconds_saved"),
    *("stored_bytes", "loaded_bytes", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s"),
}


def run(*arguments: str | Path | float) -> Result:
    """The command with these arguments."""
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["simulate", *map(str, arguments)])


def measured(*arguments: str | Path | float) -> dict[str, Any]:
    """The JSON object that the command prints."""
    result = run(*TRACE, "--json", *arguments)
    assert result.exit_code == 0, result.output
    payload: dict[str, Any] = json.loads(result.stdout)
    return payload


def test_json_has_what_outside_checks_read_and_the_golden_count() -> None:
    """Every promised key is there, and LRU finds the blocks that it must find."""
    payload = measured("--policy", "lru", "--device-blocks", 1000)
    assert payload.keys() >= KEYS
    assert payload["device_hit_blocks"] == 1123
    assert payload["accesses"] == 60671
    assert payload["device_hit_blocks"] + payload["computed_blocks"] == payload["accesses"]


def test_net_seconds_are_saved_less_loads_less_exposed_stores() -> None:
    """The headline figure is the sum of its parts."""
    p = measured("--policy", "arc", "--device-blocks", 500, "--host-blocks", 3000)
    assert p["net_seconds_saved"] == pytest.approx(
        p["recompute_saved_s"] - p["load_s"] - p["store_exposed_s"], rel=1e-12
    )
    assert p["host_hit_blocks"] > 0 < p["load_s"]


@pytest.mark.parametrize("policy", names(POLICIES))
def test_every_registered_policy_runs_on_either_tier(policy: str) -> None:
    """By name, on the host where there is one and on the device where there is none; none beats the clairvoyant."""
    alone = measured("--policy", policy, "--device-blocks", 2000)
    assert (
        alone["device_hit_blocks"] <= measured("--policy", "clairvoyant", "--device-blocks", 2000)["device_hit_blocks"]
    )
    tiered = measured("--policy", policy, "--device-blocks", 500, "--host-blocks", 2000)
    lru = measured("--policy", "lru", "--device-blocks", 500, "--host-blocks", 2000)
    assert tiered["device_hit_blocks"] == lru["device_hit_blocks"]


def test_the_host_may_work_by_the_rules_of_vllm() -> None:
    """Under either name the counts are the API's, on full blocks, and not those of the canonical rules."""
    sizes = ("--policy", "rank", "--device-blocks", 500, "--host-blocks", 2000)
    short, exact = (measured("--engine", name, *sizes) for name in ("vllm", "vllm-0.32"))
    assert short == exact
    assert short["engine"] == "vllm-0.32"
    expected = api.simulate("sample:synthetic", "rank", device_blocks=500, host_blocks=2000, engine="vllm").totals
    canonical = measured("--full-blocks", *sizes)
    assert short["host_hit_blocks"] == expected.host_hit_blocks != canonical["host_hit_blocks"]
    assert short["accesses"] == canonical["accesses"]
    assert canonical["engine"] == "canonical"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "vllm"), "--host-gib or --host-blocks"),
        (("--engine", "vllm", "--host-blocks", "9", "--store", "lazy"), "--store eager"),
        (("--engine", "sglang", "--host-blocks", "9"), "known: vllm, canonical, vllm-0.32"),
    ],
)
def test_an_engine_without_its_tiers_is_refused(arguments: tuple[str, ...], message: str) -> None:
    """One line says which rule broke and what to do."""
    result = run(*TRACE, "--device-blocks", 500, *arguments)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())


def test_the_device_has_its_own_policy() -> None:
    """With a host, --device-policy governs the device."""
    arc = measured("--device-policy", "arc", "--device-blocks", 500, "--host-blocks", 2000)
    alone = measured("--policy", "arc", "--device-blocks", 500)
    assert arc["device_hit_blocks"] == alone["device_hit_blocks"]


def test_measuring_from_a_share_of_time_warms_up_first() -> None:
    """Half the time is half the span, not half the requests; what comes after it counts as in the whole run."""
    trace = Trace.open("sample:synthetic")
    outcome = api.simulate(trace, device_blocks=2000)
    start = trace.first_request_at(trace.span_s / 2)
    expected = outcome.cache.totals(start)
    for text in ("50%", f"{trace.span_s / 2!r}s", repr(trace.span_s / 2)):
        late = measured("--device-blocks", 2000, "--measure-from", text)
        assert late["measured_from_request"] == start != trace.n_requests // 2
        assert (late["accesses"], late["device_hit_blocks"]) == (expected.accesses, expected.device_hit_blocks)
        assert late["recompute_s"] == expected.recompute_s
    assert measured("--device-blocks", 2000, "--measure-from", "0%") == measured("--device-blocks", 2000)


@pytest.mark.parametrize("policy", names(POLICIES))
def test_a_device_of_absurd_size_is_one_that_holds_everything(policy: str) -> None:
    """The largest size that is accepted takes no memory of its own and evicts nothing."""
    largest = measured("--policy", policy, "--device-blocks", 2**31 - 1)
    assert largest["evicted_device_blocks"] == 0
    assert largest["device_hit_blocks"] == (10_424 if policy == "two_hit" else 23_152)


def test_sizes_in_gib_are_sizes_in_blocks() -> None:
    """40 GiB hold 640 blocks of 64 MiB."""
    assert measured("--device-gib", 40)["device_blocks"] == 640


def test_ttft_is_reported_under_a_stable_load_only() -> None:
    """Null with the measured load by default, numbers with enough servers, an error where too few were asked for."""
    unstable = measured("--device-blocks", 500)
    assert unstable["ttft_p50_s"] is None
    assert "load" in unstable["ttft_note"]
    stable = measured("--device-blocks", 500, "--servers", 16)
    assert 0 < stable["ttft_p50_s"] <= stable["ttft_p95_s"] <= stable["ttft_p99_s"]
    refused = run(*TRACE, "--device-blocks", 500, "--servers", 1)
    assert refused.exit_code == 2
    assert "stable load" in refused.stderr


def test_a_policy_file_governs_the_tiers_that_it_declares(tmp_path: Path) -> None:
    """Its ranks apply to the host, and its budgets hold where no others are given."""
    save(example_document(), tmp_path / "policy.yaml")
    payload = measured("--policy", tmp_path / "policy.yaml")
    document = example_document()
    assert payload["device_blocks"] == document.budgets.device_bytes // payload["block_bytes"]
    assert payload["host_blocks"] == document.budgets.host_bytes // payload["block_bytes"]


def test_a_policy_file_for_another_model_is_refused(tmp_path: Path) -> None:
    """Bytes per token must agree."""
    save(example_document(), tmp_path / "policy.yaml")
    result = run(*TRACE, "--policy", tmp_path / "policy.yaml", "--model", "llama-3.1-70b")
    assert result.exit_code == 2
    assert "bytes of KV per token" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "lruu", "--device-blocks", "10"), "did you mean 'lru'"),
        ((), "size of the device's KV cache must be given"),
        (("--device-blocks", "-5"), "at least one block"),
        (("--device-blocks", "0"), "at least one block"),
        (("--device-gib", "nan"), "at least one block"),
        (("--device-gib", "0.00001"), "at least one block"),
        (("--device-gib", "1", "--device-blocks", "10"), "GiB or in blocks"),
        (("--device-blocks", "10", "--host-blocks", "-1"), "a tier holds 0 to"),
        (("--device-blocks", "10", "--disk-blocks", "5"), "disk tier takes what the host evicts"),
        (("--device-blocks", "10", "--measure-from", "150%"), "time within the trace"),
        (("--device-blocks", "10", "--measure-from", "soon"), "time within the trace"),
        (("--device-blocks", "10", "--measure-from", ""), "time within the trace"),
        (("--device-blocks", "10", "--measure-from", "nan"), "time within the trace"),
        (("--device-blocks", "10", "--measure-from", "-5s"), "time within the trace"),
        (("--device-blocks", "10", "--measure-from", "1e9s"), "time within the trace"),
        (("--device-blocks", "10", "--measure-from", "%"), "time within the trace"),
        (("--device-blocks", str(10**30)), "a tier holds 0 to"),
        (("--device-gib", "1e12"), "less than 1e9 GiB"),
        (("--device-gib", "-1"), "at least one block"),
        (("--device-gib", "inf"), "at least one block"),
        (("--device-blocks", "10", "--host-gib", "nan"), "the host must hold"),
        (("--host-blocks", "10"), "size of the device's KV cache must be given"),
        (("--device-blocks", "many"), "--device-blocks"),
        (("--device-blocks", "10", "--link-gb-per-s", "nan"), "must be positive"),
        (("--device-blocks", "10", "--time-scale", "nan"), "time_scale"),
        (("--device-blocks", "10", "--time-scale", "-1"), "time_scale"),
        (("--device-blocks", "10", "--seed", "-1"), "--seed"),
        (("--device-blocks", "10", "--on-error", "ignore"), "on_error"),
        (("--device-blocks", "10", "--option", "seed"), "NAME=VALUE"),
        (("--device-blocks", "10", "--option", "colour=red"), "colour"),
        (("--device-blocks", "10", "--policy", ""), "known: arc"),
        (("--device-blocks", "10", "--policy", "x" * 5000), "known: arc"),
        (("--device-blocks", "10", "--policy", "/" + "x" * 5000), "must be a readable file"),
        (("--device-blocks", "10", "--policy", "/"), "must be a readable file"),
        (("--device-blocks", "10", "--device-policy", "policy.yaml"), "known: arc"),
        (("--device-blocks", "10", "--model", "/etc/hostname"), "/etc/hostname"),
        (("--device-blocks", "10", "--link-gb-per-s", "0"), "must be positive"),
        (("--device-blocks", "10", "--model", "gpt-9"), "gpt-9"),
        (("--device-blocks", "10", "--hardware", "abacus"), "abacus"),
        (("--device-blocks", "10", "--servers", "0"), "at least 1"),
        (("--device-blocks", "10", "--timing", "soon"), "timing"),
        (("--policy", "missing.yaml", "--device-blocks", "10"), "missing.yaml"),
    ],
)
def test_bad_input_gives_one_line_and_code_2(arguments: tuple[str, ...], message: str) -> None:
    """The line names what is wrong; nothing is printed as a result."""
    result = run(*TRACE, *arguments)
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert result.stdout == ""


def test_a_trace_of_arrivals_is_refused() -> None:
    """Cache questions need blocks."""
    azure = DATA / "azure" / "AzureLLMInferenceTrace_conv.first300.csv.gz"
    result = run("--trace", f"azure:{azure}", "--device-blocks", 10)
    assert result.exit_code == 2
    assert "which blocks" in result.stderr


def test_a_trace_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    """Where every row was left out as malformed there is nothing to simulate."""
    (tmp_path / "t.jsonl").write_text("nonsense\n", "utf-8")
    result = run("--trace", f"mooncake:{tmp_path}/t.jsonl", "--on-error", "skip", "--device-blocks", 10)
    assert result.exit_code == 2
    assert "at least one request" in result.stderr


def test_several_files_of_one_namespace_are_one_stream(tmp_path: Path) -> None:
    """Mooncake files given one after the other are the file that they were cut from."""
    rows = [
        json.dumps({"timestamp": 1000 * i, "input_length": 1024, "output_length": 1, "hash_ids": [i % 7, 100 + i % 9]})
        for i in range(60)
    ]
    parts = {"a.jsonl": rows[:25], "b.jsonl": rows[25:], "whole.jsonl": rows}
    for name, part in parts.items():
        (tmp_path / name).write_text("\n".join(part), "utf-8")
    arguments = ("--device-blocks", 40, "--host-blocks", 40, "--json")
    two = run("--trace", f"mooncake:{tmp_path}/a.jsonl", "--trace", f"mooncake:{tmp_path}/b.jsonl", *arguments)
    one = run("--trace", f"mooncake:{tmp_path}/whole.jsonl", *arguments)
    assert two.exit_code == one.exit_code == 0
    assert json.loads(two.stdout) == json.loads(one.stdout)
    assert json.loads(one.stdout)["device_hit_blocks"] > 0


def test_results_go_to_stdout_and_notes_to_stderr() -> None:
    """The table, or one JSON object, is all that stdout holds; why TTFT is missing stands on stderr."""
    result = run(*TRACE, "--policy", "sieve", "--device-blocks", 300)
    assert result.exit_code == 0
    assert "sieve on 2,395 requests" in " ".join(result.stdout.split())
    assert "TTFT" not in result.stdout
    assert result.stderr.startswith("TTFT is not reported: load ")
    as_json = run(*TRACE, "--policy", "sieve", "--device-blocks", 300, "--json")
    assert as_json.stderr == ""
    assert json.loads(as_json.stdout)["policy"] == "sieve"


def test_without_the_tuners_packages_it_says_what_to_install() -> None:
    """On a base installation the command ends in one line that names the package and the extra."""
    code = "import sys; sys.modules['numba'] = None; from autotune.cli import main; main()"
    command = [sys.executable, "-c", code, "simulate", *TRACE, "--device-blocks", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "numba" in done.stderr
    assert "pip install 'kv-autotune[tuner]'" in done.stderr


def test_sessions_without_a_merge_are_refused() -> None:
    """Ids of different session files never mix."""
    files = sorted(DATA.rglob("trace_*.json*"))
    assert len(files) > 1
    sources = [argument for file in files for argument in ("--trace", f"kv-cache-tester:{file}")]
    result = run(*sources, "--device-blocks", 10)
    assert result.exit_code == 2
    assert "merge" in result.stderr
