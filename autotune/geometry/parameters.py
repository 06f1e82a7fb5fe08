"""How many weights a decoder has, from its dimensions.

Counted are the embedding, per layer the four attention projections, the gated MLP (three matrices) and two norms, the
last norm, and the output matrix unless it is the embedding. In a mixture of experts only the experts that one token
passes through count (and the router), because the figure stands for one token's work. Equal to the published number
of weights for every dense model that comes along.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.geometry.fields import Fields


@dataclass(frozen=True, slots=True)
class Family:
    """What distinguishes the decoders that share this structure, and their defaults for missing fields.

    Attributes:
        qkv_bias: Query, key and value projections always have a bias.
        qk_norm: Queries and keys of each head are normalised, with one weight vector each.
        has_experts: The MLP is a mixture of experts.
        default_kv_heads: ``num_key_value_heads`` where the field is missing; ``None`` is as many as query heads.
        default_head_dim: ``head_dim`` where the field is missing; ``None`` is hidden size / query heads.
        default_window: ``sliding_window`` where the field is missing.
        window_needs_switch: The window counts only where ``use_sliding_window`` is true.
    """

    qkv_bias: bool = False
    qk_norm: bool = False
    has_experts: bool = False
    default_kv_heads: int | None = None
    default_head_dim: int | None = None
    default_window: int | None = None
    window_needs_switch: bool = False

    def kv_heads(self, config: Fields) -> int:
        """Key/value heads per layer.

        Raises:
            ConfigError: the field is no positive whole number.
        """
        default = None if "num_key_value_heads" in config else self.default_kv_heads
        return config.count("num_key_value_heads", default=default or config.count("num_attention_heads"))

    def head_dim(self, config: Fields) -> int:
        """Elements per head.

        Raises:
            ConfigError: the field is no positive whole number, or missing where the division leaves a rest.
        """
        if "head_dim" not in config and self.default_head_dim is not None:
            return self.default_head_dim
        if config.get("head_dim") is not None:
            return config.count("head_dim")
        hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
        if hidden % heads:
            config.refuse("head_dim", f"must be given where hidden_size {hidden} / {heads} heads leaves a rest")
        return hidden // heads


# Source: transformers 4.57, configuration_<name>.py and modeling_<name>.py of each.
FAMILIES = {
    "llama": Family(),
    "mistral": Family(default_kv_heads=8, default_window=4096),
    "mixtral": Family(has_experts=True, default_kv_heads=8),
    "qwen2": Family(qkv_bias=True, default_kv_heads=32, default_window=4096, window_needs_switch=True),
    "qwen3": Family(
        qk_norm=True, default_kv_heads=32, default_head_dim=128, default_window=4096, window_needs_switch=True
    ),
}


def count_parameters(config: Fields) -> int:
    """Weights that take part in one token's forward pass.

    Raises:
        ConfigError: a dimension is missing, or a mixture of experts does not say how many experts a token uses.
    """
    family = FAMILIES[config.text("model_type")]
    hidden, layers = config.count("hidden_size"), config.count("num_hidden_layers")
    embedding = config.count("vocab_size") * hidden
    output = 0 if config.flag("tie_word_embeddings", default=False) else embedding
    layer = _attention(config, family) + _mlp(config, family) + 2 * hidden
    return embedding + layers * layer + hidden + output


def _attention(config: Fields, family: Family) -> int:
    hidden, head_dim = config.count("hidden_size"), family.head_dim(config)
    query, key_value = config.count("num_attention_heads") * head_dim, family.kv_heads(config) * head_dim
    weights = hidden * query + 2 * hidden * key_value + query * hidden
    all_biased = config.flag("attention_bias", default=False)
    biases = query + 2 * key_value if family.qkv_bias or all_biased else 0
    if all_biased and not family.qkv_bias:
        biases += hidden
    return weights + biases + (2 * head_dim if family.qk_norm else 0)


def _mlp(config: Fields, family: Family) -> int:
    hidden, inner = config.count("hidden_size"), config.count("intermediate_size")
    weights = 3 * hidden * inner
    if config.flag("mlp_bias", default=False):
        weights += 2 * inner + hidden
    if not family.has_experts:
        for field in ("num_local_experts", "num_experts"):
            if config.get(field) is not None:
                config.refuse(field, "means a mixture of experts, which this model_type does not have")
        return weights
    experts, used = config.count("num_local_experts"), config.count("num_experts_per_tok")
    if used > experts:
        config.refuse("num_experts_per_tok", f"must be at most num_local_experts, {experts}")
    return used * weights + hidden * experts
