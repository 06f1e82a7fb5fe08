"""Plug-ins by name: one entry-point group per kind, loaded only when asked for."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from autotune.core.errors import MissingExtraError, UnknownNameError

POLICIES = "autotune.policies"
KERNELS = "autotune.kernels"
TRACES = "autotune.traces"
PRESETS = "autotune.presets"
OBJECTIVES = "autotune.objectives"
RENDERERS = "autotune.renderers"
COLLECTORS = "autotune.collectors"
PAGES = "autotune.pages"
ENGINES = "autotune.engines"
_EXTRAS = {COLLECTORS: "sidecar", PAGES: "sidecar"}


def names(group: str) -> tuple[str, ...]:
    """All names registered in ``group``, sorted."""
    return tuple(sorted(_points(group)))


def load(group: str, name: str) -> Any:
    """The object registered as ``name`` in ``group``.

    Raises:
        UnknownNameError: nothing of that name is registered; the message lists what is.
        MissingExtraError: it is registered, but a package that it needs is not installed.
    """
    points = _points(group)
    if name not in points:
        near = difflib.get_close_matches(name, points, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        known = ", ".join(sorted(points)) or "nothing"
        raise UnknownNameError(f"{group} must be a registered name", got=repr(name), remedy=f"{hint}known: {known}")
    try:
        return points[name].load()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0].startswith("autotune"):
            raise
        raise MissingExtraError(
            f"{group} {name!r} needs the package {error.name}",
            got="it is not installed",
            remedy=f"pip install 'kv-autotune[{_EXTRAS.get(group, 'tuner')}]'",
        ) from error


@cache  # reading the metadata of all installed packages takes longer than a short simulation
def _points(group: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if point.name in found and found[point.name].value != point.value:
            raise UnknownNameError(
                f"{group} names must be unique",
                got=f"{point.name!r} from {found[point.name].value} and from {point.value}",
                remedy="uninstall one of the two packages",
            )
        found[point.name] = point
    return found
