"""A daemon surface with figures like those of a busy server, for tests of what shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from autotune.core.errors import ConfigError
from autotune.core.types import Tier
from autotune.daemon.status import (
    Cause,
    Change,
    ChangeKind,
    Curve,
    DaemonStatus,
    Estimate,
    Grade,
    GuardStatus,
    Mode,
    Phase,
    Prediction,
    RetuneStatus,
    SecondsStatus,
    ShadowStatus,
    SourceHealth,
    TargetStatus,
    TierStatus,
    Verdict,
    VerdictKind,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
POLICY = "schema: kv-autotune/policy/v1\nkind: rank\n"
GIB = 1024**3


class ScriptedController:
    """Shows what it is given, and carries orders out on it."""

    def __init__(self, status: DaemonStatus, *, ready: bool = True) -> None:
        self.shown = status
        self.is_ready = ready
        self.failing = False
        self.orders: list[tuple[str, str]] = []

    def status(self) -> DaemonStatus:
        """The status that was given, as orders changed it."""
        if self.failing:
            raise ConfigError("the state must be readable", got="an error of the disk", remedy="look at the log")
        return self.shown

    def ready(self) -> bool:
        """As given."""
        return self.is_ready

    def policy(self) -> str | None:
        """A text where the status has a live policy."""
        return POLICY if self.shown.live_hash else None

    def recommendation(self) -> str | None:
        """A text where the status has a recommendation."""
        return POLICY if self.shown.recommendation_hash else None

    def history(self) -> Sequence[Change]:
        """All changes of the status."""
        return self.shown.history

    def explain(self) -> str:
        """The advice."""
        return self.shown.verdict.text

    def set_mode(self, mode: Mode, who: str) -> None:
        """Change the mode; ``auto`` is refused where there is no policy to publish."""
        if mode is Mode.AUTO and self.shown.live_hash is None:
            raise ConfigError("the mode auto needs a policy file to publish to", got="none", remedy="give --policy")
        self.orders.append((f"mode {mode.value}", who))
        self.shown = self.shown.model_copy(update={"mode": mode})

    def rollback(self, reason: str, who: str) -> None:
        """Put the confirmed hash in force."""
        self.orders.append((f"rollback {reason}", who))
        change = Change(
            at=self.shown.at,
            kind=ChangeKind.ROLLED_BACK,
            from_hash=self.shown.live_hash,
            to_hash=self.shown.confirmed_hash,
            cause=Cause.OPERATOR,
            reason=reason,
            undo="publish it again",
        )
        update = {"live_hash": self.shown.confirmed_hash, "history": (*self.shown.history, change)}
        self.shown = self.shown.model_copy(update=update)

    def freeze(self, who: str) -> None:
        """Change the mode."""
        self.orders.append(("freeze", who))
        self.shown = self.shown.model_copy(update={"mode": Mode.FREEZE})


def bare_status(at: datetime = NOON) -> DaemonStatus:
    """What a sidecar shows before anything was collected: next to nothing is known."""
    return DaemonStatus(
        version="0.1.0",
        mode=Mode.OBSERVE,
        phase=Phase.STARTING,
        at=at,
        started_at=at,
        group="127.0.0.1:8000",
        targets=(
            TargetStatus(
                url="http://127.0.0.1:8000",
                engine=None,
                version=None,
                alive=False,
                epoch=0,
                grade=Grade.NONE,
                sources=(SourceHealth(name="prometheus", ok=False, age_s=None, seconds=None, error="refused", lost=0),),
            ),
        ),
        guard=GuardStatus(trips=0, rollbacks=0, last_reason=None),
        retune=RetuneStatus(running=False, last_seconds=None, last_at=None, next_at=None, reason=None),
        verdict=Verdict(kind=VerdictKind.NOT_ENOUGH_EVIDENCE, text="Not enough evidence yet: nothing was collected."),
    )


def busy_status(at: datetime = NOON) -> DaemonStatus:
    """What a sidecar shows after a day of work, with everything that it can show."""
    wave = 0.02 * math.sin(at.timestamp() / 400.0) + 0.008 * math.sin(at.timestamp() / 37.0)
    return bare_status(at).model_copy(
        update={
            "mode": Mode.AUTO,
            "phase": Phase.CANARY,
            "started_at": at - timedelta(hours=26),
            "group": "chat-production",
            "targets": _targets(),
            "tiers": _tiers(wave),
            "seconds": SecondsStatus(
                recompute=0.412, load=0.038, exposed_store=0.0041, queue=0.021, preemption=0.0, saved=0.287 + wave
            ),
            "estimates": _estimates(),
            "curves": _curves(),
            "shadows": _shadows(),
            "predictions": _predictions(wave),
            "history": _history(at),
            "guard": GuardStatus(trips=1, rollbacks=1, last_reason="TTFT p95 rose by 19 % (95 %: 12 to 27 %)"),
            "retune": RetuneStatus(
                running=False,
                last_seconds=212.4,
                last_at=at - timedelta(minutes=31),
                next_at=at + timedelta(minutes=29),
                reason="the load changed: reuse gaps are longer than those that were tuned on",
            ),
            "verdict": Verdict(
                kind=VerdictKind.GROW_HOST,
                text="A host tier of 192 GiB instead of 120 would save 0.06 more seconds of prefill per second.",
                host_bytes=192 * GIB,
            ),
            "live_hash": "9f2c41d07ab3",
            "confirmed_hash": "41b7e0c2d955",
            "recommendation_hash": "9f2c41d07ab3",
            "findings": ("http://10.0.0.12:8000 hashes blocks with another seed: set PYTHONHASHSEED on both.",),
        }
    )


def busy_past(at: datetime = NOON, points: int = 240, every_s: float = 30.0) -> list[DaemonStatus]:
    """The statuses that led to :func:`busy_status`."""
    moments = [at - timedelta(seconds=every_s * back) for back in range(points, -1, -1)]
    return [_before_the_change(busy_status(moment), at) for moment in moments]


def _before_the_change(status: DaemonStatus, at: datetime) -> DaemonStatus:
    """The host found less before the trial began, and nothing is known while the engine was away."""
    gone_for = at - status.at
    if timedelta(minutes=70) < gone_for < timedelta(minutes=75):
        unknown = tuple(tier.model_copy(update={"hit_frac": None}) for tier in status.tiers)
        return status.model_copy(update={"phase": Phase.BLIND, "tiers": unknown})
    if gone_for < timedelta(minutes=18):
        return status
    device, host = status.tiers
    host = host.model_copy(update={"hit_frac": (host.hit_frac or 0.0) - 0.07})
    return status.model_copy(update={"tiers": (device, host)})


def _targets() -> tuple[TargetStatus, ...]:
    return tuple(
        TargetStatus(
            url=f"http://10.0.0.{host}:8000",
            engine="vllm",
            version="0.32.0",
            model="llama-3.1-8b",
            alive=True,
            epoch=epoch,
            grade=Grade.TELEMETRY,
            policy_hash="9f2c41d07ab3",
            sources=(
                SourceHealth(name="prometheus", ok=True, age_s=2.1, seconds=0.012, error=None, lost=0),
                SourceHealth(name="telemetry", ok=True, age_s=0.4, seconds=0.003, error=None, lost=lost),
                SourceHealth(
                    name="host_facts",
                    ok=host != 12,
                    age_s=4.0 if host != 12 else 912.0,
                    seconds=0.001,
                    error=None if host != 12 else "no cgroup is mounted",
                    lost=0,
                ),
            ),
        )
        for host, epoch, lost in ((11, 0, 0), (12, 2, 1532))
    )


def _tiers(wave: float) -> tuple[TierStatus, ...]:
    return (
        TierStatus(
            tier=Tier.DEVICE,
            hit_frac=0.262 + wave,
            used_bytes=38 * GIB,
            capacity_bytes=40 * GIB,
            store_bytes_per_s=None,
            load_bytes_per_s=None,
        ),
        TierStatus(
            tier=Tier.HOST,
            hit_frac=0.148 + wave / 2,
            used_bytes=117 * GIB,
            capacity_bytes=120 * GIB,
            store_bytes_per_s=3.1e8,
            load_bytes_per_s=1.7e9,
        ),
    )


def _estimates() -> tuple[Estimate, ...]:
    rows = (
        ("prefill_linear_s", 6.1e-5, 5.9e-5, 6.4e-5, "s/token", 48_211, 4.0),
        ("prefill_quadratic_s", 1.9e-9, 1.2e-9, 2.7e-9, "s/token pair", 48_211, 4.0),
        ("load_bytes_per_s", 2.31e10, 2.25e10, 2.38e10, "bytes/s", 9_120, 4.0),
        ("store_bytes_per_s", 1.98e10, 1.71e10, 2.2e10, "bytes/s", 3_044, 9.0),
        ("load_latency_s", 0.00021, 0.00018, 0.00026, "s", 9_120, 4.0),
        ("break_even_tokens", 412.0, 350.0, 505.0, "tokens", 9_120, 4.0),
        ("store_exposed_frac", None, None, None, "1", 0, None),
    )
    return tuple(
        Estimate(name=n, value=v, low=lo, high=hi, unit=u, samples=count, age_s=age)
        for n, v, lo, hi, u, count, age in rows
    )


def _curves() -> tuple[Curve, ...]:
    ages = tuple(1.5**k for k in range(20))
    classes = (("asked_once", 0.021, 40.0), ("conversations", 0.055, 300.0), ("system_prompts", 0.034, 2500.0))
    return tuple(
        Curve(name=name, ages_s=ages, values=tuple(top / (1.0 + age / fade) for age in ages))
        for name, top, fade in classes
    )


def _shadows() -> tuple[ShadowStatus, ...]:
    rows = (("live", 1033.0, 0.0), ("lru", 871.5, -161.5), ("two_hit", 940.0, -93.0), ("candidate", 1054.2, 21.2))
    return tuple(ShadowStatus(name=n, seconds=s, regret_s=r, sampled_frac=0.05) for n, s, r in rows)


def _predictions(wave: float) -> tuple[Prediction, ...]:
    rows = (
        ("device_hit_frac", 0.26, 0.24, 0.285, 0.262 + wave / 4),
        ("host_hit_frac", 0.15, 0.131, 0.168, 0.148 + wave / 4),
        ("ttft_mean_s", 0.412, 0.36, 0.48, 0.431),
        ("ttft_p95_s", 1.31, 1.1, 1.52, 1.61),
        ("net_saved_s", 0.27, 0.22, 0.31, None),
    )
    return tuple(Prediction(signal=n, predicted=p, low=lo, high=hi, observed=o) for n, p, lo, hi, o in rows)


def _history(at: datetime) -> tuple[Change, ...]:
    rows = (
        (1500, ChangeKind.MODE_CHANGED, None, None, Cause.OPERATOR, "mode auto, asked for on the command line", None),
        (1310, ChangeKind.RECOMMENDED, None, "41b7e0c2d955", Cause.BETTER, "a search of 60 settings found it", (4, 11)),
        (1309, ChangeKind.CANARY_STARTED, None, "41b7e0c2d955", Cause.BETTER, "on trial for 10 min", (4, 11)),
        (
            1299,
            ChangeKind.CANARY_KEPT,
            None,
            "41b7e0c2d955",
            Cause.KEPT_PROMISE,
            "net seconds rose by 7 % (95 %: 5 to 9 %), TTFT p95 fell by 3 %",
            None,
        ),
        (
            402,
            ChangeKind.CANARY_STARTED,
            "41b7e0c2d955",
            "c80d13aa62f1",
            Cause.BETTER,
            "the load changed: arrivals doubled; on trial for 10 min",
            (2, 6),
        ),
        (
            397,
            ChangeKind.ROLLED_BACK,
            "c80d13aa62f1",
            "41b7e0c2d955",
            Cause.GUARD,
            "TTFT p95 rose by 19 % (95 %: 12 to 27 %); at most 10 % are put up with",
            None,
        ),
        (
            18,
            ChangeKind.CANARY_STARTED,
            "41b7e0c2d955",
            "9f2c41d07ab3",
            Cause.BETTER,
            "reuse gaps are longer than those that were tuned on; on trial for 30 min",
            (3, 9),
        ),
    )
    return tuple(
        Change(
            at=at - timedelta(minutes=minutes),
            kind=kind,
            from_hash=before,
            to_hash=after,
            cause=cause,
            reason=reason,
            expected_low_frac=None if gain is None else gain[0] / 100,
            expected_high_frac=None if gain is None else gain[1] / 100,
            undo="kv-autotune rollback http://127.0.0.1:8765",
        )
        for minutes, kind, before, after, cause, reason, gain in rows
    )
