"""What a manager remembers of a request while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autotune.core.access import AccessFeatures
from autotune.core.types import Tier
from autotune_policies.engines.vllm.groups import GROUP_BYTES


@dataclass(slots=True)
class RequestTrail:
    """What one request has shown of its chain so far.

    Attributes:
        tips: Per group suffix, the deepest chunk seen and its depth.
        starts: Depth of the first chunk of each offer, where the engine does not tell; an offer may be repeated.
        used: Chunks that it loaded or that it offered, in order, for engines that do not report them at its end.
        brought: Those of them that it brought in.
        refused: Chunks that were refused and remembered, each once.
        missed: Missing chunks that were counted.
        loaded: Loaded chunks that were counted.
        is_idle: Whether it is no request, but the device that gives chunks up.
        known: What was known of its runs when they were decided about, by where they were found.
    """

    tips: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    starts: dict[bytes, int] = field(default_factory=dict)
    used: list[bytes] = field(default_factory=list)
    brought: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    missed: int = 0
    loaded: int = 0
    is_idle: bool = False
    known: dict[Tier | None, AccessFeatures] = field(default_factory=dict)


def by_group(keys: Sequence[bytes]) -> list[tuple[bytes, Sequence[bytes]]]:
    """An offer cut into its groups; nearly always there is one."""
    if not keys:
        return []
    first = keys[0][-GROUP_BYTES:]
    if first == keys[-1][-GROUP_BYTES:]:
        return [(first, keys)]
    groups: dict[bytes, list[bytes]] = {}
    for key in keys:
        groups.setdefault(key[-GROUP_BYTES:], []).append(key)
    return list(groups.items())
