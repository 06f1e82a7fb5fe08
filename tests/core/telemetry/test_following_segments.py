"""Reading on where a folder of segments grows: each frame once, in order, none torn."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.core.telemetry.following import SegmentFollower
from autotune.core.telemetry.segments import LENGTH

BIG = 10**6


def name(number: int) -> str:
    """A segment's name."""
    return f"records-20260131T120000Z-1a2b3c4d-{number:06}.kva"


def packed(*frames: bytes) -> bytes:
    """Frames as a segment has them."""
    return b"".join(LENGTH.pack(len(frame)) + frame for frame in frames)


def append(path: Path, content: bytes) -> None:
    """Add bytes to a file."""
    with path.open("ab") as file:
        file.write(content)


def test_each_frame_comes_once_as_it_is_written(tmp_path: Path) -> None:
    """A folder that comes into being later, frames in pieces, and segments that follow one another."""
    folder = tmp_path / "later"
    follower = SegmentFollower(folder)
    assert follower.read(BIG) == []
    folder.mkdir()
    whole = packed(b"one", b"two")
    seen = []
    for place in range(0, len(whole), 3):
        append(folder / name(0), whole[place : place + 3])
        seen += follower.read(BIG)
    assert seen == [b"one", b"two"]
    append(folder / name(0), packed(b"three"))
    append(folder / name(1), packed(b"four"))
    append(folder / name(2), packed(b"five"))
    assert follower.read(BIG) == [b"three", b"four", b"five"]
    assert follower.read(BIG) == []


def test_a_torn_end_is_left_for_the_next_segment(tmp_path: Path) -> None:
    """A crash tore the last frame; the next start wrote another segment."""
    append(tmp_path / name(0), packed(b"one", b"torn")[:-2])
    follower = SegmentFollower(tmp_path)
    assert follower.read(BIG) == [b"one"]
    append(tmp_path / name(1), packed(b"two"))
    assert follower.read(BIG) == [b"two"]


def test_a_turn_reads_no_more_than_about_its_bound(tmp_path: Path) -> None:
    """A long backlog comes in pieces."""
    for number in range(4):
        append(tmp_path / name(number), packed(*[bytes(96)] * 50))
    follower = SegmentFollower(tmp_path)
    turns = []
    while frames := follower.read(1_000):
        turns.append(len(frames))
    assert sum(turns) == 200
    assert max(turns) <= 11


def test_a_segment_that_was_deleted_is_passed_over(tmp_path: Path) -> None:
    """The engine made room faster than it was read; the reader goes on with what is there."""
    for number in range(3):
        append(tmp_path / name(number), packed(b"%d" % number))
    follower = SegmentFollower(tmp_path)
    assert follower.read(5) == [b"0"]
    for number in range(2):
        (tmp_path / name(number)).unlink()
    assert follower.read(BIG) == [b"2"]


@pytest.mark.parametrize("length", [2**32 - 1, 2**27])
def test_a_length_that_cannot_be_ends_its_segment(tmp_path: Path, length: int) -> None:
    """Damage is counted, and what follows in other segments is read."""
    append(tmp_path / name(0), packed(b"one") + LENGTH.pack(length) + bytes(50))
    append(tmp_path / name(1), packed(b"two"))
    follower = SegmentFollower(tmp_path)
    assert follower.read(BIG) == [b"one", b"two"]
    assert follower.damaged == 1


def test_from_the_end_only_what_comes_is_read(tmp_path: Path) -> None:
    """What is there already is passed over, but for the header that the newest segment begins with."""
    append(tmp_path / name(0), packed(b"header", b"old"))
    append(tmp_path / name(1), packed(b"header", b"old", b"older"))
    follower = SegmentFollower(tmp_path, from_end=True)
    assert follower.read(BIG) == [b"header"]
    append(tmp_path / name(1), packed(b"new"))
    assert follower.read(BIG) == [b"new"]
