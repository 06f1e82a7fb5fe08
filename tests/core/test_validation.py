"""Validation messages: the path, the rule, what came instead, and the nearest valid name."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.validation import BrokenRuleError, Strict, nearest, validate


class Cat(Strict):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(Strict):
    kind: Literal["dog"]
    tricks: tuple[str, ...] = ()


class House(Strict):
    animals: tuple[Annotated[Cat | Dog, Field(discriminator="kind")], ...] = ()
    height_m: float = Field(default=1.0, gt=0.0)
    named: str = Field(default="x", alias="name")
    open: bool = False


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"heigth_m": 1}, "heigth_m is not a known name; got 1; did you mean 'height_m'?"),
        ({"named": "y"}, "named is not a known name; got 'y'; did you mean 'name'?"),
        ({"height_m": 0}, "height_m must be greater than 0.0; got 0"),
        ({"height_m": "3"}, "height_m must be a number; got '3'"),
        ({"open": 1}, "open must be true or false; got 1"),
        ({"open": "yes"}, "open must be true or false; got 'yes'"),
        ({"animals": {}}, "animals must be a list; got {}"),
        ({"animals": [{"kind": "cat"}]}, "animals[0].lives must be given"),
        ({"animals": [{"kind": "cat", "lives": 1.5}]}, "animals[0].lives must be a whole number; got 1.5"),
        ({"animals": [{"kind": "cat", "lives": True}]}, "animals[0].lives must be a whole number; got True"),
        ({"animals": [{"kind": "cat", "lives": 10}]}, "animals[0].lives must be at most 9; got 10"),
        ({"animals": [{"kind": "cat", "lives": 1, "live": 1}]}, "animals[0].live is not a known name"),
        ({"animals": [{"kind": "cat", "lives": 1, "cat": 1}]}, "animals[0].cat is not a known name"),
        ({"animals": [{"kind": "cow"}]}, "animals[0] must have as 'kind' one of 'cat', 'dog'; got 'cow'"),
        ({"animals": [{}]}, "animals[0] must have 'kind'"),
        ({"animals": [{"kind": "dog", "tricks": [1]}]}, "animals[0].tricks[0] must be text; got 1"),
        ({"a\nb": 1}, "'a\\nb' is not a known name"),
    ],
)
def test_message(tree: object, message: str) -> None:
    """The first fault is told in one line that starts with the thing and the path to the field."""
    with pytest.raises(ConfigError) as caught:
        validate(House, tree, ConfigError, "house.yaml")
    assert str(caught.value).startswith(f"house.yaml: {message}")
    assert "\n" not in str(caught.value)


def test_further_faults_are_counted() -> None:
    """Of several faults the misspelt name is told first, and the others are counted."""
    with pytest.raises(ConfigError, match=r"lifes is not a known name.*\(2 more after this one\)"):
        validate(House, {"height_m": -1, "animals": [{"kind": "cat", "lifes": 1}]}, ConfigError)


def test_long_values_are_cut() -> None:
    """A huge value does not make a huge message."""
    with pytest.raises(ConfigError) as caught:
        validate(House, {"height_m": "x" * 10_000}, ConfigError)
    assert len(str(caught.value)) < 200


def test_nearest_lists_what_is_known() -> None:
    """A name near none of the known ones still gets the list."""
    assert nearest("zzz", ["b", "a"]) == "known: a, b"
    assert nearest("aples", ["pears", "apples"]) == "did you mean 'apples'? known: apples, pears"


def test_broken_rule_reads_as_one_sentence() -> None:
    """A rule across fields reads the same where a model is built in Python."""
    assert str(BrokenRuleError("a must be b", got=3, remedy="do c")) == "a must be b; got 3; do c"
