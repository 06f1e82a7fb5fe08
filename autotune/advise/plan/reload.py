"""Reload or recompute: what each takes for a run of tokens, and from which length on loading pays.

Recomputing n tokens after c0 takes ``2 P n`` operations in the weights, and per layer of full attention
``2 H (d_k + d_v)`` per pair of tokens that attend to each other, ``n c0 + n (n + 1) / 2`` of them. In a window no token
has more pairs than the window is wide, with entries a pair stands for several tokens, and states need no pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.core.costs import CostProfile
from autotune.core.errors import ConfigError
from autotune.core.shapes import HardwareSpec
from autotune.geometry.attention import FullAttention
from autotune.geometry.compressed import CompressedAttention
from autotune.geometry.geometry import ModelGeometry
from autotune.geometry.latent import LatentAttention
from autotune.geometry.layer import Layer
from autotune.geometry.sharing import SharedLayer
from autotune.geometry.window import SlidingWindow

MAX_RUN_TOKENS = 2**24


@dataclass(frozen=True, slots=True)
class ReloadPoint:
    """Reload against recompute of a run of tokens.

    Attributes:
        start_tokens: Tokens before the run, already on the device.
        run_tokens: Length of the run.
        recompute_s: Seconds to compute it.
        reload_s: Seconds to load it from the host.
        break_even_tokens: Shortest run after this start whose load takes less; ``None`` where there is none.
        break_even_bytes_per_s: Bandwidth at which this run takes equally long.
    """

    start_tokens: int
    run_tokens: int
    recompute_s: float
    reload_s: float
    break_even_tokens: int | None
    break_even_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class ReloadModel:
    """Times of one model on one machine.

    Attributes:
        geometry: The model, whose active weights are known.
        hardware: The machine.
        ranks: Devices that share the work and load side by side.
    """

    geometry: ModelGeometry
    hardware: HardwareSpec
    ranks: int = 1

    def recompute_s(self, run_tokens: int, start_tokens: int = 0) -> float:
        """Seconds to compute ``run_tokens`` after ``start_tokens``."""
        linear = 2.0 * (self.geometry.weights.active or 0) * run_tokens
        attention = sum(self._pair_flop(layer, run_tokens, start_tokens) for layer in self.geometry.layers)
        peak = self.hardware.peak_flop_per_s * self.ranks
        return linear / (peak * self.hardware.linear_efficiency) + attention / (
            peak * self.hardware.attention_efficiency
        )

    def reload_bytes(self, run_tokens: int) -> int:
        """Bytes per device of the KV of a run, states included."""
        return self.geometry.per_rank(self.ranks).kv_bytes(run_tokens)

    def reload_s(self, run_tokens: int) -> float:
        """Seconds to load a run from the host."""
        link = self.hardware.host_to_device
        return link.latency_s + self.reload_bytes(run_tokens) / link.bytes_per_s if run_tokens else 0.0

    def break_even_tokens(self, start_tokens: int) -> int | None:
        """Shortest run whose load takes less than its computation.

        The difference is convex in the length, so once loading pays, it pays for every longer run.
        """
        low, high = 0, MAX_RUN_TOKENS
        if not self._pays(high, start_tokens):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._pays(middle, start_tokens) else (middle, high)
        return high

    def point(self, run_tokens: int, start_tokens: int = 0) -> ReloadPoint:
        """All of it for one run."""
        recompute_s = self.recompute_s(run_tokens, start_tokens)
        return ReloadPoint(
            start_tokens=start_tokens,
            run_tokens=run_tokens,
            recompute_s=recompute_s,
            reload_s=self.reload_s(run_tokens),
            break_even_tokens=self.break_even_tokens(start_tokens),
            break_even_bytes_per_s=self.reload_bytes(run_tokens) / recompute_s if recompute_s else math.inf,
        )

    def costs(self) -> CostProfile:
        """The same as the coefficients that simulations take.

        Raises:
            ConfigError: tokens do not all cost the same, or the active weights are not known.
        """
        geometry, hardware = self.geometry, self.hardware
        if geometry.kv_bytes_per_token is None or not geometry.weights.active:
            raise ConfigError(
                "simulating needs a model whose every token costs the same, with known active weights",
                got=f"{geometry.name}, with layers that keep a window, a state or entries",
                remedy="use 'kv-autotune plan' for this model",
            )
        load, store, disk = hardware.host_to_device, hardware.device_to_host, hardware.disk_read
        attention = hardware.peak_flop_per_s * hardware.attention_efficiency
        return CostProfile(
            prefill_linear_s=2.0 * geometry.weights.active / (hardware.peak_flop_per_s * hardware.linear_efficiency),
            prefill_quadratic_s=sum(self._pair_flop(layer, 1, 0) for layer in geometry.layers) / attention,
            kv_bytes_per_token=geometry.kv_bytes_per_token,
            load_bytes_per_s=load.bytes_per_s,
            load_latency_s=load.latency_s,
            store_bytes_per_s=store.bytes_per_s,
            store_latency_s=store.latency_s,
            disk_bytes_per_s=disk.bytes_per_s,
            disk_latency_s=disk.latency_s,
            store_exposed_frac=hardware.store_exposed_frac,
            source=f"layers of {geometry.name} at published and assumed rates of {hardware.name}",
        )

    def _pays(self, run_tokens: int, start_tokens: int) -> bool:
        return self.reload_s(run_tokens) < self.recompute_s(run_tokens, start_tokens)

    def _pair_flop(self, layer: Layer, run: int, start: int) -> float:
        n_heads = self.geometry.n_heads
        if isinstance(layer, SharedLayer):  # it computes its attention too, on the keys and values of another
            return self._pair_flop(layer.own, run, start)
        if isinstance(layer, LatentAttention):
            return self._pair_flop(layer.decompressed, run, start)
        if isinstance(layer, FullAttention):
            return 2.0 * n_heads * (layer.key_dim + layer.value_dim) * _pairs(run, start)
        if isinstance(layer, SlidingWindow):
            per_pair = 2.0 * n_heads * (layer.attention.key_dim + layer.attention.value_dim)
            return per_pair * _pairs(run, start, layer.window_tokens)
        if isinstance(layer, CompressedAttention):
            far = _pairs(run, start) / layer.tokens_per_entry if layer.tokens_per_entry else 0.0
            return 4.0 * n_heads * layer.entry_values * (_pairs(run, start, layer.window_tokens) + far)
        return 0.0


def _pairs(run: int, start: int, window: int | None = None) -> float:
    """Pairs of tokens that attend to each other, a token and itself among them."""
    if window is None:
        return run * start + run * (run + 1) / 2
    growing = max(0, min(run, window - start))
    return growing * start + growing * (growing + 1) / 2 + (run - growing) * window
