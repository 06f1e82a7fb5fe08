"""Running LRU and candidates in the shadow of the live policy, on the records of the group's first engine."""

from __future__ import annotations

from autotune.core.access import AccessRecord
from autotune.core.errors import AutotuneError
from autotune.core.policy import ClassHazardDocument, PolicyDocument
from autotune.daemon.engine_facts import EngineProfile
from autotune.daemon.parts import Memory, Parts
from autotune.daemon.shadow_cache import ShadowEngine, ShadowPolicy
from autotune.daemon.shadows import Shadows, ShadowSettings
from autotune.daemon.status import ShadowStatus
from autotune.daemon.trial import identity

_LIVE, _CANDIDATE, _STOCK = "live", "candidate", "lru"


class ShadowStep:
    """Shadows of one sidecar.

    Args:
        parts: What it is made of.
        memory: What it remembers.
    """

    def __init__(self, parts: Parts, memory: Memory) -> None:
        self._parts, self._memory = parts, memory
        self._shadows: Shadows | None = None
        self._engine: ShadowEngine | None = None
        self._followed: tuple[str | None, str | None] | None = None

    def update(self) -> None:
        """Take this round's records.

        Raises:
            AutotuneError: a policy has no plain form that could run here.
        """
        records = [each for each in self._parts.targets[0].records if isinstance(each, AccessRecord)]
        shadows = self._ready() if records else None
        if shadows is not None:
            for record in records:
                shadows.observe(record)
            shadows.flush()

    def status(self) -> tuple[ShadowStatus, ...]:
        """How they do."""
        if self._shadows is None:
            return ()
        reports = self._shadows.reports()
        lru_s = next((each.seconds for each in reports if each.name == _STOCK), None)
        return tuple(
            ShadowStatus(
                name=each.name,
                seconds=None if lru_s is None else lru_s - each.seconds,
                regret_s=each.regret_s,
                sampled_frac=each.sampled_frac,
            )
            for each in reports
        )

    def _ready(self) -> Shadows | None:
        """Shadows of the present engine that follow the present policies; ``None`` = the engine is not known yet."""
        engine = self._described()
        if engine is None:
            return None
        in_force, candidate = self._parts.transitions.in_force, self._memory.recommendation
        if isinstance(in_force, ClassHazardDocument):
            self._shadows = None  # nothing to compare with: a learned rule has no plain form, so none runs here
            return None
        wanted = tuple(None if each is None else identity(each) for each in (in_force, candidate))
        if self._shadows is not None and engine == self._engine and wanted == self._followed:
            return self._shadows
        live, others = _policies(in_force, candidate, engine.block_tokens)
        costs = self._parts.learners[0].profile()
        if self._shadows is None or engine != self._engine:
            bounds = self._memory.settings.shadow
            settings = ShadowSettings(most_blocks=bounds.max_entries, frac=bounds.sample_frac)
            self._shadows, self._engine = Shadows(engine, costs, live, others, settings), engine
        else:
            self._shadows.follow(live, others)
            self._shadows.reprice(costs)
        self._followed = (wanted[0], wanted[1])
        return self._shadows

    def _described(self) -> ShadowEngine | None:
        profile, facts = self._parts.engine_profile(), self._parts.learners[0].facts
        if not isinstance(profile, EngineProfile) or facts is None or facts.chunk_tokens < 1:
            return None
        block_bytes = facts.chunk_tokens * profile.kv_bytes_per_token
        device, host = profile.budgets.device_bytes // block_bytes, profile.budgets.host_bytes // block_bytes
        return ShadowEngine(device, host, facts.chunk_tokens) if device else None


def _policies(
    in_force: PolicyDocument | None, candidate: PolicyDocument | None, block_tokens: int
) -> tuple[ShadowPolicy, list[ShadowPolicy]]:
    """The live policy and those beside it, each with its own name."""
    live = ShadowPolicy(_LIVE) if in_force is None else ShadowPolicy.of(_LIVE, in_force, block_tokens)
    others = [live.stock(_STOCK)]
    if candidate is not None and not isinstance(candidate, ClassHazardDocument):
        try:
            others.append(ShadowPolicy.of(_CANDIDATE, candidate, block_tokens))
        except AutotuneError:
            return live, others  # a candidate without a plain form is judged by its trial alone
    return live, others
