"""What every trace reader must do, whatever its format.

Subclass :class:`TraceReaderConformance` in a test file, say where a small valid trace is, and pytest runs the rest::

    class TestMyFormat(TraceReaderConformance):
        def make_source(self, folder):
            (folder / "t.jsonl").write_text(ROWS)
            return f"my-format:{folder}/t.jsonl"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.core.errors import TraceError
from autotune.core.trace import UNKNOWN, Trace, dense_ids

_DTYPES = {
    "arrival_s": np.float64,
    "input_tokens": np.int32,
    "output_tokens": np.int32,
    "session": np.int32,
    "stop_reason": np.int32,
    "block_offsets": np.int64,
    "block_ids": np.int32,
}


class TraceReaderConformance(ABC):
    """Contract of the callables in the entry-point group ``autotune.traces``."""

    @abstractmethod
    def make_source(self, folder: Path) -> str:
        """``FORMAT:PATH`` of a small valid trace; it may be written into ``folder``, which is empty."""

    def options(self) -> dict[str, Any]:
        """Options to read it with."""
        return {}

    @pytest.fixture
    def source(self, tmp_path: Path) -> str:
        """The source under test."""
        return self.make_source(tmp_path)

    @pytest.fixture
    def trace(self, source: str) -> Trace:
        """The trace under test."""
        return Trace.open(source, **self.options())

    def test_columns_have_their_types_and_lengths(self, trace: Trace) -> None:
        """Every column has the documented type and one entry per request or per access."""
        for name, dtype in _DTYPES.items():
            assert getattr(trace, name).dtype == dtype, name
        for name in ("arrival_s", "input_tokens", "output_tokens", "session", "stop_reason"):
            assert getattr(trace, name).shape == (trace.n_requests,), name
        assert trace.n_requests > 0
        assert trace.block_offsets.shape == (trace.n_requests + 1,)
        assert trace.block_ids.shape == (trace.block_offsets[-1],)

    def test_arrivals_begin_at_zero_and_never_decrease(self, trace: Trace) -> None:
        """Time starts with the first request and does not go back."""
        assert trace.arrival_s[0] == 0.0
        assert np.all(np.isfinite(trace.arrival_s))
        assert np.all(np.diff(trace.arrival_s) >= 0)
        assert trace.tick_s >= 0

    def test_offsets_begin_at_zero_and_never_decrease(self, trace: Trace) -> None:
        """Block ids are in CSR form."""
        assert trace.block_offsets[0] == 0
        assert np.all(np.diff(trace.block_offsets) >= 0)

    def test_ids_are_dense_by_first_appearance(self, trace: Trace) -> None:
        """Blocks are numbered from 0 in order of first appearance, without gaps."""
        numbered, n_blocks = dense_ids(trace.block_ids)
        assert np.array_equal(trace.block_ids, numbered)
        assert trace.n_blocks == n_blocks

    def test_blocks_fit_the_prompts(self, trace: Trace) -> None:
        """A prompt has at most one block per started block of tokens, and a trace without blocks has no ids."""
        counts = np.diff(trace.block_offsets)
        if trace.has_blocks:
            assert np.all(counts <= -(-trace.input_tokens // trace.block_tokens))
        else:
            assert trace.n_accesses == 0

    def test_values_are_in_range(self, trace: Trace) -> None:
        """Lengths are not negative; sessions and stop reasons are known numbers or -1."""
        assert np.all(trace.input_tokens >= 0)
        assert np.all(trace.output_tokens >= 0)
        assert np.all(trace.session >= UNKNOWN)
        assert np.all((trace.stop_reason >= UNKNOWN) & (trace.stop_reason < len(trace.stop_reasons)))

    def test_hints_are_whole_or_absent(self, trace: Trace) -> None:
        """Hints, if there are any, have their types and one entry per request, each known or -1."""
        if trace.hints is not None:
            hints = trace.hints
            dtypes = [column.dtype for column in (hints.session_end, hints.expected_idle_s, hints.priority)]
            assert dtypes == [np.int32, np.float64, np.int32]
            assert len(hints) == len(hints.expected_idle_s) == len(hints.priority) == trace.n_requests
            assert hints.faults == ()

    def test_provenance_is_set(self, trace: Trace) -> None:
        """The provenance names a format and files without folders, and has a hash and sorted pairs."""
        origin = trace.provenance
        assert origin.trace_format
        assert origin.paths
        assert all("/" not in name for name in origin.paths)
        assert len(origin.sha256) == 64
        assert list(origin.options) == sorted(origin.options)
        assert list(origin.skipped_rows) == sorted(origin.skipped_rows)

    def test_reading_is_deterministic(self, source: str, trace: Trace) -> None:
        """Reading twice gives the same trace, provenance included."""
        again = Trace.open(source, **self.options())
        for name in _DTYPES:
            assert np.array_equal(getattr(trace, name), getattr(again, name)), name
        for name in ("n_blocks", "block_tokens", "tick_s", "stop_reasons", "provenance"):
            assert getattr(trace, name) == getattr(again, name), name

    def test_skipping_leaves_a_valid_trace_alone(self, source: str, trace: Trace) -> None:
        """On a trace without faults, skipping malformed rows changes nothing."""
        skipping = Trace.open(source, **(self.options() | {"on_error": "skip"}))
        assert np.array_equal(trace.block_ids, skipping.block_ids)
        assert skipping.provenance == trace.provenance

    def test_unknown_option_is_refused(self, source: str) -> None:
        """An option that the format does not know is refused by name."""
        with pytest.raises(TraceError, match="no_such_option"):
            Trace.open(source, no_such_option=1)

    def test_unknown_way_with_errors_is_refused(self, source: str) -> None:
        """Malformed rows can fail or be skipped, nothing else."""
        with pytest.raises(TraceError, match="on_error"):
            Trace.open(source, **(self.options() | {"on_error": "ignore"}))

    def test_missing_file_is_refused(self, source: str) -> None:
        """A path that matches nothing is an error, not an empty trace."""
        trace_format = source.partition(":")[0]
        with pytest.raises(TraceError):
            Trace.open(f"{trace_format}:no-such-folder/no-such-file")
