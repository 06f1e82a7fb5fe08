"""Seconds of prefill as the scheduler's steps show them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from autotune.core.units import NS_PER_S
from autotune_policies.engines.vllm.prefills import PrefillTimes


class Steps:
    """A scheduler's steps at times of the test's choosing."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.requests: dict[str, Any] = {}
        self.times = PrefillTimes(lambda: round(self.now_s * NS_PER_S))

    def step(self, at_s: float, scheduled: dict[str, int]) -> None:
        """One step: requests that were not there before are new."""
        self.now_s = at_s
        new = [SimpleNamespace(req_id=name) for name in scheduled if name not in self.requests]
        for name in scheduled:
            fresh = SimpleNamespace(request_id=name, num_output_tokens=0, num_preemptions=0)
            self.requests.setdefault(name, fresh)
        output = SimpleNamespace(
            scheduled_new_reqs=new, num_scheduled_tokens=scheduled, total_num_scheduled_tokens=sum(scheduled.values())
        )
        self.times.step(output, self.requests.get)

    def take(self, name: str, at_s: float) -> float:
        """The request ends."""
        self.now_s = at_s
        return self.times.take(self.requests[name])


def test_alone_it_is_the_time_to_the_first_token() -> None:
    """From its first step to the step after which its first token is there, however long it decodes."""
    steps = Steps()
    steps.step(1.0, {"a": 100})
    steps.requests["a"].num_output_tokens = 1
    steps.step(1.5, {"a": 1})
    steps.step(9.0, {"a": 1})
    assert steps.take("a", 10.0) == pytest.approx(0.5)
    assert steps.take("a", 11.0) == 0.0


def test_one_token_is_seen_at_the_end() -> None:
    """A request of one token ends with its prefill, without a further step."""
    steps = Steps()
    steps.step(1.0, {"a": 100})
    steps.requests["a"].num_output_tokens = 1
    assert steps.take("a", 1.25) == pytest.approx(0.25)


def test_steps_are_divided_by_tokens() -> None:
    """Two prompts in one step share its time; a prompt in two steps has both."""
    steps = Steps()
    steps.step(0.0, {"a": 300, "b": 100})
    steps.requests["a"].num_output_tokens = 1
    steps.step(0.4, {"a": 1, "b": 99})
    steps.requests["b"].num_output_tokens = 1
    steps.step(0.6, {"a": 1, "b": 1})
    assert steps.take("a", 1.0) == pytest.approx(0.3)
    assert steps.take("b", 1.0) == pytest.approx(0.6 * 199 / 500)


def test_a_token_scheduled_ahead_is_no_token_yet() -> None:
    """An engine that schedules the next step before the last has ended does not shorten the prefill."""
    steps = Steps()
    steps.step(0.0, {"a": 400})
    steps.step(0.001, {"a": 0})
    steps.requests["a"].num_output_tokens = 1
    steps.step(0.5, {"a": 1})
    assert steps.take("a", 1.0) == pytest.approx(0.5)


def test_what_is_not_known_is_zero() -> None:
    """Aborted before its first token, preempted, or never seen: no seconds are claimed."""
    steps = Steps()
    steps.step(0.0, {"a": 10, "b": 10})
    assert steps.take("a", 1.0) == 0.0
    steps.requests["b"].num_output_tokens = 3
    steps.requests["b"].num_preemptions = 1
    assert steps.take("b", 1.0) == 0.0
    never = SimpleNamespace(request_id="c", num_output_tokens=1, num_preemptions=0)
    assert steps.times.take(never) == 0.0
