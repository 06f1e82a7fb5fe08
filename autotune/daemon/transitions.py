"""The ways from one policy to another, each on the disk in the audit log before it is done.

At every moment the live file has a confirmed policy, or a policy on trial whose lease ends by itself. The order of the
writes keeps that true whenever the process is killed, and :meth:`Transitions.recover` finishes what was begun:

- begin: audit, confirmed.yaml (where there was none), live file with a lease;
- keep: audit, confirmed.yaml, live file without the lease;
- roll back: audit, live file. A log that cannot be written does not hold a rollback up: the entry follows.
"""

from __future__ import annotations

from pathlib import Path

from autotune.core.clock import Clock
from autotune.core.errors import AutotuneError, ConfigError
from autotune.core.policy import PolicyDocument
from autotune.daemon.audit import AuditEntry
from autotune.daemon.live_policy import LivePolicy, Whose
from autotune.daemon.state import StateFolder, load_policy
from autotune.daemon.status import ChangeKind, Mode
from autotune.daemon.trial import confirmed, identity, leased, renewal_due, stock
from autotune.export import save

_OURS = (ChangeKind.CANARY_STARTED, ChangeKind.CANARY_KEPT, ChangeKind.ROLLED_BACK, ChangeKind.RECOVERED)
_UNDO = "kv-autotune rollback URL, or put another policy into the file that the engine watches"
_TAKE_BACK = "kv-autotune mode URL canary lets the sidecar publish again, from what is in the file then"


class Transitions:
    """Policies of one group of engines.

    Args:
        state: The state folder.
        live: The file that the engines watch; ``None`` = the sidecar may not publish.
        clock: Tells the time.
        lease_s: How long a policy on trial holds without a renewal.

    Attributes:
        confirmed: What holds whenever nothing is on trial; ``None`` = the engine's own LRU, nothing published.
        trial: The policy on trial as it was last written; ``None`` = none.
        hands_off: Why nothing is published any more; ``None`` = it may be.
        owed: Whether a rollback could not be written yet.
    """

    def __init__(self, state: StateFolder, live: LivePolicy | None, clock: Clock, lease_s: float) -> None:
        self._state, self._live, self._clock, self._lease_s = state, live, clock, lease_s
        self._unwritten: list[AuditEntry] = []
        self.confirmed: PolicyDocument | None = None
        self.trial: PolicyDocument | None = None
        self.hands_off: str | None = None
        self.owed = False

    @property
    def live_path(self) -> Path | None:
        """The file that the engines watch."""
        return None if self._live is None else self._live.path

    @property
    def in_force(self) -> PolicyDocument | None:
        """What the engines are to obey now, as far as the sidecar says."""
        return self.trial if self.trial is not None else self.confirmed

    def recover(self) -> None:
        """Find out where a killed sidecar stopped, and go back to a confirmed policy.

        Raises:
            AutotuneError: a file of the state folder cannot be read, or the live one cannot be written.
        """
        self.confirmed = self._state.confirmed()
        self.hands_off = self._let_go_before()
        if self._live is None or self.hands_off is not None:
            return
        found = self._live.read()
        if found.text:
            self.let_go(f"the live policy file cannot be read as a policy: {found.text}")
        elif self.confirmed is None:
            self._adopt(found.document)
        else:
            self._resume(found.document, self.confirmed)

    def recommend(self, document: PolicyDocument, reason: str) -> None:
        """Write a policy beside the live one, for people.

        Raises:
            AutotuneError: it cannot be written.
        """
        self._note(ChangeKind.RECOMMENDED, self.confirmed, document, reason)
        save(document, self._state.recommended)

    def begin(self, document: PolicyDocument, reason: str) -> None:
        """Put a policy on trial.

        Raises:
            AutotuneError: it cannot be written; what was in force stays.
        """
        live = self._writable()
        if self.confirmed is None:
            fallback: PolicyDocument = stock(document)
            self._note(ChangeKind.CANARY_STARTED, None, document, reason)
        else:
            fallback = self.confirmed
            self._note(ChangeKind.CANARY_STARTED, fallback, document, reason)
        self._state.confirm(fallback)
        self.confirmed = fallback
        trial = leased(confirmed(document), fallback, self._clock.utc_now(), self._lease_s)
        live.write(trial)
        self.trial = trial

    def renew(self) -> None:
        """Prolong the lease of the policy on trial if it is time to.

        Raises:
            AutotuneError: it cannot be written; the lease then ends by itself.
        """
        now = self._clock.utc_now()
        if self.trial is None or self.confirmed is None or not renewal_due(self.trial, now):
            return
        trial = leased(confirmed(self.trial), self.confirmed, now, self._lease_s)
        self._writable().write(trial)
        self.trial = trial

    def keep(self, reason: str) -> None:
        """Make the policy on trial the confirmed one.

        Raises:
            AutotuneError: it cannot be written; it stays on trial.
        """
        if self.trial is None:
            return
        document = confirmed(self.trial)
        live = self._writable()
        self._note(ChangeKind.CANARY_KEPT, self.confirmed, document, reason)
        if self.confirmed is not None:
            save(self.confirmed, self._state.previous_path)
        self._state.confirm(document)
        self.confirmed, self.trial = document, None
        live.write(document)

    def roll_back(self, reason: str, who: str = "sidecar") -> None:
        """Put the confirmed policy in force; what cannot be written now is written with the next :meth:`settle`."""
        if self.trial is None or self.confirmed is None or self._live is None:
            return
        entry = self._entry(ChangeKind.ROLLED_BACK, self.trial, self.confirmed, reason, who)
        self._unwritten.append(entry)
        self.trial, self.owed = None, True
        self.settle()

    def undo(self, reason: str, who: str) -> None:
        """Go back to the policy that was confirmed before the present one.

        Raises:
            AutotuneError: there is none, or it cannot be written.
        """
        earlier = load_policy(self._state.previous_path)
        if earlier is None or self.confirmed is None:
            raise ConfigError("a rollback needs a policy to go back to", got="none: no trial was ever kept")
        live = self._writable()
        self._note(ChangeKind.ROLLED_BACK, self.confirmed, earlier, reason, who)
        self._state.confirm(earlier)
        self._state.previous_path.unlink(missing_ok=True)
        self.confirmed = earlier
        live.write(earlier)

    def fall_back(self, reason: str) -> None:
        """Put the engine's own rule in force for good: the policy that was kept turned out to be broken.

        Raises:
            AutotuneError: it cannot be written.
        """
        if self.confirmed is None or self._live is None or self.hands_off is not None:
            return
        document = stock(self.confirmed)
        if identity(document) == identity(self.confirmed):
            return
        self._note(ChangeKind.ROLLED_BACK, self.confirmed, document, reason)
        self._state.confirm(document)
        self.confirmed = document
        self._live.write(document)

    @property
    def publishes(self) -> bool:
        """Whether the confirmed policy came from a trial of this sidecar."""
        kept = [each.to_hash for each in self._state.audit.entries if each.kind is ChangeKind.CANARY_KEPT]
        return self.confirmed is not None and identity(self.confirmed) in kept

    def settle(self) -> str | None:
        """Write what is owed: entries of the log, and a rollback.

        Returns:
            What still cannot be written, or ``None``.
        """
        trouble = self._write_entries()
        if self.owed and self._live is not None and self.confirmed is not None:
            try:
                self._live.write(self.confirmed)
                self.owed = False
            except AutotuneError as problem:
                trouble = str(problem)
        return trouble

    def look(self) -> None:
        """Let go of the live file if somebody else changed it."""
        if self._live is None or self.hands_off is not None or self.owed:
            return
        if self._live.whose() is Whose.THEIRS:
            self.let_go("the live policy file was changed by somebody else")

    def let_go(self, reason: str) -> None:
        """Leave the file alone from now on; whatever is there is an administrator's."""
        self.hands_off, self.owed = reason, False
        self._unwritten.append(self._entry(ChangeKind.LET_GO, self.in_force, None, reason, undo=_TAKE_BACK))
        self.trial = None
        self._write_entries()

    def take_again(self, who: str) -> None:
        """Publish again at an administrator's wish, from what is in the file now.

        Raises:
            AutotuneError: the file has no policy.
        """
        if self.hands_off is None or self._live is None:
            return
        document = self._live.adopt()
        if document is None:
            self._state.forget_confirmed()
            self.confirmed = None
        else:
            self.confirmed = confirmed(document)
            self._state.confirm(self.confirmed)
        self.hands_off = None
        self._note(ChangeKind.RECOVERED, None, self.confirmed, "an administrator let the sidecar publish again", who)

    def change_mode(self, mode: Mode, reason: str, who: str) -> None:
        """Note that the sidecar may do more or less from now on.

        Raises:
            ConfigError: it cannot be written.
        """
        entry = self._entry(
            ChangeKind.MODE_CHANGED, self.in_force, self.in_force, reason, who, "set the old mode again"
        )
        self._write(entry.model_copy(update={"mode": mode}))

    def detach(self, reason: str) -> PolicyDocument | None:
        """Put the engine's own rule in force.

        Returns:
            What was written; ``None`` = nothing was ever published, or the file is an administrator's.

        Raises:
            AutotuneError: it cannot be written.
        """
        basis = self.in_force
        if self._live is None or basis is None or self.hands_off is not None:
            return None
        document = stock(basis)
        self._note(ChangeKind.DETACHED, basis, document, reason)
        self._live.write(document)
        self.confirmed, self.trial = document, None
        self._state.confirm(document)
        return document

    def remove_published(self) -> None:
        """Take the live file away, once the engine obeys its own rule.

        Raises:
            PolicyError: it cannot be removed.
        """
        if self._live is not None and self.hands_off is None:
            self._live.remove()
        self._state.forget_confirmed()
        self.confirmed = None

    def _adopt(self, document: PolicyDocument | None) -> None:
        """Begin with what an administrator, or a sidecar whose state is lost, left in the file."""
        if self._live is None or document is None:
            return
        holds = confirmed(document) if document.lease is None else document.lease.fallback
        self._state.confirm(holds)
        self.confirmed = holds
        self._live.written = identity(document)
        if document.lease is not None:
            self._restore(self._live, document, holds, "a policy on trial was found that nobody watches")

    def _resume(self, document: PolicyDocument | None, holds: PolicyDocument) -> None:
        if self._live is None:
            return
        now = None if document is None else identity(document)
        self._live.written = now
        if document is None:
            if self._was_published():
                self.let_go("the live policy file was removed by somebody else")
        elif now == identity(holds):
            if document.lease is not None:
                self._restore(self._live, document, holds, "the policy was being confirmed when the sidecar ended")
        elif now in self._own_trials():
            self._restore(self._live, document, holds, "the sidecar ended during a trial")
        else:
            self.let_go("the live policy file was changed by somebody else while no sidecar ran")

    def _restore(self, live: LivePolicy, found: PolicyDocument, holds: PolicyDocument, reason: str) -> None:
        self._note(ChangeKind.RECOVERED, found, holds, reason)
        live.write(holds)

    def _own_trials(self) -> set[str]:
        return {each.to_hash for each in self._state.audit.entries if each.kind in _OURS and each.to_hash is not None}

    def _was_published(self) -> bool:
        """Whether the file must have been there: not so where the very first trial was just being written."""
        changes = [each for each in self._state.audit.entries if each.kind not in _NO_CHANGE]
        return not changes or not (changes[-1].kind is ChangeKind.CANARY_STARTED and changes[-1].from_hash is None)

    def _let_go_before(self) -> str | None:
        decisive = [
            each for each in self._state.audit.entries if each.kind in {ChangeKind.LET_GO, ChangeKind.RECOVERED}
        ]
        return decisive[-1].reason if decisive and decisive[-1].kind is ChangeKind.LET_GO else None

    def _writable(self) -> LivePolicy:
        if self._live is None:
            raise ConfigError(
                "publishing needs the policy file that the engine watches",
                got="none",
                remedy="attach with --policy FILE",
            )
        if self.hands_off is not None:
            raise ConfigError("the live policy is an administrator's", got=self.hands_off, remedy=_TAKE_BACK)
        return self._live

    def _note(
        self,
        kind: ChangeKind,
        before: PolicyDocument | None,
        after: PolicyDocument | None,
        reason: str,
        who: str = "sidecar",
    ) -> None:
        self._write(self._entry(kind, before, after, reason, who))

    def _write(self, entry: AuditEntry) -> None:
        self._unwritten.append(entry)
        trouble = self._write_entries()
        if trouble is not None:
            self._unwritten.remove(entry)
            raise ConfigError(trouble)

    def _write_entries(self) -> str | None:
        try:
            while self._unwritten:
                self._state.audit.append(self._unwritten[0])
                del self._unwritten[0]
        except ConfigError as problem:
            return str(problem)
        return None

    def _entry(
        self,
        kind: ChangeKind,
        before: PolicyDocument | None,
        after: PolicyDocument | None,
        reason: str,
        who: str = "sidecar",
        undo: str = _UNDO,
    ) -> AuditEntry:
        gain = after.expectation.gain_frac if after is not None and after.expectation is not None else None
        return AuditEntry(
            at=self._clock.utc_now(),
            kind=kind,
            from_hash=None if before is None else identity(before),
            to_hash=None if after is None else identity(after),
            reason=reason,
            expected_low_frac=None if gain is None else gain.low,
            expected_high_frac=None if gain is None else gain.high,
            undo=undo,
            who=who,
        )


_NO_CHANGE = (ChangeKind.RECOMMENDED, ChangeKind.MODE_CHANGED)
