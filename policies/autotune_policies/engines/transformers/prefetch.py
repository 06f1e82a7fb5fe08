"""Runs loads d streamed layers ahead of compute, in at most d + 1 slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune_policies.engines.transformers.link import Link, Loaded, Transfer
from autotune_policies.engines.transformers.master import HostMaster


class Prefetcher:
    """The slots of a cache: one in use, and loads under way or arrived.

    Call order in a step: :meth:`release` when any layer's update arrives, since the one before is then computed; for a
    streamed layer :meth:`take` with what it has, the engine's own update, and :meth:`appended` after its new tokens
    are on the host.

    Args:
        layers: Streamed layers in the order of a step.
        masters: Their host copies.
        prefetch_depth: d, in streamed layers.
        link: Moves them.
    """

    def __init__(
        self, layers: Sequence[int], masters: Mapping[int, HostMaster], prefetch_depth: int, link: Link
    ) -> None:
        self.loads = self.loaded_bytes = 0
        self.dropped_loads = self.dropped_bytes = 0
        self.hits = self.late = self.misses = 0
        self.peak_slots = 0
        self._layers = tuple(layers)
        self._position_of = {layer: position for position, layer in enumerate(self._layers)}
        self._masters = masters
        self._ahead = min(prefetch_depth, len(self._layers))
        self._link = link
        self._pending: dict[int, tuple[Transfer, int]] = {}
        self._in_use: int | None = None

    @property
    def slots(self) -> int:
        """Slots held now."""
        return len(self._pending) + (self._in_use is not None)

    @property
    def slot_bytes(self) -> int:
        """Bytes of their layers."""
        used = 0 if self._in_use is None else self._masters[self._in_use].used_bytes
        return used + sum(size_bytes for _, size_bytes in self._pending.values())

    def release(self) -> None:
        """The layer in use is computed; its slot is free."""
        self._in_use = None

    def take(self, layer: int) -> Loaded:
        """Wait for a layer's load; it is in use from now on. Loads behind it are issued before the wait."""
        if layer not in self._pending:
            self.misses += 1
        elif self._pending[layer][0].is_done:
            self.hits += 1
        else:
            self.late += 1
        self._issue(layer)
        # Without the layer itself: its next load has to contain the token that this step adds.
        self._issue_behind(layer, min(self._ahead, len(self._layers) - 1))
        transfer, _ = self._pending.pop(layer)
        self._in_use = layer
        return transfer.wait()

    def appended(self, layer: int) -> None:
        """The layer's new tokens are on the host."""
        self._in_use = layer
        self._count_peak()
        self._issue_behind(layer, self._ahead)

    def drain(self) -> None:
        """Drop every load: what they carry is about to change, or is not wanted any more."""
        self._in_use = None
        while self._pending:
            _, (transfer, size_bytes) = self._pending.popitem()
            self.dropped_loads += 1
            self.dropped_bytes += size_bytes
            transfer.abandon()

    def _issue_behind(self, layer: int, depth: int) -> None:
        position = self._position_of[layer]
        for offset in range(1, depth + 1):
            self._issue(self._layers[(position + offset) % len(self._layers)])

    def _issue(self, layer: int) -> None:
        master = self._masters[layer]
        if layer in self._pending or not master.n_tokens:
            return
        size_bytes = master.used_bytes
        self._pending[layer] = (self._link.load(master), size_bytes)
        self.loads += 1
        self.loaded_bytes += size_bytes
        self._count_peak()

    def _count_peak(self) -> None:
        self.peak_slots = max(self.peak_slots, self.slots)
