"""Policies on their way: what is on the disk at every moment, whoever pulls the plug."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_parts import candidate, only_confirmed_or_leased

from autotune.core.errors import ConfigError, PolicyError
from autotune.core.policy import PolicyDocument, load
from autotune.daemon.live_policy import LivePolicy
from autotune.daemon.state import StateFolder
from autotune.daemon.status import Mode
from autotune.daemon.transitions import Transitions
from autotune.daemon.trial import identity, leased, stock
from autotune.export import save
from autotune.testing.clocks import ManualClock
from autotune.testing.documents import example_budgeted_document, example_document


class PowerCutError(BaseException):
    """The end of the process, at a place that a test chose; no handler of the code may catch it."""


def sidecar(folder: Path, clock: ManualClock | None = None) -> Transitions:
    """A new process on the files of a folder."""
    policies = Transitions(
        StateFolder(folder / "state"), LivePolicy(folder / "live.yaml"), clock or ManualClock(), lease_s=60.0
    )
    policies.recover()
    return policies


def live(folder: Path) -> PolicyDocument | None:
    """What the engine's file has."""
    path = folder / "live.yaml"
    return load(path) if path.exists() else None


def one_of_ours(folder: Path) -> None:
    """The live file has a confirmed policy, or a trial that falls back to one."""
    only_confirmed_or_leased(folder / "live.yaml", folder / "state")


@contextmanager
def power_cut(after_calls: int) -> Iterator[None]:
    """Cut the power at the n-th write that reaches the disk: before it, or right after its rename."""
    counted = 0

    def counting(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal counted
            counted += 1
            if counted == after_calls:
                raise PowerCutError
            return real(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as change:
        change.setattr(os, "fsync", counting(os.fsync))
        change.setattr(os, "write", counting(os.write))
        change.setattr(Path, "replace", counting(Path.replace))
        yield


@contextmanager
def full_disk(place: str) -> Iterator[None]:
    """Let every call of one function say that no space is left."""

    def fail(*_: object, **__: object) -> None:
        if place.endswith("save"):
            raise PolicyError("no space")
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as change:
        change.setattr(place, fail)
        yield


def test_the_first_trial_over_no_file_falls_back_to_the_engines_own_rule(tmp_path: Path) -> None:
    """Where no policy was, the trial's fallback is LRU as a document, and it is what is confirmed."""
    policies = sidecar(tmp_path)
    policies.begin(candidate(), "try it")
    trial = live(tmp_path)
    assert trial is not None and trial.lease is not None and trial.lease.fallback.kind == "lru"
    policies.roll_back("no good")
    assert live(tmp_path) == stock(candidate())


def test_the_engines_own_rule_keeps_no_write_budget() -> None:
    """A learned policy with one falls back to LRU without: nothing would keep it there."""
    budgets = stock(example_budgeted_document()).budgets
    assert budgets.host_write is None
    assert budgets.host_bytes == example_budgeted_document().budgets.host_bytes


@pytest.mark.parametrize("with_file", [True, False])
@pytest.mark.parametrize("after_calls", range(1, 30))
def test_the_power_may_fail_at_any_write(tmp_path: Path, after_calls: int, with_file: bool) -> None:
    """Begin, renew, keep, try again, roll back: cut anywhere, the live policy is ours, and the next process goes on."""
    if with_file:
        save(example_document(), tmp_path / "live.yaml")
    clock = ManualClock()
    policies = sidecar(tmp_path, clock)
    try:
        with power_cut(after_calls):
            policies.begin(candidate(), "try it")
            clock.advance(30.0)
            policies.renew()
            policies.keep("it is good")
            policies.begin(candidate(0.5), "try another")
            policies.roll_back("it is not")
    except PowerCutError:
        pass
    one_of_ours(tmp_path)
    again = sidecar(tmp_path, clock)
    assert again.hands_off is None
    now = live(tmp_path)
    assert (now is None and again.confirmed in (None, stock(candidate()))) or (
        now is not None
        and now.lease is None
        and again.confirmed is not None
        and identity(now) == identity(again.confirmed)
    )
    again.begin(candidate(0.0625), "and on")
    trial = live(tmp_path)
    assert trial is not None and trial.lease is not None


@given(st.lists(st.sampled_from(["begin", "renew", "keep", "roll", "undo", "kill", "detach", "wait"]), max_size=12))
@settings(max_examples=40, deadline=None)
def test_any_sequence_leaves_a_confirmed_policy_or_a_leased_one(tmp_path_factory: object, steps: list[str]) -> None:
    """Whatever is asked for in whatever order, with kills in between, the live policy is one of ours at every step."""
    folder = Path(str(tmp_path_factory.mktemp("any")))  # type: ignore[attr-defined]
    save(example_document(), folder / "live.yaml")
    clock = ManualClock()
    policies = sidecar(folder, clock)
    for number, step in enumerate(steps):
        if step == "begin" and policies.trial is None:
            policies.begin(candidate(1.0 / (number + 2)), "try it")
        elif step == "renew":
            policies.renew()
        elif step == "keep":
            policies.keep("good")
        elif step == "roll":
            policies.roll_back("bad")
        elif step == "undo" and policies.trial is None and (folder / "state" / "previous.yaml").exists():
            policies.undo("back", "test")
        elif step == "detach":
            policies.detach("bye")
        elif step == "wait":
            clock.advance(40.0)
        elif step == "kill":
            policies = sidecar(folder, clock)
        policies.look()
        assert policies.hands_off is None
        one_of_ours(folder)


def test_a_trial_without_state_is_taken_back(tmp_path: Path) -> None:
    """A leased policy whose sidecar's state is lost is replaced by its own fallback."""
    clock = ManualClock()
    save(leased(candidate(), example_document(), clock.utc_now(), 60.0), tmp_path / "live.yaml")
    policies = sidecar(tmp_path, clock)
    assert live(tmp_path) == example_document() and policies.confirmed == example_document()


def test_a_change_while_no_sidecar_ran_is_an_administrators(tmp_path: Path) -> None:
    """A file that differs from all that was published is left alone by the next process."""
    save(example_document(), tmp_path / "live.yaml")
    sidecar(tmp_path)
    save(candidate(0.75), tmp_path / "live.yaml")
    policies = sidecar(tmp_path)
    assert policies.hands_off is not None
    with pytest.raises(ConfigError, match="administrator's"):
        policies.begin(candidate(), "try it")


def test_a_file_that_is_no_policy_is_left_alone(tmp_path: Path) -> None:
    """Whatever an administrator writes there, even nonsense, stays."""
    (tmp_path / "live.yaml").write_text("kind: something else\n")
    policies = sidecar(tmp_path)
    assert policies.hands_off is not None
    assert (tmp_path / "live.yaml").read_text() == "kind: something else\n"


def test_the_entry_is_on_the_disk_before_the_deed(tmp_path: Path) -> None:
    """A file that cannot be written leaves the entry of what was about to happen, and the policy as it was."""
    save(example_document(), tmp_path / "live.yaml")
    policies = sidecar(tmp_path)
    with full_disk("autotune.daemon.live_policy.save"), pytest.raises(PolicyError):
        policies.begin(candidate(), "try it")
    entries = StateFolder(tmp_path / "state").audit.entries
    assert [entry.kind.value for entry in entries] == ["canary_started"]
    assert live(tmp_path) == example_document() and policies.trial is None


def test_a_log_that_cannot_be_written_stops_a_trial_but_no_rollback(tmp_path: Path) -> None:
    """Nothing new begins without its entry; a rollback is done at once and its entry follows when it can."""
    save(example_document(), tmp_path / "live.yaml")
    policies = sidecar(tmp_path)
    with full_disk("autotune.daemon.audit.os.write"), pytest.raises(ConfigError, match="free some space"):
        policies.begin(candidate(), "try it")
    assert live(tmp_path) == example_document()
    policies.begin(candidate(), "try it")
    with full_disk("autotune.daemon.audit.os.write"):
        policies.roll_back("no good")
        assert live(tmp_path) == example_document()
        assert policies.settle() is not None
    assert policies.settle() is None
    assert [entry.kind.value for entry in StateFolder(tmp_path / "state").audit.entries][-1] == "rolled_back"


def test_a_rollback_that_cannot_be_written_is_owed(tmp_path: Path) -> None:
    """It is tried again with every round, and nothing renews the lease meanwhile."""
    save(example_document(), tmp_path / "live.yaml")
    policies = sidecar(tmp_path)
    policies.begin(candidate(), "try it")
    with full_disk("autotune.daemon.live_policy.save"):
        policies.roll_back("no good")
        assert policies.owed and policies.settle() is not None
    policies.renew()
    assert policies.settle() is None and live(tmp_path) == example_document()


def test_a_renewal_does_not_change_what_a_policy_is(tmp_path: Path) -> None:
    """Leases come and go; identity, which the engine shows, stays, and look() finds nothing foreign."""
    clock = ManualClock()
    policies = sidecar(tmp_path, clock)
    policies.begin(candidate(), "try it")
    for _ in range(5):
        clock.advance(25.0)
        policies.renew()
        policies.look()
        trial = live(tmp_path)
        assert trial is not None and trial.lease is not None and identity(trial) == identity(candidate())
        assert (trial.lease.expires_at - clock.utc_now()).total_seconds() == pytest.approx(60.0)
    assert policies.hands_off is None


def test_detach_publishes_the_engines_own_rule_and_then_removes_it(tmp_path: Path) -> None:
    """The file first has LRU, so that a running engine takes it up, and is gone afterwards."""
    policies = sidecar(tmp_path)
    policies.begin(candidate(), "try it")
    policies.keep("good")
    policies.detach("bye")
    now = live(tmp_path)
    assert now is not None and now.kind == "lru" and now.lease is None
    policies.remove_published()
    assert live(tmp_path) is None and not (tmp_path / "state" / "confirmed.yaml").exists()
    assert sidecar(tmp_path).confirmed is None


def test_the_mode_is_in_the_log(tmp_path: Path) -> None:
    """Who let the sidecar do more stands in the audit log."""
    policies = sidecar(tmp_path)
    policies.change_mode(Mode.AUTO, "observe → auto", "admin")
    entry = StateFolder(tmp_path / "state").audit.entries[-1]
    assert (entry.mode, entry.who) == (Mode.AUTO, "admin")
