"""The bytes of the tensors that Transformers really allocates, for a small random model of each family."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from autotune.geometry import Allocator
from autotune.geometry.fields import Fields
from autotune.geometry.geometry import ModelGeometry
from autotune.geometry.load import geometry_of

pytestmark = pytest.mark.engine("transformers", "torch")

TOKENS, BATCH = 37, 2
_COMMON: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 97}
_HEADS: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 16}
_MOE: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LATENT: dict[str, Any] = {
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "num_key_value_heads": 4,
}
_V4: dict[str, Any] = {
    "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
    "mlp_layer_types": ["moe"] * 3,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "sliding_window": 8,
    "q_lora_rank": 32,
    "o_groups": 2,
    "o_lora_rank": 16,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"num_hidden_layers": 3, **_HEADS},
    "mistral": {"num_hidden_layers": 3, "sliding_window": 16, **_HEADS},
    "mixtral": {"num_hidden_layers": 2, "num_local_experts": 4, "sliding_window": None, **_HEADS},
    "qwen2": {
        "num_hidden_layers": 4,
        "use_sliding_window": True,
        "sliding_window": 8,
        "max_window_layers": 2,
        "num_key_value_heads": 2,
    },
    "qwen3": {"num_hidden_layers": 2, **_HEADS},
    "qwen3_moe": {"num_hidden_layers": 2, **_MOE, **_HEADS},
    "gemma2": {"num_hidden_layers": 4, "sliding_window": 16, **_HEADS},
    "gemma3_text": {"num_hidden_layers": 7, "sliding_window": 16, **_HEADS},
    "gemma3n_text": {
        "num_hidden_layers": 10,
        "num_kv_shared_layers": 5,
        "sliding_window": 16,
        "layer_types": [*["sliding_attention"] * 4, "full_attention"] * 2,
        "vocab_size_per_layer_input": 97,
        "hidden_size_per_layer_input": 8,
        "activation_sparsity_pattern": [0.0] * 10,
        **_HEADS,
    },
    "gpt_oss": {"num_hidden_layers": 4, "sliding_window": 16, "num_local_experts": 4, **_HEADS},
    "qwen3_next": {
        "num_hidden_layers": 4,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 32,
        **_MOE,
        **_HEADS,
    },
    "jamba": {"num_hidden_layers": 8, "num_key_value_heads": 2, "num_experts": 4, "mamba_dt_rank": 4},
    "deepseek_v2": {"num_hidden_layers": 2, **_LATENT},
    "deepseek_v3": {"num_hidden_layers": 2, "first_k_dense_replace": 1, **_LATENT},
    "deepseek_v4": {"num_hidden_layers": 3, **_V4},
}


def config_of(family: str) -> Any:
    """The configuration of a small model, whose missing fields are those of the family's own class."""
    from transformers import AutoConfig

    return AutoConfig.for_model(family, **(_COMMON | FAMILIES[family]))


def geometry(config: Any, dtype: str, allocator: Allocator) -> ModelGeometry:
    """What we read from the configuration as Transformers would write it into a config.json."""
    fields = json.loads(config.to_json_string(use_diff=False)) | {"dtype": dtype}
    return geometry_of(Fields(config.model_type, fields), "m", allocator=allocator)


def cache_after(config: Any, dtype: str) -> Any:
    """The cache after one forward pass of all tokens."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    with torch.no_grad():
        return model(torch.randint(0, 97, (BATCH, TOKENS)), use_cache=True).past_key_values


def tensors(value: Any) -> Iterator[Any]:
    """All tensors that hang on an object, each memory once per name."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def layer_bytes(layer: Any) -> int:
    """Bytes of the states of one cache layer, but for its bookkeeping of single numbers."""
    held = {id(t): t for t in tensors(vars(layer)) if t.dim() > 1}
    return sum(t.numel() * t.element_size() for t in held.values())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"deepseek_v4"}))
def test_bytes_are_those_of_the_tensors(family: str, dtype: str) -> None:
    """Layer by layer, the bytes of the tensors in the cache are what the geometry says."""
    config = config_of(family)
    expected = [BATCH * n for n in geometry(config, dtype, Allocator.TRANSFORMERS).layer_bytes(TOKENS)]
    found = [layer_bytes(layer) for layer in cache_after(config, dtype).layers]
    assert found == expected[: len(found)]
    assert not any(expected[len(found) :])  # layers that share have no place in the cache


def test_entries_of_compressed_attention() -> None:
    """Of DeepSeek-V4 the window and the complete entries are those of the geometry; buffers come on top."""
    import torch

    config = config_of("deepseek_v4")
    layers = cache_after(config, "float32").layers
    model = geometry(config, "float32", Allocator.VLLM)
    for layer, ours in zip(layers, model.layers, strict=True):
        entries = [t for t in tensors(getattr(layer, "compressed_kv", {})) if isinstance(t, torch.Tensor)]
        # One token of the window less than its width is kept between steps; entries are kept as they are.
        window = layer.keys[:, :, -7:].numel() * layer.keys.element_size()
        held = sum(t.numel() * t.element_size() for t in entries) + window
        assert held == BATCH * (ours.stored_bytes(TOKENS) - 32 * 4)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_types_of_layers_are_those_of_transformers(family: str) -> None:
    """Our kinds of layers, read from the same configuration, are the types that its cache is built from."""
    from transformers.cache_utils import get_layer_types_and_kwargs

    config = config_of(family)
    theirs, _ = get_layer_types_and_kwargs(config)
    ours = [layer.kind.value for layer in geometry(config, "float32", Allocator.VLLM).layers]
    as_theirs = {"latent_attention": "full_attention", "hybrid": "full_attention"}
    kept = [as_theirs.get(kind, kind) for kind in ours if kind != "shared"]
    assert kept == [{"mamba": "linear_attention"}.get(kind, kind) for kind in theirs]
