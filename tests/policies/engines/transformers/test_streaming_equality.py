"""Streamed and resident generation give the same bits, in every way in which a cache is used."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import pytest
from streaming_models import (
    FAMILIES,
    NEW_TOKENS,
    PROMPT_TOKENS,
    Usage,
    assistant,
    beams,
    chunked_prefill,
    continued,
    padded_batch,
    prompt_lookup,
    small_model,
)

from autotune.core.streaming import generation_volume

pytestmark = pytest.mark.engine("torch", "transformers")

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
DEPTHS = (0, 1, 2, 3)
FEW = ((0.0, 1), (0.5, 2))
OTHER_USAGES = (chunked_prefill, beams, prompt_lookup, assistant, continued)
DTYPES = ("float32", "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_share_and_depth_is_bitwise_equal(family: str, dtype: str) -> None:
    """Ids and logits of a padded batch are those of the resident cache, for all p and d."""
    check(family, dtype, padded_batch, tuple(product(SHARES, DEPTHS)))


@pytest.mark.parametrize("usage", OTHER_USAGES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_usage_is_bitwise_equal(family: str, dtype: str, usage: Usage) -> None:
    """Chunked prefill, beams, candidates that are cut off and a second turn change no bit either."""
    check(family, dtype, usage, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("usage", OTHER_USAGES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_usage_at_every_share_and_depth(family: str, dtype: str, usage: Usage) -> None:
    """The same, for all p and d."""
    check(family, dtype, usage, tuple(product(SHARES, DEPTHS)))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("share", SHARES)
def test_bytes_are_those_of_the_formula(share: float, depth: int) -> None:
    """Each step loads what its streamed layers have and stores one token of each, and nothing else moves."""
    from autotune_policies.engines.transformers import StreamingCache

    model = small_model("llama", "float32")
    with StreamingCache(model.config, share, depth) as cache:
        padded_batch(model, cache)
        stats = cache.stats()
    layer_token_bytes = 2 * 2 * 8 * 4  # keys and values, heads, width, float32
    volume = generation_volume(stats.n_streamed, layer_token_bytes, 3, PROMPT_TOKENS, NEW_TOKENS, depth)
    assert stats.loaded_bytes == volume.loaded_bytes + volume.ahead_bytes
    assert stats.stored_bytes == volume.stored_bytes
    assert stats.dropped_loads == 0


def test_a_flipped_bit_on_the_host_changes_the_logits() -> None:
    """The comparison sees a single wrong bit: so what it calls equal has been read from the host unharmed."""
    import torch

    model = small_model("llama", "float32")
    whole = decode_after_harm(model, None)
    assert torch.equal(whole, decode_after_harm(model, None))
    for layer in range(5):
        assert not torch.equal(whole, decode_after_harm(model, layer)), f"layer {layer}"


def decode_after_harm(model: Any, layer: int | None) -> Any:
    """Logits of a decode step before which one byte of a layer's host copy may have been harmed."""
    import torch

    from autotune_policies.engines.transformers import StreamingCache, cache_keyword

    ids = torch.arange(1, 17, device=model.device).reshape(2, 8)
    with torch.no_grad(), StreamingCache(model.config, 0.0, 0) as cache:
        model(ids, use_cache=True, **{cache_keyword(model): cache})
        if layer is not None:
            if ids.is_cuda:
                torch.cuda.synchronize()  # stores are under way
            byte = cache.layers[layer].keys[0, 0, 3].view(torch.uint8)
            byte[2] ^= 0x40  # a high bit of the mantissa
        return model(ids[:, :1], use_cache=True, **{cache_keyword(model): cache}).logits


def check(family: str, dtype: str, usage: Usage, settings: tuple[tuple[float, int], ...]) -> None:
    """Compare with Transformers' own cache; what that refuses, ours refuses in the same way."""
    import torch
    from transformers import DynamicCache

    from autotune_policies.engines.transformers import StreamingCache

    model = small_model(family, dtype)
    refusal = own_refusal(family, usage)
    if refusal is not None:
        with pytest.raises(refusal), StreamingCache(model.config, 0.0, 1) as cache:
            usage(model, cache)
        return
    expected = usage(model, DynamicCache(config=model.config))
    assert torch.isfinite(expected.logits).all()
    for share, depth in settings:
        with StreamingCache(model.config, share, depth) as cache:
            assert len(cache.candidates) == FAMILIES[family][1]
            got = usage(model, cache)
            stats = cache.stats()
        assert got.is_bitwise(expected), f"p {share}, d {depth}"
        assert stats.peak_slots <= depth + 1
        assert (stats.n_streamed == 0) == (stats.loads == 0)


def own_refusal(family: str, usage: Usage) -> type[Exception] | None:
    """How the installed Transformers refuses this, cache or no cache of ours."""
    from transformers import DynamicCache

    cuts = usage in (prompt_lookup, assistant)
    if family == "qwen3-next" and cuts:
        return ValueError  # no assisted generation with recurrent state
    if family == "qwen3-next" and not hasattr(DynamicCache, "has_previous_state"):
        return AttributeError  # 5.0 has another cache for it
    windows = family in ("gemma3", "gpt-oss", "gemma3n")
    if cuts and windows and "max_length" in inspect.signature(DynamicCache.crop).parameters:
        return ValueError  # 5.0 cannot cut a window that is full
    return None
