"""Small random models of the families that a cache meets, and the ways in which it is used with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

PROMPT_TOKENS = 20
NEW_TOKENS = 6
VOCABULARY = 61
_END = VOCABULARY - 1  # never in a prompt, and never generated because of the least length
DEVICE = os.environ.get("STREAMING_TEST_DEVICE", "cpu")  # cuda runs the tests of equality there
_CANDIDATES = {"assistant_model", "prompt_lookup_num_tokens"}
_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}


def _llama() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**_COMMON, num_hidden_layers=5)


def _gemma3() -> Any:
    from transformers import Gemma3TextConfig

    types = ["sliding_attention", "full_attention"] * 4
    return Gemma3TextConfig(**_COMMON, num_hidden_layers=8, head_dim=8, layer_types=types, sliding_window=9)


def _gpt_oss() -> Any:
    from transformers import GptOssConfig

    types = ["sliding_attention", "full_attention"] * 3
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    return GptOssConfig(**_COMMON, num_hidden_layers=6, head_dim=8, layer_types=types, sliding_window=9, **experts)


def _qwen3_next() -> Any:
    from transformers import Qwen3NextConfig

    linear = {
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    }
    experts = {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    }
    types = ["linear_attention", "full_attention"] * 3
    return Qwen3NextConfig(**_COMMON, num_hidden_layers=6, head_dim=8, layer_types=types, **linear, **experts)


def _deepseek_v3() -> Any:
    from transformers import DeepseekV3Config

    common = _COMMON | {"num_key_value_heads": 4}
    heads = {
        "q_lora_rank": 16,
        "kv_lora_rank": 12,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8,
        "v_head_dim": 6,
    }
    experts = {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
    }
    return DeepseekV3Config(**common, num_hidden_layers=4, **heads, **experts)


def _gemma3n() -> Any:
    from transformers import Gemma3nTextConfig

    types = ["full_attention", "sliding_attention", "full_attention"] * 2 + ["sliding_attention", "full_attention"]
    extra = {
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": VOCABULARY,
        "laurel_rank": 4,
        "num_kv_shared_layers": 2,
        "activation_sparsity_pattern": [0.0] * 8,
        "altup_num_inputs": 2,
    }
    return Gemma3nTextConfig(**_COMMON, num_hidden_layers=8, head_dim=8, layer_types=types, sliding_window=9, **extra)


# Each with the number of its layers that can be streamed.
FAMILIES: dict[str, tuple[Callable[[], Any], int]] = {
    "llama": (_llama, 5),
    "gemma3": (_gemma3, 4),
    "gpt-oss": (_gpt_oss, 3),
    "qwen3-next": (_qwen3_next, 3),
    "deepseek-v3": (_deepseek_v3, 4),
    "gemma3n": (_gemma3n, 3),  # four full attention layers of its own, and the last of them is read by others
}


@cache
def small_model(family: str, dtype: str, seed: int = 1) -> Any:
    """A model with random weights, in inference mode."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    config = FAMILIES[family][0]()
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    for parameter in model.parameters():  # the usual start is so small that attention hardly matters
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.25)
    return model.to(DEVICE)


@dataclass(frozen=True, slots=True)
class Generated:
    """What a generation gave: ids, and the logits of every step in float32, ``(steps, rows, vocabulary)``."""

    ids: Any
    logits: Any

    def is_bitwise(self, other: Generated) -> bool:
        """Whether both gave the same bits."""
        import torch

        bits = (each.logits.view(torch.int32) for each in (self, other))
        return bool(torch.equal(self.ids, other.ids) and torch.equal(*bits))


Usage = Callable[[Any, Any], Generated]


def padded_batch(model: Any, cache: Any) -> Generated:
    """Three prompts of different lengths, padded on the left."""
    return _generate(model, cache, *_prompts())


def chunked_prefill(model: Any, cache: Any) -> Generated:
    """The same with the prompt computed in pieces."""
    return _generate(model, cache, *_prompts(), prefill_chunk_size=6)


def beams(model: Any, cache: Any) -> Generated:
    """Beam search, which reorders sequences after every step."""
    return _generate(model, cache, *_prompts(), num_beams=3)


def prompt_lookup(model: Any, cache: Any) -> Generated:
    """Candidates from the prompt itself, most of which are cut off again."""
    import torch

    ids, _ = _prompts()
    repeated = torch.cat([ids[:1, :7]] * 3, dim=1)
    return _generate(model, cache, repeated, torch.ones_like(repeated), prompt_lookup_num_tokens=3)


def assistant(model: Any, cache: Any) -> Generated:
    """Candidates from another model, most of which are cut off again."""
    other = small_model("llama", "float32", seed=7)
    ids, _ = _prompts()
    return _generate(model, cache, ids[:1], ids[:1] * 0 + 1, assistant_model=other)


def continued(model: Any, cache: Any) -> Generated:
    """A second turn on the cache of the first."""
    import torch

    ids, mask = _prompts()
    first = _generate(model, cache, ids, mask)
    more = torch.cat([first.ids, ids[:, -3:]], dim=1)
    longer = torch.cat(
        [mask, torch.ones((mask.shape[0], more.shape[1] - mask.shape[1]), dtype=mask.dtype, device=DEVICE)], dim=1
    )
    second = _generate(model, cache, more, longer)
    return Generated(second.ids, torch.cat([first.logits, second.logits]))


def _prompts() -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(1, _END, (3, PROMPT_TOKENS), generator=generator)
    mask = torch.ones_like(ids)
    for row, padding in enumerate((0, 5, 9)):
        ids[row, :padding] = 0
        mask[row, :padding] = 0
    return ids.to(DEVICE), mask.to(DEVICE)


def _generate(model: Any, cache: Any, ids: Any, mask: Any, **options: Any) -> Generated:
    import torch

    from autotune_policies.engines.transformers import cache_keyword

    result = model.generate(
        ids,
        attention_mask=mask,
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=None if _CANDIDATES & options.keys() else NEW_TOKENS,  # 5.0 refuses both together
        eos_token_id=_END,
        return_dict_in_generate=True,
        output_logits=True,
        **{cache_keyword(model): cache},
        **options,
    )
    return Generated(result.sequences, torch.stack([step.float() for step in result.logits]))
