"""What comes in and goes out, beside the status itself; the OpenAPI document is written from these models."""

from __future__ import annotations

from pydantic import AwareDatetime, ConfigDict, Field

from autotune.core.types import Tier
from autotune.core.validation import Strict
from autotune.daemon.status import Change, ChangeKind, Grade, Mode, Phase

MAX_REASON_CHARS = 200


class Health(Strict):
    """Whether the sidecar itself lives; engines have no part in it."""

    alive: bool = Field(description="Whether its loop runs.")
    phase: Phase = Field(description="What it is at.")


class Readiness(Strict):
    """Whether figures of at least one engine are fresh."""

    ready: bool = Field(description="Whether they are.")
    stale: tuple[str, ...] = Field(description="Sources whose last round failed or that never succeeded, and why.")


class Capabilities(Strict):
    """What can be asked of this sidecar here."""

    version: str = Field(description="Version of kv-autotune.")
    api: str = Field(description="Version of this interface.")
    modes: tuple[Mode, ...] = Field(description="Modes that exist.")
    grades: tuple[Grade, ...] = Field(description="What the evidence of each target carries, best first, no repeats.")
    can_tune: bool = Field(description="Whether the evidence of a target is enough to tune a policy on.")
    orders: bool = Field(description="Whether a token is set, without which every POST is refused.")
    reads_need_token: bool = Field(description="Whether reading needs the token, too.")


class PolicyText(Strict):
    """A policy document; both are null where there is none."""

    hash: str | None = Field(description="First 12 digits of its hash.")
    yaml: str | None = Field(description="The document.")


class History(Strict):
    """Changes, oldest first."""

    total: int = Field(ge=0, description="Changes that the state folder knows.")
    changes: tuple[Change, ...] = Field(description="The last of them.")


class Explanation(Strict):
    """Why things are as they are."""

    text: str = Field(description="In words.")


class TrendPoint(Strict):
    """What one moment of the past looked like."""

    at: AwareDatetime = Field(description="When, in UTC.")
    phase: Phase = Field(description="What the sidecar was at.")
    hit_fracs: tuple[tuple[Tier, float | None], ...] = Field(description="Tier and its share of the prompt tokens.")
    recompute: float | None = Field(description="Seconds of prefill per second.")
    load: float | None = Field(description="Seconds of loads per second.")
    exposed_store: float | None = Field(description="Seconds per second that stores were waited for.")
    queue: float | None = Field(description="Seconds of waiting per second.")
    preemption: float | None = Field(description="Seconds per second that were lost to preemptions.")
    saved: float | None = Field(description="Seconds of prefill per second that hits avoided.")
    lru_regret_s: float | None = Field(description="Seconds that LRU would have saved beyond the live policy.")
    live_hash: str | None = Field(description="Policy that was live.")


class Trend(Strict):
    """The past as the page draws it: one point per round of collecting, bounded."""

    points: tuple[TrendPoint, ...] = Field(description="Oldest first.")


class _Order(Strict):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ModeOrder(_Order):
    """Let the sidecar do more or less."""

    mode: Mode = Field(description="The mode from the next round on.")


class RollbackOrder(_Order):
    """Put the confirmed policy in force."""

    reason: str = Field(
        min_length=1, max_length=MAX_REASON_CHARS, description="Why; stands in the audit log and the history."
    )


class FreezeOrder(_Order):
    """Change nothing from now on; what is on trial is taken back."""


class Done(Strict):
    """An order was carried out."""

    mode: Mode = Field(description="The mode now.")
    live_hash: str | None = Field(description="First 12 digits of the policy that is published now.")
    last_change: ChangeKind | None = Field(description="The newest entry of the history.")


class Problem(Strict):
    """Why a request was not carried out, as RFC 9457 has it."""

    type: str = Field(default="about:blank", description="Kind of problem.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The status of the answer.")
    detail: str = Field(description="The rule that was broken, what came instead, and what to do.")
