"""Run by tests in a process of its own: what the plug-in does with whatever vLLM comes first on ``PYTHONPATH``.

Takes a JSON object on standard input, prints one as the last line of its output.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from version_replay import BLOCK_TOKENS, STEP_NS, Replay, ReplayCase

_BLOCK_BYTES = 65_536
_DEVICE_BLOCKS = 64
_CHUNKS = 256


def main() -> None:
    """Do what standard input asks for."""
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    vllm.platforms._current_platform = CpuPlatform()  # the sources say of themselves that they are for GPUs
    orders = json.load(sys.stdin)
    from autotune_policies.engines.vllm import register

    register()
    register()
    outcome = {
        **_report(),
        "logs": {case["name"]: replay(ReplayCase(**case)) for case in orders["cases"]},
        "names": _short_names(),
        "policy": _plain_policy_class(),
        "host": _connect(Path(orders["model"]), "AutotuneOffloadingSpec"),
        "tiering": _connect(Path(orders["model"]), "AutotuneTieringOffloadingSpec", secondary_tiers=[_disk(orders)]),
        "life_cycles": _life_cycles() if orders["life_cycles"] else {},
        "changed": _report_of_changes() if orders["changes"] else {},
    }
    print(json.dumps(outcome))


def _disk(orders: dict[str, Any]) -> dict[str, Any]:
    return {"type": "fs", "root_dir": str(Path(orders["model"]) / "tier")}


# What fits


def _report() -> dict[str, Any]:
    from autotune_policies.engines.vllm import compat

    report = compat.check_signatures()
    return {"version": report.version.text, "features": sorted(report.features), "message": report.message()}


def _report_of_changes() -> dict[str, Any]:
    """What the check says of an engine that nobody has seen: this one, with something changed."""
    import vllm.version
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading import common
    from vllm.v1.kv_offload import base
    from vllm.v1.kv_offload.cpu.policies.base import CachePolicy

    vllm.version.__version__ = "0.99.0"
    job, evict = common.TransferJob, CachePolicy.evict
    changes = {"nothing": _examined()}

    def more(self: Any, n: int, protected: set[bytes], deadline_s: float) -> None: ...

    def renamed(req_id: str, source: Any, destination: Any) -> None: ...

    with _changed(CachePolicy, "evict", more):
        changes["an argument more"] = _examined()
    with _changed(common, "TransferJob", renamed):
        changes["arguments renamed"] = _examined()
    with _changed(base.OffloadingWorker, "__abstractmethods__", base.OffloadingWorker.__abstractmethods__ | {"pause"}):
        changes["an abstract method more"] = _examined()
    if (common.TransferJob, CachePolicy.evict) != (job, evict):
        raise RuntimeError("what was changed is not as it was before")
    return changes


@contextmanager
def _changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _examined() -> dict[str, Any]:
    from autotune_policies.engines.vllm import compat

    report = compat.examine_all()
    return {"features": sorted(report.features), "message": report.message()}


# Decisions


class Clock:
    """Nanoseconds that a replay lets pass."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000_000

    def __call__(self) -> int:
        """The present moment."""
        return self.now_ns

    def advance(self) -> None:
        """One step."""
        self.now_ns += STEP_NS


def replay(case: ReplayCase) -> dict[str, Any]:
    """Play one case; its log, and what is left over in the manager's books afterwards."""
    from vllm.v1.kv_offload import base

    from autotune_policies.engines.vllm import compat

    clock = Clock()
    manager = _manager(case, clock)
    answers = compat.lookup_answers()
    words = {answers.hit: "hit", answers.miss: "miss", answers.retry: "retry", answers.pending: "pending"}
    has_hooks = hasattr(_cache_policy(), "on_request_finished")
    end = getattr(base, "ScheduleEndContext", None)
    run = Replay(
        case,
        manager,
        _new_context,
        words.__getitem__,
        () if end is None else (end((), ()),),
        touches=not has_hooks,
        advance=clock.advance,
    )
    log = run.run()
    return {"log": log, "free_chunks": compat.free_chunks(manager)(), **_books(case, manager)}


def _cache_policy() -> Any:
    from vllm.v1.kv_offload.cpu.policies.base import CachePolicy

    return CachePolicy


def _books(case: ReplayCase, manager: Any) -> dict[str, Any]:
    policy = manager._policy
    if case.manager == "stock":
        return {}
    faults = manager.counters.fallbacks if case.manager == "ours" else 0
    return {"residents": len(policy), "faults": faults + (policy.index is None), "rules": policy.index.rules.kind}


def _new_context(name: str, ends: dict[bytes, int]) -> Any:
    from vllm.v1.kv_offload.base import ReqContext

    context = ReqContext(req_id=name)
    if hasattr(context, "set_offload_key_position"):
        for key, end_tokens in ends.items():
            context.set_offload_key_position(key, end_tokens)
    return context


def _manager(case: ReplayCase, clock: Clock) -> Any:
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    known = inspect.signature(CPUOffloadingManager.__init__).parameters
    size = {"num_chunks" if "num_chunks" in known else "num_blocks": case.capacity}
    if case.manager == "ours":
        return _our_manager(case, size, clock)
    if case.manager == "stock":
        return CPUOffloadingManager(**size)
    os.environ["KV_AUTOTUNE_POLICY"] = case.policy_file or ""
    manager = CPUOffloadingManager(**size, cache_policy="autotune")
    del os.environ["KV_AUTOTUNE_POLICY"]
    manager._policy._now_ns = clock
    return manager


def _our_manager(case: ReplayCase, size: dict[str, int], clock: Clock) -> Any:
    from autotune_policies.engines.live.settings import EngineSettings
    from autotune_policies.engines.vllm.facts import GroupFacts, PoolFacts, engine_version
    from autotune_policies.engines.vllm.manager import AutotuneOffloadingManager

    facts = PoolFacts(
        model="tiny",
        engine_version=engine_version(),
        n_chunks=case.capacity,
        chunk_bytes=_BLOCK_BYTES,
        groups=(GroupFacts(0, BLOCK_TOKENS, full_attention=True),),
        rank_bytes_per_token=_BLOCK_BYTES // BLOCK_TOKENS,
        kv_bytes_per_token=_BLOCK_BYTES // BLOCK_TOKENS,
    )
    settings = EngineSettings(policy_file=Path(case.policy_file) if case.policy_file else None)
    return AutotuneOffloadingManager(**size, facts=facts, settings=settings, now_ns=clock)


def _life_cycles() -> dict[str, Any]:
    """Random traffic through vLLM's scheduler, our connector and its manager, with a worker that checks every block."""
    from scheduler_harness import SchedulerHarness, drive
    from test_life_cycle import LAYOUTS, POLICIES, obey

    from autotune_policies.engines.vllm import compat

    # A cache reset with copies in flight ends vLLM 0.24 itself: its reset_cache leaves their numbers with the requests.
    resets_frac = 0.0 if compat.VllmVersion.installed().release < (0, 25, 0) else 0.01
    counts: dict[str, Any] = {}
    for layout in ("chunks", "small", "windows"):
        for policy in POLICIES:
            harness = SchedulerHarness(LAYOUTS[layout])
            obey(harness, policy)
            drive(harness, seed=1, n_steps=120, resets_frac=resets_frac)
            ours = harness.connector._ours
            counts[f"{layout}, {policy}"] = {
                "loads": harness.counts.loads,
                "loads_refused": sum(ours.counters.loads_refused.values()),
                "stores": harness.counts.stores,
                "lazy_stores": ours.counters.lazy_stores,
                "keeps": ours._device is not None,
                "is_stock": harness.connector._is_stock,
            }
    return counts


# From the names to the connector


def _short_names() -> dict[str, str]:
    """Where vLLM's own look-up of each short name leads."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory

    from autotune_policies.engines.vllm import CONNECTOR, SPECS

    found: dict[str, Callable[[], type]] = {name: OffloadingSpecFactory._registry[name] for name in SPECS}
    found[CONNECTOR] = KVConnectorFactory._registry[CONNECTOR]
    return {name: load().__module__ for name, load in found.items()}


def _plain_policy_class() -> dict[str, str]:
    """The class of the policy that vLLM's own manager has, by short name and, where the version can, by module path."""
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    by_name = type(CPUOffloadingManager(8, cache_policy="autotune")._policy)
    if "cache_policy_module_path" not in inspect.signature(CPUOffloadingManager.__init__).parameters:
        return {"short name": by_name.__name__}
    module = "autotune_policies.engines.vllm.cache_policy"
    by_path = CPUOffloadingManager(8, cache_policy=by_name.__name__, cache_policy_module_path=module)
    return {"short name": by_name.__name__, "module path": type(by_path._policy).__name__}


@dataclass(frozen=True)
class _Parts:
    vllm_config: Any
    kv_cache_config: Any


def _connect(model: Path, spec_name: str, **extra: Any) -> dict[str, Any]:
    """Build the connector of a real configuration by short names, in the scheduler's role, and look at its manager."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

    settings = {"spec_name": spec_name, "cpu_bytes_to_use": _CHUNKS * _BLOCK_BYTES, **extra}
    parts = _parts(model, settings)
    connector = KVConnectorFactory.create_connector(parts.vllm_config, KVConnectorRole.SCHEDULER, parts.kv_cache_config)
    try:
        manager = connector.connector_scheduler.manager
        ours = getattr(manager, "primary_tier", manager)
        return {
            "connector": type(connector).__name__,
            "is_stock": connector._is_stock,
            "manager": type(ours).__name__,
            "faults": ours.counters.fallbacks,
            "free_chunks": ours._free_chunks(),
            "metrics": sorted(_metric_names(spec_name, settings)),
        }
    finally:
        connector.shutdown()


def _metric_names(spec_name: str, settings: dict[str, Any]) -> set[str]:
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory

    spec = OffloadingSpecFactory._registry[spec_name]()
    return set(spec.build_metric_definitions(settings))


def _parts(model: Path, settings: dict[str, Any]) -> _Parts:
    import torch
    from vllm.config import CacheConfig, KVTransferConfig, ModelConfig, VllmConfig
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

    layers = [f"layer.{number}" for number in range(4)]
    attention = FullAttentionSpec(block_size=BLOCK_TOKENS, num_kv_heads=4, head_size=32, dtype=torch.bfloat16)
    group = KVCacheGroupSpec(layers, attention)
    transfer = KVTransferConfig(kv_connector="AutotuneConnector", kv_role="kv_both", kv_connector_extra_config=settings)
    vllm_config = VllmConfig(
        model_config=_model_config(ModelConfig, model),
        cache_config=CacheConfig(block_size=BLOCK_TOKENS),
        kv_transfer_config=transfer,
    )
    tensors = _tensors(layers, attention.page_size_bytes)
    return _Parts(vllm_config, KVCacheConfig(_DEVICE_BLOCKS, kv_cache_tensors=tensors, kv_cache_groups=[group]))


_model_configs: list[Any] = []


def _model_config(model_config: Any, model: Path) -> Any:
    """Made once: it takes vLLM seconds."""
    if not _model_configs:
        _model_configs.append(model_config(model=str(model), skip_tokenizer_init=True, dtype="bfloat16"))
    return _model_configs[0]


def _tensors(layers: list[str], page_bytes: int) -> list[Any]:
    """One region per layer up to 0.30; then one for all layers."""
    from vllm.v1.kv_cache_interface import KVCacheTensor

    layer_bytes = page_bytes * _DEVICE_BLOCKS
    if "shared_by" in inspect.signature(KVCacheTensor).parameters:
        return [KVCacheTensor(size=layer_bytes, shared_by=[layer]) for layer in layers]
    whole = KVCacheTensor(
        size=layer_bytes * len(layers), layers=layers, layer_stride=layer_bytes, block_stride=page_bytes
    )
    return [whole]


if __name__ == "__main__":
    main()
