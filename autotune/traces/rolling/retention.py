"""What is old or too much goes, the oldest first, so that the rest of an epoch is without gaps."""

from __future__ import annotations

from pathlib import Path

from autotune.core.clock import Clock
from autotune.traces.rolling.epochs import JOURNAL, PARQUET, SegmentName, segments_of


def retain(folder: Path, max_bytes: int, max_age_s: float, clock: Clock) -> list[SegmentName]:
    """Delete segments until no more than ``max_bytes`` and none older than ``max_age_s`` is left.

    Age is that of the file's last change. Only a segment before which all others go is deleted for its age.

    Args:
        folder: The recording.
        max_bytes: Most bytes that stay.
        max_age_s: Age from which a segment goes.
        clock: Tells the time of day.

    Returns:
        The names of those that went.

    Raises:
        OSError: one cannot be deleted.
    """
    segments = segments_of(folder)
    sizes = {name: (path.stat().st_size, path.stat().st_mtime) for name, path in segments.items()}
    total_bytes = sum(size for size, _ in sizes.values())
    oldest_s = clock.utc_now().timestamp() - max_age_s
    gone = []
    for name, (size, changed_s) in sizes.items():
        if total_bytes <= max_bytes and changed_s >= oldest_s:
            break
        for suffix in (JOURNAL, PARQUET):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)
        total_bytes -= size
        gone.append(name)
    return gone
