"""Format ``servegen``: arrivals and lengths drawn from the measured statistics of clients of a public cloud.

A client is two files. ``*-trace.csv`` has no header; a row is a window of time: start (s), mean rate (requests per s),
coefficient of variation, family of the gaps between arrivals (``Gamma`` or ``Weibull``; empty for a silent window), and
the family's shape and scale. ``*-dataset.json`` beside it maps window starts to length distributions, written as text
such as ``"{13: 0.5, 14: 0.5}"`` (tokens to probability), which hold until the next start.

There are no requests in these files; they are drawn here, from an explicit seed that the provenance records. A window
gets exactly the number of requests that its rate says; their gaps come from the family with the measured shape, scaled
so that they fill the window. Prompt tokens are ``input_tokens`` or, for multimodal clients, the sum of the text, image,
audio and video tokens. Several clients are one stream. There are no block ids: usable for the queueing model only.

Source: alibaba/ServeGen, servegen/clientpool.py and construct.py; Xiang et al., "ServeGen", arXiv 2505.09999.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.core.units import NS_PER_S
from autotune.traces.columns import Columns
from autotune.traces.csv_rows import split
from autotune.traces.fields import Fault, Malformed, Row, decimal_text, parse_object, present
from autotune.traces.files import COMPRESSED_SUFFIXES, stem
from autotune.traces.intake import Intake
from autotune.traces.lengths import Lengths, parse_lengths
from autotune.traces.options import number_text, reader, seconds, whole

FORMAT = "servegen"
TRACE_SUFFIX = "-trace.csv"
DATASET_SUFFIX = "-dataset.json"
MAX_REQUESTS = 20_000_000
_LAST_WINDOW_S = 600.0
_PROMPT_PARTS = ("input_tokens", "text_tokens", "image_tokens", "audio_tokens", "video_tokens")
_FAMILIES = ("Gamma", "Weibull")


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time with one arrival process; ``family`` is empty where nothing arrives."""

    start_s: float
    rate_per_s: float
    family: str
    shape: float


@dataclass(frozen=True, slots=True)
class Client:
    """One client's arrivals and, by start of validity, its prompt and output lengths."""

    windows: list[Window]
    prompt: dict[float, list[Lengths]]
    output: dict[float, Lengths]


@reader
def read(
    paths: list[str], *, on_error: str = "fail", seed: int = 0, start_s: float = 0.0, duration_s: float = 3600.0
) -> Trace:
    """Draw the requests of one client or several.

    Args:
        paths: ``*-trace.csv`` files or globs; ``*-dataset.json`` files that a glob matches too are passed over, since the
            one beside each trace is read anyway.
        on_error: ``fail`` at the first malformed window, or ``skip`` and count them.
        seed: Of all draws.
        start_s: Where to begin in the clients' time.
        duration_s: How much of it to draw (the files describe up to two weeks).

    Raises:
        TraceError: a file cannot be read, a window is malformed, or there would be more than ``MAX_REQUESTS``.
    """
    whole("seed", seed)
    end_s = seconds("start_s", start_s) + seconds("duration_s", duration_s, low=1e-3)
    intake = Intake(FORMAT, paths, on_error)
    intake.files = _with_datasets(intake.files)
    columns = Columns(units_per_s=NS_PER_S, must_be_sorted=False)
    seeds = np.random.SeedSequence(seed).spawn(len(intake.files) // 2)
    for trace_file, dataset_file, child in zip(intake.files[::2], intake.files[1::2], seeds, strict=True):
        client = _client(intake, trace_file, dataset_file)
        _draw(columns, client, np.random.default_rng(child), start_s, end_s)
    provenance = intake.provenance(seed=seed, start_s=number_text(start_s), duration_s=number_text(duration_s))
    return columns.trace(provenance, block_tokens=0, tick_s=0.0)


def _with_datasets(files: Sequence[Path]) -> list[Path]:
    """Each trace file followed by its dataset."""
    result: list[Path] = []
    for file in files:
        if stem(file).endswith(DATASET_SUFFIX):
            continue
        if not stem(file).endswith(TRACE_SUFFIX):
            raise TraceError(f"a client's file must end in {TRACE_SUFFIX}", got=str(file), remedy="give that file")
        base = stem(file).removesuffix(TRACE_SUFFIX) + DATASET_SUFFIX
        beside = [file.with_name(base + suffix) for suffix in (file.suffix, "", *COMPRESSED_SUFFIXES) if suffix != ".csv"]
        dataset = next((candidate for candidate in beside if candidate.is_file()), None)
        if dataset is None:
            raise TraceError(f"a client's {TRACE_SUFFIX} needs its {DATASET_SUFFIX} beside it", got=f"no {base}")
        result += [file, dataset]
    if not result:
        raise TraceError(f"at least one file must end in {TRACE_SUFFIX}", got=f"only {DATASET_SUFFIX} files")
    return result


def _client(intake: Intake, trace_file: Path, dataset_file: Path) -> Client:
    windows: list[Window] = []
    for number, line in intake.lines(trace_file):
        try:
            windows.append(_window(split(line), windows))
        except Malformed as fault:
            intake.reject(trace_file, number, fault)
    prompt: dict[float, list[Lengths]] = {}
    output: dict[float, Lengths] = {}
    for key, row in _dataset(intake, dataset_file).items():
        try:
            start_s = float(decimal_text(key, "a window's start", per_unit=1))
            prompt_lengths, output_lengths = _prompt_lengths(row), parse_lengths(present(row, "output_tokens"))
        except Malformed as fault:
            intake.reject(dataset_file, key[:40], fault)
            continue
        # An empty distribution means that nothing was measured: the one before stays valid.
        if output_lengths is not None and prompt_lengths:
            prompt[start_s], output[start_s] = prompt_lengths, output_lengths
    return Client(windows, dict(sorted(prompt.items())), dict(sorted(output.items())))


def _window(fields: list[str], before: list[Window]) -> Window:
    if len(fields) != 6:
        raise Malformed(Fault.NOT_CSV, "a window must have 6 fields", f"{len(fields)}")
    start, rate, _, family, shape, _ = fields
    start_s = decimal_text(start, "a window's start", per_unit=1_000) / 1_000
    if before and start_s <= before[-1].start_s:
        raise Malformed(Fault.TIME_GOES_BACK, "windows must be in order of time", start)
    if not family:
        return Window(start_s, 0.0, "", 1.0)
    if family not in _FAMILIES:
        raise Malformed(Fault.OUT_OF_RANGE, f"the family of gaps must be one of {', '.join(_FAMILIES)}", family)
    return Window(start_s, _positive(rate, "the rate"), family, _positive(shape, "the shape"))


def _positive(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise Malformed(Fault.WRONG_TYPE, f"{name} must be a number", text) from error
    if not 1e-3 <= value <= 1e6:  # also false for NaN; shapes below 0.001 underflow to gaps of 0
        raise Malformed(Fault.OUT_OF_RANGE, f"{name} must be from 0.001 to 1000000", text)
    return value


def _dataset(intake: Intake, file: Path) -> dict[str, Row]:
    text = intake.document(file)
    if text is None:
        return {}
    try:
        return {key: _object(value) for key, value in parse_object(text).items()}
    except Malformed as fault:
        intake.reject(file, 1, fault)
        return {}


def _object(value: object) -> Row:
    if not isinstance(value, dict):
        raise Malformed(Fault.WRONG_TYPE, "a window's distributions must be a JSON object", value)
    return value


def _prompt_lengths(row: Row) -> list[Lengths]:
    parts = [parse_lengths(row[name]) for name in _PROMPT_PARTS if name in row]
    if not parts:
        raise Malformed(Fault.MISSING_FIELD, "input_tokens or text_tokens must be given", "neither")
    return [part for part in parts if part is not None]


def _draw(columns: Columns, client: Client, random: np.random.Generator, start_s: float, end_s: float) -> None:
    for window, stop_s in _until(client.windows):
        if window.start_s >= end_s or stop_s <= start_s:
            continue
        lengths_from = bisect.bisect_right(list(client.output), window.start_s) - 1
        if not window.family or lengths_from < 0:
            continue
        low_s, high_s = max(window.start_s, start_s), min(stop_s, end_s)
        n_requests = round(window.rate_per_s * (high_s - low_s))
        _require_few(len(columns) + n_requests)
        arrival_s = low_s + (high_s - low_s) * _shares(window, n_requests, random)
        valid_from = list(client.output)[lengths_from]
        input_tokens = sum(part.draw(random, n_requests) for part in client.prompt[valid_from])
        output_tokens = client.output[valid_from].draw(random, n_requests)
        for time_ns, n_in, n_out in zip(
            np.rint(arrival_s * NS_PER_S).astype(np.int64).tolist(), input_tokens, output_tokens, strict=True
        ):
            columns.add(time_ns, int(n_in), int(n_out))


def _until(windows: Sequence[Window]) -> list[tuple[Window, float]]:
    """Windows with the time at which the next one begins; the last is as long as the one before."""
    if not windows:
        return []
    starts = [window.start_s for window in windows]
    last_s = starts[-1] - starts[-2] if len(starts) > 1 else _LAST_WINDOW_S
    ends = [after for _, after in pairwise(starts)] + [starts[-1] + last_s]
    return list(zip(windows, ends, strict=True))


def _shares(window: Window, n_requests: int, random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Arrivals as shares of the window: the gaps, with one more after the last, fill it."""
    draw = random.standard_gamma if window.family == "Gamma" else random.weibull
    gaps = draw(window.shape, n_requests + 1)
    total = gaps.sum()
    return np.cumsum(gaps)[:-1] / total if total > 0 else np.arange(n_requests) / max(n_requests, 1)


def _require_few(n_requests: int) -> None:
    if n_requests > MAX_REQUESTS:
        raise TraceError(
            f"at most {MAX_REQUESTS:,} requests are drawn", got=f"{n_requests:,}", remedy="choose a shorter duration_s"
        )
