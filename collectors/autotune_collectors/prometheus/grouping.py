"""The samples of one catalogue, by family and label set, each series once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autotune.core.signals import Finding, FindingKind
from autotune_collectors.prometheus.catalogue import Catalogue, Entry, version_number
from autotune_collectors.prometheus.lines import Labels, PageSample

__all__ = ["Labels", "Series", "group"]


@dataclass(slots=True)
class Series:
    """Samples of one catalogue on one page.

    Attributes:
        catalogue: What they mean.
        by_name: Name behind the marker, to label sets, to values.
        prefix: What stands before the names.
        findings: What was odd.
        announced: Names behind the marker that have a TYPE line.
        version: Of the engine; empty if unknown.
    """

    catalogue: Catalogue
    by_name: dict[str, dict[Labels, float]] = field(default_factory=dict)
    prefix: str = ""
    findings: list[Finding] = field(default_factory=list)
    announced: set[str] = field(default_factory=set)
    version: str = ""

    def spelled(self, family: str, *, counter: bool) -> str | None:
        """The name under which a family's samples are there, ``None`` if they are not."""
        if family in self.by_name:
            return family
        if counter:
            other = family.removesuffix("_total") if family.endswith("_total") else f"{family}_total"
            if other in self.by_name:
                return other
        return None

    def has(self, family: str) -> bool:
        """Whether the family has samples of whatever kind."""
        return any(name in self.by_name for name in (family, f"{family}_count", f"{family}_bucket", f"{family}_total"))

    def holds(self, entry: Entry) -> bool:
        """Whether an entry holds for this page's version and families."""
        number = version_number(self.version)
        if number is not None:
            since, until = version_number(entry.since or ""), version_number(entry.until or "")
            if (since is not None and number < since) or (until is not None and number >= until):
                return False
        if entry.when is not None and not self.has(entry.when):
            return False
        return entry.when_positive is None or sum(self.by_name.get(entry.when_positive, {}).values()) > 0.0


def group(catalogue: Catalogue, samples: Iterable[PageSample], model: str) -> Series:
    """Samples by family and label set; of several spellings of a name the shortest counts, of equal series the first.

    Args:
        catalogue: What the samples mean.
        samples: All of them belong to it.
        model: Served model to keep where samples name one; empty = all.
    """
    series = Series(catalogue)
    by_prefix: dict[str, list[PageSample]] = {}
    for sample in samples:
        if model and any(name in catalogue.model_labels and value != model for name, value in sample.labels):
            continue
        by_prefix.setdefault(sample.resolved.prefix, []).append(sample)
    spellings = sorted(by_prefix, key=lambda prefix: (len(prefix), prefix.replace(":", "")))
    taken: dict[str, str] = {}
    repeated: set[str] = set()
    for prefix in spellings:
        for sample in by_prefix[prefix]:
            name = sample.resolved.rest
            if taken.setdefault(name, prefix) != prefix:
                continue
            values = series.by_name.setdefault(name, {})
            if sample.labels in values:
                repeated.add(name)
            values.setdefault(sample.labels, sample.value)
    series.prefix = spellings[0] if spellings else ""
    _tell(series, spellings, repeated)
    return series


def _tell(series: Series, spellings: list[str], repeated: set[str]) -> None:
    if len(spellings) > 1 and series.catalogue.role == "engine":
        series.findings.append(
            Finding(
                FindingKind.ALIASED,
                series.catalogue.title,
                f"its series stand under {', '.join(repr(prefix) for prefix in spellings)}; each counts once",
            )
        )
    for name in sorted(repeated):
        series.findings.append(
            Finding(
                FindingKind.MALFORMED,
                series.prefix + name,
                "the same series stands on the page more than once; the first counts",
                "look for a process that registers its metrics twice",
            )
        )
