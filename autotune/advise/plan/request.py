"""What a plan is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.errors import ConfigError
from autotune.core.units import GIB
from autotune.geometry.residence import exact

# Activations of a prefill step, the sampler's logits, graphs and the context of the runtime.
DEFAULT_WORKSPACE_BYTES = 4 * GIB
SHARES = ("1", "0.8", "0.5", "0.4", "0.3", "0.2", "0.1", "0")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Load and limits of a plan.

    Attributes:
        context_tokens: Tokens of each sequence.
        concurrency: Sequences at once.
        ranks: Devices that share the model by tensor parallelism.
        block_tokens: Tokens per block of the engine.
        resident_frac: Share p of the streamable KV that stays on the device, as text, so that it is exact.
        prefetch_depth: Streamed layers d that are loaded ahead; d + 1 buffers are held.
        memory_frac: Share of the device's memory that the engine may fill.
        workspace_bytes: Memory per device that is neither weights nor KV.
        shared_prefix_tokens: Tokens with which all sequences begin.
        step_goal_s: Longest time of a decode step; a tenth above computing alone if not given.
        host_bytes: Host memory for KV; ``None`` where it is not known.
    """

    context_tokens: int
    concurrency: int
    ranks: int = 1
    block_tokens: int = 16
    resident_frac: str = "1"
    prefetch_depth: int = 1
    memory_frac: float = 0.9
    workspace_bytes: int = DEFAULT_WORKSPACE_BYTES
    shared_prefix_tokens: int = 0
    step_goal_s: float | None = None
    host_bytes: int | None = None

    def check(self) -> None:
        """Refuse what no plan can be made for.

        Raises:
            ConfigError: a size or a share is out of range.
        """
        if min(self.context_tokens, self.concurrency, self.ranks, self.block_tokens) < 1:
            raise ConfigError(
                "context, concurrency, devices and block size are at least 1",
                got=(self.context_tokens, self.concurrency, self.ranks, self.block_tokens),
            )
        if not 0 <= self.shared_prefix_tokens <= self.context_tokens or self.prefetch_depth < 0:
            raise ConfigError(
                "a shared prefix is no longer than the context, and a prefetch depth not negative",
                got=(self.shared_prefix_tokens, self.prefetch_depth),
            )
        if not 0.0 < self.memory_frac <= 1.0 or self.workspace_bytes < 0:
            raise ConfigError(
                "the share of device memory is above 0 and at most 1, and the workspace not negative",
                got=(self.memory_frac, self.workspace_bytes),
            )
        if self.step_goal_s is not None and self.step_goal_s <= 0.0:
            raise ConfigError("a step takes more than 0 seconds", got=self.step_goal_s)
        _require_share(self.resident_frac)


def _require_share(text: str) -> None:
    try:
        inside = 0 <= exact(text) <= 1
    except (ValueError, ZeroDivisionError):
        inside = False
    if not inside:
        raise ConfigError("p is a number from 0 to 1", got=repr(text), remedy="for example 0.5")
