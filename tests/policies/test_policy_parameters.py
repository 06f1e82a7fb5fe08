from __future__ import annotations

import math

import pytest

from autotune.core import registry
from autotune.core.errors import PolicyError
from autotune.core.eviction import TierContext
from autotune_policies.parameters import Interval, ParameterisedPolicy


def _kind(name: str) -> type[ParameterisedPolicy]:
    kind: type[ParameterisedPolicy] = registry.load(registry.POLICIES, name)
    return kind


_EVERY_PARAMETER = [
    (name, parameter) for name in registry.names(registry.POLICIES) for parameter in sorted(_kind(name).PARAMETERS)
]


@pytest.mark.parametrize("name", registry.names(registry.POLICIES))
def test_unknown_parameter_names_the_known_ones(name: str) -> None:
    """A misspelt parameter is refused with the list of those that exist."""
    with pytest.raises(PolicyError) as caught:
        _kind(name)(TierContext(4), no_such_parameter=1.0)
    message = str(caught.value)
    assert "'no_such_parameter'" in message
    assert all(parameter in message for parameter in _kind(name).PARAMETERS)
    assert _kind(name).PARAMETERS or "it has no parameters" in message


def test_misspelling_is_put_right() -> None:
    """The nearest known name is offered."""
    with pytest.raises(PolicyError, match="did you mean 'half_life_s'"):
        _kind("rank")(TierContext(4), half_live_s=1.0)


@pytest.mark.parametrize(("name", "parameter"), _EVERY_PARAMETER)
def test_defaults_are_in_range(name: str, parameter: str) -> None:
    """Every parameter has a range, and its default lies in it."""
    kind = _kind(name)
    assert kind.RANGES[parameter].holds(kind.PARAMETERS[parameter])


@pytest.mark.parametrize(("name", "parameter"), _EVERY_PARAMETER)
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_nonsense_is_refused(name: str, parameter: str, value: float) -> None:
    """No parameter takes NaN, infinity or a negative number; the message gives the range and what came."""
    with pytest.raises(PolicyError, match=f"{parameter} of policy {name} must be a .*; got {value!r}"):
        _kind(name)(TierContext(4), **{parameter: value})


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("rank", "lambda_recency", 0.0),
        ("rank", "lambda_recency", 1.0001),
        ("rank", "admission", 0.5),
        ("rank", "admission", 3.0),
        ("lrfu", "half_life_s", 0.0),
        ("s3fifo", "small_frac", 0.0),
        ("s3fifo", "promote_uses", 1.5),
        ("two_hit", "threshold", 0.0),
        ("two_hit", "tracker_blocks", 2.5),
        ("wtinylfu", "window_frac", 1.1),
    ],
)
def test_out_of_range_is_refused(name: str, parameter: str, value: float) -> None:
    """Values just outside the range are refused."""
    with pytest.raises(PolicyError, match=parameter):
        _kind(name)(TierContext(4), **{parameter: value})


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0.0, 1.0, open_low=True), "a number in (0, 1]"),
        (Interval(0.0), "a number in [0, ∞)"),
        (Interval(1, 14, whole=True), "a whole number in [1, 14]"),
    ],
)
def test_interval_reads_as_mathematics(interval: Interval, text: str) -> None:
    """A range prints with the bracket that tells whether its end belongs to it."""
    assert str(interval) == text
