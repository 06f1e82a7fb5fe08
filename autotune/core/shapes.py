"""Published dimensions of a model and of a machine, as the cost formulas need them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the KV cache and the prefill of a decoder with full attention depend on.

    Attributes:
        name: Name of the model.
        n_parameters: Weights that take part in one token's forward pass.
        n_layers: Attention layers.
        n_heads: Query heads per layer.
        n_kv_heads: Key/value heads per layer.
        head_dim: Elements per head.
        kv_dtype: Name of the KV cache's element type, such as ``bfloat16``.
        kv_element_bytes: Bytes per KV element.
    """

    name: str
    n_parameters: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    kv_dtype: str
    kv_element_bytes: int

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token over all layers: ``2 * layers * kv_heads * head_dim * bytes``."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * self.kv_element_bytes


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """One direction of a link: fixed latency plus bytes over bandwidth."""

    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class HardwareSpec:
    """What a machine can do, with the assumptions of the prefill model.

    Attributes:
        name: Name of the profile.
        device_memory_bytes: Memory of one device.
        peak_flop_per_s: Dense peak at the compute type.
        linear_efficiency: Share of the peak that matrix multiplications reach in prefill.
        attention_efficiency: Share of the peak that attention reaches in prefill.
        host_to_device: Load direction.
        device_to_host: Store direction.
        disk_read: Disk to host.
        store_exposed_frac: Share of store seconds that delays requests; stores are asynchronous, so 0 unless measured.
        device_bytes_per_s: Rate at which the device reads its own memory; ``None`` where the profile does not say.
    """

    name: str
    device_memory_bytes: int
    peak_flop_per_s: float
    linear_efficiency: float
    attention_efficiency: float
    host_to_device: LinkSpec
    device_to_host: LinkSpec
    disk_read: LinkSpec
    store_exposed_frac: float
    device_bytes_per_s: float | None = None
