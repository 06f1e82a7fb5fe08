"""Capacities as people give them: GiB or blocks of the trace."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.errors import ConfigError
from autotune.core.units import GIB


@dataclass(frozen=True, slots=True)
class Budget:
    """Capacities of the tiers, in GiB or in blocks of the trace; what is not given is 0, but for the device.

    Attributes:
        device_gib: KV cache on the device.
        host_gib: KV cache in host memory.
        disk_gib: KV cache on disk.
        device_blocks: Instead of ``device_gib``.
        host_blocks: Instead of ``host_gib``.
        disk_blocks: Instead of ``disk_gib``.
    """

    device_gib: float | None = None
    host_gib: float | None = None
    disk_gib: float | None = None
    device_blocks: int | None = None
    host_blocks: int | None = None
    disk_blocks: int | None = None

    def in_blocks(self, block_bytes: int) -> tuple[int, int, int]:
        """Blocks of device, host and disk.

        Raises:
            ConfigError: a tier is given twice, the device not at all, or a tier holds less than one block.
        """
        device = _blocks("device", self.device_gib, self.device_blocks, block_bytes)
        if device is None:
            raise ConfigError(
                "the size of the device's KV cache must be given", got="none", remedy="--device-gib or --device-blocks"
            )
        host = _blocks("host", self.host_gib, self.host_blocks, block_bytes)
        disk = _blocks("disk", self.disk_gib, self.disk_blocks, block_bytes)
        return device, host or 0, disk or 0


def _blocks(tier: str, size_gib: float | None, blocks: int | None, block_bytes: int) -> int | None:
    if size_gib is not None and blocks is not None:
        raise ConfigError(
            f"the {tier} is given in GiB or in blocks", got="both", remedy=f"drop --{tier}-gib or --{tier}-blocks"
        )
    if size_gib is None:
        return blocks
    found = int(size_gib * GIB / block_bytes) if 0.0 <= size_gib < 1e9 else -1
    if found < 1 and size_gib != 0.0:
        raise ConfigError(
            f"the {tier} must hold at least one block of {block_bytes:,} bytes and less than 1e9 GiB",
            got=f"{size_gib:g} GiB",
        )
    return found
