"""Bytes: what a setting keeps on the device, and what a generation moves over the link."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.errors import StreamingError


@dataclass(frozen=True, slots=True)
class GenerationVolume:
    """What one generation moves.

    Attributes:
        loaded_bytes: Host to device, for layers that were then computed.
        ahead_bytes: Host to device, for the step after the last one, which nobody computes.
        stored_bytes: Device to host.
    """

    loaded_bytes: int
    ahead_bytes: int
    stored_bytes: int


def generation_volume(
    n_streamed: int, layer_token_bytes: int, batch: int, prompt_tokens: int, new_tokens: int, prefetch_depth: int
) -> GenerationVolume:
    """Bytes that a generation moves: each step loads what its streamed layers have, and stores one token of each.

    The prompt is computed in one piece and loads nothing; of ``new_tokens`` the last one is never computed on. Loads
    run ``prefetch_depth`` layers ahead, into a step that does not come if the generation ends.

    Args:
        n_streamed: Streamed layers.
        layer_token_bytes: Bytes of one token of one sequence in one layer, keys and values.
        batch: Sequences.
        prompt_tokens: Tokens of the prompt, padding included.
        new_tokens: Tokens generated, at least 1.
        prefetch_depth: d, in streamed layers.
    """
    row_bytes = layer_token_bytes * batch
    steps = new_tokens - 1
    loaded_tokens = steps * prompt_tokens + steps * (steps - 1) // 2
    return GenerationVolume(
        loaded_bytes=n_streamed * row_bytes * loaded_tokens,
        ahead_bytes=min(prefetch_depth, n_streamed) * row_bytes * (prompt_tokens + steps),
        stored_bytes=n_streamed * row_bytes * (prompt_tokens + steps),
    )


def device_bytes(n_resident: int, n_streamed: int, prefetch_depth: int, layer_bytes: int) -> int:
    """KV bytes on the device: resident layers, and d + 1 slots for the streamed ones.

    Args:
        n_resident: Layers that stay.
        n_streamed: Layers that are streamed.
        prefetch_depth: d, in streamed layers.
        layer_bytes: Bytes of one layer at the longest, whole batch.
    """
    slots = min(prefetch_depth, n_streamed) + 1 if n_streamed else 0
    return (n_resident + slots) * layer_bytes


def fit_resident_layers(n_layers: int, prefetch_depth: int, layer_bytes: int, budget_bytes: int) -> int | None:
    """The most layers that can stay on the device within a budget, or None where not even d + 1 slots fit.

    Raises:
        StreamingError: a layer has no bytes.
    """
    if layer_bytes <= 0:
        raise StreamingError("a layer has at least one byte of KV", got=layer_bytes)
    fitting = (
        n_resident
        for n_resident in range(n_layers, -1, -1)
        if device_bytes(n_resident, n_layers - n_resident, prefetch_depth, layer_bytes) <= budget_bytes
    )
    return next(fitting, None)
