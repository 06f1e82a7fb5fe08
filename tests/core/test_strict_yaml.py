"""Strict YAML: plain data only, and every trick of the format is refused with the line it stands on."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autotune.core import strict_yaml
from autotune.core.errors import ConfigError, PolicyError
from autotune.core.strict_yaml import parse_mapping, read_text

PARSERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]


@pytest.fixture(params=PARSERS, ids=["python", "c"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers of PyYAML, because an installation may lack the C one."""
    monkeypatch.setattr(strict_yaml, "_LOADER", request.param)


@pytest.mark.usefixtures("parser")
def test_scalars_follow_the_json_like_core() -> None:
    """Numbers, booleans and null are read as in YAML 1.2; what only YAML 1.1 takes for something else stays text."""
    text = "{a: 1, b: -2.5, c: 1e-9, d: true, e: null, f: ~, g: yes, h: '1', i: 010, j: 0x1f, k: 1:30, l: 2020-01-01}"
    assert parse_mapping(text, PolicyError) == {
        "a": 1,
        "b": -2.5,
        "c": 1e-9,
        "d": True,
        "e": None,
        "f": None,
        "g": "yes",
        "h": "1",
        "i": "010",
        "j": "0x1f",
        "k": "1:30",
        "l": "2020-01-01",
    }


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a: &x 1", "anchors and aliases"),
        ("a: *x", "anchors and aliases"),
        ("a: &x [*x]", "anchors and aliases"),
        ("a: !!int 1", "tags"),
        ("a: !!python/object:os.system 1", "tags"),
        ("! a: 1", "tags"),
        ("a: 1\nb: 2\na: 3", "line 3: a key may stand only once"),
        ("a: .nan", "finite"),
        ("a: -.INF", "finite"),
        ("a: 1e999", "finite"),
        ("a: " + "9" * 5000, "at most 40 characters"),
        ("1: 2", "keys must be names"),
        ("? [a]\n: 2", "keys must be names"),
        ("[1, 2]", "one YAML mapping"),
        ("", "one YAML mapping"),
        ("a: 1\n---\nb: 2", "one YAML document"),
        ("a: [1", "valid YAML"),
        ("a: \x00", "valid YAML"),
        ("a: \ud800", "Unicode"),
    ],
)
def test_refusals_name_the_rule(text: str, rule: str) -> None:
    """Each refused feature gives one line that names the broken rule."""
    with pytest.raises(PolicyError, match=rule) as caught:
        parse_mapping(text, PolicyError)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_before_it_grows(opening: str) -> None:
    """A text of nothing but opening brackets is refused, not followed down."""
    with pytest.raises(PolicyError):
        parse_mapping(opening * 100_000, PolicyError)


def test_size_is_checked_before_parsing() -> None:
    """A text over the limit is refused even where it is no YAML at all, and the limit counts bytes, not characters."""
    with pytest.raises(PolicyError, match="at most 10 bytes"):
        parse_mapping("[" * 11, PolicyError, max_bytes=10)
    with pytest.raises(PolicyError, match="at most 10 bytes"):
        parse_mapping("a: éééé", PolicyError, max_bytes=10)
    assert parse_mapping("a: ééé", PolicyError, max_bytes=10) == {"a": "ééé"}


def test_error_class_is_the_callers() -> None:
    """The same fault is a ConfigError for settings and a PolicyError for policies."""
    with pytest.raises(ConfigError):
        parse_mapping("[]", ConfigError)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder, other bytes than UTF-8 and too large a file are errors that name the file's fault."""
    (tmp_path / "latin").write_bytes(b"a: \xe9")
    (tmp_path / "large").write_bytes(b"x" * 11)
    for name, rule in [("missing", "readable"), (".", "readable"), ("latin", "UTF-8"), ("large", "at most 10 bytes")]:
        with pytest.raises(ConfigError, match=rule):
            read_text(tmp_path / name, ConfigError, max_bytes=10)


# PyYAML writes YAML 1.1, in which text such as 0E0 needs no quotes; a letter in front keeps it text in both.
_WORDS = st.text().map("t".__add__)
_NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_WORDS, _VALUES, max_size=4))
def test_json_data_survives(tree: dict[str, object]) -> None:
    """Whatever PyYAML's safe dumper writes of plain data is read back unchanged."""
    assert parse_mapping(yaml.safe_dump(tree), PolicyError) == tree


@given(st.text() | st.text("[]{}:,-?&*!|>'\"%@` \n#ab01.", max_size=60))
def test_arbitrary_text_gives_a_tree_or_one_error(text: str) -> None:
    """No text makes the reader raise anything but the error it was asked to raise."""
    try:
        assert isinstance(parse_mapping(text, PolicyError), dict)
    except PolicyError as error:
        assert "\n" not in str(error)
