"""Decoders with full attention, or with windows in all or some of their layers.

Source: transformers 5.19, configuration_<name>.py of each.
"""

from __future__ import annotations

from autotune.geometry.families.context import Reading
from autotune.geometry.kinds import LayerKind
from autotune.geometry.layer import Layer
from autotune.geometry.parameters import FAMILIES, Family

_TYPES = {kind.value: kind for kind in (LayerKind.FULL, LayerKind.SLIDING)}
_GPT_OSS_KV_HEADS, _GPT_OSS_HEAD_DIM, _GPT_OSS_WINDOW = 8, 64, 128
# Defaults of a family whose weights are not counted.
_UNCOUNTED = {
    "qwen3_moe": Family(default_kv_heads=4, default_window=4096, window_needs_switch=True),
}


def layers(reading: Reading) -> tuple[Layer, ...]:
    """Layers of Llama, Mistral, Mixtral, Qwen2 and Qwen3.

    Raises:
        ConfigError: a field is missing or no dimension, or a type of layer is not known.
    """
    config = reading.config
    family = FAMILIES.get(reading.model_type) or _UNCOUNTED[reading.model_type]
    attention = reading.attention(default_kv_heads=family.default_kv_heads, default_head_dim=family.default_head_dim)
    window = config.get("sliding_window", family.default_window)
    windowed = window is not None and (
        not family.window_needs_switch or config.flag("use_sliding_window", default=False)
    )
    kinds = reading.layer_kinds(_TYPES) or _inferred_kinds(reading, family, windowed=windowed)
    return tuple(
        reading.window(attention, default=family.default_window) if kind is LayerKind.SLIDING else attention
        for kind in kinds
    )


def gpt_oss_layers(reading: Reading) -> tuple[Layer, ...]:
    """Windows and full attention by turns, a window first.

    Raises:
        ConfigError: a field is missing or no dimension, or a type of layer is not known.
    """
    attention = reading.attention(default_kv_heads=_GPT_OSS_KV_HEADS, default_head_dim=_GPT_OSS_HEAD_DIM)
    window = reading.window(attention, default=_GPT_OSS_WINDOW)
    n_layers = reading.config.count("num_hidden_layers")
    kinds = reading.layer_kinds(_TYPES) or tuple(
        LayerKind.FULL if i % 2 else LayerKind.SLIDING for i in range(n_layers)
    )
    return tuple(window if kind is LayerKind.SLIDING else attention for kind in kinds)


def _inferred_kinds(reading: Reading, family: Family, *, windowed: bool) -> tuple[LayerKind, ...]:
    """Without ``layer_types``: a window in every layer, but in Qwen only from ``max_window_layers`` on."""
    n_layers = reading.config.count("num_hidden_layers")
    first = 0
    if windowed and family.window_needs_switch:
        first = reading.config.count("max_window_layers", default=28)
    return tuple(LayerKind.SLIDING if windowed and i >= first else LayerKind.FULL for i in range(n_layers))
