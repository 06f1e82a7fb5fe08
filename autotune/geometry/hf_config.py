"""Hugging Face ``config.json`` → shape, for decoders with full attention in every layer.

Counting KV by a formula that does not fit the model gives a plausible wrong number, so only model types that were
looked at are read, and any field that changes what is cached is refused by name.
Source: the configuration classes of transformers 4.57 (``models/<model_type>/configuration_<model_type>.py``).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import NoReturn

from autotune.core.errors import ConfigError
from autotune.core.shapes import ModelShape
from autotune.core.strict_yaml import read_text
from autotune.core.validation import nearest
from autotune.geometry.dtypes import ELEMENT_BYTES, element_bytes
from autotune.geometry.fields import Fields
from autotune.geometry.parameters import FAMILIES, count_parameters

# Fields that say that the KV is not 2 * layers * kv_heads * head_dim per token → what they stand for.
_OTHER_KV = {
    "kv_lora_rank": "multi-head latent attention",
    "num_kv_shared_layers": "layers that share their KV",
    "cla_share_factor": "layers that share their KV",
    "attention_chunk_size": "chunked attention",
    "sliding_window_pattern": "sliding windows in some layers",
    "full_attention_interval": "linear attention in some layers",
    "linear_num_value_heads": "linear attention",
    "linear_attn_config": "linear attention",
    "attn_type_list": "layers of several kinds",
    "attn_layer_period": "recurrent layers between the attention layers",
    "hybrid_override_pattern": "recurrent layers between the attention layers",
    "hybrid_layer_ids": "recurrent layers between the attention layers",
    "layers_block_type": "layers of several kinds",
    "block_types": "layers of several kinds",
    "block_configs": "layers of several shapes",
    "mamba_d_state": "recurrent layers",
    "ssm_state_size": "recurrent layers",
    "ssm_cfg": "recurrent layers",
    "state_size": "recurrent layers",
    "num_nextn_predict_layers": "layers for predicting further tokens",
    "compress_ratios": "compressed attention",
    "index_topk": "sparse attention with an index of its own",
    "v_head_dim": "values of another width than keys",
    "cross_attention_layers": "cross-attention layers",
    "text_config": "a model of several parts",
    "vision_config": "a model of several parts",
    "thinker_config": "a model of several parts",
    "is_encoder_decoder": "an encoder with cross-attention",
    "auto_map": "code of its own",
}


def read_config(path: Path, kv_dtype: str | None = None) -> ModelShape:
    """The shape that a ``config.json`` describes.

    Args:
        path: The file.
        kv_dtype: Element type of the KV cache where it is not that of the weights.

    Raises:
        ConfigError: the file is no JSON object, lacks a dimension, or describes something else than full attention.
    """
    config = Fields(str(path), json_object(path))
    published = config.get("_name_or_path")
    name = published if isinstance(published, str) and published else path.resolve().parent.name
    return shape_of(config, name, kv_dtype)


def shape_of(config: Fields, name: str, kv_dtype: str | None = None) -> ModelShape:
    """The shape that the fields of a configuration describe.

    Args:
        config: The fields.
        name: What to call the model.
        kv_dtype: Element type of the KV cache where it is not that of the weights.

    Raises:
        ConfigError: a dimension is missing, or the fields describe something else than full attention.
    """
    refuse_other_kv(config)
    _refuse_other_layers(config)
    _refuse_unknown_family(config)
    _refuse_window(config)
    dtype = kv_dtype or dtype_of_weights(config)
    family = FAMILIES[config.text("model_type")]
    n_heads, n_kv_heads = config.count("num_attention_heads"), family.kv_heads(config)
    if n_heads % n_kv_heads:
        config.refuse("num_key_value_heads", f"must divide num_attention_heads, {n_heads}")
    return ModelShape(
        name=name,
        n_parameters=count_parameters(config),
        n_layers=config.count("num_hidden_layers"),
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=family.head_dim(config),
        kv_dtype=dtype,
        kv_element_bytes=element_bytes(dtype),
    )


def refuse_other_kv(config: Fields, known: Collection[str] = ()) -> None:
    """Refuse every field that changes what is cached, but for those that the reader of a family accounts for.

    Raises:
        ConfigError: there is such a field.
    """
    for field, meaning in _OTHER_KV.items():
        if field not in known and config.get(field) not in (None, False, 0, [], {}):
            config.refuse(field, f"means {meaning}, whose KV is not counted here")


def _refuse_unknown_family(config: Fields) -> None:
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        config.refuse("model_type", "must be a known family with full attention", nearest(str(family), FAMILIES))


def _refuse_other_layers(config: Fields) -> None:
    kinds = config.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds)):
        got = sorted(set(map(str, kinds))) if isinstance(kinds, list) else kinds
        config.refuse("layer_types", "must be 'full_attention' in every layer", got=got)


def _refuse_window(config: Fields) -> None:
    """A window must be ruled out, also where the family's default for a missing field is one."""
    family = FAMILIES[config.text("model_type")]
    window = config.get("sliding_window", family.default_window)
    in_use = config.get("use_sliding_window", False) if family.window_needs_switch else True
    if window is not None and in_use:
        remedy = "" if "sliding_window" in config else "write 'sliding_window: null' if the model has none"
        config.refuse("sliding_window", "must be null: KV outside a window is not kept", remedy, got=window)


def dtype_of_weights(config: Fields) -> str:
    """Engines keep KV in the type of the weights unless told otherwise.

    Raises:
        ConfigError: the configuration names no type, or gives the cache one of its own.
    """
    quantisation = config.get("quantization_config")
    if isinstance(quantisation, dict) and quantisation.get("kv_cache_scheme") is not None:
        config.refuse("quantization_config.kv_cache_scheme", "sets a KV type of its own", "say which with kv_dtype")
    field = "dtype" if config.get("dtype") is not None else "torch_dtype"
    dtype = config.get(field)
    if not isinstance(dtype, str) or dtype not in ELEMENT_BYTES:
        config.refuse(field, "must name the element type", f"or give kv_dtype: {', '.join(ELEMENT_BYTES)}")
    return dtype


def json_object(path: Path) -> dict[str, object]:
    """The one JSON object that a file holds.

    Raises:
        ConfigError: it holds something else, or cannot be read.
    """
    text = read_text(path, ConfigError)
    try:
        tree = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"{path} must be valid JSON", got=str(problem).splitlines()[0]) from problem
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold one JSON object", got=type(tree).__name__)
    return tree


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
