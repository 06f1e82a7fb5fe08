"""Shadows as plain values for a checkpoint: what was counted, and the requests that caches are rebuilt from."""

from __future__ import annotations

import base64
import binascii
from typing import Literal

import numpy as np
from pydantic import Field

from autotune.core.errors import ConfigError
from autotune.core.eviction import PolicySpec
from autotune.core.types import StoreMode
from autotune.core.validation import Strict
from autotune.daemon.shadow_cache import ShadowEngine, ShadowPolicy
from autotune.daemon.shadow_ledger import Period, Tally
from autotune.daemon.shadow_sampling import N_GROUPS

_MAX_TEXT = 64 * 1024 * 1024


class SpecText(Strict):
    """A policy by registered name."""

    name: str = Field(min_length=1, max_length=200)
    params: dict[str, float]

    @classmethod
    def of(cls, spec: PolicySpec) -> SpecText:
        """From a spec."""
        return cls(name=spec.name, params=dict(spec.params))

    def spec(self) -> PolicySpec:
        """The spec."""
        return PolicySpec.of(self.name, **self.params)


class PolicyText(Strict):
    """What a shadow obeys."""

    name: str = Field(min_length=1, max_length=200)
    device: SpecText
    host: SpecText
    store_mode: StoreMode
    min_load_blocks: int = Field(ge=0)

    @classmethod
    def of(cls, policy: ShadowPolicy) -> PolicyText:
        """From a policy."""
        device, host = SpecText.of(policy.device), SpecText.of(policy.host)
        about = {"store_mode": policy.store_mode, "min_load_blocks": policy.min_load_blocks}
        return cls.model_validate({"name": policy.name, "device": device, "host": host, **about})

    def policy(self) -> ShadowPolicy:
        """The policy."""
        return ShadowPolicy(self.name, self.device.spec(), self.host.spec(), self.store_mode, self.min_load_blocks)


class TallyText(Strict):
    """One shadow in one period."""

    cost_s: tuple[float, ...] = Field(min_length=N_GROUPS, max_length=N_GROUPS)
    counts: tuple[int, int, int]

    @classmethod
    def of(cls, tally: Tally) -> TallyText:
        """From a tally."""
        counts = (tally.device_blocks, tally.host_blocks, tally.stored_blocks)
        return cls(cost_s=tuple(tally.cost_s.tolist()), counts=counts)

    def tally(self) -> Tally:
        """The tally."""
        return Tally(np.array(self.cost_s), *self.counts)


class PeriodText(Strict):
    """Some requests in a row."""

    requests: int = Field(ge=0)
    all_s: float = Field(ge=0.0)
    sampled_s: tuple[float, ...] = Field(min_length=N_GROUPS, max_length=N_GROUPS)
    blocks: int = Field(ge=0)
    shadows: dict[str, TallyText]

    @classmethod
    def of(cls, period: Period) -> PeriodText:
        """From a period."""
        return cls(
            requests=period.requests,
            all_s=period.all_s,
            sampled_s=tuple(period.sampled_s.tolist()),
            blocks=period.blocks,
            shadows={name: TallyText.of(tally) for name, tally in period.shadows.items()},
        )

    def period(self) -> Period:
        """The period."""
        shadows = {name: text.tally() for name, text in self.shadows.items()}
        return Period(self.requests, self.all_s, np.array(self.sampled_s), self.blocks, shadows)


class HistoryText(Strict):
    """The newest requests of the sample as columns, each little-endian and in base64."""

    times_ns: str = Field(max_length=_MAX_TEXT)
    tokens: str = Field(max_length=_MAX_TEXT)
    lengths: str = Field(max_length=_MAX_TEXT)
    places: str = Field(max_length=_MAX_TEXT)
    blocks: str = Field(max_length=_MAX_TEXT)


class ShadowSnapshot(Strict):
    """Everything that shadows need to go on."""

    version: Literal[1]
    device_blocks: int
    host_blocks: int
    block_tokens: int
    full_blocks: bool
    frac: float = Field(gt=0.0, le=1.0)
    salt: int
    epoch: int | None
    requests: int = Field(ge=0)
    live: str
    policies: tuple[PolicyText, ...]
    periods: tuple[PeriodText, ...] = Field(min_length=1)
    history: HistoryText

    @property
    def engine(self) -> ShadowEngine:
        """The engine that these shadows stand in for."""
        return ShadowEngine(self.device_blocks, self.host_blocks, self.block_tokens, self.full_blocks)


def packed(values: list[int]) -> str:
    """Numbers of 64 bits without a sign as text."""
    return base64.b64encode(np.array(values, "<u8").tobytes()).decode("ascii")


def unpacked(text: str) -> list[int]:
    """The numbers in such a text.

    Raises:
        ConfigError: it is none.
    """
    try:
        data = base64.b64decode(text, validate=True)
        numbers: list[int] = np.frombuffer(data, "<u8").tolist()
    except (binascii.Error, ValueError) as problem:
        raise ConfigError("a column of a checkpoint is base64 of 64-bit numbers", got=str(problem)[:80]) from problem
    return numbers
