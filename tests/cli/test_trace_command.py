"""``kv-autotune trace info`` and ``trace convert``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autotune.cli.app import app
from autotune.core.trace import Trace

DATA = Path(__file__).parents[1] / "data" / "traces"
SESSIONS = f"kv-cache-tester:{DATA}/kv-cache-tester/*.json.gz"
ROW = {"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [4, 7]}


def run(*arguments: str) -> Result:
    """The command with these arguments."""
    return CliRunner().invoke(app, ["trace", *arguments])


def run_json(*arguments: str) -> Any:
    """The object that the command prints."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def assert_refused(result: Result, *parts: str) -> None:
    """Exit code 2, nothing on stdout, and one line on stderr that has these parts."""
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def test_info_json_has_the_known_counts() -> None:
    """The bundled conversation trace is described by its golden counts."""
    info = run_json("info", "sample:conversation")
    assert (info["requests"], info["accesses"], info["infinite_hits"]) == (7_218, 180_012, 62_738)
    assert info["unique_blocks"] == 117_274
    assert info["chain_violations"] == 0
    assert info["provenance"]["paths"] == ["conversation"]
    assert set(info["reuse_gap"]) == {"p10_s", "p50_s", "p90_s", "p99_s"}
    assert info["footprint_bytes"] is None


def test_info_says_what_clients_told(tmp_path: Path) -> None:
    """A trace with hints names how many requests have each; the object of one without has null."""
    told = {"kv_autotune": {"session_end": True, "expected_idle_s": 2.5}}
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(ROW | told) + "\n" + json.dumps(ROW | {"timestamp": 1}), "utf-8")
    text = " ".join(run("info", f"mooncake:{path}").stdout.split())
    assert "told of 1 requests, 1 end one" in text
    assert "told of 1 requests, median 2.5 s" in text
    assert run_json("info", f"mooncake:{path}")["hints"]["expected_idle_told"] == 1
    assert run_json("info", "sample:synthetic")["hints"] is None


def test_info_json_is_sorted_and_repeatable() -> None:
    """The same trace gives the same bytes, keys in order of name."""
    first = run("info", "sample:synthetic", "--json").stdout
    assert first == run("info", "sample:synthetic", "--json").stdout
    keys = list(json.loads(first))
    assert keys == sorted(keys)


def test_info_table_shows_the_facts() -> None:
    """The table has requests, blocks, hits and reuse."""
    result = run("info", "sample:synthetic")
    assert result.exit_code == 0
    for part in ("2,395", "60,671", "37,519", "23,152 (38.2 %)", "reuse gap", "hottest 1 %"):
        assert part in result.stdout


def test_info_shows_the_footprint_for_a_model() -> None:
    """117,274 blocks of 512 tokens at 131,072 bytes per token are 7,329.6 GiB."""
    info = run_json("info", "sample:conversation", "--model", "llama-3.1-8b")
    assert info["model"] == "llama-3.1-8b"
    assert info["footprint_bytes"] == 117_274 * 512 * 131_072
    assert "7,329.62 GiB" in run("info", "sample:conversation", "--model", "llama-3.1-8b").stdout


def test_info_of_arrivals_has_no_footprint() -> None:
    """Arrivals are described without blocks, and asking for their footprint is refused."""
    source = f"azure:{DATA}/azure/*.csv.gz"
    assert "arrivals and lengths only" in run("info", source).stdout
    assert_refused(run("info", source, "--model", "llama-3.1-8b"), "arrivals and lengths only")


def test_info_of_several_sources_is_one_stream() -> None:
    """Several sources of one format are described together."""
    names = ("magagent", "miniswe", "taubench")
    info = run_json("info", *(f"lmcache-agent:{DATA}/lmcache-agent/{name}.jsonl.gz" for name in names))
    assert info["requests"] == 6 + 5 + 12
    assert info["provenance"]["options"] == {"sorted_by": "time"}


def test_malformed_rows_fail_or_are_counted(tmp_path: Path) -> None:
    """By default a malformed row ends the command; skipped ones are reported."""
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join([json.dumps(ROW), "{", json.dumps(ROW)]))
    assert_refused(run("info", f"mooncake:{file}"), f"{file}:2: a row must be JSON", "got", "--on-error skip")
    info = run_json("info", f"mooncake:{file}", "--on-error", "skip")
    assert info["provenance"]["skipped_rows"] == {"malformed JSON": 1}
    assert "skipped: malformed JSON" in run("info", f"mooncake:{file}", "--on-error", "skip").stdout


def test_reader_options_are_passed_on() -> None:
    """Options of a format are given by name, and their values get their types."""
    source = f"servegen:{DATA}/servegen/chunk-17-trace.csv.gz"
    info = run_json("info", source, "--option", "seed=3", "--option", "duration-s=60")
    assert info["provenance"]["options"] == {"seed": "3", "duration_s": "60", "start_s": "0"}
    assert_refused(run("info", source, "--option", "sead=3"), "sead", "known: on_error, seed")
    assert_refused(run("info", source, "--option", "seed"), "NAME=VALUE")
    assert_refused(run("info", source, "--option", "seed=soon"), "seed must be an integer", "'soon'")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["info"], "SOURCE"),
        (["info", "sample"], "FORMAT:PATH"),
        (["info", "nothing:t"], "known: adversarial, azure"),
        (["info", "mooncake:no-such-file"], "no match"),
        (["info", "sample:synthetic", "azure:t"], "one format"),
        (["info", "sample:synthetic", "--on-error", "ignore"], "on_error must be"),
        (["info", "sample:synthetic", "--colour"], "--colour"),
        (["convert", "sample:synthetic"], "--out"),
        (["convert", "sample:synthetic", "--out", "t", "--block-tokens", "many"], "--block-tokens"),
        (["convert", "sample:synthetic", "--out", "t", "--block-tokens", "700"], "multiple"),
        (["convert", "sample:synthetic", "--out", "t", "--seed", "1"], "--merge-span-s"),
        (["convert", "sample:synthetic", "--out", "no-such-folder/t"], "can be written"),
        (["convert", SESSIONS, "--out", "t"], "--merge-span-s"),
        (["convert", "t.json", "--out", "t", "--merge-span-s", "9"], "FORMAT:PATH"),
        (["convert", SESSIONS, "--out", "t", "--merge-span-s", "nan"], "merged span"),
        (["confirm"], "confirm"),
    ],
)
def test_bad_input_gets_one_line(arguments: list[str], part: str) -> None:
    """Whatever is wrong with the input, one line on stderr says so and nothing is written."""
    assert_refused(run(*arguments), part)
    assert not Path("t").exists()


def test_convert_writes_an_equal_trace(tmp_path: Path) -> None:
    """A recording holds what its source holds, its provenance included."""
    file = tmp_path / "t.parquet"
    written = run_json("convert", "sample:synthetic", "--out", str(file))
    assert (written["requests"], written["accesses"]) == (2_395, 60_671)
    converted, original = Trace.open(f"recording:{file}"), Trace.open("sample:synthetic")
    assert converted.block_ids.tolist() == original.block_ids.tolist()
    assert converted.provenance == original.provenance


def test_convert_coarsens(tmp_path: Path) -> None:
    """Larger blocks are recorded as such."""
    file = tmp_path / "t.parquet"
    written = run_json("convert", "sample:synthetic", "--out", str(file), "--block-tokens", "1024")
    assert written["block_tokens"] == 1024
    assert written["provenance"]["options"] == {"coarsened_to_tokens": "1024"}
    assert Trace.open(f"recording:{file}").n_accesses == written["accesses"]


def test_convert_merges_sessions(tmp_path: Path) -> None:
    """Each file becomes a session of one stream, the same one that the reader merges by itself."""
    file = tmp_path / "t.parquet"
    options = ["--merge-span-s", "600", "--seed", "5", "--block-tokens", "512"]
    result = run("convert", SESSIONS, "--out", str(file), *options)
    assert result.exit_code == 0
    assert "blocks of 512 tokens" in result.stdout
    merged = Trace.open(f"recording:{file}")
    again = Trace.open(SESSIONS, merge_span_s=600, seed=5, block_tokens=512)
    assert merged.arrival_s.tolist() == again.arrival_s.tolist()
    assert merged.block_ids.tolist() == again.block_ids.tolist()
    assert merged.provenance == again.provenance
    assert dict(merged.provenance.options)["merged_sessions"] == "3"


def test_light_commands_import_nothing_heavy() -> None:
    """Help and ``trace info`` start without the compiler, the search and the plotting libraries."""
    code = (
        "import sys; from typer.testing import CliRunner; from autotune.cli.app import app\n"
        "for arguments in (['--help'], ['trace', 'info', 'sample:synthetic']):\n"
        "    assert CliRunner().invoke(app, arguments).exit_code == 0\n"
        "print(sorted({'numba', 'optuna', 'sklearn', 'plotly', 'pyarrow', 'jinja2', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_installed_command_reports_errors_on_one_line(tmp_path: Path) -> None:
    """The console script exits with 2 and prints one line, without a terminal and in another folder."""
    command = Path(sys.executable).with_name("kv-autotune")
    done = subprocess.run(
        [command, "trace", "info", "mooncake:no-such-file"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"CI": "true"},
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: a path or glob must match at least one file; got no match for 'no-such-file'; check the path\n"
    )
