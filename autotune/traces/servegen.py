"""Format ``servegen``: arrivals and lengths drawn from the measured statistics of clients of a public cloud.

A client is two files. ``*-trace.csv`` has no header; a row is a window of time: start (s), mean rate (requests per s),
coefficient of variation, family of the gaps between arrivals (``Gamma`` or ``Weibull``; empty for a silent window), and
the family's shape and scale. ``*-dataset.json`` beside it maps window starts to length distributions, written as text
such as ``"{13: 0.5, 14: 0.5}"`` (tokens to probability), which hold until the next start; before the first one nothing
arrives.

There are no requests in these files; they are drawn here (see ``servegen_draw``), from an explicit seed that the
provenance records. Prompt tokens are ``input_tokens`` or, for multimodal clients, ``text_tokens`` plus ``image_count``
times draws of ``image_tokens``, and so on for audio and video. Fields are drawn independently of each other. Several
clients are one stream. There are no block ids: usable for the queueing model only.

Source: alibaba/ServeGen, servegen/clientpool.py; Xiang et al., "ServeGen", arXiv 2505.09999.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autotune.core.errors import TraceError
from autotune.core.trace import Trace
from autotune.core.units import NS_PER_S
from autotune.traces.columns import Columns
from autotune.traces.csv_rows import split
from autotune.traces.fields import INT32_MAX, Fault, Malformed, Row, decimal_text, parse_object, present, shown
from autotune.traces.files import COMPRESSED_SUFFIXES, stem
from autotune.traces.intake import Intake
from autotune.traces.lengths import Lengths, PromptPart, parse_lengths
from autotune.traces.options import number_text, reader, seconds, whole
from autotune.traces.servegen_draw import FAMILIES, Client, Window, draw

TRACE_SUFFIX = "-trace.csv"
DATASET_SUFFIX = "-dataset.json"
_MEDIA = ("image", "audio", "video")
_MAX_ITEMS = 1_000


@reader
def read(
    paths: list[str], *, on_error: str = "fail", seed: int = 0, start_s: float = 0.0, duration_s: float = 3600.0
) -> Trace:
    """Draw the requests of one client or several.

    Args:
        paths: ``*-trace.csv`` files or globs; ``*-dataset.json`` files that a glob matches too are passed over, since
            the one beside each trace is read anyway.
        on_error: ``fail`` at the first malformed window, or ``skip`` and count them.
        seed: Of all draws.
        start_s: Where to begin in the clients' time.
        duration_s: How much of it to draw (the files describe up to two weeks).

    Raises:
        TraceError: a file cannot be read, a window is malformed, or too many requests would be drawn.
    """
    whole("seed", seed)
    end_s = seconds("start_s", start_s) + seconds("duration_s", duration_s, low=1e-3)
    intake = Intake("servegen", paths, on_error)
    intake.files = _with_datasets(intake.files)
    columns = Columns(units_per_s=NS_PER_S, must_be_sorted=False)
    seeds = np.random.SeedSequence(seed).spawn(len(intake.files) // 2)
    for trace_file, dataset_file, child in zip(intake.files[::2], intake.files[1::2], seeds, strict=True):
        client = _client(intake, trace_file, dataset_file)
        draw(columns, client, np.random.default_rng(child), start_s, end_s)
    provenance = intake.provenance(seed=seed, start_s=number_text(start_s), duration_s=number_text(duration_s))
    return columns.trace(provenance, block_tokens=0, tick_s=0.0)


def _with_datasets(files: Sequence[Path]) -> list[Path]:
    """Each trace file followed by its dataset."""
    result: list[Path] = []
    for file in files:
        name = stem(file)
        if name.endswith(DATASET_SUFFIX):
            continue
        if not name.endswith(TRACE_SUFFIX):
            raise TraceError(f"a client's file must end in {TRACE_SUFFIX}", got=str(file), remedy="give that file")
        base = name.removesuffix(TRACE_SUFFIX) + DATASET_SUFFIX
        dataset = next((each for each in _beside(file, base) if each.is_file()), None)
        if dataset is None:
            rule = f"a client's {TRACE_SUFFIX} needs its {DATASET_SUFFIX} beside it"
            raise TraceError(rule, got=f"no {base} in {file.parent}", remedy="put it there")
        result += [file, dataset]
    if not result:
        raise TraceError(f"a file must end in {TRACE_SUFFIX}", got=f"only {DATASET_SUFFIX}", remedy="give the trace")
    return result


def _beside(file: Path, base: str) -> list[Path]:
    suffixes = dict.fromkeys((file.suffix if file.suffix in COMPRESSED_SUFFIXES else "", "", *COMPRESSED_SUFFIXES))
    return [file.with_name(base + suffix) for suffix in suffixes]


def _client(intake: Intake, trace_file: Path, dataset_file: Path) -> Client:
    windows: list[Window] = []
    for number, line in intake.lines(trace_file):
        try:
            windows.append(_window(split(line), windows))
        except Malformed as fault:
            intake.reject(trace_file, number, fault)
    return Client(windows, _lengths(intake, dataset_file))


def _window(fields: list[str], before: list[Window]) -> Window:
    if len(fields) != 6:
        raise Malformed(Fault.NOT_CSV, "a window must have 6 fields", f"{len(fields)}")
    start, rate, _, family, shape, _ = fields
    start_s = decimal_text(start, "a window's start", per_unit=1_000) / 1_000
    if before and start_s <= before[-1].start_s:
        raise Malformed(Fault.TIME_GOES_BACK, "windows must be in order of time", shown(start))
    if not family:
        return Window(start_s, 0.0, "", 1.0)
    if family not in FAMILIES:
        raise Malformed(Fault.OUT_OF_RANGE, f"the family of gaps must be one of {', '.join(FAMILIES)}", shown(family))
    # Gaps of a smaller shape are beyond what floating point numbers can hold.
    return Window(start_s, _number(rate, "the rate", 0.0), family, _number(shape, "the shape", 0.01))


def _number(text: str, name: str, low: float) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise Malformed(Fault.WRONG_TYPE, f"{name} must be a number", shown(text)) from error
    if not low <= value <= 1e6:  # false for NaN as well
        raise Malformed(Fault.OUT_OF_RANGE, f"{name} must be from {low:g} to 1000000", shown(text))
    return value


def _lengths(intake: Intake, file: Path) -> dict[float, tuple[list[PromptPart], Lengths]]:
    """Prompt parts and output by the start of their validity, in order of time."""
    document = intake.document(file)
    if document is None:
        return {}
    try:
        rows = parse_object(document)
    except Malformed as fault:
        intake.reject(file, 1, fault)
        return {}
    found: dict[float, tuple[list[PromptPart], Lengths]] = {}
    for key, row in rows.items():
        try:
            start_s = decimal_text(key, "a window's start", per_unit=1_000) / 1_000
            prompt, output = _prompt(row), parse_lengths(present(row, "output_tokens"))
        except Malformed as fault:
            intake.reject(file, f"window {key[:40]!r}", fault)
            continue
        # An empty distribution means that nothing was measured: what was before stays valid.
        if prompt and output is not None:
            found[start_s] = prompt, output
    return dict(sorted(found.items()))


def _prompt(row: Row) -> list[PromptPart]:
    """The parts of a prompt; none where the text of a prompt was not measured."""
    if not isinstance(row, dict):
        raise Malformed(Fault.WRONG_TYPE, "a window's distributions must be a JSON object", shown(row))
    text = parse_lengths(row["input_tokens"] if "input_tokens" in row else present(row, "text_tokens"))
    if text is None:
        return []
    parts = [PromptPart(text), *(part for kind in _MEDIA if (part := _media(row, kind)) is not None)]
    most_tokens = sum(part.max_tokens for part in parts)
    if most_tokens > INT32_MAX:
        raise Malformed(Fault.OUT_OF_RANGE, f"a prompt must have at most {INT32_MAX} tokens", f"up to {most_tokens}")
    return parts


def _media(row: Row, kind: str) -> PromptPart | None:
    if f"{kind}_tokens" not in row:
        return None
    tokens, items = parse_lengths(row[f"{kind}_tokens"]), parse_lengths(present(row, f"{kind}_count"))
    if tokens is None or items is None:
        return None
    if items.values[-1] > _MAX_ITEMS:
        raise Malformed(Fault.OUT_OF_RANGE, f"{kind}_count must be at most {_MAX_ITEMS}", str(items.values[-1]))
    return PromptPart(tokens, items)
