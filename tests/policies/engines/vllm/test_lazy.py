"""The lazy store on a real scheduler: what is copied, when, and what it leaves to the engine."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from scheduler_harness import SchedulerHarness, drive, prompt
from scheduler_setup import HarnessConfig

from autotune.core.types import StoreMode
from autotune_policies.engines.live.rules import HostRules

pytestmark = pytest.mark.engine("vllm")

OURS = HarnessConfig(
    connector="AutotuneConnector",
    connector_module="autotune_policies.engines.vllm.connector",
    device_blocks=41,
    host_chunks=60,
    max_batched_tokens=12,
    max_requests=2,
)
LAZY = replace(HostRules.lru(), store_mode=StoreMode.LAZY)


def lazy_harness(**sizes: Any) -> SchedulerHarness:
    """An engine whose policy stores lazily."""
    harness = SchedulerHarness(replace(OURS, **sizes))
    harness.manager.rules = LAZY
    harness.connector._ours.follow_policy()
    return harness


def serve(harness: SchedulerHarness, tokens: list[int], max_tokens: int = 1, **attributes: Any) -> None:
    """Serve one request to its end."""
    harness.add(tokens, max_tokens, **attributes)
    harness.drain()


def keys_on_host(harness: SchedulerHarness) -> set[bytes]:
    """What the host can load."""
    return set(harness.ready_chunks())


def test_nothing_is_stored_while_the_device_has_room() -> None:
    """A request whose blocks are far from eviction is not copied, where an eager store copies it."""
    for harness, stored_blocks in ((lazy_harness(), 0), (SchedulerHarness(OURS), 5)):
        serve(harness, prompt((1, 1), 20))
        assert harness.counts.stored_blocks == stored_blocks


def test_blocks_are_stored_before_the_device_drops_them() -> None:
    """Traffic that turns the device over leaves no block of a finished request behind uncopied."""
    harness = lazy_harness()
    for number in range(12):
        serve(harness, prompt((number, 1), 20))
    on_device = {block.block_hash for block in harness.pool.blocks if block.block_hash is not None}
    of_prompts = {key for block_hash in harness.contents for key in harness._keys(block_hash)}
    assert of_prompts <= on_device | keys_on_host(harness)
    assert keys_on_host(harness), "the device was never turned over"


def test_a_block_that_is_used_again_is_not_stored() -> None:
    """A prefix that every request shares never nears eviction, so it is never copied."""
    harness = lazy_harness()
    shared = [7] * 8
    for number in range(12):
        serve(harness, shared + prompt((number, 2), 12))
    shared_keys = {
        key for block_hash in harness.requests["r0"].block_hashes[:2] for key in harness._keys(bytes(block_hash))
    }
    assert not shared_keys & keys_on_host(harness)
    assert keys_on_host(harness)


def test_what_was_stored_lazily_is_loaded() -> None:
    """A prompt that left the device comes back from the host."""
    harness = lazy_harness()
    for number in range(12):
        serve(harness, prompt((number, 1), 20))
    loads = harness.counts.loads
    serve(harness, prompt((0, 1), 20))
    assert harness.counts.loads == loads + 1


@pytest.mark.parametrize(("prompt_only", "stores_output"), [(True, False), (False, True)])
def test_generated_tokens_are_stored_only_if_the_engine_was_told_so(prompt_only: bool, stores_output: bool) -> None:
    """The engine's ``offload_prompt_only`` holds for the lazy store too."""
    harness = lazy_harness(extra=(("offload_prompt_only", prompt_only),))
    for number in range(12):
        serve(harness, prompt((number, 1), 8), max_tokens=10)
    output_hashes = [harness.requests[f"r{number}"].block_hashes[2] for number in range(6)]
    output_keys = {key for block_hash in output_hashes for key in harness._keys(bytes(block_hash))}
    assert bool(output_keys & keys_on_host(harness)) == stores_output


def test_a_clients_limit_is_kept() -> None:
    """``max_offload_tokens`` of a request bounds what is stored of it."""
    harness = lazy_harness()
    serve(harness, prompt((50, 1), 20), kv_transfer_params={"max_offload_tokens": 8})
    for number in range(12):
        serve(harness, prompt((number, 1), 20))
    keys = [harness._keys(bytes(block_hash))[0] for block_hash in harness.requests["r0"].block_hashes]
    assert [key in keys_on_host(harness) for key in keys] == [True, True, False, False, False]


def test_a_refused_block_is_offered_once_per_idle_life() -> None:
    """The manager is not asked again for a block that it refused until the block was used again."""
    harness = lazy_harness()
    offers: list[bytes] = []
    prepare = harness.manager.prepare_store

    def refuse(keys: Any, context: Any) -> Any:
        offers.extend(keys)
        return prepare([], context)

    harness.manager.prepare_store = refuse
    for number in range(20):
        serve(harness, prompt((number, 1), 20))
    assert offers
    assert len(offers) == len(set(offers))


def test_offers_are_runs_in_prefix_order_with_their_positions() -> None:
    """Every offer is consecutive in its request, tells where it begins, and has a context of its own."""
    harness = lazy_harness()
    seen: list[list[int]] = []
    contexts: list[str] = []
    prefixes: list[tuple[bytes, int]] = []
    prepare = harness.manager.prepare_store

    def note(keys: Any, context: Any) -> Any:
        seen.append([context.get_offload_key_position(key) for key in keys])
        contexts.append(context.req_id)
        return prepare(keys, context)

    harness.manager.prepare_store = note
    harness.manager.note_idle = lambda context, key, end_tokens: prefixes.append((key, end_tokens))
    for number in range(12):
        serve(harness, prompt((number, 1), 20))
    for positions in seen:
        assert positions == list(range(positions[0], positions[-1] + 1, 4))
    assert len(set(contexts)) == len(contexts)
    assert {end_tokens for _, end_tokens in prefixes} <= {0, 4, 8, 12, 16}
    assert all((key is None) == (end_tokens == 0) for key, end_tokens in prefixes)


def test_the_work_of_a_step_is_bounded() -> None:
    """However many blocks are due, one step offers only so many."""
    harness = lazy_harness(max_requests=1)
    limit = harness.connector._ours._lazy._limits.step_blocks
    sizes: list[int] = []
    prepare = harness.manager.prepare_store

    def note(keys: Any, context: Any) -> Any:
        sizes.append(len(keys))
        return prepare(keys, context)

    harness.manager.prepare_store = note
    steps_before = 0
    for number in range(20):
        sizes.clear()
        serve(harness, prompt((number, 1), 36))
        steps = harness.counts.steps - steps_before
        steps_before = harness.counts.steps
        assert sum(sizes) <= limit * steps


def test_late_copies_make_it_look_further_ahead_and_quiet_times_less() -> None:
    """The horizon doubles when the engine had to wait, stays within its bounds, and shrinks while it does not."""
    from autotune_policies.engines.vllm.lazy import Horizon, LazyLimits

    limits = LazyLimits.of(step_blocks=10, pool_blocks=400)
    horizon = Horizon(limits)
    assert horizon.blocks == 10
    for expected in (20, 40, 80, 100, 100):
        horizon.copies_were_late()
        assert horizon.blocks == expected
    for _ in range(5_000):
        horizon.copies_were_in_time()
    assert horizon.blocks == 10


def test_slow_copies_widen_the_horizon_until_few_are_late() -> None:
    """With copies that take several steps, the engine waits at the beginning and hardly ever later."""
    harness = lazy_harness(device_blocks=200, host_chunks=100)
    ages: dict[int, int] = {}

    def slow(job_ids: list[int]) -> list[int]:
        for job_id in job_ids:
            ages[job_id] = ages.get(job_id, 0) + 1
        return [job_id for job_id in job_ids if ages[job_id] >= 3]

    lazy = harness.connector._ours._lazy
    late: list[int] = []
    for half in range(2):
        harness.order = slow
        for number in range(150):
            harness.add(prompt((number + 150 * half, 1), 20), 1)
            for _ in range(4):
                harness.step()
        late.append(lazy.late_jobs)
    harness.drain()
    harness.check_at_rest()
    assert late[1] - late[0] <= max(2, late[0])
    assert lazy.stored_blocks > 500


def test_stores_are_eager_again_after_the_policy_changes_back() -> None:
    """A policy swap takes effect for running requests too, and copies in flight are completed."""
    harness = lazy_harness()
    harness.add(prompt((1, 1), 20), 6)
    harness.step()
    harness.manager.rules = HostRules.lru()
    harness.drain()
    harness.check_at_rest()
    assert harness.counts.stored_blocks == 5
    assert not harness.connector._ours.stores_lazily


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [({"blocks_per_chunk": 2}, "chunks of one block"), ({"window_tokens": 8}, "full attention in all layers")],
)
def test_layouts_that_cannot_be_stored_lazily_are_stored_eagerly_and_said_so(
    sizes: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Stores stay eager, with a warning that says why."""
    logger = logging.getLogger("vllm.kv_autotune")
    caplog.set_level(logging.WARNING, logger.name)
    logger.addHandler(caplog.handler)
    harness = lazy_harness(**sizes)
    logger.removeHandler(caplog.handler)
    serve(harness, prompt((1, 1), 20))
    assert harness.counts.stored_blocks >= 4
    assert not harness.connector._ours.stores_lazily
    assert f"a lazy store needs {reason}" in caplog.text


def test_a_reset_forgets_copies_in_flight_and_the_engine_goes_on() -> None:
    """Between submission and completion the caches are emptied, twice; the device reset succeeds and nothing leaks."""
    harness = lazy_harness()
    for number in range(8):
        serve(harness, prompt((number, 1), 20))
    harness.order = lambda _: []
    for number in range(8, 30):
        if harness.connector._ours.lazy_pending and not harness.scheduler.requests:
            break
        harness.add(prompt((number, 1), 20), 1)
        for _ in range(4):
            harness.step()
    assert harness.connector._ours.lazy_pending
    assert harness.reset()
    assert harness.reset()
    assert not harness.connector._ours.lazy_pending
    serve(harness, prompt((3, 1), 20))
    harness.check_at_rest()
    harness.check_contents()


def test_a_store_that_the_manager_loses_leaves_the_engine_serving() -> None:
    """If completing a lazy store raises, the connector becomes stock and requests finish."""
    harness = lazy_harness(device_blocks=20)
    complete = harness.manager.complete_store

    def fail_once(*arguments: Any) -> None:
        harness.manager.complete_store = complete
        complete(*arguments)
        raise RuntimeError("made to fail")

    harness.manager.complete_store = fail_once
    drive(harness, seed=5, n_steps=150)
    assert harness.connector._is_stock
    assert harness.connector._ours.counters.fallbacks == 1


def test_events_of_lazily_stored_chunks_can_be_published() -> None:
    """The engine's event stream takes chunks whose request is gone."""
    harness = lazy_harness()
    harness.manager.events = []
    published: list[Any] = []
    for number in range(12):
        harness.add(prompt((number, 1), 20), 1)
        while harness.scheduler.has_requests():
            harness.step()
            published.extend(harness.connector.take_events())
    assert harness.connector._ours._lazy.stored_blocks > 0
    assert not harness.connector._is_stock
