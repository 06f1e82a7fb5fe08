"""Predicted and measured hits in the same units."""

from __future__ import annotations

from dataclasses import replace

import pytest
from metrics_page import EngineCounters
from prediction import Pools, measured, predicted, same_tokens
from replay import Answer, Replay
from scaled_trace import CutSettings, cut

from autotune.core.costs import CostProfile
from autotune.core.policy import RankDocument
from autotune.core.trace import Trace
from autotune.testing.documents import example_document

COSTS = CostProfile(4e-5, 7e-8, 2048, 4.5e8, 2.5e-4, 4.5e8, 2.5e-4, 1e9, 0.0, 0.0, "an example")
POOLS = Pools(device_blocks=72, host_blocks=180)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The usual cut."""
    return cut(Trace.open("sample:conversation"), CutSettings())


def rank_document() -> RankDocument:
    """The rank rule for the tiny model, with little weight on recency."""
    document = example_document()
    assert document.rank.host
    changes = {"lambda_recency": 0.1, "tau_turnovers": 1.0, "turnover_s": 2.0}
    knobs = document.rank.host.model_copy(update=changes)
    return document.model_copy(update={"rank": document.rank.model_copy(update={"host": knobs})})


def answer(*tokens: int, cached: int = 0) -> Answer:
    """An answer with these tokens."""
    return Answer(tuple(tokens), 0.1, 0.2, cached)


def test_stock_policies_of_the_engine_are_known(trace: Trace) -> None:
    """LRU and vLLM's ARC are predicted by name; their shares lie in between nothing and all, and device hits agree."""
    lru, arc = (predicted(trace, name, POOLS, COSTS, 0.01, 0) for name in ("lru", "vllm_arc"))
    assert 0.0 < lru.host_frac < lru.hit_frac < 1.0
    assert lru.device_frac == pytest.approx(arc.device_frac, abs=0.01)
    assert lru != arc


def test_rank_rule_is_predicted_to_gain(trace: Trace) -> None:
    """On the cut, a rule that looks at frequency finds more on the host than LRU and than ARC."""
    ours = predicted(trace, rank_document(), POOLS, COSTS, 0.01, 0)
    for name in ("lru", "vllm_arc"):
        assert ours.host_frac > predicted(trace, name, POOLS, COSTS, 0.01, 0).host_frac + 0.03


def test_later_part_counts_its_own_requests(trace: Trace) -> None:
    """With all requests in the later part its share is the whole share."""
    fracs = predicted(trace, "lru", POOLS, COSTS, 0.01, 0)
    assert fracs.later_frac == pytest.approx(fracs.hit_frac)


def test_measured_shares_are_of_all_prompt_tokens(trace: Trace) -> None:
    """Counters are divided by the tokens of the trace, cached tokens of the later part by those of its requests."""
    short = trace.slice(0, 4)
    total, last = int(short.input_tokens.sum()), int(short.input_tokens[3])
    answers = (answer(1), answer(2), answer(3), answer(4, cached=last // 2))
    fracs = measured(short, Replay(answers, EngineCounters(device_tokens=total / 8, host_tokens=total / 4)), 3)
    assert (fracs.device_frac, fracs.host_frac) == (0.125, 0.25)
    assert fracs.later_frac == (last // 2) / last


def test_one_other_token_is_noticed() -> None:
    """Replays are equal only if every token of every request is."""
    one = Replay((answer(1, 2), answer(3)), EngineCounters())
    assert same_tokens([one, one, one])
    assert same_tokens([one])
    assert not same_tokens([one, one, replace(one, answers=(answer(1, 2), answer(4)))])
