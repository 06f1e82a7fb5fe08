"""What the sidecar shows of itself, and what can be asked of it.

The HTTP server, the page and the terminal see the daemon through :class:`Controller` only. ``None`` always means that
something is not known; it never stands for zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from pydantic import AwareDatetime, Field

from autotune.core.types import Tier
from autotune.core.validation import Strict

STATUS_SCHEMA = "kv-autotune/status/v1"


class Mode(StrEnum):
    """How much the sidecar may do."""

    OBSERVE = "observe"  # it changes nothing anywhere
    RECOMMEND = "recommend"  # it writes a policy beside the live one
    CANARY = "canary"  # it tries one policy for a time box, then keeps it or rolls it back
    AUTO = "auto"  # every new policy goes through a canary, again and again
    FREEZE = "freeze"  # what is live stays; it watches, and the guard still rolls a canary back


class Phase(StrEnum):
    """What the loop is at."""

    STARTING = "starting"  # nothing has been collected yet
    LEARNING = "learning"  # too little has been recorded to tune on
    STEADY = "steady"
    TUNING = "tuning"  # a search is running in a child
    CANARY = "canary"  # a policy is live on trial
    BLIND = "blind"  # the engine does not answer, or its figures are old
    STOPPED = "stopped"


class Grade(StrEnum):
    """What the evidence carries."""

    TELEMETRY = "telemetry"  # every access is known: policies can be tuned
    EVENTS_ONLY = "events_only"  # hits on the device are not seen: verdicts and settings only
    COUNTERS_ONLY = "counters_only"  # nothing but /metrics: verdicts only
    NONE = "none"


class ChangeKind(StrEnum):
    """What happened to the policy of an engine, or to the sidecar's own mode."""

    RECOMMENDED = "recommended"
    CANARY_STARTED = "canary_started"
    CANARY_KEPT = "canary_kept"
    ROLLED_BACK = "rolled_back"
    LEASE_EXPIRED = "lease_expired"
    LET_GO = "let_go"  # an administrator changed it: left alone from then on
    MODE_CHANGED = "mode_changed"
    DETACHED = "detached"
    RECOVERED = "recovered"  # a sidecar that had been killed put a confirmed policy back


class Cause(StrEnum):
    """Why something happened, as one word that can be counted."""

    BETTER = "better"  # the search found a policy that promises more
    KEPT_PROMISE = "kept_promise"  # the trial ended without a regression
    GUARD = "guard"  # a regression, a dead engine, old figures or a fault; the reason says which
    OPERATOR = "operator"  # somebody asked for it
    ADMINISTRATOR = "administrator"  # somebody changed the engine's policy past the sidecar
    RESTART = "restart"  # the sidecar or the engine started anew
    OTHER = "other"


class VerdictKind(StrEnum):
    """What the sidecar advises, beside a policy."""

    NOT_ENOUGH_EVIDENCE = "not_enough_evidence"
    OFFLOAD_DOES_NOT_PAY = "offload_does_not_pay"
    STORE_LESS = "store_less"
    GROW_HOST = "grow_host"
    SHRINK_HOST = "shrink_host"
    KEEP_AS_IT_IS = "keep_as_it_is"
    NEW_POLICY = "new_policy"


class SourceHealth(Strict):
    """One source of figures about one engine."""

    name: str = Field(description="Collector, such as prometheus or telemetry.")
    ok: bool = Field(description="Whether its last round succeeded.")
    age_s: float | None = Field(description="Since it last succeeded, in seconds; null = never.")
    seconds: float | None = Field(description="What its last round took, in seconds.")
    error: str | None = Field(description="Why its last round failed; null = it did not.")
    lost: int = Field(description="Records or events that it knows it lost since the start.")


class TargetStatus(Strict):
    """One engine that the sidecar is attached to."""

    url: str = Field(description="Where it is, without credentials.")
    engine: str | None = Field(description="Kind of engine, such as vllm.")
    version: str | None = Field(description="Its version, if it says so.")
    model: str | None = Field(default=None, description="Model that it serves.")
    alive: bool = Field(description="Whether it answered in the last round.")
    epoch: int = Field(description="How often it started anew, changed its model or lost its cache since attach.")
    grade: Grade = Field(description="What its evidence carries.")
    policy_hash: str | None = Field(default=None, description="First 12 digits of the policy that it says is in force.")
    sources: tuple[SourceHealth, ...] = Field(description="Its sources.")


class Estimate(Strict):
    """One figure that was learned from the running engine."""

    name: str = Field(description="What it is, such as prefill_s_per_token.")
    value: float | None = Field(description="Best estimate; null = not enough evidence.")
    low: float | None = Field(description="Lower bound.")
    high: float | None = Field(description="Upper bound.")
    unit: str = Field(description="Its unit.")
    samples: int = Field(description="Observations that it rests on.")
    age_s: float | None = Field(description="Age of the newest observation, in seconds.")


class TierStatus(Strict):
    """One tier of the cache."""

    tier: Tier = Field(description="Which tier.")
    hit_frac: float | None = Field(description="Share of the prompt tokens of the last window found there.")
    used_bytes: int | None = Field(description="Bytes of KV that a request could find there, mean over the engines.")
    capacity_bytes: int | None = Field(description="Capacity of one engine.")
    store_bytes_per_s: float | None = Field(description="Rate of copies into it.")
    load_bytes_per_s: float | None = Field(description="Rate of copies out of it.")


class HostStatus(Strict):
    """The machine that sidecar and engines share, looked at now and then; null = unknown."""

    memory_bytes: int | None = Field(default=None, description="Memory of the machine.")
    available_bytes: int | None = Field(default=None, description="Of it, what can be had without swapping.")
    limit_bytes: int | None = Field(default=None, description="What the control group may use; null also = no limit.")
    used_bytes: int | None = Field(default=None, description="What the control group uses.")
    shm_bytes: int | None = Field(default=None, description="Size of /dev/shm.")
    shm_used_bytes: int | None = Field(default=None, description="Use of /dev/shm.")
    pinnable_bytes: int | None = Field(default=None, description="What a process may pin; null also = no limit.")
    numa_nodes: int | None = Field(default=None, description="NUMA nodes with processors.")
    devices: int | None = Field(default=None, description="Devices whose driver answers.")
    link_bytes_per_s: int | None = Field(default=None, description="Nominal bandwidth of the slowest device link.")
    room_bytes: int | None = Field(default=None, description="What a host tier could grow by.")
    age_s: float | None = Field(default=None, description="Since it was last looked at, in seconds.")
    seconds: float | None = Field(default=None, description="What that look took, in seconds.")
    error: str | None = Field(default=None, description="Why the last look failed; null = it did not.")


class SecondsStatus(Strict):
    """Where time went, in seconds per second of the last window."""

    recompute: float | None = Field(default=None, description="Prefill of what no tier had.")
    load: float | None = Field(default=None, description="Loads from the host.")
    exposed_store: float | None = Field(default=None, description="Stores that something waited for.")
    queue: float | None = Field(default=None, description="Requests waiting to be scheduled.")
    preemption: float | None = Field(default=None, description="Work done twice because of preemptions.")
    saved: float | None = Field(default=None, description="Prefill that hits avoided.")


class Curve(Strict):
    """A value over age, such as the value of keeping one class of blocks."""

    name: str = Field(description="Which class.")
    ages_s: tuple[float, ...] = Field(description="Ages, in seconds, increasing.")
    values: tuple[float, ...] = Field(description="Value at each age.")


class ShadowStatus(Strict):
    """A policy that runs on a sample of the traffic beside the live one, without touching anything."""

    name: str = Field(description="Policy, such as lru, live or candidate.")
    seconds: float | None = Field(description="Net seconds that it would have saved against LRU in the window.")
    regret_s: float | None = Field(description="Seconds that the live policy cost more; above 0 = this one is better.")
    sampled_frac: float = Field(description="Share of the keys that it saw.")


class Prediction(Strict):
    """One figure that was promised, and what came."""

    signal: str = Field(description="Which figure, such as host_hit_frac.")
    predicted: float = Field(description="What was promised.")
    low: float = Field(description="Lower bound of the promise.")
    high: float = Field(description="Upper bound of the promise.")
    observed: float | None = Field(description="What came; null = not known yet.")


class Change(Strict):
    """One entry of the history."""

    at: AwareDatetime = Field(description="When, in UTC.")
    kind: ChangeKind = Field(description="What happened.")
    from_hash: str | None = Field(description="First 12 digits of the policy before; null = none.")
    to_hash: str | None = Field(description="First 12 digits of the policy after; null = none.")
    cause: Cause = Field(default=Cause.OTHER, description="Why, as one word.")
    reason: str = Field(description="Why, in one sentence.")
    expected_low_frac: float | None = Field(default=None, description="Lower bound of the expected gain.")
    expected_high_frac: float | None = Field(default=None, description="Upper bound of the expected gain.")
    undo: str = Field(description="How to undo it.")


class GuardStatus(Strict):
    """What the guard did since the start of the state folder."""

    trips: int = Field(description="How often it found a regression, a dead engine, old figures or a fault.")
    rollbacks: int = Field(description="How often a policy was taken back.")
    last_reason: str | None = Field(description="Why it last tripped.")


class RetuneStatus(Strict):
    """The search in the child."""

    running: bool = Field(description="Whether one runs now.")
    last_seconds: float | None = Field(description="What the last one took, in seconds.")
    last_at: AwareDatetime | None = Field(description="When the last one ended, in UTC.")
    next_at: AwareDatetime | None = Field(description="When the next one is due, in UTC; null = not by time.")
    reason: str | None = Field(description="Why the last or present one was started.")
    found: str | None = Field(default=None, description="What the last one came to: what each candidate saves.")


class Verdict(Strict):
    """Advice in words."""

    kind: VerdictKind = Field(description="Which advice.")
    text: str = Field(description="The advice, with its figures.")
    host_bytes: int | None = Field(default=None, description="Size of the host tier that is advised, if any.")


class DaemonStatus(Strict):
    """Everything that the sidecar shows."""

    schema_id: str = Field(default=STATUS_SCHEMA, alias="schema", description="What this object is.")
    version: str = Field(description="Version of kv-autotune.")
    mode: Mode = Field(description="How much it may do.")
    phase: Phase = Field(description="What it is at.")
    at: AwareDatetime = Field(description="When this was put together, in UTC.")
    started_at: AwareDatetime = Field(description="When the sidecar started, in UTC.")
    group: str = Field(description="Name of the targets together.")
    targets: tuple[TargetStatus, ...] = Field(description="Engines.")
    estimates: tuple[Estimate, ...] = Field(default=(), description="What was learned.")
    tiers: tuple[TierStatus, ...] = Field(default=(), description="Tiers, over all targets.")
    host: HostStatus | None = Field(
        default=None, description="The machine that the engines run on; null = it is another one than the sidecar's."
    )
    seconds: SecondsStatus = Field(default=SecondsStatus(), description="Where time went.")
    curves: tuple[Curve, ...] = Field(default=(), description="Value over age.")
    shadows: tuple[ShadowStatus, ...] = Field(default=(), description="Policies that run beside the live one.")
    predictions: tuple[Prediction, ...] = Field(default=(), description="Promises and what came.")
    history: tuple[Change, ...] = Field(default=(), description="The last changes, oldest first.")
    guard: GuardStatus = Field(description="The guard.")
    retune: RetuneStatus = Field(description="The search.")
    verdict: Verdict = Field(description="Advice in words.")
    live_hash: str | None = Field(default=None, description="First 12 digits of the policy that is published.")
    confirmed_hash: str | None = Field(default=None, description="First 12 digits of the confirmed policy.")
    recommendation_hash: str | None = Field(default=None, description="First 12 digits of what is recommended.")
    hands_off: str | None = Field(default=None, description="Why nothing is published any more; null = it may be.")
    findings: tuple[str, ...] = Field(default=(), description="What is wrong with targets or figures, in words.")


class Controller(Protocol):
    """The daemon as its surface sees it; every call may come from another thread than the loop's."""

    def status(self) -> DaemonStatus:
        """The present state; cheap, never waits for an engine."""

    def ready(self) -> bool:
        """Whether the figures of at least one target are fresh."""

    def policy(self) -> str | None:
        """The live policy as YAML; ``None`` = nothing is published."""

    def recommendation(self) -> str | None:
        """The recommended policy as YAML; ``None`` = none."""

    def history(self) -> Sequence[Change]:
        """All changes that the state folder knows, oldest first."""

    def explain(self) -> str:
        """Why the present policy and advice are what they are, in words."""

    def set_mode(self, mode: Mode, who: str) -> None:
        """Let the sidecar do more or less from the next round on.

        Raises:
            AutotuneError: the mode needs what is not there, such as a policy file to publish to.
        """

    def rollback(self, reason: str, who: str) -> None:
        """Put the confirmed policy in force now, if another one is.

        Raises:
            AutotuneError: it cannot be written.
        """

    def freeze(self, who: str) -> None:
        """Change nothing from now on; what is on trial is taken back."""
