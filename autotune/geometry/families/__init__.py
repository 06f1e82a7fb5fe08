"""Layers from the fields of a ``config.json``: one module per family, one function per ``model_type``.

A family that is not here is refused by name, and so is a type of layer that a family does not know.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.geometry.families import deepseek, deepseek_v4, gemma, hybrid, plain
from autotune.geometry.families.context import Reading
from autotune.geometry.layer import Layer

LayersOf = Callable[[Reading], tuple[Layer, ...]]

LAYERS_OF: dict[str, LayersOf] = {
    "deepseek_v2": deepseek.layers,
    "deepseek_v3": deepseek.layers,
    "deepseek_v4": deepseek_v4.layers,
    "gemma2": gemma.gemma2_layers,
    "gemma3_text": gemma.gemma3_layers,
    "gemma3n_text": gemma.gemma3n_layers,
    "gpt_oss": plain.gpt_oss_layers,
    "jamba": hybrid.jamba_layers,
    "llama": plain.layers,
    "mistral": plain.layers,
    "mixtral": plain.layers,
    "qwen2": plain.layers,
    "qwen3": plain.layers,
    "qwen3_moe": plain.layers,
    "qwen3_next": hybrid.qwen3_next_layers,
}

# Fields that change what is cached, and that a family's reader accounts for. Layers that predict further tokens are
# no part of the model that serves; code of its own is that of the family.
_LATENT = ("kv_lora_rank", "v_head_dim", "num_nextn_predict_layers", "auto_map")
KNOWN_FIELDS: dict[str, tuple[str, ...]] = {
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "deepseek_v4": ("compress_ratios", "index_topk", "num_nextn_predict_layers", "auto_map"),
    "gemma3_text": ("sliding_window_pattern",),
    "gemma3n_text": ("num_kv_shared_layers",),
    "jamba": ("attn_layer_period", "mamba_d_state", "layers_block_type", "auto_map"),
    "qwen3_next": ("full_attention_interval", "linear_num_value_heads"),
}
