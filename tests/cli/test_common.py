"""What all commands share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from autotune.cli.app import app, command_names
from autotune.cli.common import CommandGroup, print_json, reader_options
from autotune.core.errors import ConfigError, SimulationError


class _Colour(Enum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class _Inner:
    count: np.int64
    path: Path


def _app(error: Exception) -> typer.Typer:
    application, group = typer.Typer(cls=CommandGroup), typer.Typer()

    @group.command()
    def fail() -> None:
        raise error

    @group.command()
    def succeed() -> None:
        typer.echo("done")

    application.add_typer(group, name="group")
    return application


def test_error_in_a_nested_command_is_one_line() -> None:
    """Rule, got and remedy come out on one line of stderr, whatever line breaks they hold, with exit code 2."""
    error = SimulationError("the load must\nbe stable", got="ρ = 1.2", remedy="add --servers 2")
    result = CliRunner().invoke(_app(error), ["group", "fail"])
    assert result.exit_code == 2
    assert result.stderr == "error: the load must be stable; got ρ = 1.2; add --servers 2\n"


def test_error_of_the_program_is_not_hidden() -> None:
    """Only errors of the user's making become one line."""
    result = CliRunner().invoke(_app(ZeroDivisionError("oops")), ["group", "fail"])
    assert isinstance(result.exception, ZeroDivisionError)
    assert result.exit_code == 1


@pytest.mark.parametrize(("package", "extra"), [("optuna.trial", "tuner"), ("uvicorn", "sidecar"), ("zmq", "sidecar")])
def test_missing_package_names_its_extra(package: str, extra: str) -> None:
    """A package that an extra brings is one line with what to install."""
    result = CliRunner().invoke(_app(ModuleNotFoundError("none", name=package)), ["group", "fail"])
    assert result.exit_code == 2
    assert result.stderr.endswith(f"it is not installed; pip install 'kv-autotune[{extra}]'\n")


def test_success_has_exit_code_zero() -> None:
    """A command that did what was asked exits with 0."""
    result = CliRunner().invoke(_app(ZeroDivisionError()), ["group", "succeed"])
    assert (result.exit_code, result.stdout) == (0, "done\n")


def test_json_of_all_kinds_of_values(capsys: pytest.CaptureFixture[str]) -> None:
    """Dataclasses, NumPy values, enums, paths and tuples become plain JSON with sorted keys."""
    payload = {"z": _Inner(np.int64(3), Path("a")), "a": (np.float64(0.5), _Colour.RED), "m": np.arange(2)}
    print_json(payload)
    text = capsys.readouterr().out
    assert json.loads(text) == {"a": [0.5, "red"], "m": [0, 1], "z": {"count": 3, "path": "a"}}
    assert text.index('"a"') < text.index('"m"') < text.index('"z"')


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan")])
def test_json_has_no_nan(value: float) -> None:
    """NaN and infinity are no JSON and are refused rather than printed."""
    with pytest.raises(ValueError, match="JSON compliant"):
        print_json({"x": value})


def test_reader_options_get_their_types() -> None:
    """Numbers become numbers, all else stays text, and a value may hold equals signs."""
    options = reader_options(["seed=3", "start-s=1.5", "id_column=a=b"], on_error="skip")
    assert options == {"on_error": "skip", "seed": 3, "start_s": 1.5, "id_column": "a=b"}
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        reader_options(["=3"], on_error="fail")


def test_every_command_module_is_registered() -> None:
    """Each module beside the application is a command, and help lists it."""
    assert "trace" in command_names()
    help_text = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f"  {name.replace('_', '-')} " in help_text for name in command_names())


def test_version_is_the_installed_one() -> None:
    """``--version`` prints the version and nothing else."""
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.strip()[0].isdigit()
