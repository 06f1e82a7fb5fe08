"""``kv-autotune export``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import autotune
from autotune.cli.app import app
from autotune.core.policy import PolicyDocument
from autotune.core.units import GIB
from autotune.export import Flavor, save
from autotune.testing.documents import example_document


def run(*arguments: str | Path) -> Result:
    """The command with these arguments."""
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["export", *map(str, arguments)])


def written(document: PolicyDocument, folder: Path) -> Path:
    """The file that holds a document."""
    save(document, folder / "policy.yaml")
    return folder / "policy.yaml"


@pytest.mark.parametrize("flavor", ["plugin", "stock"])
def test_stdout_is_one_json_object_and_nothing_else(flavor: str, tmp_path: Path) -> None:
    """Stdout is one line that is one object, ready to paste; every note is on stderr."""
    result = run(written(example_document(), tmp_path), "--engine", "vllm", "--flavor", flavor)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    assert json.loads(result.stdout)["kv_connector_extra_config"]["cpu_bytes_to_use"] == 160 * GIB
    assert result.stderr
    assert all(line.startswith("note: ") for line in result.stderr.splitlines())


def test_plugin_is_the_usual_flavor(tmp_path: Path) -> None:
    """Without ``--flavor`` the plug-in's settings come out, with the file's absolute path."""
    policy = written(example_document(), tmp_path)
    config = json.loads(run(policy, "--engine", "vllm").stdout)
    assert config["kv_connector"] == "AutotuneConnector"
    assert config["kv_connector_extra_config"]["policy_file"] == str(policy)


def test_json_has_notes_and_the_same_text(tmp_path: Path) -> None:
    """``--json`` gives settings, their text as printed without it, and the notes; nothing on stderr."""
    policy = written(example_document(), tmp_path)
    plain = run(policy, "--engine", "vllm")
    result = run(policy, "--engine", "vllm", "--json")
    told = json.loads(result.stdout)
    assert result.stderr == ""
    assert told["text"] + "\n" == plain.stdout
    assert told["settings"] == json.loads(plain.stdout)
    assert [f"note: {note}" for note in told["notes"]] == plain.stderr.splitlines()
    assert (told["engine"], told["flavor"], told["option"]) == ("vllm", "plugin", "--kv-transfer-config")


def test_block_size_checks_chunks(tmp_path: Path) -> None:
    """``--block-size`` turns tokens per chunk into blocks, and refuses what does not divide."""
    document = example_document()
    assert document.tiers.host
    host = document.tiers.host.model_copy(update={"chunk_tokens": 64})
    document = document.model_copy(update={"tiers": document.tiers.model_copy(update={"host": host})})
    policy = written(document, tmp_path)
    good = run(policy, "--engine", "vllm", "--block-size", "32")
    assert json.loads(good.stdout)["kv_connector_extra_config"]["blocks_per_chunk"] == 2
    bad = run(policy, "--engine", "vllm", "--block-size", "48")
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert "error: tiers.host.chunk_tokens must be a multiple" in bad.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--engine", "vlm"), "did you mean 'vllm'"),
        ((), "--engine"),
        (("--engine", "vllm", "--flavor", "native"), "'native' is not one of"),
    ],
)
def test_bad_arguments_give_one_line(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Nothing on stdout, one line on stderr, exit status 2."""
    result = run(written(example_document(), tmp_path), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


def test_missing_policy_gives_one_line(tmp_path: Path) -> None:
    """A path without a file is named, and nothing is printed that could be pasted."""
    result = run(tmp_path / "none.yaml", "--engine", "vllm")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "none.yaml" in result.stderr


def test_python_api_gives_the_same(tmp_path: Path) -> None:
    """``Policy.export`` renders what the command prints."""
    policy = written(example_document(), tmp_path)
    export = autotune.Policy.load(policy).export(policy, flavor=Flavor.STOCK)
    assert export.text + "\n" == run(policy, "--engine", "vllm", "--flavor", "stock").stdout


def test_other_engine_prints_its_own_form(tmp_path: Path) -> None:
    """Stdout has the flags of that engine alone; ranks and the folder of the disk tier are used."""
    document = example_document()
    document = document.model_copy(
        update={
            "budgets": document.budgets.model_copy(update={"disk_bytes": 1000 * GIB}),
            "tiers": document.tiers.model_copy(update={"disk": document.tiers.host}),
        }
    )
    options = ("--engine", "sglang", "--ranks", "2", "--disk-dir", tmp_path / "kv cache")
    policy = tmp_path / "policy.yaml"
    save(document.model_copy(update={"rank": document.rank.model_copy(update={"disk": document.rank.host})}), policy)
    plain, told = run(policy, *options), run(policy, *options, "--json")
    assert plain.exit_code == 0, plain.stderr
    words = shlex.split(plain.stdout)
    assert words[words.index("--hicache-size") + 1] == "85"
    assert json.loads(words[-1])["file_storage_path"] == str(tmp_path / "kv cache")
    settings = json.loads(told.stdout)
    assert settings["text"] + "\n" == plain.stdout
    assert settings["settings"]["hicache-size"] == 85
    assert [f"note: {note}" for note in settings["notes"]] == plain.stderr.splitlines()


def test_refusal_leaves_stdout_empty(tmp_path: Path) -> None:
    """A policy that makes no sense for an engine gives one line: rule, got, remedy."""
    document = example_document()
    budgets = document.budgets.model_copy(update={"host_bytes": 20 * GIB})
    result = run(written(document.model_copy(update={"budgets": budgets}), tmp_path), "--engine", "dynamo")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "host tier must be larger than the device tier" in result.stderr
    assert result.stderr.count("\n") == 1
