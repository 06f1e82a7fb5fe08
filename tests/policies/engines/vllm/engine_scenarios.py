"""What a run of the real engine is asked to do, and what it reports; plain values that travel as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Work:
    """One request: a name of its own, the tokens of its prompt, and how many tokens it asks for."""

    name: str
    prompt: tuple[int, ...]
    output_tokens: int = 12


@dataclass(frozen=True)
class FileWrite:
    """Between two steps of the engine, a file is replaced: the policy, mostly."""

    at_step: int
    path: str
    text: str


@dataclass(frozen=True)
class Scenario:
    """A run of the engine in a process of its own.

    Attributes:
        model: Folder of the model.
        works: Requests, in the order in which they are submitted.
        concurrency: Requests in the engine at the same time; 1 = one after the other.
        offload: ``kv_connector_extra_config``; none = no offload.
        connector: Further keys of the transfer configuration, such as the connector's name.
        device_blocks: Blocks on the device.
        block_tokens: Tokens per block.
        max_model_tokens: Longest request.
        max_batched_tokens: Tokens of one step.
        aborts_in_load: This many requests are aborted while their load is under way, and then submitted again.
        resets_at: Steps before which every tier's cache is reset.
        writes: Files that are replaced during the run.
        write_every: Instead of once, each of ``writes`` in turn, every so many steps; 0 = once, at its own step.
        corrupt_loads: Flip one byte of each load: a run that must not give the right tokens.
        engine: Further arguments of the engine.
    """

    model: str
    works: tuple[Work, ...]
    concurrency: int = 1
    offload: dict[str, Any] | None = None
    connector: dict[str, Any] = field(default_factory=dict)
    device_blocks: int = 24
    block_tokens: int = 32
    max_model_tokens: int = 512
    max_batched_tokens: int = 1024
    aborts_in_load: int = 0
    resets_at: tuple[int, ...] = ()
    writes: tuple[FileWrite, ...] = ()
    write_every: int = 0
    corrupt_loads: bool = False
    engine: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """As text; the same scenario gives the same text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """From text."""
        raw = json.loads(text)
        raw["works"] = tuple(Work(work["name"], tuple(work["prompt"]), work["output_tokens"]) for work in raw["works"])
        raw["writes"] = tuple(FileWrite(**write) for write in raw["writes"])
        raw["resets_at"] = tuple(raw["resets_at"])
        return cls(**raw)


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        tokens: Output per request.
        steps: Steps that the engine took.
        aborted_in_load: Requests that were aborted while their load was under way.
        resets: Resets that the engine agreed to.
        cache_groups: Groups in which the engine keeps KV.
        manager: Class of the host manager.
        metrics: Every counter and gauge of the engine's page by name, label values after a slash.
        leftover_files: Files in shared memory that are there after the shutdown and were not before the start.
    """

    tokens: dict[str, list[int]]
    steps: int
    aborted_in_load: int = 0
    resets: int = 0
    cache_groups: int = 1
    manager: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    leftover_files: tuple[str, ...] = ()

    @property
    def load_bytes(self) -> int:
        """Bytes of the copies from the host that completed."""
        return int(self.metrics["vllm:kv_offload_load_bytes_total"])

    @property
    def store_bytes(self) -> int:
        """Bytes of the copies to the host that completed."""
        return int(self.metrics["vllm:kv_offload_store_bytes_total"])

    @property
    def preemptions(self) -> int:
        """Requests that the engine preempted."""
        return int(self.metrics["vllm:num_preemptions_total"])

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """From text."""
        raw = json.loads(text)
        raw["leftover_files"] = tuple(raw["leftover_files"])
        return cls(**raw)
