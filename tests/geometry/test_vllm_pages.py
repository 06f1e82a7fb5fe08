"""Bytes of a block of one layer are the page sizes of vLLM's own classes."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.geometry import Allocator, ModelGeometry, load_geometry
from autotune.geometry.kinds import LayerKind

pytestmark = pytest.mark.engine("vllm")


def layer_of(model: ModelGeometry, kind: LayerKind) -> Any:
    """The first layer of a kind."""
    return next(layer for layer in model.layers if layer.kind is kind)


def bfloat16() -> Any:
    """The element type, imported where an engine is."""
    import torch

    return torch.bfloat16


def test_full_attention() -> None:
    """8 heads of 128 in BF16, 16 tokens: 65,536 bytes."""
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    page = FullAttentionSpec(block_size=16, num_kv_heads=8, head_size=128, dtype=bfloat16()).page_size_bytes
    assert page == layer_of(load_geometry("llama-3.1-8b"), LayerKind.FULL).block_bytes(16) == 65_536


def test_sliding_window() -> None:
    """A window of Gemma 3 27B: 131,072 bytes per block of 16."""
    from vllm.v1.kv_cache_interface import SlidingWindowSpec

    spec = SlidingWindowSpec(block_size=16, num_kv_heads=16, head_size=128, dtype=bfloat16(), sliding_window=1024)
    ours = layer_of(load_geometry("gemma-3-27b"), LayerKind.SLIDING)
    assert spec.page_size_bytes == ours.block_bytes(16) == 131_072


def test_latent_attention() -> None:
    """576 values in blocks of 64, in BF16 and packed."""
    from vllm.v1.hisparse.runtime import FP8_DS_MLA_ROW_BYTES
    from vllm.v1.kv_cache_interface import MLAAttentionSpec

    model = load_geometry("deepseek-v3")
    plain = MLAAttentionSpec(block_size=64, num_kv_heads=1, head_size=576, dtype=bfloat16())
    packed = MLAAttentionSpec(
        block_size=64, num_kv_heads=1, head_size=576, dtype=bfloat16(), state_content_bytes=FP8_DS_MLA_ROW_BYTES
    )
    assert plain.page_size_bytes == layer_of(model, LayerKind.LATENT).block_bytes(64) == 73_728
    ours = layer_of(model.in_precision("fp8_ds_mla"), LayerKind.LATENT)
    assert packed.page_size_bytes == ours.block_bytes(64) == 41_984


def test_mamba_state() -> None:
    """Jamba's state in BF16, by vLLM's own shapes: 311,296 bytes."""
    from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
    from vllm.v1.kv_cache_interface import MambaSpec

    shapes = MambaStateShapeCalculator.mamba1_state_shape(
        tp_world_size=1, intermediate_size=8192, state_size=16, conv_kernel=4
    )
    spec = MambaSpec(block_size=16, shapes=shapes, dtypes=(bfloat16(), bfloat16()))
    ours = layer_of(load_geometry("jamba-v0.1"), LayerKind.RECURRENT)
    assert spec.page_size_bytes == ours.fixed_bytes == 311_296


@pytest.mark.parametrize(
    ("allocator", "state_bytes"), [(Allocator.VLLM, 1_097_728), (Allocator.VLLM_FLOAT32, 2_146_304)]
)
def test_delta_net_state(allocator: Allocator, state_bytes: int) -> None:
    """Qwen3-Next's state, the recurrent part in BF16 or in FP32, by vLLM's own shapes."""
    import torch
    from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
    from vllm.v1.kv_cache_interface import MambaSpec

    shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(1, 16, 32, 128, 128, 4)
    recurrent = torch.float32 if allocator is Allocator.VLLM_FLOAT32 else torch.bfloat16
    spec = MambaSpec(block_size=16, shapes=shapes, dtypes=(torch.bfloat16, recurrent))
    ours = layer_of(load_geometry("qwen3-next-80b-a3b", allocator=allocator), LayerKind.RECURRENT)
    assert spec.page_size_bytes == ours.fixed_bytes == state_bytes
