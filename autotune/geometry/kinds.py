"""The closed vocabularies of geometry: kinds of layers, who allocates, and the techniques that make KV smaller."""

from __future__ import annotations

from enum import StrEnum


class LayerKind(StrEnum):
    """What one layer keeps of the past."""

    FULL = "full_attention"
    SLIDING = "sliding_attention"
    LATENT = "latent_attention"
    RECURRENT = "linear_attention"
    COMPRESSED_SPARSE = "compressed_sparse_attention"
    HEAVILY_COMPRESSED = "heavily_compressed_attention"
    SHARED = "shared"


class Allocator(StrEnum):
    """Who allocates the cache; the same model takes different bytes.

    ``VLLM``: a window holds its full width, recurrent states have the type of the KV cache. ``VLLM_FLOAT32``:
    likewise, but the recurrent part of a state has four bytes per value. ``TRANSFORMERS`` (5.19): a window keeps one
    token less between steps, recurrent states have four bytes and the convolution's full width.
    """

    VLLM = "vllm"
    VLLM_FLOAT32 = "vllm-float32"
    TRANSFORMERS = "transformers"


class Factor(StrEnum):
    """What a technique reduces. Bytes of KV are the product of all but the last."""

    HEADS = "heads"
    LAYERS = "layers"
    TOKENS = "tokens"
    WIDTH = "width"
    BITS = "bits"
    DUPLICATES = "duplicates"
    RESIDENCE = "share on the device"
    BANDWIDTH = "bandwidth"


class Technique(StrEnum):
    """The twelve ways to spend less memory or bandwidth on KV."""

    GROUPED_HEADS = "grouped heads (GQA, MQA)"
    LAYER_SHARING = "cross-layer sharing"
    SLIDING_WINDOW = "sliding windows"
    LATENT = "latent attention (MLA)"
    RECURRENT = "recurrent layers"
    COMPRESSED = "compressed attention"
    SPARSE_READS = "query-aware sparse reads"
    QUANTISATION = "quantised KV"
    EVICTION_BUDGET = "eviction budget"
    PAGING = "paging"
    PREFIX_SHARING = "prefix sharing"
    OFFLOAD = "offload"

    @property
    def factor(self) -> Factor:
        """What it reduces."""
        return _FACTORS[self]


_FACTORS = {
    Technique.GROUPED_HEADS: Factor.HEADS,
    Technique.LAYER_SHARING: Factor.LAYERS,
    Technique.SLIDING_WINDOW: Factor.TOKENS,
    Technique.LATENT: Factor.WIDTH,
    Technique.RECURRENT: Factor.LAYERS,
    Technique.COMPRESSED: Factor.TOKENS,
    Technique.SPARSE_READS: Factor.BANDWIDTH,
    Technique.QUANTISATION: Factor.BITS,
    Technique.EVICTION_BUDGET: Factor.TOKENS,
    Technique.PAGING: Factor.TOKENS,
    Technique.PREFIX_SHARING: Factor.DUPLICATES,
    Technique.OFFLOAD: Factor.RESIDENCE,
}
