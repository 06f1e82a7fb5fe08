"""The policy on the host pool of an engine that has further tiers behind it (disk, object store).

vLLM's tiering manager asks its primary tier for most things, but not at the end of a scheduler step; and it reads what
comes back from a slower tier as done, whatever the primary tier admitted. So the policy file is looked at on the way,
and what is promoted from a slower tier is never refused.

Source: vLLM 0.24 to 0.33, ``v1/kv_offload/tiering/{manager,spec}.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from typing import Any

from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.manager import CPUPrimaryTierOffloadingManager, TieringOffloadingManager

from autotune.core.errors import ConfigError
from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.facts import pool_facts
from autotune_policies.engines.vllm.manager import PolicyManager


class AutotunePrimaryTier(PolicyManager, CPUPrimaryTierOffloadingManager):
    """The host pool in front of slower tiers."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.prepare_write = self._prepare_promotion
        if "prepare_read" in vars(self):  # up to 0.30 another name of prepare_load; a copy to a slower tier is no load
            self.prepare_read = partial(CPUOffloadingManager.prepare_load, self)

    def prepare_store(self, keys: Iterable[bytes], req_context: Any) -> Any:
        """Chunks are offered by the device."""
        self.follow_policy()
        return super().prepare_store(keys, req_context)

    def _prepare_promotion(self, keys: Iterable[bytes], req_context: Any) -> Any:
        """Chunks come back from a slower tier because a request waits for them: all get a place, if there is one."""
        keys = list(keys)
        self.tell_lineage(keys, req_context)
        return CPUOffloadingManager.prepare_store(self, keys, req_context)


def tiering_manager(spec: Any) -> Any:
    """The manager of a ``TieringOffloadingSpec``, as vLLM's own spec builds it, with ours as its primary tier."""
    if int(spec.extra_config.get("store_threshold", 0)) >= 2:
        raise ConfigError(
            "store_threshold goes with the host as the only tier",
            got=spec.extra_config["store_threshold"],
            remedy="leave it out, or use admission two_hit in the policy",
        )
    engine_id = compat.offloading_config(spec).engine_id
    # By position: all but the third and the last have had other names.
    region = SharedOffloadRegion(
        engine_id, compat.pool_chunks(spec), None, compat.chunk_bytes(spec), spec.cpu_page_size_per_worker
    )
    facts, built = pool_facts(spec), list[Any]()
    try:
        primary = AutotunePrimaryTier(
            facts=facts,
            settings=spec.settings.for_rank(facts.data_parallel_rank),
            mmap_region=region,
            **compat.manager_arguments(spec, CPUPrimaryTierOffloadingManager),
        )
        built.append(primary)
        for config in spec.secondary_tier_configs:
            built.append(SecondaryTierFactory.create_secondary_tier(config, primary.get_kv_memoryview(), spec))
        return TieringOffloadingManager(
            primary_tier=primary, secondary_tiers=built[1:], **_more_arguments(spec, TieringOffloadingManager)
        )
    except Exception:
        for part in reversed(built):
            part.shutdown()
        if not built:
            region.cleanup()
        raise


def _more_arguments(spec: Any, manager_class: type) -> dict[str, Any]:
    """What only some versions take: events (0.24), and seconds between two looks at the slower tiers (0.33)."""
    offered: dict[str, Any] = {"enable_events": spec.kv_events_config.enable_kv_cache_events}
    if "tier_poll_interval_s" in spec.extra_config:
        offered["tier_poll_interval_s"] = float(spec.extra_config["tier_poll_interval_s"])
    known = inspect.signature(manager_class).parameters
    return {name: value for name, value in offered.items() if name in known}
