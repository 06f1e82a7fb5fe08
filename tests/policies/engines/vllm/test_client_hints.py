"""Hints of clients: what is taken, what is ignored, and that nothing in them can do harm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune_policies.engines.vllm.client_hints import ClientHints, hints_of

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3),
    max_leaves=6,
)


def test_all_hints() -> None:
    """Every hint is taken as it was told."""
    told = {"session_id": "a", "session_end": False, "expected_idle_s": 12, "priority": 3}
    assert hints_of({"kv_autotune": told, "other": 1}) == ClientHints("a", 0, 12.0, 3)


@pytest.mark.parametrize("params", [None, {}, {"session_id": "a"}, "text", 5])
def test_no_hints(params: Any) -> None:
    """Without a mapping of that name nothing is known, and nothing was wrong."""
    assert hints_of(params) == ClientHints()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_id", 5),
        ("session_id", ""),
        ("session_id", "x" * 257),
        ("session_end", 1),
        ("session_end", "true"),
        ("expected_idle_s", -1),
        ("expected_idle_s", float("nan")),
        ("expected_idle_s", 1e12),
        ("expected_idle_s", True),
        ("priority", -1),
        ("priority", 1.0),
        ("priority", 10**9),
    ],
)
def test_a_bad_value_is_ignored_and_named(name: str, value: Any) -> None:
    """The other hints still count."""
    other = "priority" if name != "priority" else "session_end"
    hints = hints_of({"kv_autotune": {name: value, other: {"priority": 2, "session_end": True}[other]}})
    assert hints.ignored == (name,)
    expected = (
        ClientHints(priority=2, ignored=(name,)) if other == "priority" else ClientHints(None, 1, ignored=(name,))
    )
    assert hints == expected


def test_other_names_are_named() -> None:
    """A typing error does not pass in silence."""
    assert hints_of({"kv_autotune": {"session_ends": True}}).ignored == ("unknown names",)
    assert hints_of({"kv_autotune": 3}).ignored == ("kv_autotune",)


@given(ANYTHING)
def test_anything_may_come(value: Any) -> None:
    """Whatever a client sends, hints are within their bounds."""
    names = ("session_id", "session_end", "expected_idle_s", "priority")
    for given_hints in (value, dict.fromkeys(names, value)):
        hints = hints_of({"kv_autotune": given_hints})
        assert hints.session_end in (-1, 0, 1)
        assert hints.expected_idle_s == -1.0 or 0.0 <= hints.expected_idle_s <= 30 * 86_400
        assert -1 <= hints.priority <= 1_000_000
