"""``autotune.simulate``: which engine it builds, what it counts, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import autotune
from autotune.api import Budget, Policy, simulate
from autotune.core.errors import AutotuneError, ConfigError, SimulationError, TraceError, UnknownNameError
from autotune.core.eviction import PolicySpec
from autotune.core.settings import QueueSettings, Settings
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Timing
from autotune.core.units import GIB
from autotune.testing.documents import example_document
from autotune.testing.streams import Ask, make_trace

RANK = PolicySpec.of("rank", lambda_recency=0.3, tau_s=60.0)


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The first 400 requests of the synthetic sample."""
    return Trace.open("sample:synthetic").slice(0, 400)


def document_with(**host: Any) -> Policy:
    """The example policy with other rules for its host."""
    document = example_document()
    assert document.tiers.host
    rule = document.tiers.host.model_copy(update=host)
    return Policy(document.model_copy(update={"tiers": document.tiers.model_copy(update={"host": rule})}))


def test_a_name_governs_the_host_or_else_the_device(trace: Trace) -> None:
    """With a host the policy is the host's and the device keeps LRU; without one it is the device's."""
    alone = simulate(trace, "arc", device_blocks=50).cache.config
    assert alone.device_policy == PolicySpec("arc")
    tiered = simulate(trace, "arc", device_blocks=50, host_blocks=100).cache.config
    assert (tiered.device_policy, tiered.host_policy) == (PolicySpec("lru"), PolicySpec("arc"))
    both = simulate(trace, RANK, device_policy="sieve", device_blocks=50, host_blocks=100).cache.config
    assert (both.device_policy, both.host_policy) == (PolicySpec("sieve"), RANK)


def test_a_source_is_opened(trace: Trace) -> None:
    """A trace and its ``FORMAT:PATH`` give the same counts."""
    by_name = autotune.simulate("sample:synthetic", device_blocks=1000)
    by_trace = autotune.simulate(Trace.open("sample:synthetic"), device_blocks=1000)
    assert by_name.totals == by_trace.totals
    assert by_name.totals.device_hit_blocks == 1123


def test_what_is_not_given_is_as_the_settings_say(trace: Trace) -> None:
    """Timing, store mode, full blocks, inter-token time and the measured part come from the settings, or as given."""
    settings = Settings.model_validate(
        {
            "simulation": {
                "timing": Timing.SERVICE,
                "store_mode": StoreMode.LAZY,
                "full_blocks": True,
                "itl_ms": 5.0,
                "measure_from_frac": 0.5,
            }
        }
    )
    told = simulate(trace, device_blocks=300, host_blocks=300, settings=settings)
    config = told.cache.config
    assert (config.timing, config.store_mode, config.full_blocks) == (Timing.SERVICE, StoreMode.LAZY, True)
    assert config.itl_s == 0.005
    assert told.measured[0] == trace.first_request_at(trace.span_s / 2)
    given = simulate(
        trace,
        device_blocks=300,
        host_blocks=300,
        settings=settings,
        timing=Timing.INSTANT,
        store=StoreMode.EXCLUSIVE,
        full_blocks=False,
        measure_from_s=0.0,
    )
    config = given.cache.config
    assert (config.timing, config.store_mode, config.full_blocks) == (Timing.INSTANT, StoreMode.EXCLUSIVE, False)
    assert given.measured == (0, 400)


def test_measuring_later_counts_less(trace: Trace) -> None:
    """Only requests from that time on are counted, after all the others warmed the caches."""
    whole = simulate(trace, device_blocks=3000)
    late = simulate(trace, device_blocks=3000, measure_from_s=trace.span_s / 2)
    start = late.measured[0]
    assert trace.arrival_s[start - 1] < trace.span_s / 2 <= trace.arrival_s[start]
    assert late.totals == whole.cache.totals(start)
    cold = simulate(trace.slice(start, 400), device_blocks=3000)
    assert late.totals.device_hit_blocks > cold.totals.device_hit_blocks


@pytest.mark.parametrize("from_s", [-1.0, 1e9, float("nan"), float("inf")])
def test_measuring_begins_within_the_trace(trace: Trace, from_s: float) -> None:
    """A time outside of the trace is an error."""
    with pytest.raises(SimulationError, match="within the trace"):
        simulate(trace, device_blocks=10, measure_from_s=from_s)


def test_a_document_governs_its_tiers_with_its_budgets(trace: Trace) -> None:
    """Budgets, modes and thresholds are the document's, in blocks of the trace."""
    policy = document_with(store_mode=StoreMode.EAGER, min_load_tokens=513, chunk_tokens=1024)
    config = simulate(trace, policy).cache.config
    assert config.capacities == (40 * 16, 160 * 16, 0)  # 16 blocks of 64 MiB per GiB
    assert config.device_policy == PolicySpec("lru")
    assert dict(config.host_policy.params)["tau_s"] == 600.0
    assert (config.min_load_blocks, config.chunk_blocks) == (2, 2)
    lazy = document_with(store_mode=StoreMode.LAZY)
    assert simulate(trace, lazy).cache.config.store_mode is StoreMode.LAZY
    assert simulate(trace, lazy, store=StoreMode.EAGER).cache.config.store_mode is StoreMode.EAGER


def test_given_sizes_come_before_a_documents(trace: Trace) -> None:
    """Sizes that are given replace the document's budgets, and --device-policy replaces its rule."""
    config = simulate(trace, Policy(example_document()), budget=Budget(device_gib=1.0, host_gib=2.0)).cache.config
    assert config.capacities == (16, 32, 0)
    config = simulate(trace, Policy(example_document()), device_blocks=9, device_policy="arc").cache.config
    assert config.capacities == (9, 0, 0)
    assert config.device_policy == PolicySpec("arc")


@pytest.mark.parametrize("model", ["llama-3.1-70b", "mistral-7b-v0.3"])
def test_a_document_for_another_model_is_refused(trace: Trace, model: str) -> None:
    """Another model is refused by name, even one with as many bytes of KV per token."""
    with pytest.raises(ConfigError, match=rf"policy is for llama-3.1-8b .*got {model} .*--model"):
        simulate(trace, Policy(example_document()), model=model)


def test_latencies_under_a_stable_load(trace: Trace) -> None:
    """With enough servers there are latencies of the measured requests, the same for the same seed."""
    queue = QueueSettings(servers=8)
    first, again, other = (
        simulate(trace, "arc", device_blocks=300, queue=queue, measure_from_s=10.0, seed=seed) for seed in (1, 1, 2)
    )
    assert first.queue
    assert again.queue
    assert other.queue
    assert len(first.queue.ttft_s) == first.totals.requests
    assert np.array_equal(first.queue.ttft_s, again.queue.ttft_s)
    assert "8 prefill servers" in first.ttft_note


def test_latencies_under_an_unstable_load(trace: Trace) -> None:
    """Without being asked for they are left out with a reason; asked for, the measured load is an error."""
    outcome = simulate(trace, device_blocks=300)
    assert outcome.queue is None
    assert outcome.ttft_note.startswith("TTFT is not reported: load ")
    with pytest.raises(SimulationError, match=r"got \d+\.\d\d; use .* --servers, or --time-scale"):
        simulate(trace, device_blocks=300, require_ttft=True)
    assert simulate(trace, device_blocks=300, queue=QueueSettings(time_scale=50.0), require_ttft=True).queue


def test_nothing_without_requests_or_blocks() -> None:
    """A trace without requests, and one that only has arrivals, cannot be simulated."""
    whole = make_trace([Ask(0.0, [1])])
    with pytest.raises(TraceError, match="needs requests"):
        simulate(whole.slice(0, 0), device_blocks=10)
    with pytest.raises(TraceError, match="which blocks each request touched"):
        simulate(replace(whole, block_tokens=0), device_blocks=10)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, ConfigError),
        ({"device_blocks": 0}, SimulationError),
        ({"device_blocks": 2**40}, SimulationError),
        ({"device_blocks": 5, "host_blocks": -1}, SimulationError),
        ({"budget": Budget(device_gib=float("nan"))}, ConfigError),
        ({"device_blocks": 5, "policy": "lruu"}, UnknownNameError),
        ({"device_blocks": 5, "device_policy": "lruu"}, UnknownNameError),
        ({"device_blocks": 5, "policy": PolicySpec.of("rank", lambda_recency=0.0)}, AutotuneError),
        ({"device_blocks": 5, "policy": PolicySpec.of("lru", speed=1.0)}, AutotuneError),
        ({"device_blocks": 5, "model": "gpt-9"}, ConfigError),
        ({"device_blocks": 5, "hardware": "abacus"}, ConfigError),
        ({"device_blocks": 5, "link_gb_per_s": float("nan")}, ConfigError),
        ({"device_blocks": 5, "link_gb_per_s": -1.0}, ConfigError),
        ({"device_blocks": 5, "seed": -1, "queue": QueueSettings(servers=8)}, SimulationError),
    ],
)
def test_bad_input_is_refused(trace: Trace, arguments: dict[str, Any], error: type[Exception]) -> None:
    """Whatever is wrong is an error of this project, raised before or instead of a result."""
    with pytest.raises(error):
        simulate(trace, **arguments)


def test_the_link_is_a_cost(trace: Trace) -> None:
    """A slower link makes loads dearer and leaves everything in GiB as it is."""
    fast, slow = (simulate(trace, device_blocks=100, host_blocks=3000, link_gb_per_s=rate) for rate in (50.0, 5.0))
    assert fast.cache.costs.load_bytes_per_s == 50e9
    assert slow.totals.load_s > fast.totals.load_s
    assert fast.cache.block_bytes == slow.cache.block_bytes == GIB // 16
