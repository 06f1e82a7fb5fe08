"""Paths, compression, bounded reading and the hash over what was read."""

from __future__ import annotations

import gzip
import hashlib
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zstandard

from autotune.core.errors import TraceError, UnknownNameError
from autotune.core.trace import Trace
from autotune.core.units import MIB
from autotune.traces import files

ROW = json.dumps({"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [4, 7]}) + "\n"
CONTENT = ROW.encode() * 2


def test_compression_changes_nothing(tmp_path: Path) -> None:
    """Plain, gzip and zstd files give the same trace and the same hash, that of the decompressed bytes."""
    (tmp_path / "plain.jsonl").write_bytes(CONTENT)
    (tmp_path / "gzip.jsonl.gz").write_bytes(gzip.compress(CONTENT))
    two_frames = zstandard.compress(ROW.encode()) + zstandard.compress(ROW.encode())
    (tmp_path / "zstd.jsonl.zst").write_bytes(two_frames)
    traces = [Trace.open(f"mooncake:{tmp_path}/{name}*") for name in ("plain", "gzip", "zstd")]
    assert {trace.provenance.sha256 for trace in traces} == {hashlib.sha256(CONTENT).hexdigest()}
    assert all(trace.block_ids.tolist() == [0, 1, 0, 1] for trace in traces)


def test_large_zstd_file_is_read_whole(tmp_path: Path) -> None:
    """Content far beyond one feed of the decompressor comes out complete."""
    noise = np.random.default_rng(0).integers(0, 9, 200_000).astype(str)
    content = ("\n".join(noise) + "\n").encode()
    file = tmp_path / "t.zst"
    file.write_bytes(zstandard.compress(content))
    assert [line for line in files.read_lines(file, hashlib.sha256()) if line is not None] == content.splitlines()


def test_several_paths_are_one_stream(tmp_path: Path) -> None:
    """Files of a glob are read in order of name, given paths in the order given."""
    for name, time_ms in (("b", 2000), ("a", 1000), ("c", 3000)):
        (tmp_path / f"{name}.jsonl").write_text(ROW.replace('"timestamp": 0', f'"timestamp": {time_ms}'))
    assert Trace.open(f"mooncake:{tmp_path}/*.jsonl").arrival_s.tolist() == [0, 1, 2]
    listed = Trace.open([f"mooncake:{tmp_path}/a.jsonl", f"mooncake:{tmp_path}/c.jsonl"])
    assert listed.provenance.paths == ("a.jsonl", "c.jsonl")


@pytest.mark.parametrize(
    ("path", "message"),
    [("nothing-*.jsonl", "no match"), ("nothing.jsonl", "no match"), (".", "folder"), ("a\0b", "readable|no match")],
)
def test_path_that_is_no_file_is_refused(tmp_path: Path, path: str, message: str) -> None:
    """No match, a folder, or an impossible name is an error that says so."""
    with pytest.raises(TraceError, match=message):
        Trace.open(f"mooncake:{tmp_path}/{path}")


def test_file_given_twice_is_refused(tmp_path: Path) -> None:
    """Overlapping globs do not count requests twice."""
    (tmp_path / "t.jsonl").write_bytes(CONTENT)
    with pytest.raises(TraceError, match="only once"):
        Trace.open([f"mooncake:{tmp_path}/*", f"mooncake:{tmp_path}/t.*"])


def test_unknown_format_lists_known_ones() -> None:
    """The error for an unknown format names those there are."""
    with pytest.raises(UnknownNameError, match=r"mooncake.*servegen"):
        Trace.open("moonkake:t.jsonl")


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_truncated_file_fails_or_is_counted(tmp_path: Path, suffix: str) -> None:
    """A compressed file that ends early is refused; when skipping, the rows before the end stay and it is counted."""
    noise = np.random.default_rng(0).integers(0, 2**60, (4_000, 2)).tolist()
    rows = [ROW.replace("[4, 7]", str(ids)) for ids in noise]
    compress = gzip.compress if suffix == ".gz" else zstandard.compress
    file = tmp_path / f"t.jsonl{suffix}"
    whole = compress("".join(rows).encode())
    file.write_bytes(whole[: len(whole) - 9])
    with pytest.raises(TraceError, match="must be whole"):
        Trace.open(f"mooncake:{file}")
    trace = Trace.open(f"mooncake:{file}", on_error="skip")
    assert trace.provenance.skipped_rows == (("damaged file", 1),)
    assert 0 < trace.n_requests <= 4_000


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_file_that_is_not_compressed_as_named_is_refused(tmp_path: Path, suffix: str) -> None:
    """Plain text under a compressed name is an error of the file."""
    (tmp_path / f"t{suffix}").write_bytes(CONTENT)
    with pytest.raises(TraceError, match="must be whole"):
        Trace.open(f"mooncake:{tmp_path}/t{suffix}")


def test_line_of_a_gigabyte_is_refused_without_holding_it(tmp_path: Path) -> None:
    """A line beyond the bound gives a clear error, and memory stays at the bound."""
    file = tmp_path / "t.jsonl"
    with file.open("wb") as stream:
        stream.truncate(1024 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=r"t\.jsonl:1: a line must hold at most 16 MiB"):
            Trace.open(f"mooncake:{file}")
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


def test_overlong_line_is_passed_over_when_skipping(tmp_path: Path) -> None:
    """The rows around an overlong line are kept, and the hash covers all bytes."""
    content = ROW.encode() + b"x" * (17 * MIB) + b"\n" + ROW.encode()
    (tmp_path / "t.jsonl").write_bytes(content)
    trace = Trace.open(f"mooncake:{tmp_path}/t.jsonl", on_error="skip")
    assert trace.n_requests == 2
    assert trace.provenance.skipped_rows == (("line too long", 1),)
    assert trace.provenance.sha256 == hashlib.sha256(content).hexdigest()


def test_overlong_document_is_refused(tmp_path: Path) -> None:
    """A session file beyond the bound of documents is refused."""
    file = tmp_path / "t.json"
    with file.open("wb") as stream:
        stream.truncate(files.MAX_DOCUMENT_BYTES + 2)
    with pytest.raises(TraceError, match="at most 256 MiB"):
        Trace.open(f"kv-cache-tester:{file}")


def test_byte_order_mark_windows_line_ends_and_blank_lines_are_allowed(tmp_path: Path) -> None:
    """What editors leave in text files is no fault."""
    (tmp_path / "t.jsonl").write_bytes(b"\xef\xbb\xbf" + ROW.strip().encode() + b"\r\n\r\n" + ROW.encode() + b"\n")
    assert Trace.open(f"mooncake:{tmp_path}/t.jsonl").n_requests == 2
