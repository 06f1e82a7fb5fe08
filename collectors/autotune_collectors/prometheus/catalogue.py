"""What the series of each engine mean: the files ``engines/metrics/*.yaml`` of the data package, checked."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field

from autotune.core.signals import CollectError, Denominator, Signal
from autotune.core.strict_yaml import parse_mapping
from autotune.core.validation import Strict, validate

Name = Annotated[str, Field(min_length=1, max_length=120)]


class Entry(Strict):
    """One way to learn a signal. Those of a signal stand in order of preference; only the first that is there counts.

    A counter's or gauge's family is the name of its samples, with or without ``_total``; a histogram's is the name
    before ``_bucket``.
    """

    family: Name
    where: dict[str, tuple[str, ...]] = Field(
        default={}, description="Values that labels must have; an empty text stands for a label that is missing."
    )
    scale: float = Field(default=1.0, gt=0.0, description="What a value is multiplied by to be in the signal's unit.")
    scope: Literal["sum", "mean", "max", "min"] | None = Field(
        default=None, description="How ranks are put together; if not given, shares by their mean, all else by its sum."
    )
    shards: Literal["max", "sum"] = Field(default="max", description="How shards of one rank are put together.")
    when: Name | None = Field(default=None, description="Family without which the entry does not hold.")
    when_positive: Name | None = Field(default=None, description="Family that must be above 0 for the entry to hold.")
    since: Name | None = Field(default=None, description="First version in which the entry holds.")
    until: Name | None = Field(default=None, description="First version in which it no longer does.")
    positive: bool = Field(default=False, description="Whether 0 stands for unknown.")
    deprecated: bool = Field(default=False, description="Whether the engine keeps it beside its successor.")
    denominator: Denominator | None = Field(default=None, description="What queries count, where engines differ.")


class Info(Strict):
    """A series whose labels are settings."""

    family: Name
    signals: dict[Signal, Name] = Field(default={}, description="Signal and the label that holds it.")
    facts: tuple[Name, ...] = Field(default=(), description="Labels that are told as they are.")


class VersionSource(Strict):
    """Where an engine says its version: a path on its server and a field of the JSON there."""

    path: Name
    field: Name


class Age(Strict):
    """A family that tells about the version where the engine does not."""

    family: Name
    versions: Name


class Catalogue(Strict):
    """One engine's series, or those of a layer that speaks on an engine's page."""

    engine: Name
    title: Name
    role: Literal["engine", "layer", "process"]
    versions: Name
    source: Annotated[str, Field(min_length=1)]
    markers: Annotated[tuple[Name, ...], Field(min_length=1)]
    model_labels: tuple[Name, ...]
    rank_labels: tuple[Name, ...]
    shard_labels: tuple[Name, ...]
    signals: dict[Signal, Annotated[tuple[Entry, ...], Field(min_length=1)]]
    version: VersionSource | None = None
    ages: tuple[Age, ...] = ()
    expected: dict[Signal, str] = Field(default={}, description="Signals that a page should have, and what to do.")
    infos: tuple[Info, ...] = ()

    def families(self) -> frozenset[str]:
        """Families that anything here rests on."""
        entries = [entry for choices in self.signals.values() for entry in choices]
        named = {name for one in entries for name in (one.family, one.when, one.when_positive) if name}
        return frozenset(named | {info.family for info in self.infos} | {age.family for age in self.ages})


@cache
def catalogues() -> tuple[Catalogue, ...]:
    """All of them, in order of their engines' names.

    Raises:
        CollectError: a file of the installation breaks a rule.
    """
    folder = resources.files("autotune_configs") / "engines" / "metrics"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda file: file.name)
    return tuple(
        validate(Catalogue, parse_mapping(file.read_text("utf-8"), CollectError), CollectError, file.name)
        for file in files
    )


def version_number(text: str) -> tuple[int, ...] | None:
    """Leading numbers of a version such as ``0.32.0rc1``, ``None`` if there are none."""
    numbers: list[int] = []
    for part in text.strip().lstrip("vb").split(".")[:4]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > 9:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers) or None
