"""The host's copy of one layer: append-only, so that a step stores one token and not the layer."""

from __future__ import annotations

from typing import Any

import torch

_FIRST_TOKENS = 64
_GROWTH = 1.5


class HostMaster:
    """Keys and values of one layer in host memory, token by token.

    The token is the first dimension, so that the tokens so far are one contiguous piece, which a device copies from
    pinned memory without a detour, however much room is left behind it. Engines see them as views in their own order,
    ``(batch, heads, tokens, width)``.

    Args:
        is_pinned: Whether the memory is page-locked, as asynchronous copies to a device need it.
    """

    def __init__(self, *, is_pinned: bool) -> None:
        self.n_tokens = 0
        self.stored: Any = None  # what a load has to wait for: set and read by the link
        self._is_pinned = is_pinned
        self._keys: torch.Tensor | None = None
        self._values: torch.Tensor | None = None

    @property
    def capacity_tokens(self) -> int:
        """Tokens that fit before the next growth."""
        return 0 if self._keys is None else int(self._keys.shape[0])

    @property
    def size_bytes(self) -> int:
        """Host memory that it takes, room included."""
        return sum(part.nbytes for part in (self._keys, self._values) if part is not None)

    @property
    def used_bytes(self) -> int:
        """Bytes of the tokens so far, which a load moves."""
        return sum(part.nbytes for part in self.contents()) if self.n_tokens else 0

    def contents(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values so far, contiguous, shaped ``(tokens, batch, heads, width)``."""
        keys, values = self._buffers()
        return keys[: self.n_tokens], values[: self.n_tokens]

    def views(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The same memory in the order of Transformers: ``(batch, heads, tokens, width)``."""
        keys, values = self.contents()
        return as_engine(keys), as_engine(values)

    def extend(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Room for new tokens at the end, to be written by the caller.

        Args:
            keys: New keys in the order of Transformers; only their shape and type are read.
            values: New values, likewise.

        Returns:
            The room for keys and for values, shaped ``(new tokens, batch, heads, width)``.
        """
        begin, end = self.n_tokens, self.n_tokens + int(keys.shape[-2])
        if end > self.capacity_tokens:
            capacity = max(end, int(_GROWTH * self.capacity_tokens), _FIRST_TOKENS)
            self._keys = self._grown(self._keys, keys, capacity)
            self._values = self._grown(self._values, values, capacity)
        self.n_tokens = end
        room_keys, room_values = self._buffers()
        return room_keys[begin:end], room_values[begin:end]

    def adopt(self, keys: torch.Tensor | None, values: torch.Tensor | None) -> None:
        """Take what the engine has made of the views: cut, reordered, repeated or nothing at all.

        What still begins where this memory begins was cut at the end, and nothing is copied.
        """
        if keys is None or values is None or keys.numel() == 0:
            self.n_tokens, self._keys, self._values = 0, None, None
        elif self._still_holds(keys) and self._still_holds(values):
            self.n_tokens = int(keys.shape[-2])
        else:
            self.n_tokens, self._keys, self._values = 0, None, None
            room_keys, room_values = self.extend(keys, values)
            room_keys.copy_(as_stored(keys))
            room_values.copy_(as_stored(values))

    def _still_holds(self, part: torch.Tensor) -> bool:
        for own in (self._keys, self._values):
            if own is not None and part.data_ptr() == own.data_ptr():
                return as_stored(part).stride() == own.stride() and part.shape[-2] <= self.n_tokens
        return False

    def _grown(self, old: torch.Tensor | None, new: torch.Tensor, capacity_tokens: int) -> torch.Tensor:
        batch, heads, _, width = new.shape
        buffer = torch.empty((capacity_tokens, batch, heads, width), dtype=new.dtype, pin_memory=self._is_pinned)
        if old is not None:
            buffer[: self.n_tokens].copy_(old[: self.n_tokens])
        return buffer

    def _buffers(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._keys is None or self._values is None:
            empty = torch.empty((0, 0, 0, 0))
            return empty, empty
        return self._keys, self._values


def as_engine(stored: torch.Tensor) -> torch.Tensor:
    """``(tokens, batch, heads, width)`` seen as ``(batch, heads, tokens, width)``."""
    return stored.permute(1, 2, 0, 3)


def as_stored(tensor: torch.Tensor) -> torch.Tensor:
    """``(batch, heads, tokens, width)`` seen as ``(tokens, batch, heads, width)``."""
    return tensor.permute(2, 0, 1, 3)
