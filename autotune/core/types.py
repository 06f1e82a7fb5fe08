"""The closed vocabularies of the project: decisions, tiers and modes."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Decision(StrEnum):
    """What may be done with an idle reusable block."""

    KEEP = "KEEP"
    OFFLOAD = "OFFLOAD"
    EVICT = "EVICT"


class Tier(IntEnum):
    """Where a copy of a block may lie, nearest first."""

    DEVICE = 0
    HOST = 1
    DISK = 2


class RankForm(StrEnum):
    """How a learned rule ranks blocks."""

    HAZARD = "hazard"
    """By class and age, anew in every tick."""
    FIXED_KEY = "fixed_key"
    """By a key that does not change while a block lies idle."""


class Arm(IntEnum):
    """Ways to run that an engine which learns chooses between, the safest first.

    ``LRU``: of the blocks of both tiers the least recently used leaves. ``HAZARD`` and ``FIXED_KEY``: by what was
    learned, in either :class:`RankForm`.
    """

    LRU = 0
    HAZARD = 1
    FIXED_KEY = 2

    @classmethod
    def of(cls, form: RankForm) -> Arm:
        """The way to run by a form of the learned rule."""
        return cls[form.name]

    @property
    def form(self) -> RankForm | None:
        """The form of the learned rule; ``None`` = LRU."""
        return None if self is Arm.LRU else RankForm[self.name]


class StoreMode(StrEnum):
    """When a block is copied from the device to the host.

    ``EAGER`` stores every block of a request that the host lacks when the request ends and keeps both copies.
    ``LAZY`` stores a block when the device evicts it, and keeps the host's copy when it is loaded back.
    ``EXCLUSIVE`` stores at device eviction too, but a loaded block leaves the host.
    """

    EAGER = "eager"
    LAZY = "lazy"
    EXCLUSIVE = "exclusive"


class Timing(StrEnum):
    """When a request's blocks become idle.

    ``INSTANT``: at its arrival (golden counts). ``SERVICE``: when it finishes; until then its blocks are pinned and
    charged to the device, and requests that do not fit wait in order.
    """

    INSTANT = "instant"
    SERVICE = "service"


class EngineSemantics(StrEnum):
    """By whose rules the host tier of a simulated engine is looked up, filled and refreshed.

    ``CANONICAL``: those of :mod:`autotune.sim`, with golden counts. ``VLLM_0_32``: those of vLLM 0.32's offloading
    connector and host manager, call by call. ``"vllm"`` names the newest version of vLLM that is known here.
    """

    CANONICAL = "canonical"
    VLLM_0_32 = "vllm-0.32"

    @classmethod
    def _missing_(cls, value: object) -> EngineSemantics | None:
        return cls.VLLM_0_32 if value == "vllm" else None


class Admission(StrEnum):
    """Which missing blocks a tier accepts.

    ``ALL``: every block. ``MARGINAL``: only blocks that outrank the resident they would displace, so that nothing is
    stored just to be evicted. ``TWO_HIT``: only blocks seen before.
    """

    ALL = "all"
    MARGINAL = "marginal"
    TWO_HIT = "two_hit"
