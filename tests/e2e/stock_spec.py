"""vLLM's own manager and cache policies on a platform that vLLM has no copies for: what the demo compares with."""

from __future__ import annotations

from typing import Any

from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from autotune_policies.engines.vllm.spec import AutotuneOffloadingSpec


class StockManagerSpec(AutotuneOffloadingSpec):
    """The stock manager, as if nothing of ours were there; only the copies of the CPU platform are ours."""

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """The series of vLLM itself."""
        definitions: dict[str, Any] = CPUOffloadingSpec.build_metric_definitions(extra_config)
        return definitions

    def get_manager(self) -> Any:
        """The manager of vLLM itself, with the policy that ``eviction_policy`` names."""
        return CPUOffloadingSpec.get_manager(self)
