"""The samples of a page that anything rests on, and the rest of it never parsed.

Lines are chosen by the name at their start, which costs a dictionary look-up; prometheus_client's parser sees only what
is left, and of that only what it has not seen before: from scrape to scrape only values change. A line that it refuses
costs that line, not the page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from autotune_collectors.prometheus.names import MAX_NAME_CHARS, NameIndex, Resolved, name_index

MAX_LINE_CHARS = 32_768  # the longest real one, a series of settings, has 1,500
_MAX_MALFORMED_KEPT = 20
_LINE = re.compile(r"[^\n]+")
_NAME = re.compile(rf"[^{{\s]{{1,{MAX_NAME_CHARS + 1}}}")
_MAX_REMEMBERED = 10_000  # a page of many ranks has thousands
_MAX_HEAD_CHARS = 2_000  # so that no page can fill the memory with what is remembered


Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PageSample:
    """One sample.

    Attributes:
        name: As on the page.
        resolved: What the name means.
        labels: Name and value of each, sorted by name.
        value: As on the page; may be no number.
    """

    name: str
    resolved: Resolved
    labels: Labels
    value: float


@dataclass(slots=True)
class PageLines:
    """What was found on a page.

    Attributes:
        samples: Those that anything rests on.
        announced: Names with a TYPE line, as on the page, and what they mean.
        malformed: Beginnings of lines that are no samples, a few of them.
        n_malformed: How many there were.
        n_samples: Samples on the page, those that nothing rests on included.
    """

    samples: list[PageSample] = field(default_factory=list)
    announced: dict[str, Resolved] = field(default_factory=dict)
    malformed: list[str] = field(default_factory=list)
    n_malformed: int = 0
    n_samples: int = 0

    def refuse(self, line: str) -> None:
        """Count a line that is no sample."""
        self.n_malformed += 1
        if len(self.malformed) < _MAX_MALFORMED_KEPT:
            self.malformed.append(line[:80])


class LineReader:
    """Reads pages, and remembers what stands before the values: it is the same in every scrape.

    Args:
        index: Says which names matter.
    """

    def __init__(self, index: NameIndex) -> None:
        self._index = index
        self._heads: dict[str, tuple[str, Labels] | None] = {}

    def read(self, page: str) -> PageLines:
        """The samples of a page that anything rests on."""
        found = PageLines()
        for line in _LINE.finditer(page):  # one after the other: a list of all would be larger than the page
            text = line.group().strip()
            if not text:
                continue
            if text.startswith("#"):
                _announce(text, self._index, found)
                continue
            found.n_samples += 1
            resolved = self._index.resolve(_name(text))
            if resolved is None:
                continue
            sample = self._sample(text, resolved) if len(text) <= MAX_LINE_CHARS else None
            if sample is None:
                found.refuse(text)
            else:
                found.samples.append(sample)
        return found

    def _sample(self, line: str, resolved: Resolved) -> PageSample | None:
        """One line, ``None`` if it is no sample."""
        end = line.rfind("}") + 1 or len(_name(line))
        values = line[end:].split()
        if len(values) not in (1, 2) or "#" in line:  # an exemplar, which holds a brace too, or nonsense
            return _slowly(line, resolved)
        head = line[:end]
        if len(head) > _MAX_HEAD_CHARS:
            return _slowly(line, resolved)
        if head not in self._heads:
            if len(self._heads) >= _MAX_REMEMBERED:
                self._heads.clear()
            self._heads[head] = _head(head)
        known, value = self._heads[head], _number(values[0])
        return None if known is None or value is None else PageSample(known[0], resolved, known[1], value)


@cache
def line_reader() -> LineReader:
    """The reader of the names of all catalogues."""
    return LineReader(name_index())


def _announce(line: str, index: NameIndex, found: PageLines) -> None:
    parts = line.split(None, 3)
    if len(parts) == 4 and parts[1] == "TYPE" and (resolved := index.resolve(parts[2])) is not None:
        found.announced[parts[2]] = resolved


def _name(line: str) -> str:
    """The name at the start of a line, cut where it is longer than any."""
    found = _NAME.match(line)
    return found.group() if found is not None else ""


def _head(head: str) -> tuple[str, Labels] | None:
    """Name and labels of what stands before a value, ``None`` if the parser refuses it."""
    sample = _parse(f"{head} 0")
    return None if sample is None else (sample.name, tuple(sorted(sample.labels.items())))


def _slowly(line: str, resolved: Resolved) -> PageSample | None:
    """A whole line as the parser sees it."""
    sample = _parse(line)
    value = None if sample is None else _as_float(sample.value)
    if sample is None or value is None:
        return None
    return PageSample(sample.name, resolved, tuple(sorted(sample.labels.items())), value)


def _parse(line: str) -> Sample | None:
    """The only sample of a line, ``None`` if the parser refuses it."""
    try:
        found = [sample for family in text_string_to_metric_families(line) for sample in family.samples]
    except (ValueError, IndexError):
        return None
    return found[0] if len(found) == 1 else None


def _number(text: str) -> float | None:
    """A value by the parser's rules."""
    if "_" in text:  # Python's own numbers may have them
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _as_float(value: float) -> float | None:
    """The parser reads whole numbers as such, of any size."""
    try:
        return float(value)
    except OverflowError:
        return None
