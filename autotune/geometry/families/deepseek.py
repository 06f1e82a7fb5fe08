"""DeepSeek-V2 and -V3: multi-head latent attention in every layer.

Source: DeepSeek-V2, arXiv:2405.04434, section 2.1; transformers 5.19, models/deepseek_v3. vLLM and
Transformers 5.19 keep the latent vector; an engine that keeps keys and values per head has them decompressed.
"""

from __future__ import annotations

from autotune.geometry.attention import FullAttention
from autotune.geometry.families.context import Reading
from autotune.geometry.latent import LatentAttention
from autotune.geometry.layer import Layer


def layers(reading: Reading) -> tuple[Layer, ...]:
    """One latent vector per token and layer.

    Raises:
        ConfigError: a field is missing or no dimension, or layers are of another type.
    """
    config = reading.config
    if config.get("layer_types") is not None:
        config.refuse("layer_types", f"is not known of {reading.model_type}")
    rope_dim = config.count("qk_rope_head_dim")
    keys, values = config.count("qk_nope_head_dim") + rope_dim, config.count("v_head_dim")
    heads = FullAttention(config.count("num_attention_heads"), keys, values, reading.precision)
    latent = LatentAttention(config.count("kv_lora_rank"), rope_dim, reading.precision, decompressed=heads)
    return (latent,) * config.count("num_hidden_layers")
