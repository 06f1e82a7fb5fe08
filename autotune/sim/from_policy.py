"""From a policy document to the simulated engine that obeys it."""

from __future__ import annotations

from dataclasses import replace

from autotune.core import policy as documents
from autotune.core.errors import SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.policy import PolicyDocument, Provenance
from autotune.core.types import StoreMode, Tier
from autotune.sim.config import CacheConfig

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
        SimulationError: the policy holds a learned model, which is obeyed by the loop that learns it.
    """
    if document.kind == "class_hazard":
        raise SimulationError(
            "a simulation by settings alone knows lru, rank and the baselines",
            got="a policy of kind 'class_hazard'",
            remedy="simulate the loop that learns: --policy online",
        )
    host = document.tiers.host
    device_policy, host_policy, disk_policy = (documents.policy_spec(document, tier) or _LRU for tier in Tier)
    return replace(
        engine,
        device_policy=device_policy,
        host_policy=host_policy,
        disk_policy=disk_policy,
        store_mode=store or (host.store_mode if host else engine.store_mode),
        min_load_blocks=-(-host.min_load_tokens // block_tokens) if host else 0,
        chunk_blocks=max(1, host.chunk_tokens // block_tokens) if host else 1,
    )


def judged_engines(
    document: PolicyDocument, provenance: Provenance, block_tokens: int
) -> tuple[CacheConfig, CacheConfig]:
    """The engines that a policy's promise compares: LRU's, and the policy's own.

    Capacities are the blocks of the provenance; on a trace with other blocks, as many as the budgets hold.

    Args:
        document: The policy.
        provenance: How it was judged.
        block_tokens: Tokens per block of the trace that will run.
    """
    facts = provenance.simulation
    own = _LRU if facts.device_policy is None else PolicySpec(facts.device_policy)
    device, host, disk = _capacities(document, provenance, block_tokens)
    lru_device, lru_host = _before_the_border_moved(provenance, device, host)
    baseline = CacheConfig(
        device_blocks=lru_device,
        host_blocks=lru_host,
        disk_blocks=disk,
        device_policy=own,
        store_mode=document.tiers.host.store_mode if document.tiers.host else StoreMode.EAGER,
        timing=facts.timing,
        itl_s=facts.itl_s,
        full_blocks=facts.full_blocks,
        check_break_even=facts.check_break_even,
        semantics=facts.engine,
    )
    policy = engine_of(document, replace(baseline, device_blocks=device, host_blocks=host), block_tokens)
    return baseline, policy if facts.device_policy is None else replace(policy, device_policy=own)


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
