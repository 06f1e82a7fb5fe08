"""Versions of engines and the ranges that a policy is meant for, such as ``vllm>=0.24,<0.34``.

A small part of PEP 440, because an engine must not need a package for it: releases compare by their numbers, a build
before a release (``0.33.0rc1``, ``0.33.0.dev5``) counts as older than it, and what follows ``+`` is ignored. Like
there, ``<0.33`` leaves out the builds before 0.33 as well. Builds on the same side of one release are not told apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_VERSION = re.compile(
    r"v?(?P<release>[0-9]+(\.[0-9]+)*)"
    r"(?P<early>[-_.]?(a|b|c|rc|alpha|beta|pre|preview|dev)[-_.]?[0-9]*([-_.]?dev[-_.]?[0-9]*)?)?"
    r"(?P<late>[-_.]?(post|rev|r)[-_.]?[0-9]*([-_.]?dev[-_.]?[0-9]*)?)?"
    r"(\+[0-9A-Za-z._-]+)?",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(?P<engine>[a-z][a-z0-9._-]*?)(?P<bounds>((==|!=|>=|<=|>|<)[^,]+,?)*)")
_BOUND = re.compile(r"(?P<operator>==|!=|>=|<=|>|<)(?P<version>.+)")
_EARLY, _FINAL, _LATE = -1, 0, 1


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """One version; compare it with the usual operators.

    Attributes:
        release: Its numbers, without zeros at the end.
        stage: Below 0 for a build before the release, above 0 for one after it.
    """

    release: tuple[int, ...]
    stage: int

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """The version that ``text`` writes; ``None`` where it writes none, such as ``dev``."""
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            return None
        numbers = [int(number) for number in match["release"].split(".")]
        while len(numbers) > 1 and numbers[-1] == 0:
            del numbers[-1]
        return cls(tuple(numbers), _EARLY if match["early"] else _LATE if match["late"] else _FINAL)


def _is_below(version: Version, bound: Version) -> bool:
    before_the_release = version.release == bound.release and version.stage == _EARLY and bound.stage == _FINAL
    return version < bound and not before_the_release


def _is_above(version: Version, bound: Version) -> bool:
    after_the_release = version.release == bound.release and version.stage == _LATE and bound.stage == _FINAL
    return version > bound and not after_the_release


_HOLDS: Final[dict[str, Callable[[Version, Version], bool]]] = {
    "==": lambda version, bound: version == bound,
    "!=": lambda version, bound: version != bound,
    ">=": lambda version, bound: version >= bound,
    "<=": lambda version, bound: version <= bound,
    ">": _is_above,
    "<": _is_below,
}


def engine_of(engine_range: str) -> str:
    """Name of the engine that a range is about: ``vllm`` of ``vllm>=0.24,<0.34``."""
    match = _RANGE.fullmatch(engine_range)
    return match["engine"] if match else ""


def is_within(version: str, engine_range: str) -> bool:
    """Whether a version is within the bounds of a range; one that cannot be read is within none but the open range.

    Args:
        version: As the engine writes it, such as ``0.32.0+cpu``.
        engine_range: Name of an engine and its bounds, all of which must hold; without bounds, every version fits.
    """
    match = _RANGE.fullmatch(engine_range)
    if match is None:
        return False
    bounds = [bound for bound in match["bounds"].split(",") if bound]
    if not bounds:
        return True
    parsed = Version.parse(version)
    return parsed is not None and all(_holds(parsed, bound) for bound in bounds)


def _holds(version: Version, bound: str) -> bool:
    match = _BOUND.fullmatch(bound)
    limit = Version.parse(match["version"]) if match else None
    return match is not None and limit is not None and _HOLDS[match["operator"]](version, limit)
