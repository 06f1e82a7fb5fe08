"""One point of the joint space: which rule, with its own knobs, and the knobs that every rule has."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from autotune.core.types import Admission, StoreMode
from autotune.online.settings import OnlineSettings
from autotune.search.online.setting import LoopSetting
from autotune.search.setting import Setting
from autotune.sim.config import CacheConfig


class Rule(StrEnum):
    """Who decides what leaves."""

    RANK = "rank"  # the rank rule on the host, LRU on the device
    LEARNED = "learned"  # the loop, on both tiers


@dataclass(frozen=True, slots=True)
class JointSetting:
    """A rule with its knobs on an engine with some stores and some division of memory.

    Attributes:
        store_mode: When the host gets a block.
        min_load_tokens: Shorter runs are recomputed instead of loaded.
        resident_frac: Share p of device and host together that is the device; ``None`` keeps the given split.
        rank: λ and its companions; ``None`` under the other rule.
        loop: Settings of the loop; ``None`` under the other rule.
    """

    store_mode: StoreMode
    min_load_tokens: int = 0
    resident_frac: float | None = None
    rank: Setting | None = None
    loop: LoopSetting | None = None

    @property
    def rule(self) -> Rule:
        """Which rule it is."""
        return Rule.RANK if self.loop is None else Rule.LEARNED

    @classmethod
    def of_loop(cls, loop: LoopSetting) -> JointSetting:
        """The loop with its own store mode, on the engine as it is."""
        return cls(store_mode=loop.store_mode, loop=loop)

    @classmethod
    def of_rank(cls, rank: Setting, store_mode: StoreMode) -> JointSetting:
        """The rank rule, with the shortest load and the split that its setting names."""
        own = replace(rank, min_load_tokens=0, resident_frac=None, prefetch_depth=None, chunk_blocks=1)
        return cls(store_mode, rank.min_load_tokens, rank.resident_frac, rank=own)

    def engine(self, given: CacheConfig, block_tokens: int) -> CacheConfig:
        """The engine with these stores, loads and division of memory."""
        device, host = given.device_blocks, given.host_blocks
        if self.resident_frac is not None and host:
            total = device + host
            device = min(max(1, round(total * self.resident_frac)), total - 1)
            host = total - device
        return replace(
            given,
            device_blocks=device,
            host_blocks=host,
            store_mode=self.store_mode,
            min_load_blocks=-(-self.min_load_tokens // block_tokens),
        )

    def value(self, name: str) -> Any:
        """A knob by name: its own, or its rule's."""
        part = self if name in ("rule", "store_mode", "min_load_tokens", "resident_frac") else self.rank or self.loop
        return getattr(part, name)

    def stored(self) -> dict[str, Any]:
        """The setting as JSON has it."""
        return asdict(self) | {"loop": None if self.loop is None else self.loop.model_dump(mode="json")}

    @classmethod
    def restored(cls, values: dict[str, Any]) -> JointSetting:
        """The setting that was stored."""
        rank, loop = values["rank"], values["loop"]
        return cls(
            store_mode=StoreMode(values["store_mode"]),
            min_load_tokens=values["min_load_tokens"],
            resident_frac=values["resident_frac"],
            rank=None if rank is None else Setting(**rank | {"admission": Admission(rank["admission"])}),
            loop=None if loop is None else LoopSetting.restored(loop),
        )

    @classmethod
    def default(cls, base: OnlineSettings) -> JointSetting:
        """The fixed default: the loop as its settings are."""
        return cls.of_loop(LoopSetting.of(base))
