"""The shortest run that is worth loading."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.break_even import MAX_RUN_TOKENS, break_even_tokens
from autotune.core.costs import CostProfile
from autotune.core.decide.value import load_pays
from autotune.core.errors import ConfigError
from autotune.testing.documents import example_document

COSTS = example_document().costs.profile()


def pays(costs: CostProfile, start_tokens: int, n_tokens: int) -> bool:
    """The decision that an engine makes about one run."""
    n_bytes = n_tokens * costs.kv_bytes_per_token
    return load_pays(
        start_tokens,
        start_tokens + n_tokens,
        costs.prefill_linear_s,
        costs.prefill_quadratic_s,
        n_bytes,
        costs.load_bytes_per_s,
        costs.load_latency_s,
    )


@given(
    link=st.floats(1e8, 1e12), latency_s=st.floats(0.0, 0.1), start=st.integers(0, 200_000), block=st.integers(1, 600)
)
def test_is_the_first_length_that_pays(link: float, latency_s: float, start: int, block: int) -> None:
    """Loading pays at the answer and not one block before it; where there is no answer it does not pay at the end."""
    costs = replace(COSTS, load_bytes_per_s=link, load_latency_s=latency_s)
    answer = break_even_tokens(costs, start, block)
    if answer is None:
        assert not pays(costs, start, MAX_RUN_TOKENS // block * block)
        return
    assert answer % block == 0
    assert pays(costs, start, answer)
    assert answer == block or not pays(costs, start, answer - block)


def test_slow_link_without_attention_never_pays() -> None:
    """A link slower than the linear prefill has no break-even length if attention costs nothing."""
    costs = replace(COSTS, prefill_quadratic_s=0.0, load_bytes_per_s=1e9)
    assert break_even_tokens(costs, 0, 16) is None


def test_deep_runs_pay_earlier() -> None:
    """On a link that short runs do not repay, a run deep in a prompt is worth loading at a smaller length."""
    costs = replace(COSTS, load_bytes_per_s=2.0 * 2**30)
    shallow, deep = break_even_tokens(costs, 0, 16), break_even_tokens(costs, 10_000, 16)
    assert shallow is not None
    assert deep is not None
    assert 16 < deep < shallow


@pytest.mark.parametrize(("start", "block"), [(-1, 1), (0, 0)])
def test_refuses_impossible_runs(start: int, block: int) -> None:
    """A negative start or an empty block is an error."""
    with pytest.raises(ConfigError):
        break_even_tokens(COSTS, start, block)
