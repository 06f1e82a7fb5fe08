"""Ghost caches against the simulator: the same hits and the same seconds, whatever policy and mode."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.access import AccessRecord
from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import document_hash
from autotune.core.trace import Trace
from autotune.core.types import StoreMode
from autotune.daemon.shadow_cache import ShadowEngine, ShadowPolicy
from autotune.daemon.shadows import Shadows, ShadowSettings, observe_all
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache, simulate_plainly
from autotune.sim.stream import without_partial_blocks
from autotune.testing.documents import example_document
from autotune.testing.streams import cost_profiles, traces

WHOLE = ShadowSettings(frac=1.0, max_periods=10_000, accesses_per_s=1e12)
SPECS = st.sampled_from(["lru", "arc", "s3fifo", "sieve", "lfu", "gdsf", "two_hit", "wtinylfu"]).map(PolicySpec)
RANK = st.builds(
    PolicySpec.of,
    st.just("rank"),
    lambda_recency=st.sampled_from([0.01, 0.3, 1.0]),
    tau_s=st.sampled_from([3.0, 100.0]),
    half_life_s=st.sampled_from([0.0, 5.0]),
    cost_weight=st.sampled_from([0.0, 0.7]),
    ghost_ratio=st.sampled_from([0.0, 2.0]),
    admission=st.sampled_from([0.0, 1.0, 2.0]),
)


def asked(trace: Trace) -> Iterator[AccessRecord]:
    """What the requests asked for, as an engine that found nothing would tell it."""
    for request in range(trace.n_requests):
        blocks, tokens = tuple(trace.blocks_of(request).tolist()), int(trace.input_tokens[request])
        yield AccessRecord(float(trace.arrival_s[request]), 0, request, -1, blocks, 0, tokens, None, 0, 0.0)


@settings(max_examples=100)
@given(
    trace=traces(),
    costs=cost_profiles(),
    device=SPECS | RANK,
    host=SPECS | RANK,
    mode=st.sampled_from(StoreMode),
    capacities=st.tuples(st.integers(1, 10), st.integers(0, 12)),
    shortest=st.integers(0, 2),
    full_blocks=st.booleans(),
)
def test_a_whole_shadow_is_the_simulation(
    trace: Trace,
    costs: CostProfile,
    device: PolicySpec,
    host: PolicySpec,
    mode: StoreMode,
    capacities: tuple[int, int],
    shortest: int,
    full_blocks: bool,
) -> None:
    """Unsampled, a shadow finds, stores and costs what the plain simulation does with instant timing."""
    trace = without_partial_blocks(trace) if full_blocks else trace
    config = CacheConfig(
        *capacities,
        device_policy=device,
        host_policy=host,
        store_mode=mode,
        min_load_blocks=shortest,
        full_blocks=full_blocks,
    )
    result = simulate_plainly(trace, config, costs)
    policy = ShadowPolicy("it", device, host, mode, shortest)
    engine = ShadowEngine(*capacities, trace.block_tokens, full_blocks)
    reports = observe_all(Shadows(engine, costs, policy, settings=WHOLE), asked(trace)).reports()
    has_blocks = np.diff(trace.block_offsets) > 0
    prefilled_s = float(costs.prefill_s(trace.input_tokens)[has_blocks].sum())
    if prefilled_s == 0.0:
        assert reports == ()
        return
    (report,) = reports
    # Requests without blocks cost the same under every policy; scaling by seconds spreads theirs over all.
    share = prefilled_s / float(costs.prefill_s(trace.input_tokens).sum())
    blocks = trace.n_accesses
    assert report.seconds * share == pytest.approx(float(result.cost_s()[has_blocks].sum()), rel=1e-9)
    assert report.device_hit_frac == pytest.approx(int(result.device_hit.sum()) / blocks)
    assert report.host_hit_frac == pytest.approx(int(result.host_hit.sum()) / blocks)
    assert report.stored_blocks * share == pytest.approx(int(result.stored.sum()))
    assert report.seconds_se == 0.0


def test_regret_on_a_real_trace_is_the_simulators() -> None:
    """On requests of the bundled trace, seconds and regret of four policies are those of the compiled simulation."""
    trace = Trace.open("sample:conversation").slice(0, 1_000)
    costs = _costs()
    rank = PolicySpec.of("rank", lambda_recency=0.1, tau_s=300.0, cost_weight=1.0, ghost_ratio=4.0)
    policies = [
        ShadowPolicy("lru"),
        ShadowPolicy("rank", host=rank),
        ShadowPolicy("lazy", store_mode=StoreMode.LAZY),
        ShadowPolicy("exclusive", host=rank, store_mode=StoreMode.EXCLUSIVE),
    ]
    true = {}
    for policy in policies:
        modes = {"device_policy": policy.device, "host_policy": policy.host, "store_mode": policy.store_mode}
        result = simulate_cache(trace, CacheConfig(400, 1_600, **modes), costs)  # type: ignore[arg-type]
        true[policy.name] = result.totals().cost_s
    engine = ShadowEngine(400, 1_600, trace.block_tokens, full_blocks=False)
    shadows = observe_all(Shadows(engine, costs, policies[0], policies[1:], WHOLE), asked(trace))
    for report in shadows.reports():
        assert report.seconds == pytest.approx(true[report.name], rel=1e-9)
        assert report.regret_s == pytest.approx(true["lru"] - true[report.name], abs=1e-6)
        assert report.sampling_se_s == 0.0
    assert shadows.reports()[0].name == "lru"


def _costs() -> CostProfile:
    from autotune.costs import load_hardware, profile
    from autotune.geometry import load_model

    return profile(load_model("llama-3.1-8b"), load_hardware("h100-sxm"))


def test_a_document_becomes_a_shadow() -> None:
    """A policy document gives policies of both tiers, mode and shortest load; its stock is LRU in the same mode."""
    document = example_document()
    assert document.tiers.host
    policy = ShadowPolicy.of(document_hash(document)[:12], document, block_tokens=16)
    assert policy.host.name == "rank"
    assert policy.store_mode is document.tiers.host.store_mode
    assert policy.min_load_blocks == -(-document.tiers.host.min_load_tokens // 16)
    stock = policy.stock()
    assert (stock.name, stock.host.name, stock.store_mode) == ("lru", "lru", policy.store_mode)


def test_what_holds_nothing_is_refused() -> None:
    """A device without a block and a host of less than none are named."""
    for wrong in ((0, 1, 16), (1, -1, 16), (1, 1, 0)):
        with pytest.raises(ConfigError, match="a shadow's device holds a block"):
            ShadowEngine(*wrong)
    assert ShadowEngine(3, 100, 16).scaled(0.125) == ShadowEngine(1, 12, 16)
    assert ShadowEngine(3, 0, 16).scaled(0.125).host_blocks == 0


def test_shadows_run_without_a_compiler() -> None:
    """What shadows load, policies included, brings neither Numba nor a model library into the sidecar's process."""
    probe = """
import sys
from autotune.daemon.shadows import Shadows, ShadowEngine, ShadowPolicy
from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
costs = CostProfile(1e-5, 0.0, 1, 1e9, 0.0, 1e9, 0.0, 1e9, 0.0, 0.0, "made")
Shadows(ShadowEngine(4, 8, 16), costs, ShadowPolicy("lru"), [ShadowPolicy("rank", host=PolicySpec("rank"))])
print({"numba", "scipy", "sklearn", "pyarrow", "optuna"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
