"""From a policy document to text: commented YAML, its JSON schema, differences, and native settings of engines."""

from __future__ import annotations

from autotune.export.diff import Change, diff
from autotune.export.document import render, save
from autotune.export.renderer import Export, Flavor, export_policy

__all__ = ["Change", "Export", "Flavor", "diff", "export_policy", "render", "save"]
