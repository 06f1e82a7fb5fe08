"""What the loop knows, as the surface shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version

from autotune.advise.doctor.machine import uses_shm
from autotune.core.policy import PolicyDocument
from autotune.core.types import Tier
from autotune.daemon.engine_facts import EngineProfile
from autotune.daemon.figures import machine_words
from autotune.daemon.loop import Loop
from autotune.daemon.occupancy import used_bytes
from autotune.daemon.parts import Parts
from autotune.daemon.status import (
    Change,
    Curve,
    DaemonStatus,
    Estimate,
    GuardStatus,
    Phase,
    Prediction,
    RetuneStatus,
    SecondsStatus,
    TierStatus,
    Verdict,
)
from autotune.daemon.trial import identity
from autotune.daemon.verdict import verdict_of
from autotune.daemon.windows import Window

_SHORT_HASH = 12
_ANY_CONFIDENCE = 0.95  # the bounds are not looked at
_RECENT = 12  # intervals that rates are taken over
_MAX_TEXT = 500


def daemon_status(loop: Loop, started_at: datetime, stopped: bool, group: str) -> DaemonStatus:
    """Everything that the surface shows now."""
    parts, memory = loop.parts, loop.memory
    now_s, now = parts.clock.monotonic_s(), parts.clock.utc_now()
    recent = Window(memory.recent.intervals[-_RECENT:])
    profile = parts.engine_profile()
    policies = parts.transitions
    return DaemonStatus(
        version=_version(),
        mode=memory.mode,
        phase=Phase.STOPPED if stopped else phase_of(loop),
        at=now,
        started_at=started_at,
        group=group,
        targets=tuple(target.status(now_s) for target in parts.targets),
        estimates=tuple(_estimates(loop)),
        tiers=tuple(_tiers(loop, recent, profile if isinstance(profile, EngineProfile) else None)),
        host=None if parts.host is None else parts.host.status(now_s),
        seconds=_seconds(loop, recent),
        curves=tuple(_curves(loop)),
        shadows=loop.shadows.status(),
        predictions=tuple(_predictions(loop, recent)),
        history=tuple(changes(loop)[-memory.settings.history_entries :]),
        guard=GuardStatus(
            trips=memory.checkpoint.trips,
            rollbacks=memory.checkpoint.rollbacks,
            last_reason=memory.checkpoint.last_reason,
        ),
        retune=_retune(loop, now_s, now),
        verdict=_verdict(loop, profile),
        live_hash=_hash(policies.in_force) if policies.live_path is not None else None,
        confirmed_hash=_hash(policies.confirmed),
        recommendation_hash=_hash(memory.recommendation),
        hands_off=policies.hands_off,
        findings=tuple(_findings(loop)),
    )


def phase_of(loop: Loop) -> Phase:
    """What the loop is at."""
    parts, settings = loop.parts, loop.memory.settings
    now_s = parts.clock.monotonic_s()
    if all(target.snapshot is None for target in parts.targets):
        asked = any(source.health(now_s).error for target in parts.targets for source in target.sources)
        return Phase.BLIND if asked else Phase.STARTING
    if not ready(loop):
        return Phase.BLIND
    if loop.trials.watch is not None:
        return Phase.CANARY
    if parts.tuner.running:
        return Phase.TUNING
    enough = parts.requests >= settings.retune.min_requests or loop.memory.outcome is not None
    return Phase.STEADY if enough else Phase.LEARNING


def ready(loop: Loop) -> bool:
    """Whether the figures of at least one target are fresh."""
    now_s, limit_s = loop.parts.clock.monotonic_s(), loop.memory.settings.collect.stale_after_s
    return any(target.fresh(now_s, limit_s) for target in loop.parts.targets)


def changes(loop: Loop) -> list[Change]:
    """All changes that the state folder knows, oldest first."""
    return [entry.change() for entry in loop.parts.state.audit.entries]


def _estimates(loop: Loop) -> Iterator[Estimate]:
    learner = loop.parts.best_learner
    for each in learner.estimates():
        yield Estimate(
            name=each.name,
            value=each.value,
            low=each.low,
            high=each.high,
            unit=each.unit,
            samples=each.samples,
            age_s=each.age_s,
        )
    length = learner.break_even()
    if length is not None and length.tokens is not None:
        low, high = length.low_tokens, length.high_tokens
        yield Estimate(
            name="break_even_tokens",
            value=float(length.tokens),
            low=None if low is None else float(low),
            high=None if high is None else float(high),
            unit="tokens",
            samples=learner.samples,
            age_s=None,
        )


def _tiers(loop: Loop, recent: Window, profile: EngineProfile | None) -> Iterator[TierStatus]:
    seconds = recent.seconds
    used = {tier: _used(loop, tier, profile) for tier in (Tier.DEVICE, Tier.HOST)}
    stored, loaded = (recent.total(name) for name in ("store_bytes", "load_bytes"))
    host_bytes = None if profile is None else profile.budgets.host_bytes
    yield TierStatus(
        tier=Tier.DEVICE,
        hit_frac=recent.share("device_hit_tokens", "prompt_tokens"),
        used_bytes=used[Tier.DEVICE],
        capacity_bytes=None if profile is None else profile.budgets.device_bytes,
        store_bytes_per_s=None,
        load_bytes_per_s=None,
    )
    if host_bytes == 0 and not stored:
        return
    yield TierStatus(
        tier=Tier.HOST,
        hit_frac=recent.share("host_hit_tokens", "prompt_tokens"),
        used_bytes=used[Tier.HOST],
        capacity_bytes=host_bytes,
        store_bytes_per_s=_rate(stored, seconds),
        load_bytes_per_s=_rate(loaded, seconds),
    )


def _used(loop: Loop, tier: Tier, profile: EngineProfile | None) -> int | None:
    if profile is None:
        return None
    facts = loop.parts.best_learner.facts
    return used_bytes(loop.parts.targets, tier, profile.kv_bytes_per_token, facts.chunk_tokens if facts else 0)


def _seconds(loop: Loop, recent: Window) -> SecondsStatus:
    costs, seconds = loop.parts.seconds_per_token, recent.seconds
    computed, device, host = (
        recent.total(name) for name in ("computed_tokens", "device_hit_tokens", "host_hit_tokens")
    )
    stored, waiting = recent.total("store_s"), recent.total("waiting")
    hits = None if device is None else device + (host or 0.0)
    return SecondsStatus(
        recompute=_rate(computed, seconds, costs.prefill_s),
        load=_rate(recent.total("load_s"), seconds),
        exposed_store=_rate(stored, seconds, costs.store_exposed_frac),
        # As many seconds are waited per second as requests wait, on average (Little).
        queue=None if waiting is None else waiting / len(recent.intervals),
        saved=_rate(hits, seconds, costs.prefill_s),
    )


def _curves(loop: Loop) -> Iterator[Curve]:
    curve = loop.parts.best_learner.reuse()
    if curve is not None and curve.samples:
        ends_s = curve.starts_s + curve.widths_s
        yield Curve(
            name="reuse",
            ages_s=tuple(float(end) for end in ends_s),
            values=tuple(curve.within(float(end)).value for end in ends_s),
        )


def _predictions(loop: Loop, recent: Window) -> Iterator[Prediction]:
    outcome = loop.memory.outcome
    if outcome is None:
        return
    holds = loop.memory.predictions_hold(loop.parts.transitions.in_force)
    for signal, share, column in (
        ("device_hit_frac", outcome.device_hit_frac, "device_hit_tokens"),
        ("host_hit_frac", outcome.host_hit_frac, "host_hit_tokens"),
    ):
        if share is not None:
            observed = loop.memory.recent.share(column, "prompt_tokens") if holds and recent.intervals else None
            yield Prediction(signal=signal, predicted=share.value, low=share.low, high=share.high, observed=observed)
    if loop.memory.ttft_promise is not None and holds:
        ttft = loop.memory.ttft_promise.at_the_speed_of(loop.memory.recent, loop.memory.settings.guard.confidence)
        mean = loop.memory.recent.ttft_mean(_ANY_CONFIDENCE)
        observed = None if mean is None else mean.value
        yield Prediction(
            signal="ttft_mean_s", predicted=ttft.value_s, low=ttft.low_s, high=ttft.high_s, observed=observed
        )


def _retune(loop: Loop, now_s: float, now: datetime) -> RetuneStatus:
    checkpoint, next_s = loop.memory.checkpoint, loop.schedule.next_s
    return RetuneStatus(
        running=loop.parts.tuner.running,
        last_seconds=checkpoint.last_tune_seconds,
        last_at=checkpoint.last_tuned_at,
        next_at=None if next_s is None else now + timedelta(seconds=max(0.0, next_s - now_s)),
        reason=loop.memory.tune_reason,
        found=loop.memory.outcome.text if loop.memory.outcome is not None else None,
    )


def _verdict(loop: Loop, profile: EngineProfile | str) -> Verdict:
    host_bytes = profile.budgets.host_bytes if isinstance(profile, EngineProfile) else 0
    parts = loop.parts
    return verdict_of(loop.memory.outcome, loop.memory.recent, parts.seconds_per_token, host_bytes, _room_bytes(parts))


def _room_bytes(parts: Parts) -> float | None:
    """What the host tiers of this machine could grow by, per engine; ``None`` = not known."""
    machine = parts.host.machine if parts.host is not None else None
    if machine is None:
        return None
    pages = [target.snapshot for target in parts.targets if target.snapshot is not None]
    rooms = [machine.room_bytes, machine.shm_room_bytes if any(uses_shm(page) for page in pages) else None]
    room = min((each for each in rooms if each is not None), default=None)
    return None if room is None else room / len(parts.targets)


def _findings(loop: Loop) -> Iterator[str]:
    yield from loop.memory.findings.values()
    if loop.parts.host is not None:
        yield from loop.parts.host.findings()
    for target in loop.parts.targets:
        if target.snapshot is not None:
            for finding in target.snapshot.findings:
                remedy = f"; {finding.remedy}" if finding.remedy else ""
                yield f"{target.url}: {finding.subject}: {finding.evidence}{remedy}"[:_MAX_TEXT]


def explain(status: DaemonStatus, findings: Sequence[str]) -> str:
    """Why the present policy and advice are what they are, in words."""
    lines = [f"Mode {status.mode}, {_PHASES[status.phase]}.", status.verdict.text]
    if status.host is not None and (words := ", ".join(machine_words(status.host))):
        lines.append(f"This machine: {words}.")
    lines.append(f"In force: policy {status.live_hash}." if status.live_hash else "Nothing is published.")
    if status.hands_off:
        lines.append(f"Nothing is published any more: {status.hands_off}.")
    if status.retune.reason:
        lines.append(f"The last search was started because {status.retune.reason}.")
    if status.retune.found:
        lines.append(f"What the last search came to: {status.retune.found}.")
    if status.history:
        last = status.history[-1]
        lines.append(f"Last change, {last.at:%Y-%m-%d %H:%M:%S} UTC: {last.kind.replace('_', ' ')}: {last.reason}.")
        lines.append(f"To undo it: {last.undo}.")
    lines += [f"To look at: {text}" for text in findings]
    return "\n".join(lines)


_PHASES = {
    Phase.STARTING: "starting: nothing has been collected yet",
    Phase.LEARNING: "learning: too little has been recorded to tune on",
    Phase.STEADY: "steady",
    Phase.TUNING: "tuning: a search is running",
    Phase.CANARY: "a policy is on trial",
    Phase.BLIND: "blind: the engine does not answer, or its figures are old",
    Phase.STOPPED: "stopped",
}


def _hash(document: PolicyDocument | None) -> str | None:
    return None if document is None else identity(document)[:_SHORT_HASH]


def _rate(total: float | None, seconds: float, factor: float = 1.0) -> float | None:
    return None if total is None or seconds <= 0.0 else total * factor / seconds


def _version() -> str:
    try:
        return version("kv-autotune")
    except PackageNotFoundError:
        return "unknown"
