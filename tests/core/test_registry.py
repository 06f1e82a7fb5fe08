"""Plug-ins by name."""

from __future__ import annotations

import pytest

from autotune.core import registry
from autotune.core.errors import UnknownNameError


@pytest.mark.parametrize(
    ("group", "some"),
    [
        (registry.POLICIES, {"lru", "arc", "s3fifo", "clairvoyant", "rank"}),
        (registry.TRACES, {"mooncake", "kv-cache-tester", "lmcache-agent", "azure", "servegen", "recording"}),
        (registry.COLLECTORS, {"prometheus", "host", "kv_events", "telemetry"}),
        (registry.PAGES, {"metrics"}),
        (registry.OBJECTIVES, {"net_seconds", "ttft_p95", "goodput", "weighted"}),
    ],
)
def test_shipped_plug_ins_are_registered_and_load(group: str, some: set[str]) -> None:
    """Everything that is registered loads."""
    assert some <= set(registry.names(group))
    assert all(callable(registry.load(group, name)) for name in registry.names(group))


def test_an_unknown_name_suggests_the_nearest_and_lists_all() -> None:
    """The error helps to mend a typing mistake."""
    with pytest.raises(UnknownNameError, match=r"did you mean 'lru'\? known: arc, .*lru"):
        registry.load(registry.POLICIES, "lruu")
