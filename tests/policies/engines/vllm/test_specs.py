"""The specs as vLLM's factory builds them, without a running engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.core.errors import ConfigError

pytestmark = pytest.mark.engine("vllm")

MODULE = "autotune_policies.engines.vllm.spec"
HOST, TIERS = "AutotuneOffloadingSpec", "AutotuneTieringOffloadingSpec"
BLOCK_BYTES, BLOCK_TOKENS = 65_536, 32
Create = Callable[..., Any]


def config(name: str = HOST, *, tp_size: int = 1, blocks_per_chunk: int = 1, n_groups: int = 1, **extra: Any) -> Any:
    """What vLLM tells a spec about an engine with these ranks and groups."""
    from vllm.v1.kv_offload import config as parts

    settings = {"spec_name": name, "spec_module_path": MODULE, "cpu_bytes_to_use": 10 * BLOCK_BYTES} | extra
    return parts.OffloadingConfig(
        groups=tuple(
            parts.OffloadingGroupConfig(tokens_per_block=BLOCK_TOKENS, layer_names=("layer",), group_id=number)
            for number in range(n_groups)
        ),
        worker_kv_bytes_per_block=BLOCK_BYTES // tp_size,
        enable_kv_cache_events=False,
        extra_config=settings,
        engine_id="autotune-specs",
        model=parts.OffloadingModelConfig(name="models/tiny", dtype="bfloat16"),
        cache=parts.OffloadingCacheConfig(tokens_per_hash=BLOCK_TOKENS, blocks_per_chunk=blocks_per_chunk),
        parallel=parts.OffloadingParallelConfig(
            rank=0,
            world_size=tp_size,
            tp_size=tp_size,
            pp_size=1,
            pcp_size=1,
            dcp_size=1,
            data_parallel_index=0,
            data_parallel_size=1,
            data_parallel_rank_local=None,
            is_parallelism_agnostic=False,
        ),
    )


def create(offloading_config: Any) -> Any:
    """The spec that vLLM's factory makes of it."""
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory

    return OffloadingSpecFactory.create_spec(offloading_config)


def device_caches() -> Any:
    """The KV cache of one worker: sixteen blocks in one tensor."""
    import torch
    from vllm.v1.kv_offload.base import CanonicalKVCacheRef, CanonicalKVCaches, CanonicalKVCacheTensor

    tensor = torch.zeros((16, BLOCK_BYTES), dtype=torch.int8)
    return CanonicalKVCaches([CanonicalKVCacheTensor(tensor, BLOCK_BYTES)], [[CanonicalKVCacheRef(0, BLOCK_BYTES)]])


@pytest.mark.parametrize(("tp_size", "blocks_per_chunk", "n_chunks"), [(1, 1, 10), (4, 1, 10), (4, 2, 5), (1, 4, 2)])
def test_facts_of_the_pool(tp_size: int, blocks_per_chunk: int, n_chunks: int) -> None:
    """The manager learns sizes over all ranks: chunks, bytes per chunk and token, and tokens per chunk."""
    from autotune_policies.engines.vllm.facts import GroupFacts, pool_facts

    facts = pool_facts(create(config(tp_size=tp_size, blocks_per_chunk=blocks_per_chunk)))
    assert facts.n_chunks == n_chunks
    assert facts.chunk_bytes == blocks_per_chunk * BLOCK_BYTES
    assert facts.kv_bytes_per_token == BLOCK_BYTES // BLOCK_TOKENS
    assert facts.rank_bytes_per_token == BLOCK_BYTES // BLOCK_TOKENS // tp_size
    assert facts.groups == (GroupFacts(0, BLOCK_TOKENS * blocks_per_chunk, full_attention=True),)
    assert facts.model == "models/tiny"
    assert facts.engine_version.startswith("0.32.0")


def test_of_several_groups_the_spec_cannot_tell_the_kind() -> None:
    """Version 0.32 hands a spec the groups without what kind of attention they have."""
    from autotune_policies.engines.vllm.facts import pool_facts

    facts = pool_facts(create(config(n_groups=3)))
    assert facts.full_attention_groups is None
    assert facts.kv_bytes_per_token == 3 * BLOCK_BYTES // BLOCK_TOKENS


@pytest.mark.parametrize("name", [HOST, TIERS])
def test_a_pool_without_room_is_refused(name: str) -> None:
    """A pool that cannot hold one chunk is an error that says how large one is."""
    with pytest.raises(ConfigError, match=f"{4 * BLOCK_BYTES} bytes; got 100000; give more bytes"):
        create(config(name, blocks_per_chunk=4, cpu_bytes_to_use=100_000))


def test_misspelt_settings_are_refused() -> None:
    """A key that nearly names one of ours would mean plain LRU without a word."""
    with pytest.raises(ConfigError, match="policy_file"):
        create(config(policy_fil="/nowhere/policy.yaml"))


@pytest.mark.parametrize("name", [HOST, TIERS])
def test_series_are_those_of_vllm_and_ours(name: str) -> None:
    """Every series that vLLM's own spec defines is still defined, beside those of the policy."""
    from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory

    settings = dict(config(name).extra_config)
    names = OffloadingSpecFactory.get_spec_cls(settings).build_metric_definitions(settings).keys()
    assert names > CPUOffloadingSpec.build_metric_definitions(settings).keys()
    assert any(series.startswith("kv_autotune_") for series in names)


def test_the_cpu_platform_gets_our_worker() -> None:
    """There the copies are ours, made once, with the link that was set."""
    from autotune_policies.engines.vllm.worker import SimulatedLink, TorchCopyWorker

    spec = create(config(simulated_link_gb_per_s=2.0, simulated_link_latency_ms=5.0))
    caches = device_caches()
    worker = spec.get_worker(caches)
    assert isinstance(worker, TorchCopyWorker)
    assert spec.get_worker(caches) is worker
    assert worker._link == SimulatedLink(bytes_per_s=2e9, latency_s=0.005)
    worker.shutdown()


@pytest.mark.parametrize("name", [HOST, TIERS])
def test_other_platforms_keep_vllms_worker(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the platform is not the CPU, the call is vLLM's; where vLLM does not support it, so is the error."""
    from vllm.platforms.interface import UnspecifiedPlatform
    from vllm.v1.kv_offload.cpu import spec as stock

    from autotune_policies.engines.vllm import spec as ours

    monkeypatch.setattr(ours, "current_platform", UnspecifiedPlatform())
    monkeypatch.setattr(stock, "current_platform", UnspecifiedPlatform())
    with pytest.raises(Exception, match="only supported on CUDA-alike"):
        create(config(name)).get_worker(device_caches())


def test_tiering_shares_the_pool_and_removes_its_file() -> None:
    """The worker's chunks are what the slower tiers read; after both sides have shut down, no file is left."""
    spec = create(config(TIERS))
    manager, worker = spec.get_manager(), spec.get_worker(device_caches())
    path = Path(worker._region.mmap_path)
    assert path.exists()
    worker.shutdown()
    manager.shutdown()
    assert not path.exists()


def test_tiering_refuses_the_canonical_layout_on_a_cpu() -> None:
    """That layout is made by vLLM's own worker; here it would be written wrongly."""
    spec = create(replace(config(TIERS), canonical_layout=True))
    with pytest.raises(ConfigError, match="canonical_layout"):
        spec.get_worker(device_caches())
