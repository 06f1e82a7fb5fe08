"""Sections that a document may leave out: streaming of running requests, hints of clients."""

from __future__ import annotations

from pydantic import Field

from autotune.core.policy.quantities import Frac
from autotune.core.streaming.placement import Placement
from autotune.core.validation import Strict


class Streaming(Strict):
    """How the KV of running requests may be streamed."""

    resident_frac: Frac = Field(
        description="p: share of the layers whose KV stays on the device; 1 = nothing is streamed."
    )
    prefetch_depth: int = Field(
        ge=0, le=4096, description="d: streamed layers that are fetched ahead of the one computed; 0 = none."
    )
    placement: Placement = Field(
        default=Placement.EVEN,
        description="Which layers are streamed: even (spread over all), first or last (in one row at that end).",
    )


class Hints(Strict):
    """Which hints of clients the engine may use."""

    use_session: bool = Field(default=False, description="Whether session ids and ends given by clients are used.")
    use_priority: bool = Field(default=False, description="Whether priorities given by clients are used.")
