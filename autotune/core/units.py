"""Unit constants and the few conversions between what people write and what the code computes with.

Inside, memory is bytes and time is seconds (or int64 nanoseconds where order must be exact); GiB and ms exist only in
YAML, on the command line and in reports.
"""

from __future__ import annotations

MIB = 1024**2
GIB = 1024**3
GB = 10**9
NS_PER_S = 1_000_000_000
MS_PER_S = 1_000


def bytes_to_gib(size_bytes: float) -> float:
    """GiB (2**30) in ``size_bytes`` bytes."""
    return size_bytes / GIB


def seconds_to_ns(time_s: float) -> int:
    """Nanoseconds in ``time_s`` seconds, rounded to nearest."""
    return round(time_s * NS_PER_S)
