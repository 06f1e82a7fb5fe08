"""Which layers of a cache can be streamed: exact types only; whatever else there is stays on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers.cache_utils import DynamicLayer


def streamable_layers(layers: Sequence[Any], config: Any) -> tuple[int, ...]:
    """Indices of the layers that can be streamed, ascending.

    These are of exactly the type ``DynamicLayer``, full attention that grows by concatenation. Not streamed: sliding
    windows, whose size is bounded; recurrent, quantised, indexed and compressed layers, whose state is more than keys
    and values; subclasses, which may do anything; and layers whose keys and values other layers read as well.

    Args:
        layers: Layers of a ``DynamicCache``.
        config: The text decoder's part of the model's configuration.

    Source: transformers 5.0 to 5.24, ``cache_utils.DynamicLayer``.
    """
    producers = _producers(config)
    types = list(getattr(config, "layer_types", None) or [])
    return tuple(
        i
        for i, layer in enumerate(layers)
        # Transformers 5.0 gives recurrent layers a DynamicLayer too; the configuration tells them apart.
        if type(layer) is DynamicLayer and i not in producers and (i >= len(types) or types[i] == "full_attention")
    )


def _producers(config: Any) -> frozenset[int]:
    """Layers whose keys and values other layers use: of each type the last one before sharing begins.

    Source: transformers 5.24, ``Gemma3nTextConfig.kv_sharing_modes``; up to 5.19 ``num_kv_shared_layers`` alone, read
    in ``Gemma3nTextAttention.__init__``.
    """
    modes = getattr(config, "kv_sharing_modes", None)
    if modes is not None:
        return frozenset(i for i, mode in enumerate(modes) if mode is not None)
    n_shared = getattr(config, "num_kv_shared_layers", None) or 0
    if not n_shared:
        return frozenset()
    first_shared = config.num_hidden_layers - n_shared
    types = list(getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers)[:first_shared]
    last_of_type = {layer_type: i for i, layer_type in enumerate(types)}
    return frozenset(last_of_type.values())
