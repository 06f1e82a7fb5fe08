"""The policy behind vLLM's own spec and manager, named by ``eviction_policy`` and ``cache_policy_module_path``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.core.types import Admission
from autotune.export import render
from autotune.testing.documents import example_document

pytestmark = pytest.mark.engine("vllm")

CHUNK_TOKENS, CAPACITY = 16, 12


def key(chain: int, depth: int) -> bytes:
    """A key of vLLM's length."""
    return bytes([chain]) * 31 + bytes([depth]) + bytes(4)


def stock_manager(monkeypatch: pytest.MonkeyPatch, policy_file: Path | None) -> Any:
    """The manager of vLLM itself, with our cache policy by module path as a user would name it."""
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    monkeypatch.delenv("KV_AUTOTUNE_POLICY", raising=False)
    if policy_file is not None:
        monkeypatch.setenv("KV_AUTOTUNE_POLICY", str(policy_file))
    return CPUOffloadingManager(CAPACITY, "AutotuneCachePolicy", "autotune_policies.engines.vllm.cache_policy")


def serve(manager: Any, keys: list[bytes], name: str) -> list[bytes]:
    """One request; returns what left for it."""
    from vllm.v1.kv_offload.base import ReqContext

    context = ReqContext(req_id=name)
    manager.on_new_request(context)
    for depth, one in enumerate(keys):
        context.set_offload_key_position(one, (depth + 1) * CHUNK_TOKENS)
    output = manager.prepare_store(keys, context)
    manager.complete_store(output.keys_to_store, context)
    manager.on_request_finished(context)
    return list(output.evicted_keys)


def test_without_a_file_it_is_vllms_lru(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a policy file the same chunks leave as under vLLM's own LRU."""
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    managers = stock_manager(monkeypatch, None), CPUOffloadingManager(CAPACITY, "lru")
    for request in range(40):
        keys = [key(request * 7 % 5, depth) for depth in range(1 + request % 4)]
        left = [serve(manager, keys, str(request)) for manager in managers]
        assert left[0] == left[1]


def test_frequent_chunks_outlive_recent_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the rank rule of the file, a prompt that was asked for often stays when newer ones leave."""
    path = tmp_path / "policy.yaml"
    document = example_document()
    host = document.tiers.host
    assert host is not None
    host = host.model_copy(update={"admission": Admission.ALL})
    path.write_text(render(document.model_copy(update={"tiers": document.tiers.model_copy(update={"host": host})})))
    manager = stock_manager(monkeypatch, path)
    often = [key(1, depth) for depth in range(4)]
    for request in range(6):
        serve(manager, often, f"often-{request}")
    for request in range(10):
        left = serve(manager, [key(10 + request, depth) for depth in range(4)], f"once-{request}")
        assert not set(left) & set(often)
        assert len(left) == (4 if request > 1 else 0)


def test_replaced_file_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that appears later is obeyed from then on."""
    path = tmp_path / "policy.yaml"
    manager = stock_manager(monkeypatch, path)
    serve(manager, [key(1, 0)], "first")
    assert manager._policy.index.rules.kind == "lru"
    path.write_text(render(example_document()))
    manager._policy._now_ns = lambda: 10**18
    serve(manager, [key(1, 0)], "second")
    assert manager._policy.index.rules.kind == "rank"


def test_a_fault_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever raises in our part, vLLM's manager goes on."""
    manager = stock_manager(monkeypatch, None)
    serve(manager, [key(1, depth) for depth in range(8)], "first")

    def fail(*args: Any) -> Any:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(manager._policy.index, "evict", fail)
    assert len(serve(manager, [key(2, depth) for depth in range(8)], "second")) == 4
    assert manager._policy.index is None
