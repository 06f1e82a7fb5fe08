"""The table of the live demo says what was promised, what came, and whether that is near enough."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from live_table import Scene, sentences, show
from metrics_page import EngineCounters
from rich.console import Console

from autotune.daemon.status import Prediction


def promise(signal: str, predicted: float) -> Prediction:
    """A promise with bounds of a tenth."""
    return Prediction(signal=signal, predicted=predicted, low=0.9 * predicted, high=1.1 * predicted, observed=None)


def scene(host_tokens: float, ttft_s: float) -> Scene:
    """A thousand prompt tokens in ten requests, 100 of them on the device; 40 % of hits and 50 ms were promised."""
    counters = EngineCounters(
        device_tokens=100.0,
        host_tokens=host_tokens,
        computed_tokens=900.0 - host_tokens,
        first_tokens=10.0,
        first_token_s=10.0 * ttft_s,
    )
    promises = (promise("device_hit_frac", 0.1), promise("host_hit_frac", 0.3), promise("ttft_mean_s", 0.05))
    return Scene("long chats", "policy abc", counters, promises)


@pytest.mark.parametrize(
    ("host_tokens", "ttft_s", "kept"), [(300.0, 0.05, 2), (319.0, 0.057, 2), (321.0, 0.05, 1), (300.0, 0.06, 1)]
)
def test_promises_are_held_against_what_was_counted(host_tokens: float, ttft_s: float, kept: int) -> None:
    """Two points of hit rate and 15 % of the mean TTFT are near enough, more is not."""
    text = next(sentences([scene(host_tokens, ttft_s)]))
    assert text.startswith(f"{kept} of 2 predictions came true")


def test_what_times_are_predicted_for_is_said_where_there_are_any() -> None:
    """The sentence about the machine's speed stands beside promises of times, and beside no others."""
    told = list(sentences([scene(300.0, 0.05)]))
    assert len(told) == 2 and "as fast as it was" in told[1]
    shares = replace(scene(300.0, 0.05), predictions=scene(300.0, 0.05).predictions[:2])
    assert len(list(sentences([shares]))) == 1


def test_the_tables_name_loads_policies_and_figures() -> None:
    """Every stretch has a row with its shares and times; one without a promise is in the first table alone."""
    stream = io.StringIO()
    bare = Scene("quick chats", "LRU", EngineCounters(device_tokens=1.0, computed_tokens=1.0, first_tokens=1.0))
    show(Console(file=stream, width=120), [bare, scene(300.0, 0.05)])
    text = stream.getvalue()
    assert "10.0 %" in text and "30.0 %" in text and "50 ms" in text
    assert text.count("quick chats") == 1
    assert text.count("long chats") == 3
