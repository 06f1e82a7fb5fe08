"""``kv-autotune simulate --policy online``, and the policy file that it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autotune.cli.app import app
from autotune.core.policy import ClassHazardDocument, load
from autotune.core.trace import Trace
from autotune.core.types import RankForm
from autotune.core.units import GB
from autotune.traces.recording import write_recording

SIZES = ("--device-blocks", "300", "--host-blocks", "1500")


def run(command: str, *arguments: str | Path) -> Result:
    """The command with these arguments."""
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [command, *map(str, arguments)])


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first 1,500 requests of the conversation sample as a recording."""
    path = tmp_path_factory.mktemp("trace") / "chat.parquet"
    write_recording(Trace.open("sample:conversation").slice(0, 1500), path)
    return f"recording:{path}"


@pytest.fixture(scope="module")
def written(recording: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A finished run: its folder and its JSON object."""
    out = tmp_path_factory.mktemp("online")
    result = run("simulate", "--trace", recording, "--policy", "online", *SIZES, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    return out, json.loads(result.stdout)


def test_json_tells_the_gains_apart(written: tuple[Path, dict[str, Any]]) -> None:
    """Mode and learning, shadows, arms, fits with their seconds, speed, memory, and what happened are there."""
    _, payload = written
    online = payload["online"]
    assert payload["policy"] == "online"
    assert online["gain"]["mode_frac"] + online["gain"]["learning_frac"] == pytest.approx(online["gain"]["total_frac"])
    assert sum(online["arm_frac"].values()) == pytest.approx(1.0)
    assert online["arm_frac"].keys() == online["shadows"].keys() == {"lru", "hazard", "fixed_key"}
    lru_s = [online[name]["cost_s"] for name in ("stock", "staged", "joint")]
    assert min(lru_s) > payload["cost_s"]
    assert online["gain"]["mode_frac"] == pytest.approx(1.0 - lru_s[2] / lru_s[0])
    assert online["stock"]["cost_s"] > payload["cost_s"]
    assert online["fits"]
    assert all(fit["seconds"] > 0.0 and fit["rows"] > 0 for fit in online["fits"])
    kinds = {happening["kind"] for happening in online["happenings"]}
    assert "fitted" in kinds
    assert kinds & {"hazard", "fixed_key"}
    assert online["accesses_per_s"] > 0.0
    assert online["peak_rss_bytes"] > online["grown_rss_bytes"] >= 0
    assert online["store_mode"] == "lazy"


def test_the_policy_that_it_writes_can_be_used(written: tuple[Path, dict[str, Any]], recording: str) -> None:
    """It simulates, and its promise holds."""
    out, payload = written
    assert payload["policy_path"] == str(out / "policy.yaml")
    assert sorted(path.name for path in out.iterdir()) == ["policy.yaml", "report.html"]
    assert load(out / "policy.yaml").kind == "class_hazard"
    simulated = run("simulate", "--trace", recording, "--policy", out / "policy.yaml", "--json")
    assert simulated.exit_code == 0, simulated.output
    found = json.loads(simulated.stdout)
    assert (found["device_blocks"], found["host_blocks"]) == (300, 1500)
    assert found["net_seconds_saved"] > payload["online"]["stock"]["net_seconds_saved"]
    verified = run("verify", out / "policy.yaml", "--trace", recording)
    assert verified.exit_code == 0, verified.output
    assert "The promise holds" in verified.stdout


def test_the_table_says_what_happened(recording: str) -> None:
    """Every LRU beside the run, the gains apart, fits, speed and memory, and the timeline."""
    result = run("simulate", "--trace", recording, "--policy", "online", *SIZES)
    assert result.exit_code == 0, result.output
    for words in (
        "LRU, eager stores (stock)",
        "LRU, lazy stores (staged)",
        "one LRU over both tiers (joint)",
        "online (live)",
        "its shadow: lru",
        "its shadow: hazard",
        "its shadow: fixed_key",
        "by the store mode",
        "by what was learned",
        "block accesses per second, fits included",
        "peak memory",
        "What happened",
    ):
        assert words in result.stdout, words
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_it_says_why_it_stayed_with_lru(recording: str) -> None:
    """Without a host there is nothing to decide, and the output says so."""
    result = run("simulate", "--trace", recording, "--policy", "online", "--device-blocks", "500")
    assert result.exit_code == 0, result.output
    assert "Nothing was learned: there is no host tier" in " ".join(result.stdout.split())


def test_settings_come_from_a_file(recording: str, tmp_path: Path) -> None:
    """The section online of a settings file reaches the loop."""
    path = tmp_path / "settings.yaml"
    path.write_text("online: {first_fit_requests: 100000, store_mode: eager}\n", "utf-8")
    result = run("simulate", "--trace", recording, "--policy", "online", *SIZES, "--settings", path, "--json")
    assert result.exit_code == 0, result.output
    online = json.loads(result.stdout)["online"]
    assert online["fits"] == []
    assert online["store_mode"] == "eager"


def test_a_write_budget_comes_from_the_command_line(
    recording: str, written: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """It limits what is stored, and stands in the policy that is written, with the burst of the settings."""
    path = tmp_path / "settings.yaml"
    path.write_text("online: {write_burst_s: 60.0}\n", "utf-8")
    arguments = ("--policy", "online", *SIZES, "--settings", path, "--no-report")
    gb_per_s = round(0.7 * written[1]["stored_bytes"] / GB / Trace.open(recording).span_s, 3)
    where = ("--out", tmp_path / "out", "--json")
    result = run("simulate", "--trace", recording, *arguments, "--write-gb-per-s", str(gb_per_s), *where)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["online"]["arm"] in {"hazard", "fixed_key"}
    assert found["stored_bytes"] < written[1]["stored_bytes"]
    budget = load(tmp_path / "out" / "policy.yaml").budgets.host_write
    assert budget is not None
    assert (budget.bytes_per_s, budget.burst_s) == (gb_per_s * GB, 60.0)


def test_a_form_is_learned_and_written(recording: str, tmp_path: Path) -> None:
    """With fixed keys the loop learns, and the document that it leaves says so, has no tick, and has prices of keys."""
    result = run(
        "simulate", "--trace", recording, "--policy", "online", *SIZES, "--form", "fixed_key", "--out", tmp_path
    )
    assert result.exit_code == 0, result.output
    document = load(tmp_path / "policy.yaml")
    assert isinstance(document, ClassHazardDocument)
    section = document.class_hazard
    assert (section.form, section.rerank_s) == (RankForm.FIXED_KEY, None)
    assert section.prices is not None and section.prices.form is RankForm.FIXED_KEY
    told = run("explain", tmp_path / "policy.yaml", "--depth-tokens", "4096", "--frequency", "3")
    assert told.exit_code == 0, told.output
    assert "odds' part" in told.stdout and "the next to leave" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "lru", "--write-gb-per-s", "1"), "--write-gb-per-s belongs to --policy online"),
        (("--policy", "online", "--write-gb-per-s", "-1"), "online.write_bytes_per_s must be at least 0"),
        (("--policy", "lru", "--form", "fixed_key"), "--form belongs to --policy online"),
        (("--policy", "lru", "--out", "x"), "--out belongs to --policy online"),
        (("--policy", "online", "--device-policy", "arc"), "governs the device too"),
        (("--policy", "online", "--engine", "vllm"), "canonical rules"),
        (("--policy", "online", "--out", "/proc/none"), "can be made and written to"),
        (("--policy", "online", "--settings", "none.yaml"), "none.yaml"),
    ],
)
def test_bad_input_gives_one_line(recording: str, arguments: tuple[str, ...], message: str) -> None:
    """The line names what is wrong; nothing is printed as a result."""
    result = run("simulate", "--trace", recording, *SIZES, *arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert result.stdout == ""
