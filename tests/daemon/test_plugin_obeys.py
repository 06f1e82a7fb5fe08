"""The engine's side of a trial: what the plug-in makes of the files that the sidecar writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sidecar_parts import candidate

from autotune.daemon.live_policy import LivePolicy
from autotune.daemon.state import StateFolder
from autotune.daemon.transitions import Transitions
from autotune.daemon.trial import identity, stock
from autotune.export import save
from autotune.testing.clocks import ManualClock
from autotune.testing.documents import example_document
from autotune_policies.engines.live.source import EngineFacts, PolicyOutcome, PolicySource

FACTS = EngineFacts("vllm", "0.32.0", ("llama-3.1-8b",), 131_072)


class Both:
    """A sidecar and a plug-in on the same file and the same clock."""

    def __init__(self, folder: Path) -> None:
        save(example_document(), folder / "live.yaml")
        self.clock = ManualClock()
        self.policies = Transitions(
            StateFolder(folder / "state"), LivePolicy(folder / "live.yaml"), self.clock, lease_s=60.0
        )
        self.policies.recover()
        self.source = PolicySource(folder / "live.yaml", FACTS, self.clock)

    def poll(self, seconds: float = 1.0) -> PolicyOutcome | None:
        """What the plug-in finds after some time."""
        change = self.source.poll(self.clock.advance(seconds))
        return None if change is None else change.outcome


@pytest.fixture
def both(tmp_path: Path) -> Both:
    """Both, with the example policy in force."""
    pair = Both(tmp_path)
    assert pair.poll() is PolicyOutcome.NEW_POLICY
    return pair


def test_a_trial_is_taken_up_under_the_name_that_the_sidecar_expects(both: Both) -> None:
    """The hash that the plug-in shows is the identity of the policy, through every renewal."""
    both.policies.begin(candidate(), "try it")
    assert both.poll() is PolicyOutcome.NEW_POLICY and both.source.policy_hash == identity(candidate())
    for _ in range(6):
        both.clock.advance(22.0)
        both.policies.renew()
        assert both.poll() is PolicyOutcome.CONFIRMED and both.source.policy_hash == identity(candidate())
    both.policies.keep("good")
    assert both.poll() is PolicyOutcome.CONFIRMED and both.source.policy_hash == identity(candidate())
    assert both.poll(1000.0) is None


def test_a_sidecar_that_dies_leaves_the_engine_on_the_confirmed_policy(both: Both) -> None:
    """Nobody renews the lease: the plug-in returns to the confirmed policy by itself, when the lease ends."""
    both.policies.begin(candidate(), "try it")
    both.poll()
    assert both.poll(57.0) is None
    assert both.poll(3.0) is PolicyOutcome.LEASE_EXPIRED
    assert both.source.policy_hash == identity(example_document())


def test_a_rollback_is_taken_up(both: Both) -> None:
    """The confirmed policy is in force with the next look."""
    both.policies.begin(candidate(), "try it")
    both.poll()
    both.policies.roll_back("no good")
    assert both.poll() is PolicyOutcome.NEW_POLICY and both.source.policy_hash == identity(example_document())


def test_detach_is_taken_up_as_the_engines_own_rule(both: Both) -> None:
    """What detach writes is accepted by the engine, and is LRU; that the file then goes changes nothing."""
    both.policies.begin(candidate(), "try it")
    both.policies.detach("bye")
    assert both.poll() is PolicyOutcome.NEW_POLICY
    assert both.source.policy_hash == identity(stock(candidate()))
    both.policies.remove_published()
    assert both.poll() is PolicyOutcome.MISSING
    assert both.source.document is not None and both.source.document.kind == "lru"
