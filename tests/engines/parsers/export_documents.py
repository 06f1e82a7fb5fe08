"""Policies for the tests of exports: the example document with other tiers, budgets and sections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotune.core import policy
from autotune.core.units import GIB
from autotune.export import Export, export_policy
from autotune.export.renderer import Settings
from autotune.testing.documents import example_document

PATH = Path("/policies/policy.yaml")
DISK = Path("/mnt/kv cache")


def document(
    *,
    device_gib: float = 40,
    host_gib: float = 160,
    disk_gib: float = 0,
    streaming: tuple[float, int] | None = None,
    hints: policy.Hints | None = None,
    disk: policy.StoredTier | None = None,
    **host: Any,
) -> policy.LruDocument:
    """LRU everywhere.

    Args:
        device_gib: Device budget.
        host_gib: Host budget; 0 = no such tier.
        disk_gib: Disk budget; 0 = no such tier.
        streaming: p and d.
        hints: Hints of clients.
        disk: Rule of the disk tier.
        **host: Values of the host's rule.
    """
    example = example_document()
    return policy.LruDocument(
        fingerprint=example.fingerprint,
        costs=example.costs,
        budgets=policy.Budgets(
            device_bytes=int(device_gib * GIB), host_bytes=int(host_gib * GIB), disk_bytes=int(disk_gib * GIB)
        ),
        tiers=policy.Tiers(
            host=policy.StoredTier(**host) if host_gib else None,
            disk=(disk or policy.StoredTier()) if disk_gib else None,
        ),
        streaming=policy.Streaming(resident_frac=streaming[0], prefetch_depth=streaming[1]) if streaming else None,
        hints=hints,
    )


def export(engine: str, given: policy.PolicyDocument | None = None, **options: Any) -> Export:
    """What is rendered for an engine."""
    return export_policy(given or document(), PATH, engine, **options)


def notes(engine: str, given: policy.PolicyDocument | None = None, **options: Any) -> str:
    """All notes as one text."""
    return "\n".join(export(engine, given, **options).notes)


def settings(engine: str, given: policy.PolicyDocument | None = None, **options: Any) -> Settings:
    """The settings by name."""
    return export(engine, given, **options).settings
