"""Settings to start a search from, one YAML file per kind of traffic; written by ``policies/make_presets.py``."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

FOLDER: Traversable = files(__name__)
