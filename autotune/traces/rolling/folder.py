"""A recording as a trace: one epoch of it, or several that share nothing.

Which epoch: the newest one with enough requests, else the one with most; option ``epoch`` names another. Requests of
different epochs are never joined: with ``epoch=separate`` they follow one another, and no block of one is known in
another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TraceError
from autotune.core.trace import UNKNOWN, Trace, TraceProvenance, dense_ids
from autotune.core.trace_hints import TraceHints
from autotune.traces.columns import offsets
from autotune.traces.options import whole
from autotune.traces.rolling.columns import SegmentColumns, read_segment
from autotune.traces.rolling.epochs import EpochFacts, EvidenceGrade, SegmentName, dump_facts, segments_of

FORMAT = "recording"
NEWEST, SEPARATE = "newest", "separate"
MIN_REQUESTS = 1_000
_ROUNDS = 5
_REMEDY = "move the files of that epoch away; other epochs stay readable"
_GAP_S = 1.0  # between epochs laid end to end; how long the engine was away is not known


@dataclass(frozen=True, slots=True)
class _Epoch:
    number: int
    facts: EpochFacts
    segments: tuple[SegmentColumns, ...]

    @property
    def requests(self) -> int:
        return sum(len(segment.rows) for segment in self.segments)


def is_rolling(folder: Path) -> bool:
    """Whether a folder is a recording that a sidecar keeps."""
    return folder.is_dir() and bool(segments_of(folder))


def read_folder(folder: Path, epoch: int | str = NEWEST, min_requests: int = MIN_REQUESTS) -> Trace:
    """Read a recording, also while it is written.

    Args:
        folder: The recording.
        epoch: ``newest``, a number, or ``separate`` for all of them one after the other.
        min_requests: Requests from which an epoch is long enough for ``newest``.

    Raises:
        TraceError: it is damaged, an option is not valid, or it holds nothing that a cache can be tuned on.
    """
    whole("min_requests", min_requests, low=1)
    for _ in range(_ROUNDS):
        try:
            chosen = _chosen(folder, epoch, min_requests)
        except FileNotFoundError:  # a segment became Parquet, or too old, between being listed and being read
            continue
        if any(each.facts.block_tokens < 1 for each in chosen):
            raise TraceError(f"{folder} must say how many tokens a block has", got="0", remedy=_REMEDY)
        return _trace(chosen, epoch == SEPARATE)
    raise TraceError("a recording must hold still for a moment", got=f"{folder} keeps changing", remedy="try again")


def _chosen(folder: Path, wanted: int | str, min_requests: int) -> list[_Epoch]:
    epochs = _newest_first(segments_of(folder))
    if wanted == NEWEST:
        return [_newest(folder, epochs, min_requests)]
    if wanted == SEPARATE:
        return _of_one_kind(_usable(folder, list(epochs)))
    found = segments_of(folder)
    named = list(_newest_first({name: path for name, path in found.items() if name.epoch == wanted}))
    if named:
        return _usable(folder, named)
    held = ", ".join(f"{each.number} ({each.requests:,} requests)" for each in reversed(list(epochs)))
    raise TraceError(
        f"epoch must be {NEWEST}, {SEPARATE} or the number of one that is there",
        got=repr(wanted),
        remedy=f"there are {held or 'none'}",
    )


def _newest(folder: Path, epochs: Iterator[_Epoch], min_requests: int) -> _Epoch:
    """The newest one that is long enough, before which no other is read; else the one with most requests."""
    passed_over: list[_Epoch] = []
    for each in epochs:
        if each.facts.grade is EvidenceGrade.TELEMETRY and each.requests >= min_requests:
            return each
        passed_over.append(each)
    return max(_usable(folder, passed_over), key=lambda each: (each.requests, each.number))


def _usable(folder: Path, epochs: Sequence[_Epoch]) -> list[_Epoch]:
    """Those in which every access is known, oldest first.

    Raises:
        TraceError: there is none.
    """
    usable = [each for each in epochs if each.facts.grade is EvidenceGrade.TELEMETRY]
    if not epochs:
        raise TraceError("a recording must hold at least one request", got=f"none in {folder}", remedy="wait for some")
    if not usable:
        raise TraceError(
            "a trace must know every access, so a cache cannot be tuned on a stock engine's events: hits on the device "
            "emit none",
            got=f"grade {EvidenceGrade.EVENTS_ONLY.value} in {folder}",
            remedy="load the plug-in with its setting 'telemetry'; verdicts from counters need no trace: "
            "'kv-autotune doctor URL'",
        )
    return sorted(usable, key=lambda each: each.number)


def _newest_first(found: Mapping[SegmentName, Path]) -> Iterator[_Epoch]:
    """The epochs that hold requests, each read when it is asked for."""
    for number in sorted({name.epoch for name in found}, reverse=True):
        segments = _segments(found, [name for name in found if name.epoch == number])
        if sum(len(segment.rows) for segment in segments):
            yield _Epoch(number, segments[0].facts, tuple(segments))


def _segments(found: Mapping[SegmentName, Path], names: Sequence[SegmentName]) -> list[SegmentColumns]:
    """The segments of one epoch, which follow one another without a gap."""
    segments: list[SegmentColumns] = []
    for place, name in enumerate(names):
        path = found[name]
        columns = read_segment(path)
        is_last = place == len(names) - 1
        if place and name.number != names[place - 1].number + 1:
            got = f"{names[place - 1]}, then {name}"
            raise TraceError(f"{path.parent} must have all segments of an epoch", got=got, remedy=_REMEDY)
        if columns is None or not columns.is_whole:
            if not is_last:
                raise TraceError(f"{path} must be whole, as others follow it", got="a cut file", remedy=_REMEDY)
            if columns is None:
                break
        if segments:
            _must_follow(path, segments[-1], columns)
        segments.append(columns)
    return segments


def _must_follow(path: Path, before: SegmentColumns, after: SegmentColumns) -> None:
    if after.facts != before.facts:
        raise TraceError(
            f"{path} must say what the segments of its epoch say", got="another model, engine or start", remedy=_REMEDY
        )
    if len(before.rows) and len(after.rows) and after.rows["time_s"][0] < before.rows["time_s"][-1]:
        raise TraceError(f"{path} must not begin before its predecessor ends", got="an earlier time", remedy=_REMEDY)


def _of_one_kind(epochs: Sequence[_Epoch]) -> list[_Epoch]:
    """All epochs with the model and block size of the newest: others say nothing about it."""
    kind = (epochs[-1].facts.model, epochs[-1].facts.block_tokens)
    return [each for each in epochs if (each.facts.model, each.facts.block_tokens) == kind]


def _trace(epochs: Sequence[_Epoch], is_separate: bool) -> Trace:
    segments = [(place, segment) for place, each in enumerate(epochs) for segment in each.segments]
    rows = np.concatenate([segment.rows for _, segment in segments])
    words, reasons = _reasons([segment for _, segment in segments])
    block_ids, n_blocks = _blocks([(place, segment.block_ids) for place, segment in segments])
    numbers = ",".join(str(each.number) for each in epochs)
    facts = epochs[-1].facts
    return Trace(
        arrival_s=_arrivals(epochs),
        input_tokens=np.ascontiguousarray(rows["input_tokens"]),
        output_tokens=np.ascontiguousarray(rows["output_tokens"]),
        session=_sessions([(place, segment.rows["session"]) for place, segment in segments]),
        stop_reason=reasons,
        block_offsets=offsets(rows["n_blocks"].astype(np.int64)),
        block_ids=block_ids,
        n_blocks=n_blocks,
        block_tokens=facts.block_tokens,
        provenance=TraceProvenance(
            trace_format=FORMAT,
            paths=tuple(f"epoch-{each.number:04}" for each in epochs),
            sha256=_digest(epochs),
            options=(
                ("epoch", SEPARATE if is_separate else numbers),
                ("grade", facts.grade.value),
                ("model", facts.model),
            ),
        ),
        stop_reasons=words,
        hints=TraceHints.joined([(segment.hints, len(segment.rows)) for _, segment in segments]),
    )


def _arrivals(epochs: Sequence[_Epoch]) -> npt.NDArray[np.float64]:
    """Times of all epochs, each after the one before, from 0."""
    parts, end_s = [], 0.0
    for each in epochs:
        times = np.concatenate([segment.rows["time_s"] for segment in each.segments])
        parts.append(times - times[0] + end_s)
        end_s = float(parts[-1][-1]) + _GAP_S
    return np.concatenate(parts)


def _blocks(parts: Sequence[tuple[int, npt.NDArray[np.uint64]]]) -> tuple[npt.NDArray[np.int32], int]:
    """Dense ids; the same number in two epochs is two blocks."""
    ids: list[npt.NDArray[np.int32]] = []
    n_blocks = 0
    for epoch in sorted({place for place, _ in parts}):
        dense, n_new = dense_ids(np.concatenate([numbers for place, numbers in parts if place == epoch]))
        ids.append(dense + np.int32(n_blocks))
        n_blocks += n_new
    return np.concatenate(ids), n_blocks


def _sessions(parts: Sequence[tuple[int, npt.NDArray[np.int64]]]) -> npt.NDArray[np.int32]:
    """Dense conversations; the same one in two epochs is two."""
    sessions = np.concatenate([numbers for _, numbers in parts])
    epochs = np.concatenate([np.full(len(numbers), place, np.int64) for place, numbers in parts])
    known = sessions != UNKNOWN
    result = np.full(len(sessions), UNKNOWN, np.int32)
    _, pairs = np.unique(np.stack([epochs[known], sessions[known]]), axis=1, return_inverse=True)
    result[known] = dense_ids(pairs.reshape(-1))[0]
    return result


def _reasons(segments: Sequence[SegmentColumns]) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """One list of words for all segments, and the column in it."""
    words: dict[str, int] = {}
    parts = []
    for segment in segments:
        numbers = [words.setdefault(word, len(words)) for word in segment.words]
        table = np.array([*numbers, UNKNOWN], np.int32)  # -1, unknown, is the last one
        parts.append(table[segment.rows["stop_reason"]])
    return tuple(words), np.concatenate(parts)


def _digest(epochs: Sequence[_Epoch]) -> str:
    """Over what the files say, not over their bytes: a journal and the Parquet made from it are the same content."""
    digest = hashlib.sha256()
    for each in epochs:
        digest.update(dump_facts(each.facts))
        for segment in each.segments:
            digest.update(np.ascontiguousarray(segment.rows).tobytes())
            digest.update(segment.block_ids.astype("<u8").tobytes())
            digest.update("\n".join(segment.words).encode())
            if segment.hints is not None:
                for column in (segment.hints.session_end, segment.hints.expected_idle_s, segment.hints.priority):
                    digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
