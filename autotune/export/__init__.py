"""From a policy document to text: commented YAML, its JSON schema, and the difference of two documents."""

from __future__ import annotations

from autotune.export.diff import Change, diff
from autotune.export.document import render, save

__all__ = ["Change", "diff", "render", "save"]
