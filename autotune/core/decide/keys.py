"""Keys of the policies that evict the smallest key but are not the rank rule; all are int64."""

from __future__ import annotations

from autotune.core.decide.rank import round_half_up

NEVER = 2**62
DENSITY_SCALE = 1024.0


def gdsf_key(inflation: int, frequency: float, value_ns: int) -> int:
    """Greedy-Dual-Size-Frequency for blocks of one size: ``L + frequency * cost``, in nanoseconds.

    Args:
        inflation: Key of the last evicted block, which ages the residents.
        frequency: Uses since the block became resident.
        value_ns: Cost of a miss on the block.

    Source: Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy",
    HPL-98-69R1, 1998.
    """
    return inflation + round_half_up(frequency * value_ns)


def next_use_key(next_use: int) -> int:
    """Farthest next use is the smallest key; a block that is never used again is smaller than all."""
    return -next_use


def seconds_density_key(value_ns: int, request: int, next_use: int) -> int:
    """Seconds that the next hit saves per request that the block has to stay for it.

    Args:
        value_ns: Seconds saved by a hit, in nanoseconds.
        request: Index of the request that made the last access.
        next_use: Index of the next request that will touch the block; it may run already, for it counts as a use when
            it finishes, and the block then has to stay for one request.
    """
    if next_use >= NEVER:
        return -1
    wait = next_use - request if next_use > request else 1
    return round_half_up(value_ns * DENSITY_SCALE / wait)
