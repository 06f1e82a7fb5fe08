"""Gemma: windows between layers of full attention, and in 3n layers that share the KV of earlier ones.

Source: transformers 5.19, configuration_gemma2.py, configuration_gemma3.py, configuration_gemma3n.py.
"""

from __future__ import annotations

from autotune.geometry.families.context import Reading
from autotune.geometry.kinds import LayerKind
from autotune.geometry.layer import Layer
from autotune.geometry.sharing import SharedLayer

_TYPES = {kind.value: kind for kind in (LayerKind.FULL, LayerKind.SLIDING)}


def gemma2_layers(reading: Reading) -> tuple[Layer, ...]:
    """Every second layer looks back all the way."""
    return _layers(reading, default_pattern=2, kv_heads=4, window=4096)


def gemma3_layers(reading: Reading) -> tuple[Layer, ...]:
    """Every sixth layer looks back all the way."""
    return _layers(reading, default_pattern=6, kv_heads=4, window=4096)


def gemma3n_layers(reading: Reading) -> tuple[Layer, ...]:
    """Every fifth layer looks back all the way; the last layers share the KV of earlier ones.

    Raises:
        ConfigError: more layers share than there are.
    """
    own = _layers(reading, default_pattern=5, kv_heads=2, window=512)
    n_shared = 15 if "num_kv_shared_layers" not in reading.config else _shared(reading)
    if n_shared >= len(own):
        reading.config.refuse("num_kv_shared_layers", f"must be less than the {len(own)} layers", got=n_shared)
    first = len(own) - n_shared
    return tuple(SharedLayer(layer) if i >= first else layer for i, layer in enumerate(own))


def _shared(reading: Reading) -> int:
    return reading.config.count("num_kv_shared_layers") if reading.config.get("num_kv_shared_layers") else 0


def _layers(reading: Reading, *, default_pattern: int, kv_heads: int, window: int) -> tuple[Layer, ...]:
    config = reading.config
    attention = reading.attention(default_kv_heads=kv_heads, default_head_dim=256)
    sliding = reading.window(attention, default=window)
    kinds = reading.layer_kinds(_TYPES)
    if kinds is None:
        pattern = default_pattern
        for field in ("sliding_window_pattern", "_sliding_window_pattern"):
            pattern = config.count(field, default=pattern)
        n_layers = config.count("num_hidden_layers")
        kinds = tuple(LayerKind.FULL if (i + 1) % pattern == 0 else LayerKind.SLIDING for i in range(n_layers))
    return tuple(sliding if kind is LayerKind.SLIDING else attention for kind in kinds)
