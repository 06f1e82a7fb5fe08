"""``kv-autotune diff``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from autotune.cli.app import app
from autotune.core.policy import PolicyDocument
from autotune.export import save
from autotune.testing.documents import example_document


def run(*arguments: str | Path) -> Result:
    """The command with these arguments."""
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["diff", *map(str, arguments)])


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The example policy."""
    return written(example_document(), tmp_path / "before.yaml")


@pytest.fixture
def after(tmp_path: Path) -> Path:
    """The same with another λ, other prices and another model's name."""
    document = example_document()
    assert document.rank.host
    knobs = document.rank.host.model_copy(update={"lambda_recency": 1 / 3})
    prices = document.prices.model_copy(update={"device_s_per_byte": None, "host_s_per_byte": 1.0000000001e-10})
    changed = {
        "rank": document.rank.model_copy(update={"host": knobs}),
        "prices": prices,
        "fingerprint": document.fingerprint.model_copy(update={"model": "another [bold]model[/bold]"}),
    }
    return written(document.model_copy(update=changed), tmp_path / "after.yaml")


def written(document: PolicyDocument, path: Path) -> Path:
    """The file that holds a document."""
    save(document, path)
    return path


def test_changes_are_a_table(before: Path, after: Path) -> None:
    """Each changed value is a row: path, before, after; nothing else is there, and names are not taken for markup."""
    result = run(before, after)
    assert result.exit_code == 0
    assert "4 values changed" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if "." in line.partition(" ")[0]]
    assert ["rank.host.lambda_recency", "0.25", "0.333333"] in rows
    assert ["prices.device_s_per_byte", "3e-10", "null"] in rows
    assert "another [bold]model[/bold]" in result.stdout
    assert "tau_turnovers" not in result.stdout
    assert max(map(len, result.stdout.splitlines()[1:])) <= 80


def test_close_values_are_told_apart(before: Path, after: Path) -> None:
    """Where six figures are equal, all of them are shown."""
    rows = [line.split() for line in run(before, after).stdout.splitlines()]
    assert ["prices.host_s_per_byte", "1.0e-10", "1.0000000001e-10"] in rows


def test_json_has_every_digit(before: Path, after: Path) -> None:
    """The object says that they differ and lists path, before and after with all digits."""
    told = json.loads(run(before, after, "--json").stdout)
    assert told["identical"] is False
    assert {"path": "rank.host.lambda_recency", "before": 0.25, "after": 1 / 3} in told["changes"]
    assert len(told["changes"]) == 4


def test_comments_do_not_count(before: Path, tmp_path: Path) -> None:
    """A file without comments holds the same values, which is said, with exit status 0."""
    lines = before.read_text(encoding="utf-8").splitlines()
    bare = tmp_path / "bare.yaml"
    bare.write_text("\n".join(line for line in lines if not line.lstrip().startswith("#")), encoding="utf-8")
    result = run(before, bare)
    assert (result.exit_code, result.stdout.split()[-4:]) == (0, ["hold", "the", "same", "values"])
    assert json.loads(run(before, bare, "--json").stdout) == {"identical": True, "changes": []}


def test_file_that_is_no_policy_is_refused(before: Path, tmp_path: Path) -> None:
    """One line names the file and the rule, with exit status 2."""
    other = tmp_path / "other.yaml"
    other.write_text("schema: something/else\n", encoding="utf-8")
    for arguments in ((before, other), (before, tmp_path / "missing.yaml")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert str(arguments[1]) in result.stderr
