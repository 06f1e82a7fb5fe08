"""Tiny models with random weights, the same for the same seed, that a real engine serves on a CPU.

Two shapes: a Llama of four layers, and a Gemma 3 of six that mixes sliding windows with full attention, so that the
engine keeps its KV in several groups. The weights are drawn wide (standard deviation 0.08): greedy output then hangs on
the whole context, so one wrong byte of KV shows in the tokens. The tokenizer is a byte-level BPE that knows every token
of the vocabulary.

Run as a script, it writes a model into a folder: ``python tiny_model.py llama FOLDER``.
"""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from string import ascii_letters
from typing import Any

VOCABULARY = 512
MAX_TOKENS = 4096
WEIGHT_STD = 0.08
END_TOKEN = "<|end|>"
_FULL, _WINDOW = "full_attention", "sliding_attention"


class TinyShape(Enum):
    """Which model is built."""

    LLAMA = "llama"
    HYBRID = "hybrid"


def build(folder: Path, shape: TinyShape = TinyShape.LLAMA, seed: int = 0) -> Path:
    """Write a model and its tokenizer in the format of Hugging Face, unless the folder has them already.

    Args:
        folder: Where to; made if need be.
        shape: Which model.
        seed: Of the weights.

    Returns:
        The folder.
    """
    done = folder / "complete.json"
    identity = {"shape": shape.value, "seed": seed, "vocabulary": VOCABULARY}
    if not done.is_file() or json.loads(done.read_text(encoding="utf-8")) != identity:
        folder.mkdir(parents=True, exist_ok=True)
        _write_tokenizer(folder)
        _write_weights(folder, shape, seed)
        done.write_text(json.dumps(identity), encoding="utf-8")
    return folder


def _write_weights(folder: Path, shape: TinyShape, seed: int) -> None:
    import torch

    model = _model(shape)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            if weight.ndim >= 2:
                weight.normal_(0.0, WEIGHT_STD, generator=generator)
    model.to(torch.bfloat16).save_pretrained(folder)


def _model(shape: TinyShape) -> Any:
    common: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "max_position_embeddings": MAX_TOKENS,
        "bos_token_id": None,
        "eos_token_id": VOCABULARY - 1,
        "pad_token_id": None,
        "tie_word_embeddings": False,
    }
    if shape is TinyShape.LLAMA:
        from transformers import LlamaConfig, LlamaForCausalLM

        return LlamaForCausalLM(LlamaConfig(num_hidden_layers=4, **common))
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    pattern = [_WINDOW, _WINDOW, _FULL]
    return Gemma3ForCausalLM(
        Gemma3TextConfig(
            num_hidden_layers=6, layer_types=pattern * 2, sliding_window=64, query_pre_attn_scalar=2, **common
        )
    )


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    n_merges = VOCABULARY - 1 - len(alphabet)
    merges = [(first, second) for first in ascii_letters for second in ascii_letters][:n_merges]
    words = [*alphabet, *(first + second for first, second in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END_TOKEN])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_TOKEN).save_pretrained(folder)


if __name__ == "__main__":
    build(Path(sys.argv[2]), TinyShape(sys.argv[1]))
