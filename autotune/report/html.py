"""What all pages share: templates that escape, scripts and styles inside, and a policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from autotune.core.errors import ConfigError
from autotune.core.files import write_atomically
from autotune.report.formats import printable
from autotune.report.sentences import as_sentence

_TEMPLATES = "templates"


def environment() -> Environment:
    """Templates in which everything is escaped and nothing is undefined."""
    found = Environment(
        loader=PackageLoader("autotune.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["sentence"] = as_sentence
    found.filters["printable"] = printable
    found.filters["unbroken"] = _unbroken
    return found


def _unbroken(text: str) -> str:
    """The text with every number on one line with its unit."""
    return re.sub(r"(?<=[0-9]) (?=[^0-9\s])", "\N{NO-BREAK SPACE}", text)


def packaged_text(name: str) -> str:
    """A script or a style sheet of the package."""
    return (files("autotune.report") / _TEMPLATES / name).read_text("utf-8")


def security_policy(*scripts: str) -> str:
    """What the page may do: run these scripts and style itself."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def save_page(text: str, path: Path) -> None:
    """Write a page so that a reader sees the old file or the new one, never a part of it.

    Raises:
        ConfigError: the file cannot be written; the old one, if any, is untouched.
    """
    try:
        write_atomically(path, text)
    except OSError as problem:
        raise ConfigError(
            f"{path} must be writable", got=problem.strerror or problem, remedy="give another folder with --out"
        ) from problem
