"""DeepSeek-V4: a short window in every layer, and beside it compressed entries, sparse with an index or heavily so.

Source: transformers 5.19, models/deepseek_v4; vLLM 0.32, v1/attention/backends/mla/flashmla_sparse.py (584 bytes per
FP8 entry: 448 values of one byte, 64 of two, 8 of scales; an index of 128 bytes and 4 of scale).
"""

from __future__ import annotations

from fractions import Fraction

from autotune.core.errors import ConfigError
from autotune.geometry.compressed import CompressedAttention
from autotune.geometry.families.context import Reading
from autotune.geometry.kinds import Allocator, LayerKind
from autotune.geometry.layer import Layer
from autotune.geometry.precision import Precision

_TYPES = {k.value: k for k in (LayerKind.SLIDING, LayerKind.COMPRESSED_SPARSE, LayerKind.HEAVILY_COMPRESSED)}
_BY_RATIO = {0: LayerKind.SLIDING, 4: LayerKind.COMPRESSED_SPARSE, 128: LayerKind.HEAVILY_COMPRESSED}
_PACKED_ENTRY, _PACKED_BYTES = (512, 64), 584
_INDEX_SCALE_BYTES = 4


def layers(reading: Reading) -> tuple[Layer, ...]:
    """Layers as ``layer_types`` or ``compress_ratios`` list them.

    Raises:
        ConfigError: a field is missing, a type or ratio of layers is not known, or Transformers is to allocate: what
            it keeps besides, to complete entries later, depends on how the prompt was cut.
    """
    if reading.allocator is Allocator.TRANSFORMERS:
        raise ConfigError(
            f"{reading.config.name}: the KV of deepseek_v4 is counted as vLLM allocates it",
            got=reading.allocator.value,
            remedy="take vllm",
        )
    kinds = reading.layer_kinds(_TYPES) or _kinds_by_ratio(reading)
    return tuple(_layer(reading, kind) for kind in kinds)


def _kinds_by_ratio(reading: Reading) -> tuple[LayerKind, ...]:
    ratios, n_layers = reading.config.get("compress_ratios"), reading.config.count("num_hidden_layers")
    if not isinstance(ratios, list) or len(ratios) < n_layers:
        reading.config.refuse("compress_ratios", f"must give each of {n_layers} layers, or layer_types must")
    for position, ratio in enumerate(ratios):
        if isinstance(ratio, bool) or not isinstance(ratio, int) or ratio not in _BY_RATIO:
            known = ", ".join(map(str, _BY_RATIO))
            reading.config.refuse("compress_ratios", f"must be among {known}, but for layer {position}", got=ratio)
    return tuple(_BY_RATIO[ratio] for ratio in ratios[:n_layers])


def _layer(reading: Reading, kind: LayerKind) -> CompressedAttention:
    config = reading.config
    entry_values = config.count("head_dim")
    index_values = config.count("index_head_dim") if kind is LayerKind.COMPRESSED_SPARSE else 0
    return CompressedAttention(
        kind=kind,
        entry_bytes=_entry_bytes(reading.precision, entry_values, config.count("qk_rope_head_dim", default=64)),
        window_tokens=config.count("sliding_window"),
        tokens_per_entry={k: ratio for ratio, k in _BY_RATIO.items()}[kind],
        index_bytes=_index_bytes(reading.precision, index_values),
        entry_values=entry_values,
        index_values=index_values,
    )


def _entry_bytes(precision: Precision, entry_values: int, rope_values: int) -> Fraction:
    if precision.name.startswith("fp8") and (entry_values, rope_values) == _PACKED_ENTRY:
        return Fraction(_PACKED_BYTES)
    return precision.value_bytes(entry_values)


def _index_bytes(precision: Precision, index_values: int) -> Fraction:
    scale = _INDEX_SCALE_BYTES if index_values and precision.name.startswith("fp8") else 0
    return precision.value_bytes(index_values) + scale
