"""What to simulate: tiers, their policies, and the engine's semantics."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.core.decide.policy_codes import CLAIRVOYANTS
from autotune.core.errors import SimulationError
from autotune.core.eviction import PolicySpec
from autotune.core.types import EngineSemantics, StoreMode, Tier, Timing

DEFAULT_ITL_S = 0.008
MAX_BLOCKS = 2**31 - 1  # block ids are int32


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """One simulated engine.

    Attributes:
        device_blocks: Capacity of the device tier in blocks.
        host_blocks: Capacity of the host tier; 0 means that there is none.
        disk_blocks: Capacity of the disk tier, which takes what the host evicts; 0 means that there is none.
        device_policy: Who leaves the device.
        host_policy: Who leaves the host.
        disk_policy: Who leaves the disk.
        store_mode: When the host gets a block.
        timing: When a request's blocks become idle.
        itl_s: Seconds per output token while a request runs, for service timing.
        full_blocks: Drop partial tail blocks and always recompute at least one token, as engines do.
        chunk_blocks: Blocks stored together on the host (eager stores only when more than one).
        min_load_blocks: Shorter runs are recomputed instead of loaded.
        check_break_even: Recompute a run whose load would take longer.
        semantics: By whose rules the host works. vLLM's imply ``full_blocks``.
    """

    device_blocks: int
    host_blocks: int = 0
    disk_blocks: int = 0
    device_policy: PolicySpec = field(default=PolicySpec("lru"))
    host_policy: PolicySpec = field(default=PolicySpec("lru"))
    disk_policy: PolicySpec = field(default=PolicySpec("lru"))
    store_mode: StoreMode = StoreMode.EAGER
    timing: Timing = Timing.INSTANT
    itl_s: float = DEFAULT_ITL_S
    full_blocks: bool = False
    chunk_blocks: int = 1
    min_load_blocks: int = 0
    check_break_even: bool = True
    semantics: EngineSemantics = EngineSemantics.CANONICAL

    def __post_init__(self) -> None:
        """Refuse combinations that mean nothing.

        Raises:
            SimulationError: a value is out of range, there is a disk but no host, chunks meet a mode or a tier that
                has no place for them, or vLLM's rules meet tiers or modes that they do not know.
        """
        if self.semantics is EngineSemantics.VLLM_0_32:
            self._check_vllm()
            object.__setattr__(self, "full_blocks", True)  # vLLM caches no others
        self._check_capacities()
        self._check_chunks()
        if self.min_load_blocks < 0 or not 0.0 <= self.itl_s < float("inf"):
            raise SimulationError(
                "a shortest load and seconds per output token are not negative",
                got=f"min_load_blocks={self.min_load_blocks}, itl_s={self.itl_s}",
            )

    def _check_capacities(self) -> None:
        if self.device_blocks < 1:
            raise SimulationError("the device holds at least one block", got=self.device_blocks, remedy="raise it")
        if min(self.capacities) < 0 or max(self.capacities) > MAX_BLOCKS:
            raise SimulationError(f"a tier holds 0 to {MAX_BLOCKS:,} blocks", got=self.capacities)
        if self.disk_blocks and not self.host_blocks:
            raise SimulationError(
                "a disk tier takes what the host evicts", got="no host tier", remedy="give --host-gib or --host-blocks"
            )

    def _check_vllm(self) -> None:
        if self.host_blocks < 1 or self.disk_blocks:
            raise SimulationError(
                f"engine {self.semantics} has a device and a host tier",
                got=f"{self.host_blocks} blocks on the host and {self.disk_blocks} on disk",
                remedy="give --host-gib or --host-blocks and no disk, or use --engine canonical",
            )
        if self.store_mode is not StoreMode.EAGER:
            raise SimulationError(
                f"engine {self.semantics} offers blocks to the host as they are computed",
                got=f"store mode {self.store_mode}",
                remedy="use --store eager, or --engine canonical",
            )

    def _check_chunks(self) -> None:
        if self.chunk_blocks < 1 or (self.chunk_blocks > 1 and self.store_mode is not StoreMode.EAGER):
            raise SimulationError(
                "chunks of several blocks are stored when they are computed",
                got=f"chunk_blocks={self.chunk_blocks} with store mode {self.store_mode}",
                remedy="use --store eager, or chunks of one block",
            )
        if any(0 < blocks < self.chunk_blocks for blocks in (self.host_blocks, self.disk_blocks)):
            raise SimulationError(
                f"a tier that stores chunks of {self.chunk_blocks} blocks holds at least one of them",
                got=f"{self.host_blocks} blocks on the host and {self.disk_blocks} on disk",
                remedy="use smaller chunks or larger tiers",
            )

    @property
    def policies(self) -> tuple[PolicySpec, PolicySpec, PolicySpec]:
        """Policies of device, host and disk."""
        return self.device_policy, self.host_policy, self.disk_policy

    @property
    def capacities(self) -> tuple[int, int, int]:
        """Capacities of device, host and disk in blocks."""
        return self.device_blocks, self.host_blocks, self.disk_blocks

    @property
    def last_tokens(self) -> int:
        """Tokens at the end of a prompt that are computed even if they were found.

        Elsewhere a hit on full blocks ends before the last token; vLLM loads that block too and computes one token.
        """
        return 1 if self.semantics is EngineSemantics.VLLM_0_32 else 0

    def depth_unit_blocks(self, tier: Tier) -> int:
        """Blocks by which a policy of that tier counts depth and seconds at stake: vLLM's host knows chunks only."""
        return self.chunk_blocks if tier is Tier.HOST and self.semantics is EngineSemantics.VLLM_0_32 else 1

    @property
    def is_clairvoyant(self) -> bool:
        """Whether a tier in use looks into the future."""
        return any(
            spec.name in CLAIRVOYANTS for spec, blocks in zip(self.policies, self.capacities, strict=True) if blocks
        )
