"""A learned policy on a real scheduler: what is told of requests, who leaves, and that nothing else changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_harness import SchedulerHarness, drive, prompt
from scheduler_setup import HarnessConfig

from autotune.core.decide import features as f
from autotune.core.policy import WriteBudget, load
from autotune.core.types import Admission, StoreMode

pytestmark = pytest.mark.engine("vllm")

LEARNED = Path(__file__).parents[3] / "data" / "policies" / "learned_conversation.yaml"
OURS = HarnessConfig(
    connector="AutotuneConnector",
    connector_module="autotune_policies.engines.vllm.connector",
    device_blocks=41,
    host_chunks=40,
    max_batched_tokens=12,
    max_requests=2,
    extra=(
        ("spec_name", "AutotuneOffloadingSpec"),
        ("spec_module_path", "autotune_policies.engines.vllm.spec"),
    ),
)


def document(store_mode: StoreMode, **section: Any) -> Any:
    """The learned policy of the bundled sample, in some store mode."""
    learned: Any = load(LEARNED)
    host = learned.tiers.host.model_copy(update={"store_mode": store_mode, "admission": Admission.MARGINAL})
    return learned.model_copy(
        update={
            "tiers": learned.tiers.model_copy(update={"host": host}),
            "class_hazard": learned.class_hazard.model_copy(update=section),
        }
    )


def put_in_force(harness: SchedulerHarness, policy: Any) -> None:
    """What a manager does with a file that it has read."""
    from autotune_policies.engines.live.rules import HostRules
    from autotune_policies.engines.vllm.device import DeviceRules

    manager, rules = harness.manager, HostRules.of(policy)
    manager._device_rules = DeviceRules.of(policy)
    manager._past.follow(rules, manager._device_rules.ranks, manager.index)
    manager._writes.obey(rules.host_write, manager._now_ns())
    manager.index.begin_swap(rules, manager._now_ns())
    manager.index.finish_swap()
    harness.connector._ours.follow_policy()


def learned_harness(store_mode: StoreMode = StoreMode.LAZY, *, section: Any = None, **sizes: Any) -> SchedulerHarness:
    """An engine that obeys it."""
    harness = SchedulerHarness(replace(OURS, **sizes))
    put_in_force(harness, document(store_mode, **(section or {"rerank_s": 1e-3})))
    return harness


@contextmanager
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Listen to our logger, whether or not the engine's own configuration lets records through."""
    logger = logging.getLogger("vllm.kv_autotune")
    logger.addHandler(caplog.handler)
    try:
        yield
    finally:
        logger.removeHandler(caplog.handler)


def times_said(caplog: pytest.LogCaptureFixture, words: str) -> int:
    """How many records have these words; one may have been heard twice."""
    return len({id(record) for record in caplog.records if words in record.getMessage()})


def serve(harness: SchedulerHarness, tokens: list[int], max_tokens: int = 1, **attributes: Any) -> Any:
    """Serve one request to its end; returns the last run that it made."""
    harness.add(tokens, max_tokens, **attributes)
    harness.drain()
    return harness.manager.past.last_run


def test_what_the_engine_knows_of_a_request_is_among_its_features() -> None:
    """Tokens, the reason of the end, and the hints of the client reach the model."""
    harness = learned_harness()
    hints = {"kv_autotune": {"session_end": True, "expected_idle_s": 30, "priority": 7}}
    row = serve(harness, prompt((1, 1), 22), 5, kv_transfer_params=hints).features
    assert row[f.REQUEST_TOKENS] == 22
    assert row[f.RUN_TOKENS] == 20
    assert row[f.OUTPUT_TOKENS] == 5
    assert row[f.STOP_CODE] == 1  # length
    assert (row[f.SESSION_END], row[f.EXPECTED_IDLE_S], row[f.PRIORITY]) == (1, 30, 7)
    row = serve(harness, prompt((1, 1), 26)).features
    assert (row[f.SESSION_END], row[f.EXPECTED_IDLE_S], row[f.PRIORITY]) == (-1, -1, -1)
    assert row[f.TURN] == 1
    assert row[f.GROWTH_TOKENS] == 4


def test_bad_hints_are_ignored_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """The request is served as without hints."""
    harness = learned_harness()
    with heard(caplog):
        for number in range(3):
            hints = {"kv_autotune": {"session_end": "yes", "priority": 3}}
            row = serve(harness, prompt((number, 1), 20), kv_transfer_params=hints).features
            assert (row[f.SESSION_END], row[f.PRIORITY]) == (-1, 3)
    assert times_said(caplog, "hints that cannot be used are ignored (session_end); see docs/hints.md") == 1


def test_generated_chunks_stand_in_the_run_of_their_prompt() -> None:
    """What a request generated is ranked with the end of its prompt until another prompt holds it."""
    harness = learned_harness()
    run = serve(harness, prompt((1, 1), 20), 9)
    cached = [bytes(block.block_hash) for block in harness.pool.blocks if block.block_hash is not None]
    assert len(cached) == 7
    assert {harness.manager.past.run_of(key) for key in cached} == {run}


def test_with_eager_stores_copies_count_as_much_as_others() -> None:
    """There every chunk is a copy when it comes, so the factor on copies changes nothing of what the host keeps."""
    kept = []
    for factor in (0.0, 1.0):
        harness = learned_harness(
            StoreMode.EAGER,
            section={"copy_factor": factor, "rerank_s": 1e6, "device_age_s": 0.0},
            device_blocks=24,
            host_chunks=30,
        )
        for number in range(14):
            serve(harness, prompt((number, 1), 20))
        kept.append(list(harness.manager.index.residents))
    assert kept[0] == kept[1]


def test_marginal_admission_stores_less_than_all_that_the_device_gives_up() -> None:
    """Under a lazy store a block of known class comes in only where it outranks the one that would go."""
    harness = learned_harness(host_chunks=20)
    for number in range(40):
        serve(harness, prompt((number % 13, number % 3), 20))
    assert 0 < harness.counts.stored_blocks < 40 * 5
    assert harness.manager.counters.fallbacks == 0
    assert not harness.connector._is_stock
    harness.check_at_rest()


@pytest.mark.parametrize("store_mode", [StoreMode.LAZY, StoreMode.EAGER])
def test_a_write_budget_bounds_what_the_device_hands_down(store_mode: StoreMode) -> None:
    """Under a budget of next to nothing no chunk is stored, the budget is the reason, and all requests are served."""
    policy = document(store_mode, rerank_s=1e-3)
    tiny = policy.budgets.model_copy(update={"host_write": WriteBudget(bytes_per_s=1e-6, burst_s=3600.0)})
    stored = []
    for one in (policy, policy.model_copy(update={"budgets": tiny})):
        harness = SchedulerHarness(replace(OURS, host_chunks=20))
        put_in_force(harness, one)
        for number in range(20):
            serve(harness, prompt((number, 1), 20))
        stored.append(harness.counts.stored_blocks)
        assert harness.manager.index.writes.refused == (one is not policy)
        assert harness.manager.counters.fallbacks == 0
        harness.check_at_rest()
    assert stored[0] > 20
    assert stored[1] == 0


def test_what_is_saved_up_is_not_written_behind_a_gap() -> None:
    """A prompt that is computed in parts is stored up to where the budget ended once, as more could not be loaded."""
    harness, now_ns = learned_harness(StoreMode.EAGER, section={"rerank_s": 1e6}), [10**12]
    manager: Any = harness.manager
    manager._now_ns = manager._ordered._now_ns = lambda: now_ns[0]
    manager._writes.obey(WriteBudget(bytes_per_s=manager._writes._chunk_bytes, burst_s=60.0), now_ns[0])
    manager.get_stats = lambda: None  # so that nothing is counted from zero again
    now_ns[0] += int(2.5e9)
    harness.add(prompt((1, 1), 36), 1)
    for _ in range(8):
        harness.step()
        now_ns[0] += int(1.2e9)
    assert sorted(resident.depth for resident in manager.index.residents.values()) == [0, 1, 2]
    counted = {reason: n for reason, n in manager.counters.refusals.items() if n}
    assert counted == {"over_budget": 1, "prefix_refused": 5}
    serve(harness, prompt((2, 1), 20))
    assert len(manager.index.residents) == 8
    assert manager.counters.fallbacks == 0


def test_another_model_keeps_the_order_of_the_device() -> None:
    """Where one learned rule follows another, what is known of the device's blocks stays."""
    harness = learned_harness()
    for number in range(6):
        serve(harness, prompt((number, 1), 20))
    known = set(harness.connector._ours._device._index.residents)
    put_in_force(harness, document(StoreMode.LAZY, rerank_s=2.0))
    assert set(harness.connector._ours._device._index.residents) == known != set()


def test_without_the_connector_the_host_is_ordered_by_lru(caplog: pytest.LogCaptureFixture) -> None:
    """A manager that hears of no finished request cannot classify; it says so and goes on."""
    harness = SchedulerHarness(replace(OURS, connector="OffloadingConnector", connector_module=None))
    manager: Any = harness.manager
    from autotune_policies.engines.live.rules import HostRules

    rules = HostRules.of(document(StoreMode.EAGER))
    manager._past.follow(rules, None, manager.index)
    manager.index.begin_swap(rules)
    manager.index.finish_swap()
    with heard(caplog):
        for number in range(12):
            harness.add(prompt((number, 1), 20), 1)
            harness.drain()
    assert manager.rules.learned is None
    assert times_said(caplog, "needs AutotuneConnector") == 1
    harness.check_at_rest()


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    store_mode=st.sampled_from(StoreMode),
    rerank_s=st.sampled_from((1e-4, 1e-2, 1e3)),
    per_chunk=st.sampled_from((1, 2)),
    copy_factor=st.sampled_from((0.0, 1.0)),
)
def test_random_traffic_relies_on_right_content_only(
    seed: int, store_mode: StoreMode, rerank_s: float, per_chunk: int, copy_factor: float
) -> None:
    """Under preemptions, aborts, resets and late copies every token that is relied on is the right one."""
    section = {"rerank_s": rerank_s, "copy_factor": copy_factor}
    sizes = {"device_blocks": 16, "host_chunks": 8, "max_requests": 4, "blocks_per_chunk": per_chunk}
    harness = learned_harness(store_mode, section=section, **sizes)
    drive(harness, seed, n_steps=60)
    assert harness.manager.counters.fallbacks == 0
    assert not harness.connector._is_stock


def test_windows_beside_full_attention_are_ranked_with_their_prompt() -> None:
    """A model with several groups is served alike; its windowed chunks stand in the last run of their request."""
    harness = learned_harness(StoreMode.EAGER, window_tokens=8, device_blocks=40, host_chunks=30)
    drive(harness, 3, n_steps=80)
    assert harness.manager.counters.fallbacks == 0
