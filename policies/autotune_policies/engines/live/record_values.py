"""The values that an engine hands to the recorder: cheap to make, kept as they are until the thread encodes them."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.access import AccessFeatures
from autotune.core.telemetry.wire import Direction
from autotune.core.types import Tier

_NO_FEATURES = AccessFeatures()


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive chunks of one request and one group that shared one fate.

    Attributes:
        keys: ``(n_chunks,)`` keys in prefix order: the block hash, then four bytes with the group.
        first_depth: Position of the first chunk in its chain.
        tokens: Prompt tokens that the run stands for.
        tier: Where it was found; ``None`` = it was computed.
        moved_bytes: Bytes loaded for it, or stored of it.
        seconds: Seconds of the load, or of the prefill where it was computed.
        features: What the deciding side knew.
    """

    keys: tuple[bytes, ...]
    first_depth: int
    tokens: int
    tier: Tier | None
    moved_bytes: int = 0
    seconds: float = 0.0
    features: AccessFeatures = _NO_FEATURES


@dataclass(frozen=True, slots=True)
class RequestAccess:
    """What one request did to the caches, told once when its fate is known.

    Attributes:
        time_ns: Monotonic nanoseconds.
        request: Number of the request since the engine started.
        chain: Number that ties the requests of one conversation together, -1 if unknown.
        runs: In prefix order.
    """

    time_ns: int
    request: int
    chain: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One finished copy.

    Attributes:
        time_ns: Monotonic nanoseconds at which it was seen finished.
        direction: Which way.
        moved_bytes: Bytes copied.
        seconds: How long the copy itself took.
    """

    time_ns: int
    direction: Direction
    moved_bytes: int
    seconds: float
