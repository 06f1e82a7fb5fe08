"""Turn the full journals of a recording into Parquet: ``python -m autotune.traces.compact DIR``.

A process of its own, so that the one that records never loads pyarrow. Whenever it dies, each segment is there in one
form or in both, and both hold the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.core.errors import TraceError
from autotune.core.files import replaced_atomically, sync_folder
from autotune.traces.rolling.columns import read_segment, write_parquet
from autotune.traces.rolling.epochs import JOURNAL, PARQUET, SegmentName
from autotune.traces.rolling.journal import is_being_written


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was done.

    Attributes:
        written: Journals that are Parquet now.
        removed: Journals that held nothing, or were Parquet already.
        held: Journals that are being written.
        damaged: Why others could not be read; they stay as they are.
    """

    written: int
    removed: int
    held: int
    damaged: tuple[str, ...]


def compact(folder: Path) -> Compacted:
    """Turn every journal that nobody writes into Parquet, of the same age.

    Args:
        folder: The recording.

    Raises:
        OSError: the folder cannot be written.
        MissingExtraError: this environment has no pyarrow.
    """
    written = removed = held = 0
    damaged = []
    for journal in sorted(path for path in folder.iterdir() if path.suffix == JOURNAL and SegmentName.of(path)):
        try:
            if is_being_written(journal):
                held += 1
            elif journal.with_suffix(PARQUET).exists() or not _convert(journal):
                removed += 1
                journal.unlink(missing_ok=True)
            else:
                written += 1
        except FileNotFoundError:  # it was too old
            continue
        except TraceError as problem:
            damaged.append(str(problem))
    sync_folder(folder)
    return Compacted(written, removed, held, tuple(damaged))


def _convert(journal: Path) -> bool:
    """Write the Parquet, then remove the journal; ``False`` where the journal holds nothing."""
    times = journal.stat()
    columns = read_segment(journal)
    if columns is None or not len(columns.rows):
        return False
    parquet = journal.with_suffix(PARQUET)
    with replaced_atomically(parquet) as file:
        write_parquet(columns, file)
    os.utime(parquet, ns=(times.st_atime_ns, times.st_mtime_ns))
    journal.unlink(missing_ok=True)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status is 1 where a journal could not be read."""
    parser = argparse.ArgumentParser(prog="python -m autotune.traces.compact", description=__doc__)
    parser.add_argument("folder", type=Path, help="the recording")
    folder = parser.parse_args(arguments).folder
    try:
        done = compact(folder)
    except OSError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{done.written} written, {done.removed} removed, {done.held} being written")
    for line in done.damaged:
        print(line, file=sys.stderr)
    return 1 if done.damaged else 0


if __name__ == "__main__":
    sys.exit(main())
