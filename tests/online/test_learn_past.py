"""One fit on a whole trace, as the loop would have made it at its end."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.api import cost_profile
from autotune.core.trace import Trace
from autotune.costs.reuse import NotEnough
from autotune.online.loop import Learned
from autotune.online.past import learn_past, rules_for
from autotune.online.settings import OnlineSettings
from autotune.sim.config import CacheConfig


@pytest.fixture(scope="module")
def chat() -> Trace:
    """The first 1,500 requests of the conversation sample."""
    return Trace.open("sample:conversation").slice(0, 1500)


def test_the_same_past_teaches_the_same(chat: Trace) -> None:
    """Two fits on the same requests with the same seed are one model, fitted when the past ended."""
    first, second = (learn_past(chat, CacheConfig(300, 1500), cost_profile()[1], OnlineSettings()) for _ in range(2))
    assert isinstance(first, Learned)
    assert isinstance(second, Learned)
    assert first.fitted_at_s == first.in_force_at_s == chat.arrival_s[-1]
    assert first.device_age_s > 0.0 < first.tick_s
    assert np.array_equal(first.model.hazard_per_s, second.model.hazard_per_s)
    assert rules_for(first, 0.5).copy_factor == 0.5


@pytest.mark.parametrize(
    ("engine", "reason"),
    [(CacheConfig(300), "there is no host tier"), (CacheConfig(300, 10**6), "the host is not full yet")],
)
def test_it_says_what_is_missing(chat: Trace, engine: CacheConfig, reason: str) -> None:
    """Without a host, or with one that never fills, nothing is learned."""
    found = learn_past(chat, engine, cost_profile()[1], OnlineSettings())
    assert isinstance(found, NotEnough)
    assert reason in found.reason


def test_a_short_past_teaches_nothing(chat: Trace) -> None:
    """Requests that all came at once are a reason, not a model."""
    found = learn_past(chat.slice(0, 60), CacheConfig(20, 40), cost_profile()[1], OnlineSettings())
    assert isinstance(found, NotEnough)
    assert found.reason == "no time has passed"
