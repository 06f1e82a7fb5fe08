"""The plug-in as one of several connectors: what its page of the documentation says about that."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from engine_pool import EnginePool
from engine_scenarios import Scenario, Work

pytestmark = pytest.mark.engine("vllm")

BLOCK_BYTES = 65_536  # of the tiny Llama
OURS: dict[str, Any] = {
    "kv_connector": "AutotuneConnector",
    "kv_connector_module_path": "autotune_policies.engines.vllm.connector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {
        "spec_name": "AutotuneOffloadingSpec",
        "spec_module_path": "autotune_policies.engines.vllm.spec",
        "cpu_bytes_to_use": 40 * BLOCK_BYTES,
    },
}


def other(name: str, **settings: Any) -> dict[str, Any]:
    """Another connector's part of the configuration."""
    return {"kv_connector": name, "kv_role": "kv_both", "kv_connector_extra_config": settings}


def several(*parts: dict[str, Any]) -> Any:
    """A configuration of vLLM's MultiConnector."""
    from vllm.config import KVTransferConfig

    return KVTransferConfig(**other("MultiConnector", connectors=list(parts)))


def works() -> tuple[Work, ...]:
    """Requests that share prefixes, each of which comes back after others."""
    draw = random.Random(11)
    prefixes = [tuple(draw.randrange(500) for _ in range(256)) for _ in range(4)]
    return tuple(
        Work(f"request {i}", prefixes[i % 4] + tuple(draw.randrange(500) for _ in range(20))) for i in range(12)
    )


def test_first_of_two_connectors_loads_and_tokens_stay(
    engine_pool: EnginePool, tiny_llama: str, tmp_path: Path
) -> None:
    """Before a connector that stores on disk, ours loads from the host, and every token is as without either."""
    example = other("ExampleConnector", shared_storage_path=str(tmp_path))
    both = Scenario(
        model=tiny_llama,
        works=works(),
        offload={"connectors": [OURS, example]},
        connector={"kv_connector": "MultiConnector"},
    )
    plain = Scenario(model=tiny_llama, works=works(), device_blocks=64)
    outcome = engine_pool.run(both)
    assert outcome.tokens == engine_pool.run(plain).tokens
    assert outcome.load_bytes > 0
    assert outcome.manager == "AutotuneOffloadingManager"
    assert outcome.metrics["kv_autotune_fallbacks_total"] == 0
    assert any(tmp_path.iterdir())  # the other one has stored as well


def test_short_name_is_known_to_the_factory() -> None:
    """MultiConnector puts statistics of its parts together by their short names, so ours must be registered."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    assert KVConnectorFactory.get_connector_class_by_name("AutotuneConnector").__name__ == "AutotuneConnector"
    stats = MultiConnector.build_kv_connector_stats({"AutotuneConnector": {"a": 1}})
    assert stats is not None
    assert type(stats["AutotuneConnector"]).__name__ == "OffloadingConnectorStats"


@pytest.mark.parametrize(
    ("name", "stays_on"),
    [("OffloadingConnector", True), ("NixlConnector", True), ("MooncakeConnector", True), ("ExampleConnector", False)],
)
def test_hybrid_cache_stays_on_where_the_other_supports_it(name: str, stays_on: bool) -> None:
    """Ours never turns the hybrid KV cache off; a part that does not support it does."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    assert KVConnectorFactory.supports_hma_config(several(OURS))
    assert KVConnectorFactory.supports_hma_config(several(OURS, other(name))) is stays_on


@pytest.mark.parametrize("name", ["NixlConnector", "MooncakeConnector"])
def test_layout_of_the_cache_is_the_one_that_transfers_want(name: str, tiny_llama: str) -> None:
    """Connectors that move KV between engines want the same layout as ours, so they may stand side by side."""
    from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector
    from vllm.engine.arg_utils import EngineArgs

    config = EngineArgs(model=tiny_llama, max_model_len=512).create_engine_config()
    config.kv_transfer_config = several(OURS, other(name))
    assert MultiConnector.get_required_kvcache_layout(config) == "LBHNC"
