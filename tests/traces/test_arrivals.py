"""Formats of arrivals only: ``azure`` and ``servegen``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.traces.lengths import PromptPart, parse_lengths

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
WriteClient = Callable[..., Path]


def azure(folder: Path, *rows: str, header: str = HEADER, **options: Any) -> Trace:
    """The trace of these rows."""
    (folder / "t.csv").write_text("\n".join([header, *rows]) + "\n")
    return Trace.open(f"azure:{folder}/t.csv", **options)


def test_azure_times_are_exact(tmp_path: Path) -> None:
    """All seven digits of a time count, offsets are applied, and days may change."""
    rows = ("2023-12-31 23:59:59.9999990,374,44", "2024-01-01T01:00:00.0000001+01:00,1,2")
    trace = azure(tmp_path, *rows)
    assert trace.arrival_s.tolist() == [0, 1.1e-06]
    assert trace.input_tokens.tolist() == [374, 1]
    assert trace.output_tokens.tolist() == [44, 2]


def test_azure_columns_are_found_by_name(tmp_path: Path) -> None:
    """Order and further columns do not matter."""
    trace = azure(tmp_path, "7,x,2023-11-16 18:15:46.68,8", header="GeneratedTokens,Extra,TIMESTAMP,ContextTokens")
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist()) == ([8], [7])


def test_azure_is_refused_for_cache_questions(data: Path) -> None:
    """A trace without blocks says so instead of answering with zero hits."""
    trace = Trace.open(f"azure:{data}/azure/*.csv.gz")
    assert (trace.n_requests, trace.has_blocks) == (300, False)
    with pytest.raises(TraceError, match="arrivals and lengths only"):
        trace.require_blocks()


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("2023-11-16 18:15:46.68,5", "malformed CSV"),
        ('2023-11-16 18:15:46.68,"5,5', "malformed CSV"),
        ("2023-11-16 18:15:46.68,-5,1", "out of range"),
        ("2023-11-16 18:15:46.68,5.0,1", "wrong type"),
        ("2023-11-16 18:15:46.68,nan,1", "wrong type"),
        ("2023-11-16 18:15:46.68,1_000,1", "wrong type"),
        ("2023-11-16 18:15:46.68,٣,1", "wrong type"),
        ("2023-11-16 18:15:46.68,99999999999999999999,1", "wrong type"),
        ("2023-11-16 18:15:46.68,3000000000,1", "out of range"),
        ("2023-02-30 18:15:46.68,5,1", "wrong type"),
        ("2023-11-16 18:15:46.68+99:99,5,1", "wrong type"),
        ("1969-11-16 18:15:46.68,5,1", "out of range"),
        ("9999-11-16 18:15:46.68,5,1", "out of range"),
        ("yesterday,5,1", "wrong type"),
        ("2023-11-16 18:15:45,5,1", "time goes back"),
    ],
)
def test_azure_malformed_row_fails_or_is_counted(tmp_path: Path, row: str, kind: str) -> None:
    """Each kind of malformed row is refused by line and counted when skipped."""
    good = "2023-11-16 18:15:46.68,5,1"
    with pytest.raises(TraceError, match=r"t\.csv:3: "):
        azure(tmp_path, good, row)
    trace = azure(tmp_path, good, row, good, on_error="skip")
    assert trace.n_requests == 2
    assert trace.provenance.skipped_rows == ((kind, 1),)


@pytest.mark.parametrize("header", ["time,id", "TIMESTAMP,ContextTokens,ContextTokens,GeneratedTokens", 'TIMESTAMP,"'])
def test_azure_wrong_header_is_refused(tmp_path: Path, header: str) -> None:
    """Without the columns there is nothing to skip to."""
    with pytest.raises(TraceError, match=r"header|CSV"):
        azure(tmp_path, "1,2,3", header=header, on_error="skip")


@pytest.fixture
def write_client(tmp_path: Path) -> WriteClient:
    """Function that writes one client's two files and returns the trace file."""

    def write(windows: list[str], dataset: Any = None, name: str = "chunk-1") -> Path:
        lengths = {"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{7: 1.0}"}}
        (tmp_path / f"{name}-trace.csv").write_text("\n".join(windows))
        (tmp_path / f"{name}-dataset.json").write_text(json.dumps(dataset or lengths))
        return tmp_path / f"{name}-trace.csv"

    return write


def test_servegen_window_gets_its_measured_number(write_client: WriteClient) -> None:
    """Each window has rate times length requests, silent ones none, all inside it."""
    windows = ["0,2.5,1,Gamma,1,0.4", "100,0,0,,0,0", "200,1,3,Weibull,0.4,0.2"]
    file = write_client(windows)
    trace = Trace.open(f"servegen:{file}", duration_s=300)
    absolute_s = trace.arrival_s
    assert trace.n_requests == 250 + 100
    assert np.count_nonzero(absolute_s < 100) == 250
    assert np.count_nonzero(absolute_s >= 190) == 100
    assert set(trace.input_tokens.tolist()) == {10, 20}
    assert set(trace.output_tokens.tolist()) == {7}


def test_servegen_gaps_follow_the_family(write_client: WriteClient) -> None:
    """Gaps have the coefficient of variation of the family's shape: 0.5 for a Gamma of shape 4."""
    file = write_client(["0,100,0.5,Gamma,4,1", "1000,0,0,,0,0"])
    gaps_s = np.diff(Trace.open(f"servegen:{file}", duration_s=1000).arrival_s)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(0.5, rel=0.02)


def test_servegen_depends_on_seed_and_records_it(write_client: WriteClient) -> None:
    """The same seed draws the same requests, another one others, and the provenance has it."""
    file = write_client(["0,1,1,Gamma,1,1"])
    one, same, other = (Trace.open(f"servegen:{file}", seed=seed) for seed in (1, 1, 2))
    assert one.arrival_s.tolist() == same.arrival_s.tolist()
    assert one.arrival_s.tolist() != other.arrival_s.tolist()
    assert dict(one.provenance.options) == {"seed": "1", "start_s": "0", "duration_s": "3600"}


def test_servegen_lengths_change_with_time(write_client: WriteClient) -> None:
    """A window uses the latest lengths measured at its start or before; before the first ones nothing arrives."""
    lengths = {
        "100": {"input_tokens": "{1: 1}", "output_tokens": "{1: 1}"},
        "200": {"input_tokens": "{2: 1}", "output_tokens": "{}"},
        "300": {"input_tokens": "{3: 1}", "output_tokens": "{1: 1}"},
    }
    file = write_client([f"{start},1,1,Gamma,1,1" for start in (0, 100, 200, 300)], lengths)
    trace = Trace.open(f"servegen:{file}")
    assert trace.input_tokens.tolist() == [1] * 200 + [3] * 100


def test_servegen_media_count_per_item() -> None:
    """Three images of two tokens are six tokens; prompts without one have none."""
    tokens, items = parse_lengths("{2: 1}"), parse_lengths("{0: 0.5, 3: 0.5}")
    assert tokens is not None
    drawn = PromptPart(tokens, items).draw(np.random.default_rng(0), 1_000)
    assert set(drawn.tolist()) == {0, 6}


def test_servegen_multimodal_prompt_is_the_sum_of_its_parts(write_client: WriteClient) -> None:
    """Text and media add up to the prompt's length."""
    lengths = {
        "0": {
            "text_tokens": "{100: 1}",
            "image_tokens": "{10: 1}",
            "image_count": "{2: 1}",
            "audio_tokens": "{5: 1}",
            "audio_count": "{0: 1}",
            "output_tokens": "{1: 1}",
        }
    }
    trace = Trace.open(f"servegen:{write_client(['0,1,1,Gamma,1,1'], lengths)}", duration_s=10)
    assert set(trace.input_tokens.tolist()) == {120}


def test_servegen_clients_form_one_stream(write_client: WriteClient) -> None:
    """A glob that matches both files of two clients reads each once, sorted by time."""
    for name in ("chunk-1", "chunk-2"):
        file = write_client(["0,1,1,Gamma,1,1"], name=name)
    trace = Trace.open(f"servegen:{file.parent}/*", duration_s=600)
    assert trace.n_requests == 1_200
    assert len(trace.provenance.paths) == 4
    assert len(set(trace.arrival_s.tolist())) == 1_200


@pytest.mark.parametrize(
    ("window", "kind"),
    [
        ("600,1,1,Gamma,1", "malformed CSV"),
        ("600,1,1,Pareto,1,1", "out of range"),
        ("600,nan,1,Gamma,1,1", "out of range"),
        ("600,inf,1,Gamma,1,1", "out of range"),
        ("600,-1,1,Gamma,1,1", "out of range"),
        ("600,1,1,Gamma,0,1", "out of range"),
        ("600,one,1,Gamma,1,1", "wrong type"),
        ("-600,1,1,Gamma,1,1", "wrong type"),
        ("0,1,1,Gamma,1,1", "time goes back"),
    ],
)
def test_servegen_malformed_window_fails_or_is_counted(window: str, kind: str, write_client: WriteClient) -> None:
    """Each kind of malformed window is refused by line and counted when skipped."""
    file = write_client(["0,1,1,Gamma,1,1", window])
    with pytest.raises(TraceError, match=r"trace\.csv:2: "):
        Trace.open(f"servegen:{file}")
    assert Trace.open(f"servegen:{file}", on_error="skip").provenance.skipped_rows == ((kind, 1),)


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "{1: 0.4}",
        "{-1: 1}",
        "{1.5: 1}",
        "{1: -1, 2: 2}",
        "{True: 1}",
        "__import__('os')",
        "{" * 500,
        "{1: 1e999}",
    ],
)
def test_servegen_malformed_lengths_are_refused(text: str, write_client: WriteClient) -> None:
    """Distributions are literal numbers that add up to 1; nothing in them is executed."""
    lengths = {"0": {"input_tokens": text, "output_tokens": "{1: 1}"}}
    with pytest.raises(TraceError, match=r"dataset\.json:window '0'"):
        Trace.open(f"servegen:{write_client(['0,1,1,Gamma,1,1'], lengths)}")


def test_servegen_needs_both_files(write_client: WriteClient) -> None:
    """A client without lengths, lengths without a client, or another file is refused."""
    file = write_client(["0,1,1,Gamma,1,1"])
    dataset = file.with_name("chunk-1-dataset.json")
    with pytest.raises(TraceError, match=r"must end in -trace\.csv"):
        Trace.open(f"servegen:{dataset}")
    dataset.rename(file.with_name("other.json"))
    with pytest.raises(TraceError, match="beside it"):
        Trace.open(f"servegen:{file}")
    with pytest.raises(TraceError, match=r"must end in -trace\.csv"):
        Trace.open(f"servegen:{file.parent}/other.json")


def test_servegen_refuses_to_draw_without_end(write_client: WriteClient) -> None:
    """More requests than memory is made for are refused before they are drawn."""
    with pytest.raises(TraceError, match="shorter duration_s"):
        Trace.open(f"servegen:{write_client(['0,1000000,1,Gamma,1,1'])}")


def test_servegen_span_without_arrivals_is_refused(write_client: WriteClient) -> None:
    """A silent span holds no trace."""
    with pytest.raises(TraceError, match="at least one request"):
        Trace.open(f"servegen:{write_client(['0,1,1,Gamma,1,1'])}", start_s=5_000)
