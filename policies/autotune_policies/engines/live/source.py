"""The policy in force: read from a file that may be replaced at any time, checked fully, kept on every error.

One :class:`PolicySource` belongs to one engine and is polled at every scheduler step. It never raises and never
leaves the engine without a policy that was valid: a file that is missing, broken or meant for another engine changes
nothing, except that at the start there is nothing to keep and the engine's own LRU stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from pathlib import Path

from autotune.core.clock import Clock, SystemClock
from autotune.core.errors import AutotuneError
from autotune.core.policy import PolicyDocument, document_hash
from autotune.core.units import NS_PER_S
from autotune_policies.engines.live.matching import EngineFacts
from autotune_policies.engines.live.reading import Reading
from autotune_policies.engines.live.rules import HostRules
from autotune_policies.engines.live.settings import POLICY_VARIABLE
from autotune_policies.engines.live.watched_file import LOOK_NS, WatchedFile

__all__ = ["EngineFacts", "PolicyChange", "PolicyOutcome", "PolicySource"]

STOCK_HASH = "none"
_MAX_REASON_CHARS = 1000
_LARGE_BYTES = 64 * 1024


class PolicyOutcome(Enum):
    """What a poll found."""

    NEW_POLICY = "new policy"  # another policy is in force from now on
    CONFIRMED = "confirmed"  # the file changed (comments, a renewed lease); the rules in force stay as they are
    REJECTED = "rejected"  # the file cannot be used; what was in force stays
    MISSING = "missing"  # there is no file; what was in force stays
    LEASE_EXPIRED = "lease expired"  # a trial was not renewed; its fallback is in force from now on

    @property
    def changes_rules(self) -> bool:
        """Whether the engine has to take over the change's document."""
        return self in {PolicyOutcome.NEW_POLICY, PolicyOutcome.LEASE_EXPIRED}

    @property
    def is_trouble(self) -> bool:
        """Whether it belongs into the engine's log as a warning."""
        return self in {PolicyOutcome.REJECTED, PolicyOutcome.MISSING, PolicyOutcome.LEASE_EXPIRED}


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """One thing that a poll has to tell.

    Attributes:
        outcome: What it was.
        document: The policy in force afterwards, its lease left out; ``None`` = the engine's own LRU.
        policy_hash: Its hash, the same through all renewals of a lease; ``none`` for the engine's own LRU.
        lease_until: When it ends unless it is renewed; ``None`` = for good.
        reason: Why, in one line fit for a log.
    """

    outcome: PolicyOutcome
    document: PolicyDocument | None
    policy_hash: str
    lease_until: datetime | None
    reason: str

    @property
    def rules(self) -> HostRules:
        """Rules of the host tier in force afterwards."""
        return HostRules.lru() if self.document is None else HostRules.of(self.document)

    def __str__(self) -> str:
        return f"policy {self.outcome.value}: {self.reason}; in force: {_in_words(self.document, self.policy_hash)}"


@dataclass(frozen=True, slots=True)
class _InForce:
    """A policy, and the moment at which it gives way.

    ``deadline_ns`` is on the monotonic clock and was reckoned when the file was read: a wall clock that is set
    afterwards neither ends a trial early nor prolongs it.
    """

    document: PolicyDocument | None = None
    policy_hash: str = STOCK_HASH
    fallback: PolicyDocument | None = None
    lease_until: datetime | None = None
    deadline_ns: int | None = None


class PolicySource:
    """Watches one policy file.

    Args:
        path: The file; ``None`` = the user named none, which the first poll reports as missing.
        engine: What a policy must be meant for.
        clock: Tells the wall clock, which only leases are read with.
    """

    def __init__(self, path: Path | None, engine: EngineFacts, clock: Clock | None = None) -> None:
        self._file = None if path is None else WatchedFile(path)
        self._engine = engine
        self._clock = clock or SystemClock()
        self._in_force = _InForce()
        self._wake_ns = -(2**62)  # before which a poll has nothing to do
        self._reading: Reading | None = None
        self._has_read = False
        self._trouble: str | None = None  # with reaching the file, so that a lasting one is told once

    @property
    def document(self) -> PolicyDocument | None:
        """The policy in force, its lease left out; ``None`` = the engine's own LRU."""
        return self._in_force.document

    @property
    def policy_hash(self) -> str:
        """Hash of the policy in force; ``none`` for the engine's own LRU."""
        return self._in_force.policy_hash

    def poll(self, now_ns: int) -> PolicyChange | None:
        """What changed since the last poll; ``None`` nearly always. Never raises.

        Args:
            now_ns: Monotonic nanoseconds; the file is looked at no more than five times a second.
        """
        if now_ns < self._wake_ns:
            return None
        try:
            change = self._poll_file(now_ns) or self._poll_lease(now_ns)
        except Exception as fault:  # a fault of this project must not reach the engine's scheduler
            change = self._tell_once(PolicyOutcome.REJECTED, _in_short(fault))
        self._wake_ns = self._next_ns(now_ns)
        return change

    def _next_ns(self, now_ns: int) -> int:
        deadline_ns = self._in_force.deadline_ns
        look_ns = now_ns + LOOK_NS if self._file is None else self._file.next_look_ns
        return look_ns if deadline_ns is None else min(look_ns, deadline_ns)

    def _poll_file(self, now_ns: int) -> PolicyChange | None:
        if self._file is None:
            return self._tell_once(PolicyOutcome.MISSING, f"no policy_file is set and {POLICY_VARIABLE} is empty")
        if self._reading is not None or now_ns < self._file.next_look_ns:
            return self._take_what_was_read(now_ns)
        try:
            content = self._file.look(now_ns)
        except FileNotFoundError:
            return self._tell_once(PolicyOutcome.MISSING, f"there is no file {self._file.path}")
        except (OSError, AutotuneError) as problem:
            return self._tell_once(PolicyOutcome.REJECTED, f"{self._file.path}: {_in_short(problem)}")
        self._trouble = None
        if content is None:
            return None
        self._reading = Reading(content, self._engine, in_background=self._has_read and len(content) > _LARGE_BYTES)
        self._has_read = True
        return self._take_what_was_read(now_ns)

    def _take_what_was_read(self, now_ns: int) -> PolicyChange | None:
        """Put new content in force, or say why not; each content comes here once it is read."""
        if self._file is None or self._reading is None or not self._reading.is_done:
            return None
        reading, path = self._reading, self._file.path
        self._reading = None
        try:
            document = reading.document()
            read = _reckon(document, now_ns, self._clock.utc_now())
        except AutotuneError as error:
            return self._change(PolicyOutcome.REJECTED, f"{path}: {_in_short(error)}")
        if read.deadline_ns is not None and read.deadline_ns <= now_ns:
            return self._put_in_force(_for_good(read.fallback), PolicyOutcome.LEASE_EXPIRED, _lapse(read))
        return self._put_in_force(read, PolicyOutcome.NEW_POLICY, f"read from {path}")

    def _poll_lease(self, now_ns: int) -> PolicyChange | None:
        trial = self._in_force
        if trial.deadline_ns is None or now_ns < trial.deadline_ns:
            return None
        return self._put_in_force(_for_good(trial.fallback), PolicyOutcome.LEASE_EXPIRED, _lapse(trial))

    def _put_in_force(self, new: _InForce, outcome: PolicyOutcome, reason: str) -> PolicyChange:
        is_same = new.policy_hash == self._in_force.policy_hash
        self._in_force = new
        return self._change(PolicyOutcome.CONFIRMED if is_same else outcome, reason)

    def _tell_once(self, outcome: PolicyOutcome, reason: str) -> PolicyChange | None:
        """A trouble, unless it is the one told last."""
        if reason == self._trouble:
            return None
        self._trouble = reason
        return self._change(outcome, reason)

    def _change(self, outcome: PolicyOutcome, reason: str) -> PolicyChange:
        now = self._in_force
        return PolicyChange(outcome, now.document, now.policy_hash, now.lease_until, reason)


def _reckon(document: PolicyDocument, now_ns: int, now_utc: datetime) -> _InForce:
    confirmed = _for_good(document.model_copy(update={"lease": None}))
    lease = document.lease
    if lease is None:
        return confirmed
    remaining_ns = round((lease.expires_at - now_utc).total_seconds() * NS_PER_S)
    return replace(confirmed, fallback=lease.fallback, lease_until=lease.expires_at, deadline_ns=now_ns + remaining_ns)


def _for_good(document: PolicyDocument | None) -> _InForce:
    return _InForce() if document is None else _InForce(document=document, policy_hash=document_hash(document))


def _lapse(trial: _InForce) -> str:
    return f"the trial was to be renewed by {trial.lease_until:%Y-%m-%dT%H:%M:%SZ}"


def _in_short(fault: Exception) -> str:
    """One line for a log: the rule of an error of this project, the system's words, or what else it was."""
    if isinstance(fault, AutotuneError):
        text = str(fault)
    elif isinstance(fault, OSError) and fault.strerror:
        text = fault.strerror
    else:
        text = f"{type(fault).__name__}: {fault}"
    return " ".join(text.split())[:_MAX_REASON_CHARS]


def _in_words(document: PolicyDocument | None, policy_hash: str) -> str:
    return "the engine's own LRU" if document is None else f"{document.kind} {policy_hash[:12]}"
