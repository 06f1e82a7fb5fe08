"""A trial ends by itself: by the monotonic clock, to a fallback that was checked beforehand."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from autotune.core.policy import Lease, LruDocument, PolicyDocument, RankDocument, document_hash
from autotune.export.document import render
from autotune.testing.clocks import ManualClock
from autotune.testing.documents import example_document
from autotune_policies.engines.live.source import EngineFacts, PolicyChange, PolicyOutcome, PolicySource

ENGINE = EngineFacts("vllm", "0.32.0", ("llama-3.1-8b",), 131_072)
TRIAL = example_document().model_copy(update={"lease": None})
FALLBACK = LruDocument(
    fingerprint=TRIAL.fingerprint,
    budgets=TRIAL.budgets,
    tiers=TRIAL.tiers.model_copy(
        update={"host": TRIAL.tiers.host and TRIAL.tiers.host.model_copy(update={"policy": "lru", "admission": "all"})}
    ),
    costs=TRIAL.costs,
)


class Trial:
    """An engine on a trial policy of 60 s, the first poll done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.renew(60.0)
        self.source = PolicySource(path, ENGINE, self.clock)
        self.first = self.poll(0.0)

    def renew(self, remaining_s: float, document: RankDocument = TRIAL) -> None:
        """Write the file with a lease that ends so many seconds from now."""
        lease = Lease(expires_at=self.clock.utc_now() + timedelta(seconds=remaining_s), renew_s=20.0, fallback=FALLBACK)
        part = self.path.with_suffix(".part")
        part.write_text(render(document.model_copy(update={"lease": lease})))
        part.replace(self.path)

    def poll(self, after_s: float) -> PolicyChange | None:
        """What a poll finds after some time."""
        return self.source.poll(self.clock.advance(after_s))


def outcome(change: PolicyChange | None) -> PolicyOutcome | None:
    """What was found, if anything."""
    return None if change is None else change.outcome


def hash_of(document: PolicyDocument) -> str:
    """Hash by which a policy is known through all renewals."""
    return document_hash(document)


def test_a_trial_holds_until_its_end_and_falls_back_once(tmp_path: Path) -> None:
    """Just before its end it is in force, at its end the embedded policy, and nothing more is said."""
    trial = Trial(tmp_path / "policy.yaml")
    assert outcome(trial.first) is PolicyOutcome.NEW_POLICY
    assert trial.source.policy_hash == hash_of(TRIAL)
    assert trial.first is not None
    assert trial.first.lease_until == trial.clock.utc_now() + timedelta(seconds=60)
    assert trial.poll(59.95) is None
    change = trial.poll(0.05)  # though it is not yet time to look at the file again
    assert change is not None
    assert change.outcome is PolicyOutcome.LEASE_EXPIRED
    assert change.outcome.changes_rules
    assert change.document == FALLBACK
    assert change.lease_until is None
    assert "2026-01-31T12:01:00Z" in change.reason
    assert all(trial.poll(1.0) is None for _ in range(100))


def test_a_renewed_trial_goes_on_without_a_change_of_rules(tmp_path: Path) -> None:
    """Each renewal is a confirmation under the same hash, and moves the end."""
    trial = Trial(tmp_path / "policy.yaml")
    for _ in range(5):
        trial.clock.advance(40.0)
        trial.renew(60.0)
        assert outcome(trial.poll(0.0)) is PolicyOutcome.CONFIRMED
        assert trial.source.policy_hash == hash_of(TRIAL)
    assert outcome(trial.poll(61.0)) is PolicyOutcome.LEASE_EXPIRED


def test_a_renewal_at_the_last_moment_goes_before_the_end(tmp_path: Path) -> None:
    """Where the engine slept through both, the renewed file counts."""
    trial = Trial(tmp_path / "policy.yaml")
    trial.clock.advance(100.0)
    trial.renew(60.0)
    assert outcome(trial.poll(0.0)) is PolicyOutcome.CONFIRMED


def test_a_new_lease_after_the_end_starts_the_trial_again(tmp_path: Path) -> None:
    """From the fallback, a file with a later end brings the trial back."""
    trial = Trial(tmp_path / "policy.yaml")
    assert outcome(trial.poll(61.0)) is PolicyOutcome.LEASE_EXPIRED
    trial.renew(60.0)
    change = trial.poll(1.0)
    assert outcome(change) is PolicyOutcome.NEW_POLICY
    assert trial.source.policy_hash == hash_of(TRIAL)


def test_a_lease_that_has_ended_before_it_is_read_means_its_fallback(tmp_path: Path) -> None:
    """An engine that starts on a stale trial begins with the fallback."""
    trial = Trial(tmp_path / "policy.yaml")
    trial.renew(-1.0)
    late = PolicySource(trial.path, ENGINE, trial.clock).poll(trial.clock.now_ns)
    assert outcome(late) is PolicyOutcome.LEASE_EXPIRED
    assert late is not None
    assert late.document == FALLBACK


def test_setting_the_wall_clock_neither_ends_nor_prolongs_a_trial(tmp_path: Path) -> None:
    """The end was reckoned on the monotonic clock when the file was read; later reads of the same bytes keep it."""
    for step_s in (3600.0, -3600.0):
        trial = Trial(tmp_path / "policy.yaml")
        trial.clock.set_wall_clock(step_s)
        assert all(trial.poll(1.0) is None for _ in range(59))
        assert outcome(trial.poll(1.5)) is PolicyOutcome.LEASE_EXPIRED


def test_a_lease_ends_under_a_broken_or_missing_file_too(tmp_path: Path) -> None:
    """When the writer of leases has died and left garbage or nothing, the fallback comes all the same."""
    for is_gone in (False, True):
        trial = Trial(tmp_path / "policy.yaml")
        trial.path.unlink()
        if not is_gone:
            trial.path.write_text("kind: [")
        assert outcome(trial.poll(1.0)) in {PolicyOutcome.REJECTED, PolicyOutcome.MISSING}
        assert trial.source.policy_hash == hash_of(TRIAL)
        assert outcome(trial.poll(60.0)) is PolicyOutcome.LEASE_EXPIRED
        assert trial.source.document == FALLBACK


def test_a_policy_made_permanent_has_no_end(tmp_path: Path) -> None:
    """The same policy without its lease confirms it for good."""
    trial = Trial(tmp_path / "policy.yaml")
    trial.path.write_text(render(TRIAL))
    change = trial.poll(1.0)
    assert change is not None
    assert (change.outcome, change.lease_until) == (PolicyOutcome.CONFIRMED, None)
    assert all(trial.poll(10.0) is None for _ in range(20))
