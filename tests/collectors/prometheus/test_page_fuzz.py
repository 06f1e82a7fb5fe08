"""Whatever comes under /metrics: an error of ours or a snapshot of finite figures, and never anything else."""

from __future__ import annotations

import gzip
import math
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.errors import AutotuneError
from autotune.core.signals import Kind, Snapshot, Unit, rates
from autotune_collectors.prometheus import read_page
from autotune_collectors.prometheus.body import Unpacker, check_kind
from autotune_collectors.prometheus.catalogue import catalogues

PAGES = sorted((Path(__file__).parents[2] / "data/metrics").glob("*.prom"))
VALUES = ("NaN", "-nan", "-1", "+Inf", "None", "1e308", "9" * 400, "0", "1", "0.5", "2.5", "", "1 1 1", '"7"', "1e-400")
N_QUICK = 300  # of each test in an ordinary run; a run for faults asks for more


@cache
def families() -> list[str]:
    """Every name that any engine's samples may have, with its marker."""
    return sorted(
        f"{one.markers[0]}:{family}{end}" for one in catalogues() for family in one.families() for end in ENDS
    )


ENDS = ("", "_total", "_bucket", "_sum", "_count", "_created")
LABELS = st.dictionaries(
    st.sampled_from(
        ["engine", "le", "tp_rank", "dp_rank", "model_name", "cache_source", "transfer_type", "block_size"]
    ),
    st.one_of(
        st.sampled_from(["0", "1", "+Inf", "0.1", "None", "device", "GPU_to_CPU", "nan", ""]), st.text(max_size=5)
    ),
    max_size=3,
)


def sample(name: str, labels: dict[str, str], value: str) -> str:
    """One line of a page; labels are not escaped, as in a careless server."""
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}" if labels else f"{name} {value}"


@st.composite
def mutated_pages(draw: st.DrawFn) -> bytes:
    """A real page with lines cut, repeated, swapped, and bytes changed."""
    lines = draw(st.sampled_from(PAGES)).read_bytes().split(b"\n")
    start = draw(st.integers(0, max(0, len(lines) - 1)))
    lines = lines[start : start + draw(st.integers(1, 40))]
    for _ in range(draw(st.integers(0, 6))):
        number = draw(st.integers(0, len(lines) - 1))
        line = lines[number]
        place = draw(st.integers(0, len(line)))
        lines[number] = draw(
            st.sampled_from(
                [
                    line[:place],
                    line[place:],
                    line + b"\n" + line,
                    line.rpartition(b" ")[0] + b" " + draw(st.sampled_from(VALUES)).encode(),
                    line[:place] + draw(st.binary(max_size=4)) + line[place:],
                    line.replace(b'"', b"\\", 1),
                ]
            )
        )
    return b"\n".join(lines)


def made_pages() -> st.SearchStrategy[bytes]:
    """Pages of names that are known, with any labels and values."""
    line = st.builds(sample, st.deferred(lambda: st.sampled_from(families())), LABELS, st.sampled_from(VALUES))
    return st.lists(line, max_size=12).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))


def check(page: bytes) -> Snapshot | None:
    """Read a page; what comes out must make sense."""
    try:
        snapshot = read_page(page, target="fuzz", at_s=1.0)
    except AutotuneError as error:
        assert len(str(error)) < 1000
        return None
    for signal, reading in snapshot.readings.items():
        assert signal.spec.kind is not Kind.HISTOGRAM
        if reading.value is not None:
            assert math.isfinite(reading.value)
            assert reading.value >= 0.0
            assert signal.spec.unit is not Unit.FRACTION or reading.value <= 1.0 + 1e-5
    for signal, histogram in snapshot.histograms.items():
        assert signal.spec.kind is Kind.HISTOGRAM
        assert math.isfinite(histogram.count)
        assert len(histogram.bounds) == len(histogram.counts)
        assert list(histogram.bounds) == sorted(histogram.bounds)
        assert min(histogram.counts, default=0.0) >= 0.0
    assert all(len(finding.evidence) < 5000 for finding in snapshot.findings)
    assert not any(snapshot.knows(signal) for signal in snapshot.declared)
    return snapshot


def check_pair(before: bytes, after: bytes) -> None:
    """Rates of any two pages are an epoch of their own or not negative."""
    first, second = check(before), check(after)
    if first is None or second is None:
        return
    later = Snapshot(second.target, 2.0, second.engine, second.readings, second.histograms, declared=second.declared)
    between = rates(first, later)
    assert not (between.reset and between.deltas)
    assert all(delta >= 0.0 for delta in between.deltas.values())


def check_packed(data: bytes, encoding: str) -> None:
    """Unpacking ends in bytes within the limit, or in an error of ours."""
    try:
        check_kind(encoding)
        unpacker = Unpacker(encoding, 10_000)
        for start in range(0, len(data), 7):
            unpacker.feed(data[start : start + 7])
        assert len(unpacker.finish()) <= 10_000
    except AutotuneError:
        return


ANY_PAGE = st.one_of(mutated_pages(), made_pages(), st.binary(max_size=300), st.text(max_size=300).map(str.encode))
PACKED = st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(gzip.compress))
ENCODINGS = st.one_of(st.sampled_from(["gzip", "", "identity", "br", "x-gzip"]), st.text(max_size=20))


@settings(max_examples=N_QUICK)
@given(page=ANY_PAGE)
def test_any_page(page: bytes) -> None:
    """Random bytes, damaged pages and made-up ones end in a snapshot that makes sense or in an error of ours."""
    check(page)


@settings(max_examples=N_QUICK)
@given(before=ANY_PAGE, after=ANY_PAGE)
def test_any_two_pages(before: bytes, after: bytes) -> None:
    """The difference of any two is never negative."""
    check_pair(before, after)


@settings(max_examples=N_QUICK)
@given(data=PACKED, encoding=ENCODINGS)
def test_any_packing(data: bytes, encoding: str) -> None:
    """Any bytes under any encoding unpack within the limit or end in an error of ours."""
    check_packed(data, encoding)


@pytest.mark.fuzz
@given(page=ANY_PAGE)
def test_any_page_for_long(page: bytes) -> None:
    """The same with as many inputs as the profile asks for."""
    check(page)


@pytest.mark.fuzz
@given(before=ANY_PAGE, after=ANY_PAGE)
def test_any_two_pages_for_long(before: bytes, after: bytes) -> None:
    """The same with as many inputs as the profile asks for."""
    check_pair(before, after)


@pytest.mark.fuzz
@given(data=PACKED, encoding=ENCODINGS)
def test_any_packing_for_long(data: bytes, encoding: str) -> None:
    """The same with as many inputs as the profile asks for."""
    check_packed(data, encoding)
