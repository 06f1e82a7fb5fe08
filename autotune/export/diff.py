"""What changed between two policy documents, value by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.core.commented_yaml import scalar
from autotune.core.policy import PolicyDocument

Scalar = str | int | float | bool | None
_TABLES = tuple(f"class_hazard.{name}" for name in ("features", "near", "far", "edges_s", "hazard_per_s"))


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs; ``None`` stands for ``null`` and for a section that is not there, which mean the same.

    Attributes:
        path: Where, as ``rank.host.lambda_recency`` or ``prices.reuse[2].probability``.
        before: Value in the first document.
        after: Value in the second.
    """

    path: str
    before: Scalar
    after: Scalar

    def __str__(self) -> str:
        return f"{self.path}: {scalar(self.before)} -> {scalar(self.after)}"


def diff(before: PolicyDocument, after: PolicyDocument) -> list[Change]:
    """All values that differ, in the order of the documents; empty for equal documents."""
    old, new = dict(_leaves(_tree(before), "")), dict(_leaves(_tree(after), ""))
    paths = dict.fromkeys([*old, *new])
    return [Change(path, old.get(path), new.get(path)) for path in paths if old.get(path) != new.get(path)]


def summary(changes: Sequence[Change]) -> list[str]:
    """The changes in words, those within the tables of a learned rule in one line: they are hundreds."""
    tables = [change for change in changes if change.path.startswith(_TABLES)]
    lines = [str(change) for change in changes if not change.path.startswith(_TABLES)]
    if tables:
        lines.append(f"class_hazard: {len(tables):,} values of the model's tables")
    return lines


def _tree(document: PolicyDocument) -> object:
    return document.model_dump(mode="json", by_alias=True)


def _leaves(tree: object, path: str) -> Iterator[tuple[str, Scalar]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(tree, list):
        for position, value in enumerate(tree):
            yield from _leaves(value, f"{path}[{position}]")
    elif tree is None or isinstance(tree, str | int | float):
        yield path, tree
