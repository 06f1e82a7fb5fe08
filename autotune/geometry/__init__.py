"""Bytes of KV that a model takes, from published dimensions or from its own ``config.json``."""

from __future__ import annotations

from autotune.core.shapes import ModelShape
from autotune.geometry.geometry import ModelGeometry
from autotune.geometry.kinds import Allocator
from autotune.geometry.load import geometry_names, load_geometry
from autotune.geometry.models import load_model, model_names

__all__ = [
    "Allocator",
    "ModelGeometry",
    "ModelShape",
    "block_bytes",
    "geometry_names",
    "load_geometry",
    "load_model",
    "model_names",
]


def block_bytes(shape: ModelShape, block_tokens: int) -> int:
    """Bytes of KV in one block of ``block_tokens`` tokens, over all layers."""
    return shape.kv_bytes_per_token * block_tokens
