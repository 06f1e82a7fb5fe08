"""From a policy document to the simulated engine that obeys it, and to what came of its promise."""

from __future__ import annotations

from dataclasses import replace

from autotune.core import policy as documents
from autotune.core.costs import CostProfile
from autotune.core.errors import SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import ClassHazardDocument, PolicyDocument, Provenance
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.obeying import governed_tiers, rules_of, simulate_rules
from autotune.sim.result import CacheResult

_LRU = PolicySpec("lru")


def engine_of(
    document: PolicyDocument, engine: CacheConfig, block_tokens: int, store: StoreMode | None = None
) -> CacheConfig:
    """The simulated engine under a policy document: its policies, modes and thresholds on the tiers of ``engine``.

    Args:
        document: The policy.
        engine: Capacities and semantics that the document leaves to the engine.
        block_tokens: Tokens per block of the trace that will run.
        store: Overrides the document's store mode.

    Raises:
        SimulationError: the policy holds a learned model, which no setting of an engine says.
    """
    if isinstance(document, ClassHazardDocument):
        raise SimulationError(
            "settings of an engine know lru, rank and the baselines",
            got="a policy of kind 'class_hazard'",
            remedy="simulate the document itself",
        )
    return _engine_under(document, engine, block_tokens, store)


def simulate_document(
    trace: Trace,
    document: PolicyDocument,
    engine: CacheConfig,
    costs: CostProfile,
    *,
    store: StoreMode | None = None,
    device_policy: PolicySpec | None = None,
) -> CacheResult:
    """Run a trace through the engine under a policy document of any kind, in force from the first request on.

    Args:
        trace: The requests.
        document: The policy.
        engine: Capacities and semantics that the document leaves to the engine.
        costs: The cost model.
        store: Overrides the document's store mode.
        device_policy: Overrides who leaves the device.

    Raises:
        SimulationError: the engine cannot be simulated under that policy.
    """
    config = _engine_under(document, engine, trace.block_tokens, store)
    if not isinstance(document, ClassHazardDocument):
        return simulate_cache(
            trace, config if device_policy is None else replace(config, device_policy=device_policy), costs
        )
    if device_policy not in (None, _LRU):
        raise SimulationError(
            "beside a learned policy the device keeps LRU or obeys it too",
            got=device_policy.name,
            remedy="leave it out",
        )
    governed = governed_tiers(document) if device_policy is None else (Tier.HOST,)
    return simulate_rules(trace, config, costs, rules_of(document), governed, write=document.budgets.host_write)


def _engine_under(
    document: PolicyDocument, engine: CacheConfig, block_tokens: int, store: StoreMode | None
) -> CacheConfig:
    """The engine with the document's modes and thresholds, and LRU where a learned rule will govern."""
    host = document.tiers.host
    learned = governed_tiers(document) if isinstance(document, ClassHazardDocument) else ()
    device_policy, host_policy, disk_policy = (
        _LRU if tier in learned else documents.policy_spec(document, tier) or _LRU for tier in Tier
    )
    return replace(
        engine,
        device_policy=device_policy,
        host_policy=host_policy,
        disk_policy=disk_policy,
        store_mode=store or (host.store_mode if host else engine.store_mode),
        min_load_blocks=-(-host.min_load_tokens // block_tokens) if host else 0,
        chunk_blocks=max(1, host.chunk_tokens // block_tokens) if host else 1,
    )


def judged_runs(
    document: PolicyDocument, provenance: Provenance, trace: Trace, costs: CostProfile
) -> tuple[CacheResult, CacheResult]:
    """What a policy's promise compares: a trace under LRU, and under the policy.

    Capacities are the blocks of the provenance; on a trace with other blocks, as many as the budgets hold.

    Args:
        document: The policy.
        provenance: How it was judged.
        trace: The requests.
        costs: The cost model.
    """
    facts = provenance.simulation
    own = None if facts.device_policy is None else PolicySpec(facts.device_policy)
    device, host, disk = _capacities(document, provenance, trace.block_tokens)
    lru_device, lru_host = _before_the_border_moved(provenance, device, host)
    store_mode = document.tiers.host.store_mode if document.tiers.host else StoreMode.EAGER
    baseline = CacheConfig(
        device_blocks=lru_device,
        host_blocks=lru_host,
        disk_blocks=disk,
        device_policy=own or _LRU,
        store_mode=facts.baseline_store_mode or store_mode,
        timing=facts.timing,
        itl_s=facts.itl_s,
        full_blocks=facts.full_blocks,
        check_break_even=facts.check_break_even,
        semantics=facts.engine,
    )
    engine = replace(baseline, device_blocks=device, host_blocks=host, store_mode=store_mode)
    policy = simulate_document(trace, document, engine, costs, device_policy=own)
    return simulate_cache(trace, baseline, costs), policy


def _capacities(document: PolicyDocument, provenance: Provenance, block_tokens: int) -> tuple[int, int, int]:
    facts, budgets = provenance.simulation, document.budgets
    if block_tokens == document.fingerprint.trace_block_tokens:
        return facts.device_blocks, facts.host_blocks, facts.disk_blocks
    block_bytes = block_tokens * document.fingerprint.kv_bytes_per_token
    return budgets.device_bytes // block_bytes, budgets.host_bytes // block_bytes, budgets.disk_bytes // block_bytes


def _before_the_border_moved(provenance: Provenance, device: int, host: int) -> tuple[int, int]:
    """Capacities of device and host under the baseline, where the search moved the border between them."""
    facts = provenance.simulation
    if facts.baseline_device_blocks is None:
        return device, host
    total = device + host
    share = facts.baseline_device_blocks / max(1, facts.device_blocks + facts.host_blocks)
    lru_device = min(max(1, round(total * share)), total)
    return lru_device, total - lru_device
