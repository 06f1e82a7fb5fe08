"""One engine as the loop sees it: whether it lives, since when it is the same, and what it did since the last look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune.core.access import AccessRecord
from autotune.core.signals import Collected, EngineTold, Rates, Signal, Snapshot, rates
from autotune.daemon.sources import Source
from autotune.daemon.status import Grade, TargetStatus
from autotune.daemon.windows import Interval, interval_of

METRICS, TELEMETRY, EVENTS, HOST = "prometheus", "telemetry", "kv_events", "host"
_HASH_FACT = "policy_hash"
_SHORT_HASH = 12


class TargetView:
    """What is known of one engine.

    Args:
        url: Where it is, without credentials.
        sources: Whom to ask about it.

    Attributes:
        snapshot: Its newest figures; ``None`` = none yet.
        alive: Whether it answered in the last round.
        epoch: How often it began anew since attach.
        records: Records of the last round.
        rates: What changed in the last round; ``None`` = not known.
        residents: Blocks on its tiers in the last round, from its KV events; ``None`` = not known.
    """

    def __init__(self, url: str, sources: Sequence[Source]) -> None:
        self.url, self.sources = url, tuple(sources)
        self.snapshot: Snapshot | None = None
        self.rates: Rates | None = None
        self.residents: Snapshot | None = None
        self.records: Sequence[Any] = ()
        self.alive = False
        self.epoch = 0
        self._told_s: float | None = None  # when accesses were told last, on the clock of the snapshots

    def update(self, collected: Sequence[Collected[Any] | None]) -> Interval | None:
        """Take over one round.

        Args:
            collected: What each source gave, in their order.

        Returns:
            What happened since the round before; ``None`` where that is not known, as after a restart.
        """
        self.records = [record for each in collected if each is not None for record in each.records]
        self.residents = next(
            (
                each.snapshot
                for source, each in zip(self.sources, collected, strict=True)
                if source.name == EVENTS and each is not None and each.ok
            ),
            None,
        )
        snapshots = [each.snapshot for each in collected if each is not None and each.ok and each.snapshot is not None]
        engine = next((each for each in snapshots if each.engine.name), None)
        before, self.alive, self.rates = self.snapshot, engine is not None, None
        if engine is None:
            return None
        self.snapshot = engine
        if any(isinstance(record, AccessRecord) for record in self.records):
            self._told_s = engine.at_s
        if before is None or engine.at_s <= before.at_s:
            return None
        self.rates = rates(before, engine)
        if self.rates.reset:
            self.epoch += 1
            return None
        return interval_of(self.rates, engine)

    def tell(self, told: EngineTold) -> None:
        """Let its sources know what its page tells."""
        for source in self.sources:
            source.tell(told)

    @property
    def silent_s(self) -> float | None:
        """Seconds without any record of an access; ``None`` = it never told one."""
        return None if self._told_s is None or self.snapshot is None else self.snapshot.at_s - self._told_s

    @property
    def engine(self) -> str | None:
        """Kind of engine and its version, such as ``vllm 0.32.0``."""
        if self.snapshot is None or not self.snapshot.engine.name:
            return None
        return f"{self.snapshot.engine.name} {self.snapshot.engine.version}".strip()

    @property
    def model(self) -> str | None:
        """Model that it serves."""
        return self.snapshot.engine.model or None if self.snapshot is not None else None

    @property
    def policy_hash(self) -> str | None:
        """First 12 digits of the policy that it says is in force; ``None`` = it does not say."""
        text = self.snapshot.engine.facts.get(_HASH_FACT) if self.snapshot is not None else None
        return text[:_SHORT_HASH] if text else None

    @property
    def start_s(self) -> float | None:
        """When its process began, in Unix time."""
        return self.snapshot.value(Signal.PROCESS_START_S) if self.snapshot is not None else None

    @property
    def grade(self) -> Grade:
        """What its evidence carries."""
        names = {source.name for source in self.sources if source.last_ok}
        if self._told_s is not None and TELEMETRY in names:
            return Grade.TELEMETRY
        if EVENTS in names:
            return Grade.EVENTS_ONLY
        return Grade.COUNTERS_ONLY if self.snapshot is not None else Grade.NONE

    def fresh(self, now_s: float, stale_after_s: float) -> bool:
        """Whether its figures are young enough to act on."""
        ages = [source.health(now_s).age_s for source in self.sources if source.name == METRICS]
        return any(age is not None and age <= stale_after_s for age in ages)

    def value(self, signal: Signal) -> float | None:
        """A counter or gauge of its newest figures; ``None`` = unknown."""
        return None if self.snapshot is None else self.snapshot.value(signal)

    def status(self, now_s: float) -> TargetStatus:
        """It, as the surface shows it."""
        info = self.snapshot.engine if self.snapshot is not None else None
        return TargetStatus(
            url=self.url,
            engine=info.name or None if info else None,
            version=info.version or None if info else None,
            model=self.model,
            alive=self.alive,
            epoch=self.epoch,
            grade=self.grade,
            policy_hash=self.policy_hash,
            sources=tuple(source.health(now_s) for source in self.sources),
        )
