"""The process of a search: ``python -m autotune.daemon.child JOB.json OUTCOME.json``.

It lowers its own priority, caps its own memory and processor time, and ends with whoever started it: that holds the
other end of its standard input. What is heavy is imported here and nowhere else in this package.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from autotune.core.clock import SystemClock
from autotune.core.errors import AutotuneError, ConfigError
from autotune.core.files import write_atomically
from autotune.core.strict_yaml import parse_mapping, read_text
from autotune.core.validation import validate
from autotune.daemon.jobs import OutcomeKind, TuneJob, TuneOutcome

_LOWEST_PRIORITY = 19
_USAGE = 2
_ORPHANED = 3


def main(arguments: list[str]) -> int:
    """Run one job; the exit code is 0 where an outcome was written, whatever it says."""
    if len(arguments) != 2:
        print("error: a search is given as JOB.json OUTCOME.json", file=sys.stderr)
        return _USAGE
    job_path, outcome_path = map(Path, arguments)
    job = validate(TuneJob, parse_mapping(read_text(job_path, ConfigError), ConfigError), ConfigError, str(job_path))
    limit(job)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    clock = SystemClock()
    started_s = clock.monotonic_s()

    def write(outcome: TuneOutcome) -> None:
        timed = outcome.model_copy(update={"seconds": clock.monotonic_s() - started_s})
        write_atomically(outcome_path, timed.model_dump_json(indent=1))

    write(_outcome(job, write))
    return 0


def limit(job: TuneJob) -> None:
    """Keep this process small and out of the engine's way."""
    os.nice(_LOWEST_PRIORITY)
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[-job.cores :])  # engines tend to take the first
    _lower(resource.RLIMIT_AS, job.max_bytes)
    _lower(resource.RLIMIT_CPU, int(job.cpu_s) + 1)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(which: int, limit: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(which, (value, hard))


def _outcome(job: TuneJob, keep: Callable[[TuneOutcome], None]) -> TuneOutcome:
    try:
        from autotune.daemon.child_work import tune_and_validate

        return tune_and_validate(job, keep)
    except AutotuneError as problem:
        return TuneOutcome(kind=OutcomeKind.FAILED, text=str(problem))
    except MemoryError:
        text = f"the search needs more memory than its cap of {job.max_bytes // 2**20} MiB"
        return TuneOutcome(kind=OutcomeKind.FAILED, text=text)


def _end_with_parent() -> None:
    """Wait for the end of standard input: nobody writes there, so it comes with the end of the parent."""
    while os.read(sys.stdin.fileno(), 1):  # unbuffered: a lock on the buffer would be missed at the regular end
        continue
    os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
