"""The public names of the package, imported when they are first asked for."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import pytest

import autotune

HOMES = {
    "Policy": "autotune.api",
    "Trace": "autotune.core.trace",
    "simulate": "autotune.api",
    "tune": "autotune.api",
}


def test_public_names_are_complete() -> None:
    """The package offers these names and the version, and no other."""
    assert sorted(autotune.__all__) == sorted([*HOMES, "__version__"])


@pytest.mark.parametrize("name", HOMES)
def test_public_name_is_its_homes(name: str) -> None:
    """A public name is the very object of the module that defines it."""
    assert getattr(autotune, name) is getattr(importlib.import_module(HOMES[name]), name)


def test_version_is_the_projects() -> None:
    """The version is the one in pyproject.toml."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert autotune.__version__ == tomllib.loads(text)["project"]["version"]


def test_names_are_listed_before_they_are_loaded() -> None:
    """``dir`` lists the public names, for completion in a shell."""
    assert set(autotune.__all__) <= set(dir(autotune))


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that the package does not have fails as on any module."""
    with pytest.raises(AttributeError, match="no attribute 'tunes'"):
        _ = autotune.tunes
