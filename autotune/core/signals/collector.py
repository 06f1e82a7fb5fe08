"""What a source of signals looks like from the loop that asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, runtime_checkable

from autotune.core.errors import AutotuneError
from autotune.core.signals.readings import Snapshot
from autotune.core.telemetry.wire import StreamFacts
from autotune.core.types import Tier

Record_co = TypeVar("Record_co", covariant=True)


class CollectError(AutotuneError):
    """A source cannot be reached, or does not say what it should."""


@dataclass(frozen=True, slots=True)
class Collected(Generic[Record_co]):
    """What one turn of one collector brought.

    Attributes:
        ok: Whether the source answered; having nothing new to say is an answer.
        seconds: Time that it took.
        error: One line that says why it did not; ``None`` if it did.
        snapshot: Signals, from a source that has them.
        records: Accesses and transfers, oldest first, from a source that has them.
        lost: Records lost since the last turn; any loss ends an epoch.
    """

    ok: bool
    seconds: float
    error: str | None = None
    snapshot: Snapshot | None = None
    records: Sequence[Record_co] = ()
    lost: int = 0


class Collector(Protocol[Record_co]):
    """One source, asked in turns.

    ``collect`` never raises for what the source does: a source that fails gives ``Collected(ok=False, …)``. It keeps
    its own timeouts, so that it returns in bounded time.
    """

    @property
    def name(self) -> str:
        """Name in status, metrics and logs."""
        ...

    def collect(self, now_s: float) -> Collected[Record_co]:
        """What is new at ``now_s`` on the monotonic clock."""
        ...


@dataclass(frozen=True, slots=True)
class EngineTold:
    """What an engine's page tells that its other sources can use.

    Attributes:
        facts: Who it is; ``None`` = it did not say yet.
        capacity_blocks: What each tier can hold, in the units that its KV events count; a tier that is not here is
            unknown.
        telemetry: Where its plug-in says that records go; empty = it says nothing.
    """

    facts: StreamFacts | None = None
    capacity_blocks: Mapping[Tier, int] = field(default_factory=dict)
    telemetry: str = ""


@runtime_checkable
class Informed(Protocol):
    """A collector that can use what the engine's page tells."""

    def inform(self, told: EngineTold) -> None:
        """Take it over; called between two turns, in the thread that calls ``collect``."""


class ReadPage(Protocol):
    """What the entry points of the group ``autotune.pages`` are: they read a page that somebody saved."""

    def __call__(self, page: bytes, *, target: str, at_s: float, version: str = "", model: str = "") -> Snapshot:
        """What the page says.

        Raises:
            CollectError: it is no page of an engine that is known here.
        """
        ...
