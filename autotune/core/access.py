"""AccessRecord: what one request did to one run of blocks, whoever observed it.

Trace readers, the engine's telemetry and the simulator all produce it, and fitting reads only it. The features are
those that the deciding side computed at that moment; they are never recomputed from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotune.core.types import Tier

RunFeatures = tuple[int, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class AccessFeatures:
    """Snapshot of what was known about a run when it was decided upon; ``None`` is unknown, never zero.

    Attributes:
        frequency: Decayed accesses of the run's blocks, this one included.
        gap_s: Seconds since the run's previous access.
        hit_frac: Share of the request's blocks that were found on any tier.
        output_tokens: Generated tokens.
        stop_reason: Why generation ended, in the engine's own word.
        turn: Number of the request within its session, from 0.
        runs: What a learned rule knew of the blocks when the request had finished, in prefix order: for each stretch
            with one history, its number of blocks, and its features in the order of
            :data:`autotune.core.decide.features.FEATURES`.
    """

    frequency: float | None = None
    gap_s: float | None = None
    hit_frac: float | None = None
    output_tokens: int | None = None
    stop_reason: str | None = None
    turn: int | None = None
    runs: tuple[RunFeatures, ...] | None = None


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """One request's access to consecutive blocks that shared one fate.

    Attributes:
        time_s: Seconds since the start of the epoch, at the moment the fate was known.
        epoch: Counts restarts, resets and losses of telemetry; records of different epochs are never joined.
        request: Number of the request within its epoch.
        chain: Session or first-block number that ties requests of one conversation together, -1 if unknown.
        block_ids: ``(n_blocks,)`` keys of the run in prefix order.
        first_depth_blocks: Position of the run's first block in its chain.
        tokens: Prompt tokens that the run stands for.
        tier: Where the run was found; ``None`` means that it was computed.
        moved_bytes: Bytes loaded for it (found below the device) or stored of it (computed).
        seconds: Seconds of the load, or of the prefill where it was computed; 0 for a device hit.
        features: What the deciding side knew.
    """

    VERSION: ClassVar[int] = 1

    time_s: float
    epoch: int
    request: int
    chain: int
    block_ids: tuple[int, ...]
    first_depth_blocks: int
    tokens: int
    tier: Tier | None
    moved_bytes: int
    seconds: float
    features: AccessFeatures = AccessFeatures()
