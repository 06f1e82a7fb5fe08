"""What all commands share: errors on one line, JSON output, progress, and reader options from text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
import typer.core

from autotune.core.errors import AutotuneError, ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

EXIT_BAD_INPUT = 2
# Packages of the extras, as they are imported: without them the light commands still work.
_TUNER = ("cmaes", "jinja2", "numba", "optuna", "plotly", "pyarrow", "sklearn", "sqlalchemy", "zstandard")
_SIDECAR = ("httpx", "msgspec", "prometheus_client", "pynvml", "starlette", "uvicorn", "zmq")
_EXTRAS = {**dict.fromkeys(_TUNER, "tuner"), **dict.fromkeys(_SIDECAR, "sidecar")}

# Typer carries Click inside since 0.26 and used the package before: its own exceptions lead to the right one.
_UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])


@contextmanager
def errors_on_one_line() -> Iterator[None]:
    """Turn an error of the user's making into one line on stderr and exit code 2.

    The line is ``error: rule; got ...; remedy``. Errors that are not the user's making pass through with a traceback.
    """
    try:
        yield
    except AutotuneError as error:
        line = str(error)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        line = f"this command needs the package {error.name}; it is not installed; pip install 'kv-autotune[{extra}]'"
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        line = f"{error.format_message().rstrip('.')}; see --help"  # type: ignore[attr-defined]
    else:
        return
    typer.echo("error: " + " ".join(line.split()), err=True)
    raise typer.Exit(EXIT_BAD_INPUT)


class CommandGroup(typer.core.TyperGroup):
    """Commands whose errors come out on one line, those of parsing the command line included."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the group's own part of the command line."""
        with errors_on_one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Parse the subcommand's part and run it."""
        with errors_on_one_line():
            return super().invoke(ctx)


def print_json(payload: object) -> None:
    """Print one JSON object on stdout: keys sorted, and no NaN or infinity, which are no JSON."""
    typer.echo(json.dumps(_plain(payload), indent=2, sort_keys=True, allow_nan=False))


def stderr_console() -> Console:
    """Console for notes and progress, so that stdout carries results only."""
    from rich.console import Console

    return Console(stderr=True)


def stdout_console() -> Console:
    """Console for results such as tables."""
    from rich.console import Console

    return Console()


@contextmanager
def progress() -> Iterator[Progress]:
    """A progress display on stderr that disappears when done and stays silent where stderr is no terminal."""
    from rich.progress import Progress

    console = stderr_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as display:
        yield display


def reader_options(pairs: Sequence[str], *, on_error: str) -> dict[str, object]:
    """Options for a trace reader from ``NAME=VALUE`` texts; numbers become numbers.

    Args:
        pairs: As given on the command line; dashes in names may stand for underscores.
        on_error: What becomes of malformed rows.

    Raises:
        ConfigError: one is not of that form.
    """
    options: dict[str, object] = {"on_error": on_error}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ConfigError("--option must be NAME=VALUE", got=repr(pair), remedy="for example --option seed=1")
        options[name.replace("-", "_")] = _value(value)
    return options


def _value(text: str) -> object:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _plain(value: Any) -> Any:
    """A value as what ``json`` takes: dataclasses and mappings as objects, NumPy scalars as numbers, paths as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    # NumPy arrays and scalars, recognised by what they can do, so that NumPy need not be imported here.
    return value.tolist() if hasattr(value, "tolist") else value
