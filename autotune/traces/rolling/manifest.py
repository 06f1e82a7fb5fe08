"""``manifest.json``: what a recording holds, for people, status pages and the choice of an epoch.

The segments are the truth; this is a summary of them, written by the one that writes them. A summary that is missing or
damaged is begun anew from the segments' names.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotune.core.files import write_atomically
from autotune.core.telemetry.wire import EpochCause
from autotune.traces.fields import Malformed, integer, items, number, parse_object, text
from autotune.traces.rolling.epochs import EpochFacts, EvidenceGrade, SegmentName, segments_of

FILE_NAME = "manifest.json"
_SCHEMA = "kv-autotune/rolling-recording/v1"
_MAX_BYTES = 16 * 2**20
_MAX_S = 1e10


@dataclass(frozen=True, slots=True)
class ManifestEpoch:
    """One epoch in the summary.

    Attributes:
        epoch: Its number.
        facts: What holds for its requests.
        segments: Segments that are kept.
        requests: Requests written to it, those of deleted segments included.
        last_s: Time of the last one, since the start of the epoch.
    """

    epoch: int
    facts: EpochFacts
    segments: int
    requests: int
    last_s: float


class Manifest:
    """The summary of one folder.

    Args:
        folder: The recording.
        epochs: What it held when this was made.
        last_epoch: Highest number that an epoch ever had.
    """

    def __init__(self, folder: Path, epochs: Collection[ManifestEpoch], last_epoch: int) -> None:
        self._path = folder / FILE_NAME
        self._epochs = {epoch.epoch: epoch for epoch in epochs}
        self.last_epoch = last_epoch

    @classmethod
    def open(cls, folder: Path) -> Manifest:
        """The summary in a folder; an empty one where there is none that can be read."""
        try:
            with (folder / FILE_NAME).open("rb") as file:
                content = parse_object(file.read(_MAX_BYTES).decode("utf-8"))
            epochs = [_epoch(item) for item in items(content, "epochs")]
            return cls(folder, epochs, integer(content, "last_epoch"))
        except (OSError, UnicodeDecodeError, Malformed, ValueError):
            return cls(folder, (), max((name.epoch for name in segments_of(folder)), default=0))

    @property
    def epochs(self) -> tuple[ManifestEpoch, ...]:
        """Oldest first."""
        return tuple(self._epochs.values())

    def opened(self, name: SegmentName, facts: EpochFacts, kept: Collection[SegmentName]) -> None:
        """A segment was begun, and these are all that there are."""
        known = self._epochs.get(name.epoch, ManifestEpoch(name.epoch, facts, 0, 0, 0.0))
        self._epochs[name.epoch] = known
        self.last_epoch = max(self.last_epoch, name.epoch)
        counts = dict.fromkeys(self._epochs, 0)
        for segment in kept:
            if segment.epoch in counts:
                counts[segment.epoch] += 1
        self._epochs = {
            number: replace(epoch, segments=counts[number]) for number, epoch in self._epochs.items() if counts[number]
        }

    def count(self, name: SegmentName, n_requests: int, last_s: float) -> None:
        """Requests were written."""
        known = self._epochs[name.epoch]
        self._epochs[name.epoch] = replace(known, requests=known.requests + n_requests, last_s=last_s)

    def save(self) -> str | None:
        """Write it; why it could not be, if so. It is a summary: the segments do not depend on it."""
        content = {
            "schema": _SCHEMA,
            "last_epoch": self.last_epoch,
            "epochs": [_object(epoch) for epoch in self._epochs.values()],
        }
        try:
            write_atomically(self._path, json.dumps(content, indent=1) + "\n")
        except OSError as problem:
            return str(problem)
        return None


def _object(epoch: ManifestEpoch) -> dict[str, object]:
    facts = epoch.facts
    return {
        "epoch": epoch.epoch,
        "grade": facts.grade.value,
        "cause": facts.cause.value,
        "start_utc": facts.start_utc,
        "engine": facts.engine,
        "model": facts.model,
        "block_tokens": facts.block_tokens,
        "kv_bytes_per_token": facts.kv_bytes_per_token,
        "stream": facts.stream,
        "segments": epoch.segments,
        "requests": epoch.requests,
        "last_s": epoch.last_s,
    }


def _epoch(row: Any) -> ManifestEpoch:
    if not isinstance(row, dict):
        raise ValueError("an epoch must be an object")
    facts = EpochFacts(
        grade=EvidenceGrade(text(row, "grade")),
        cause=EpochCause(text(row, "cause")),
        start_utc=text(row, "start_utc"),
        engine=text(row, "engine"),
        model=text(row, "model"),
        block_tokens=integer(row, "block_tokens"),
        kv_bytes_per_token=integer(row, "kv_bytes_per_token", high=2**40),
        stream=text(row, "stream"),
    )
    return ManifestEpoch(
        epoch=integer(row, "epoch", low=1),
        facts=facts,
        segments=integer(row, "segments"),
        requests=integer(row, "requests", high=2**62),
        last_s=float(number(row, "last_s", low=0.0, high=_MAX_S)),
    )
