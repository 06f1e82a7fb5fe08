"""Tables of engines' settings."""

from __future__ import annotations

from importlib import resources

import pytest

from autotune.core.errors import ConfigError
from autotune.export.field_table import FieldTable, table
from autotune.export.renderer import Settings

NAMES = sorted(
    path.name.removesuffix(".yaml")
    for path in (resources.files("autotune_configs") / "engines").iterdir()
    if path.name.endswith(".yaml")
)


@pytest.mark.parametrize("name", NAMES)
def test_table_names_engine_version_and_source(name: str) -> None:
    """Every table can be read, is for the engine of its file, and says where it comes from."""
    read = table(name)
    assert read.engine == name
    assert any(sign.isdigit() for sign in read.versions)
    assert "/" in read.source
    assert read.fields


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_values_that_the_table_takes(name: str) -> None:
    """No default breaks its own rule."""
    read = table(name)
    defaults = {key: field.default for key, field in read.fields.items() if field.default is not None}
    assert read.check(dict(defaults)) == defaults


def example() -> FieldTable:
    """A table with a setting of each kind."""
    return FieldTable.model_validate_json(
        """{"engine": "an engine", "versions": "1", "source": "its guide", "fields": {
        "size": {"type": "int", "minimum": 1, "maximum": 9}, "share": {"type": "float", "minimum": 0},
        "mode": {"type": "str", "choices": ["eager", "lazy"]}, "on": {"type": "bool"},
        "path": {"type": "str", "nullable": true}, "old": {"type": "int", "refused": "is gone"}}}"""
    )


def test_good_values_pass() -> None:
    """Values of the right type within their range come back as they are; a whole number is a number."""
    good: Settings = {"size": 9, "share": 2, "mode": "lazy", "on": True, "path": None}
    assert example().check(dict(good)) == good


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sise", 3, r"sise is no setting of an engine 1; got 3; did you mean size\? see its guide"),
        ("size", 0, "size of an engine must be at least 1 and at most 9; got 0"),
        ("size", 10, "at most 9; got 10"),
        ("size", 2.5, "must be of type int; got 2.5"),
        ("size", True, "must be of type int; got True"),
        ("share", -0.1, "must be at least 0; got -0.1"),
        ("mode", "never", "must be one of eager, lazy; got 'never'"),
        ("on", 1, "must be of type bool; got 1"),
        ("size", None, "must not be null"),
        ("old", 1, "old of an engine is gone"),
    ],
)
def test_bad_value_is_refused(name: str, value: object, said: str) -> None:
    """Unknown names, wrong types, values out of range and settings that do nothing are errors."""
    with pytest.raises(ConfigError, match=said):
        example().check({name: value})  # type: ignore[dict-item]
