"""Frames that the engines' own event classes encode, of every version at hand: all of them are understood."""

from __future__ import annotations

import ast
import enum
import os
from pathlib import Path
from typing import Any, Literal, Optional, Union

import msgspec
import pytest

pytestmark = pytest.mark.engine("msgspec", "zmq")
ROOT = Path(__file__).parents[3]
VLLM = Path(os.environ.get("VLLM_SOURCES") or ROOT / ".vllm-sources")
PARSERS = Path(os.environ.get("ENGINE_PARSERS") or ROOT / ".venv-parsers")
WANTED = {
    "EventBatch",
    "KVCacheEvent",
    "StorageMedium",
    "BlockStored",
    "BlockRemoved",
    "AllBlocksCleared",
    "KVEventBatch",
}


def classes_of(source: Path) -> dict[str, Any]:
    """The event classes that a module of an engine defines, without importing the engine."""
    tree = ast.parse(source.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in WANTED]
    names: dict[str, Any] = {"msgspec": msgspec, "Any": Any, "Optional": Optional, "Union": Union, "enum": enum}
    names |= {"Literal": Literal, "ExternalBlockHash": bytes | int, "__name__": "engine"}
    exec(compile(tree, str(source), "exec"), names)
    return names


def check(names: dict[str, Any], hashes: list[Any], expected: list[int], **more: Any) -> None:
    """Encode one event of each kind with the engine's classes and decode it with ours."""
    from autotune_collectors.kv_events.residency import ids_of
    from autotune_collectors.kv_events.wire import Cleared, EventDecoder, Removed, Stored

    fields = {"parent_block_hash": None, "token_ids": [1, 2], "block_size": 2, "lora_id": None, "medium": "GPU"}
    events = [
        names["BlockStored"](block_hashes=hashes, **fields, **more),
        names["BlockRemoved"](block_hashes=hashes, medium="CPU"),
        names["AllBlocksCleared"](),
    ]
    batch = EventDecoder().decode(msgspec.msgpack.encode(names["KVEventBatch"](1.5, events, 3)))
    stored, removed, cleared = batch.events
    assert isinstance(stored, Stored)
    assert isinstance(removed, Removed)
    assert isinstance(cleared, Cleared)
    assert (batch.time_s, batch.unknown) == (1.5, ())
    assert ids_of(stored.block_hashes, stored.group_idx) == ids_of(removed.block_hashes, removed.group_idx) == expected
    assert (stored.medium, removed.medium, stored.block_size) == ("GPU", "CPU", 2)


@pytest.mark.parametrize(
    "version",
    [pytest.param(version, marks=pytest.mark.engine_sources(version)) for version in ("0.24.0", "0.28.0", "0.33.0")],
)
def test_vllm(version: str) -> None:
    """Numbers and bytes; the newest version's further fields are skipped."""
    names = classes_of(VLLM / version / "vllm/distributed/kv_events.py")
    check(names, [5, 2**64 - 1], [5, 2**64 - 1], lora_name=None)
    check(names, [bytes(range(32))], [int.from_bytes(bytes(range(24, 32)), "big")], lora_name="adapter")
    if version == "0.33.0":
        check(names, [5], [5], lora_name=None, session_id="a", lookahead_token_ids=[[1, 2]], extra_keys=[("a", 1)])


@pytest.mark.parser("sglang")
def test_sglang() -> None:
    """Signed numbers."""
    (source,) = PARSERS.glob("sglang/lib/python3*/site-packages/sglang/srt/disaggregation/kv_events.py")
    check(classes_of(source), [-5, 7], [2**64 - 5, 7], session_id="a", cache_salt="salt")
