"""Hybrids: recurrent layers with a state of fixed size, and full attention in every fourth or eighth.

Source: transformers 5.19, models/qwen3_next and models/jamba; vLLM 0.32, model_executor/layers/mamba/mamba_utils.py
(gated_delta_net_state_shape, mamba1_state_shape).
"""

from __future__ import annotations

from autotune.geometry.families.context import Reading
from autotune.geometry.kinds import Allocator, LayerKind
from autotune.geometry.layer import Layer
from autotune.geometry.recurrent import RecurrentState

_TYPES = {kind.value: kind for kind in (LayerKind.FULL, LayerKind.RECURRENT)}
_FLOAT32_BYTES = 4
_BITS_PER_BYTE = 8


def qwen3_next_layers(reading: Reading) -> tuple[Layer, ...]:
    """Gated delta nets, and full attention in every ``full_attention_interval``-th layer.

    Raises:
        ConfigError: a field is missing or no dimension, or a type of layer is not known.
    """
    config = reading.config
    attention = reading.attention(default_kv_heads=2, default_head_dim=256)
    kinds = reading.layer_kinds(_TYPES)
    if kinds is None:
        every, n_layers = config.count("full_attention_interval", default=4), config.count("num_hidden_layers")
        kinds = tuple(LayerKind.RECURRENT if (i + 1) % every else LayerKind.FULL for i in range(n_layers))
    state = _delta_net(reading)
    return tuple(state if kind is LayerKind.RECURRENT else attention for kind in kinds)


def jamba_layers(reading: Reading) -> tuple[Layer, ...]:
    """Mamba, and full attention in one layer of each period.

    Raises:
        ConfigError: a field is missing or no dimension, or the offset is outside the period.
    """
    config = reading.config
    period, offset = config.count("attn_layer_period"), config.get("attn_layer_offset")
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < period:
        config.refuse("attn_layer_offset", f"must be a whole number from 0 to below attn_layer_period, {period}")
    attention, state = reading.attention(default_kv_heads=8, default_head_dim=None), _mamba(reading)
    n_layers = config.count("num_hidden_layers")
    return tuple(attention if i % period == offset else state for i in range(n_layers))


def _delta_net(reading: Reading) -> RecurrentState:
    config = reading.config
    key_heads, value_heads = config.count("linear_num_key_heads"), config.count("linear_num_value_heads")
    key_dim, value_dim = config.count("linear_key_head_dim"), config.count("linear_value_head_dim")
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    return _state(reading, channels, config.count("linear_conv_kernel_dim"), value_heads * key_dim * value_dim)


def _mamba(reading: Reading) -> RecurrentState:
    config = reading.config
    channels = config.count("mamba_expand") * config.count("hidden_size")
    return _state(reading, channels, config.count("mamba_d_conv"), channels * config.count("mamba_d_state"))


def _state(reading: Reading, channels: int, kernel: int, state_values: int) -> RecurrentState:
    """Transformers keeps the convolution's whole width, vLLM what the next token needs."""
    # A state is never quantised with the cache: it has the type of the weights, two bytes at least.
    value_bytes = max(2, reading.precision.value_bits // _BITS_PER_BYTE)
    width = kernel if reading.for_transformers else kernel - 1
    wide = reading.allocator in {Allocator.TRANSFORMERS, Allocator.VLLM_FLOAT32}
    return RecurrentState(channels * width, value_bytes, state_values, _FLOAT32_BYTES if wide else value_bytes)
