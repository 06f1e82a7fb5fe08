"""The environments of engines' parsers: what is locked, and how they are built."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

import pytest
from engine_parser import ENVIRONMENTS, FOLDER, ROOT

ENGINES = ("deepspeed", "dynamo", "flexgen", "lmcache", "sglang", "transformers")
PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+]+)")


def pins(engine: str) -> dict[str, str]:
    """Version by package, as locked."""
    lines = (FOLDER / f"locks/{engine}.lock.txt").read_text(encoding="utf-8").splitlines()
    entries = [PIN.fullmatch(line) for line in lines if line and not line.startswith("#")]
    assert entries
    assert all(entries)
    return {entry[1]: entry[2] for entry in entries if entry}


def test_every_lock_has_a_runner_and_is_built() -> None:
    """Locks, runners and the list in the Makefile name the same engines, and every lock is exact versions only."""
    assert {path.name.removesuffix(".lock.txt") for path in (FOLDER / "locks").iterdir()} == set(ENGINES)
    assert {path.stem.removeprefix("ask_") for path in (FOLDER / "runners").glob("ask_*.py")} == set(ENGINES)
    listed = re.search(r"^PARSERS \?= ([a-z ]+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed
    assert set(listed[1].split()) == set(ENGINES)
    assert all(pins(engine) for engine in ENGINES)


@pytest.mark.parametrize("engine", [pytest.param(engine, marks=pytest.mark.parser(engine)) for engine in ENGINES])
def test_installed_versions_are_the_locked_ones(engine: str) -> None:
    """An environment has what its lock says, and nothing else of its own."""
    site = next((ENVIRONMENTS / engine / "lib").glob("python3*/site-packages"))
    installed = {found.name.lower().replace("_", "-"): found.version for found in distributions(path=[str(site)])}
    assert installed == pins(engine)


def test_environments_lie_where_git_does_not_look() -> None:
    """They are built beside the project's other environments."""
    assert Path(".venv-parsers").match(".venv-*")
    assert ".venv-*/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
