"""Progress of a long run on stderr: bars on a terminal, a line per step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

Advance = Callable[[int], None]


class Screen:
    """Shows which step runs and how far it is; a context manager."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._console, disable=not self._console.is_terminal)

    def __enter__(self) -> Screen:
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing."""
        self._progress.stop()

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """One step; gives a function that takes how much of ``total`` is done."""
        started_s = time.monotonic()
        task = self._progress.add_task(text, total=total)
        if self._progress.disable:
            self._console.print(f"{text} ...", markup=False, highlight=False)
        yield lambda done: self._progress.update(task, completed=done)
        self._progress.update(task, total=total or 1, completed=total or 1)
        self._progress.stop_task(task)
        if self._progress.disable:
            self._console.print(f"  {time.monotonic() - started_s:.0f} s", markup=False, highlight=False)
