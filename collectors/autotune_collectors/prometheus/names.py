"""From the name of a sample to what it means, whatever a gateway put in front of it.

``vllm:x``, ``vllm_x``, ``ray_vllm_x`` and ``gateway_vllm:x`` are the same series: what counts is the engine's marker
and the rest behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from autotune_collectors.prometheus.catalogue import Catalogue, catalogues

MAX_NAME_CHARS = 200
_MAX_REMEMBERED = 20_000
_SUFFIXES = ("_total", "_created", "_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a name means.

    Attributes:
        catalogue: Number of the catalogue.
        rest: Name behind the marker, as the page has it.
        prefix: What stands before it, marker included.
    """

    catalogue: int
    rest: str
    prefix: str


class NameIndex:
    """Finds the catalogue that knows a name.

    Args:
        known: Catalogues to look in.
    """

    def __init__(self, known: tuple[Catalogue, ...]) -> None:
        self._markers = [
            (number, re.compile(rf"(?:^|[_:]){re.escape(marker)}[_:]"))
            for number, catalogue in enumerate(known)
            for marker in sorted(catalogue.markers, key=len, reverse=True)
        ]
        self._families = [_spellings(catalogue.families()) for catalogue in known]
        self._remembered: dict[str, Resolved | None] = {}

    def resolve(self, name: str) -> Resolved | None:
        """What a name means, ``None`` if nothing here rests on it."""
        if name in self._remembered:
            return self._remembered[name]
        found = self._find(name) if len(name) <= MAX_NAME_CHARS else None
        if len(self._remembered) >= _MAX_REMEMBERED:  # names that nobody knows come from pages that nobody checked
            self._remembered.clear()
        self._remembered[name] = found
        return found

    def _find(self, name: str) -> Resolved | None:
        for number, marker in self._markers:
            for match in marker.finditer(name):
                rest = name[match.end() :]
                if rest in self._families[number]:
                    return Resolved(number, rest, name[: match.end()])
        return None


@cache
def name_index() -> NameIndex:
    """The index of all catalogues."""
    return NameIndex(catalogues())


def base_name(name: str) -> str:
    """A family's name without what counters and histograms append to it."""
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _spellings(families: frozenset[str]) -> frozenset[str]:
    """Every name under which samples of the families may stand."""
    found = set(families)
    for family in families:
        for stem in (family, family.removesuffix("_total"), base_name(family)):
            found |= {stem, *(stem + suffix for suffix in _SUFFIXES)}
    return frozenset(found)
