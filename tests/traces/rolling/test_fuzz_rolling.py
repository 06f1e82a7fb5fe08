"""A recording with arbitrary content gives a valid trace or a ``TraceError``, nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rolling_samples import FACTS, record

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.compact import compact
from autotune.traces.rolling.epochs import dump_facts, segments_of
from autotune.traces.rolling.journal import FACTS as FACTS_KIND
from autotune.traces.rolling.journal import MAGIC, ROW, framed
from autotune.traces.rolling.manifest import Manifest

SHORT = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
LONG = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.binary(max_size=9), st.sampled_from([0, 1, 9, 60])), min_size=1, max_size=4
)
ROWS = st.builds(
    lambda *values: b"R" + ROW.pack(*values[:-1], len(values[-1]) // 8) + values[-1],
    st.floats(),
    *[st.integers(-2, 2**31 - 1)] * 2,
    st.integers(-2, 2**63 - 1),
    st.integers(-2, 3),
    *[st.integers(-2, 9)] * 2,
    st.binary(max_size=40),
)
FRAMES = st.lists(
    st.binary(max_size=60) | ROWS | st.just(b"Wstop") | st.just(FACTS_KIND + dump_facts(FACTS)), max_size=6
)


@pytest.fixture(scope="module")
def parts() -> dict[str, bytes]:
    """Two good segments in both forms."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        record(Path(name), range(60))
        found = {path.name: path.read_bytes() for path in segments_of(Path(name)).values()}
        compact(Path(name))
        found |= {path.name: path.read_bytes() for path in segments_of(Path(name)).values()}
    return found


def read(files: dict[str, bytes]) -> None:
    """Read files as a recording, and compact them, and check what comes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        Manifest.open(folder)
        for _ in range(2):
            try:
                trace = Trace.open(f"recording:{folder}", min_requests=1)
            except TraceError as error:
                assert str(error)
            else:
                assert np.all(np.diff(trace.arrival_s) >= 0)
                assert np.all(np.isfinite(trace.arrival_s))
                assert np.all((trace.block_ids >= 0) & (trace.block_ids < trace.n_blocks))
                assert np.all(trace.stop_reason < len(trace.stop_reasons))
                assert trace.block_offsets[-1] == len(trace.block_ids)
            compact(folder)


def damaged(parts: dict[str, bytes], suffix: str, edits: list[tuple[int, bytes, int]]) -> dict[str, bytes]:
    """The segments of one form, with bytes of one of them changed."""
    files = {name: content for name, content in parts.items() if name.endswith(suffix)}
    for place, piece, length in edits:
        name = sorted(files)[place % len(files)]
        content = bytearray(files[name])
        start = place % (len(content) + 1)
        content[start : start + length] = piece
        files[name] = bytes(content)
    return files


def journal(frames: list[bytes], has_facts: bool) -> dict[str, bytes]:
    """A journal whose frames have right sums and any content."""
    facts = [FACTS_KIND + dump_facts(FACTS)] if has_facts else []
    return {"epoch-0001-seg-0001.journal": MAGIC + b"".join(map(framed, [*facts, *[each or b"?" for each in frames]]))}


@pytest.mark.parametrize("suffix", [".journal", ".parquet"])
@given(edits=EDITS)
@SHORT
def test_damaged_segments(parts: dict[str, bytes], suffix: str, edits: list[tuple[int, bytes, int]]) -> None:
    """Bytes changed, cut out and put in, anywhere."""
    read(damaged(parts, suffix, edits))


@given(frames=FRAMES, has_facts=st.booleans())
@SHORT
def test_frames_of_any_content(frames: list[bytes], has_facts: bool) -> None:
    """Frames whose sums are right and whose content is not."""
    read(journal(frames, has_facts))


@given(content=st.binary(max_size=200), manifest=st.binary(max_size=100))
@SHORT
def test_any_bytes(content: bytes, manifest: bytes) -> None:
    """Files of any bytes, the manifest too."""
    read({"epoch-0001-seg-0001.journal": content, "epoch-0001-seg-0002.parquet": content, "manifest.json": manifest})


@pytest.mark.fuzz
@pytest.mark.parametrize("suffix", [".journal", ".parquet"])
@given(edits=EDITS)
@LONG
def test_damaged_segments_for_long(parts: dict[str, bytes], suffix: str, edits: list[tuple[int, bytes, int]]) -> None:
    """The same for longer."""
    read(damaged(parts, suffix, edits))


@pytest.mark.fuzz
@given(frames=FRAMES, has_facts=st.booleans())
@LONG
def test_frames_of_any_content_for_long(frames: list[bytes], has_facts: bool) -> None:
    """The same for longer."""
    read(journal(frames, has_facts))
