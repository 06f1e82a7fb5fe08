"""Device keep on a real scheduler: victims by rank, through nothing but the order of the free queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_harness import SchedulerHarness, drive, prompt
from scheduler_setup import HarnessConfig

from autotune.core.policy import DeviceTier
from autotune.testing.documents import example_document
from autotune_policies.engines.live.rules import HostRules

pytestmark = pytest.mark.engine("vllm")

OURS = HarnessConfig(
    connector="AutotuneConnector",
    connector_module="autotune_policies.engines.vllm.connector",
    device_blocks=81,
    host_chunks=4,
    max_batched_tokens=12,
    max_requests=1,
)
HOUR_NS = 3.6e12


def keeping(weight_ns: float, keep_frac: float = 1.0, **sizes: Any) -> SchedulerHarness:
    """An engine that ranks its device."""
    from autotune_policies.engines.vllm.device import DeviceRules

    harness = SchedulerHarness(replace(OURS, **sizes))
    ranks = replace(HostRules.lru(), kind="rank", weight_ns=weight_ns, ghost_ratio=2.0)
    harness.manager.device_rules = DeviceRules(ranks, keep_frac)
    harness.connector._ours.follow_policy()
    return harness


def serve(harness: SchedulerHarness, tokens: list[int]) -> int:
    """Serve one request to its end; returns how many of its blocks the device had."""
    harness.add(tokens, 1)
    blocks, hits = harness.scheduler.kv_cache_manager.get_computed_blocks(next(iter(harness.scheduler.waiting)))[:2]
    del blocks
    harness.drain()
    return int(hits) // harness.config.block_tokens


def hits_after_flood(harness: SchedulerHarness) -> int:
    """Blocks left of a prompt that was used four times, after the device was turned over twice by single uses."""
    wanted = prompt((90, 1, 1), 20)
    for _ in range(4):
        serve(harness, wanted)
    for number in range(32):
        serve(harness, prompt((number, 2), 20))
    return serve(harness, wanted)


def test_blocks_that_were_used_often_outlive_a_flood() -> None:
    """The stock order has dropped them by then."""
    assert hits_after_flood(SchedulerHarness(OURS)) == 0
    assert hits_after_flood(keeping(HOUR_NS)) == 4


def test_a_small_share_of_the_pool_keeps_less() -> None:
    """Blocks beyond the share are taken in order of rank, the rest in order of use."""
    assert hits_after_flood(keeping(HOUR_NS, keep_frac=0.03)) < 4


def test_under_plain_recency_hits_are_those_of_the_stock_order() -> None:
    """With weight 0 the rank is the last use, deepest block first, as in the engine's own queue.

    The prompts end inside a block, so that no block is computed twice.
    """
    stock, ranked = SchedulerHarness(OURS), keeping(0.0)
    for number in range(120):
        tokens = prompt((number * number % 23, number % 2), 22)
        assert serve(stock, tokens) == serve(ranked, tokens), f"request {number}"


def test_the_second_copy_of_a_block_leaves_before_the_first() -> None:
    """The end of a prompt of whole blocks is computed again each time; only one copy of it is worth space."""
    harness = keeping(HOUR_NS)
    for _ in range(8):
        serve(harness, prompt((90, 1, 1), 20))
    for number in range(12):
        serve(harness, prompt((number, 2), 22))
    held = [block.block_hash for block in harness.pool.blocks if block.block_hash is not None]
    assert len(held) == len(set(held))


def test_victims_leave_from_the_end_of_a_chain() -> None:
    """A block that others continue is not dropped before them, so what is left is always a usable prefix."""
    harness = keeping(HOUR_NS)
    for number in range(40):
        serve(harness, prompt((number, 3), 28))
        cached = {block.block_hash for block in harness.pool.blocks if block.block_hash is not None}
        for request in harness.requests.values():
            present = [key in cached for block_hash in request.block_hashes for key in harness._keys(bytes(block_hash))]
            assert present == sorted(present, reverse=True)


def test_blocks_without_content_are_taken_first() -> None:
    """While empty blocks are left, nothing that is cached is dropped."""
    harness = keeping(HOUR_NS)
    for number in range(10):
        serve(harness, prompt((number, 3), 28))
    assert all(serve(harness, prompt((number, 3), 28)) == 6 for number in range(10))


def test_new_rules_and_none_take_effect_at_once() -> None:
    """A policy that stops ranking the device gives the queue back to the engine."""
    harness = keeping(HOUR_NS)
    hits_after_flood(harness)
    harness.manager.device_rules = None
    harness.connector._ours.follow_policy()
    assert not harness.connector._ours._device.is_on
    for number in range(40):
        serve(harness, prompt((number, 4), 20))
    assert serve(harness, prompt((90, 1, 1), 20)) == 0
    harness.check_at_rest()


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), weight_ns=st.sampled_from((0.0, 1e6, HOUR_NS)), keep_frac=st.floats(0.05, 1.0))
def test_no_block_is_ever_lost_from_the_queue(seed: int, weight_ns: float, keep_frac: float) -> None:
    """Under random traffic with preemptions the free queue always holds exactly the blocks that nobody refers to."""
    harness = keeping(weight_ns, keep_frac, device_blocks=14, host_chunks=8, max_requests=4)
    drive(harness, seed, n_steps=60)
    assert not harness.connector._is_stock


def test_a_fault_while_blocks_are_moved_loses_none() -> None:
    """If the queue refuses a block, all others stay in it and the engine goes on."""
    harness = keeping(HOUR_NS, device_blocks=30)
    queue = harness.pool.free_block_queue
    remove, calls = queue.remove, [0]

    def refuse_later(block: Any) -> None:
        calls[0] += 1
        if calls[0] == 40:
            raise RuntimeError("made to fail")
        remove(block)

    device = harness.connector._ours._device
    stage = device.stage

    def stage_with_fault(taken_blocks: int) -> None:
        queue.remove = refuse_later
        try:
            stage(taken_blocks)
        finally:
            del queue.remove

    device.stage = stage_with_fault
    for number in range(40):
        serve(harness, prompt((number, 4), 20))
        harness.check_queue()
    assert harness.connector._is_stock
    harness.check_at_rest()


def test_a_policy_document_says_whether_the_device_is_ranked() -> None:
    """Only ``tiers.device.policy: rank`` with knobs asks for it; a device hit saves the whole recompute."""
    from autotune_policies.engines.vllm.device import DeviceRules

    example = example_document()
    assert DeviceRules.of(example) is None
    tiers = example.tiers.model_copy(update={"device": DeviceTier(policy="rank")})
    assert example.rank is not None
    ranked = example.model_copy(
        update={"tiers": tiers, "rank": example.rank.model_copy(update={"device": example.rank.host})}
    )
    rules = DeviceRules.of(ranked)
    assert rules is not None
    assert rules.ranks.weight_ns > 0
    assert rules.ranks.costs is not None
    assert rules.ranks.costs.block_load_s(512) == 0.0
