"""What a search over streaming settings and an engine that generates with them say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from autotune.core.streaming.placement import Placement


@dataclass(frozen=True, slots=True)
class Workload:
    """The short generations that settings are tried on.

    Attributes:
        prompt_tokens: Tokens of each prompt.
        new_tokens: Tokens generated after it.
        repeats: Generations per measurement; the fastest counts, since neighbours on a machine only slow one down.
        seed: Seed of the prompts.
    """

    prompt_tokens: int = 512
    new_tokens: int = 12
    repeats: int = 2
    seed: int = 0

    @property
    def longest_tokens(self) -> int:
        """Tokens of a sequence at its end."""
        return self.prompt_tokens + self.new_tokens


@dataclass(frozen=True, slots=True)
class GenerationSetting:
    """One point of the search.

    Attributes:
        n_resident: Layers, of those that can be streamed, whose KV stays on the device.
        prefetch_depth: d, in streamed layers.
        placement: Which layers are streamed.
        batch: Sequences generated together.
    """

    n_resident: int
    prefetch_depth: int
    placement: Placement
    batch: int


@dataclass(frozen=True, slots=True)
class ModelKv:
    """What a model keeps.

    Attributes:
        name: Of the model.
        candidates: Indices of the layers that can be streamed, ascending.
        n_layers: Layers of the model.
        layer_token_bytes: Bytes of one token of one sequence in one such layer.
        element_type: Of the KV cache, such as ``bfloat16``.
        device: Where it runs, such as ``cpu``.
        versions: Packages that take part, with their versions.
    """

    name: str
    candidates: tuple[int, ...]
    n_layers: int
    layer_token_bytes: int
    element_type: str
    device: str
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """What the recurrence needs to know, measured beforehand.

    Attributes:
        compute_s: Seconds of each layer in a decode step; what a step does besides counts to the last; ``(n_layers,)``.
        load_bytes_per_s: Rate at which the link loads.
    """

    compute_s: tuple[float, ...]
    load_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class MeasuredGeneration:
    """What a generation took.

    Attributes:
        prefill_s: Time until the first token.
        step_s: Length of a decode step, the median over the generation.
        wait_s: Time per step for which compute waited for loads.
        compute_s: Seconds of each layer in a decode step of this very generation, waits left out; ``(n_layers,)``.
        loaded_bytes: Host to device over the whole generation.
        stored_bytes: Device to host.
        peak_slots: The most slots that were held at a time.
        device_bytes: KV bytes on the device at its end, slots included.
    """

    prefill_s: float
    step_s: float
    wait_s: float
    compute_s: tuple[float, ...]
    loaded_bytes: int
    stored_bytes: int
    peak_slots: int
    device_bytes: int


@dataclass(frozen=True, slots=True)
class NotRun:
    """Why a comparison could not be made.

    Attributes:
        reason: In one sentence.
    """

    reason: str


class GenerationEngine(Protocol):
    """Runs real generations under settings that may change from one to the next, without a restart."""

    def describe(self) -> ModelKv:
        """What the model keeps."""

    def layer_times(self, batch: int) -> LayerTimes:
        """Compute and link, measured now: what a core gives changes with its neighbours."""

    def run(self, setting: GenerationSetting) -> MeasuredGeneration:
        """One generation under a setting."""

    def run_native_offload(self, batch: int) -> float | NotRun:
        """Seconds per step of the same generation under the engine's own offloaded cache, where that runs."""

    def close(self) -> None:
        """Free what it holds."""
