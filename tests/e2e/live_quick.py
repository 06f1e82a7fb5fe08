"""``make demo-live`` in short, for a test: the same engine, load and sidecar, and one thing of each kind.

The sidecar finds all sources by itself; events and records arrive; a search of a few settings ends; a policy that
somebody puts into the state folder is published, and the engine obeys it; a bad one is taken back. What a tuned policy
is worth is left to the long form: trials of some seconds cannot tell.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from demo_live import (
    DEVICE_BLOCKS,
    ENDINGS,
    FIRST,
    HERE,
    HOST_BLOCKS,
    LEARNING_S,
    TRIAL_S,
    WIDE,
    Stage,
    begun,
    interrupt,
    on_stage,
    taken_back,
)
from live_parts import StoryError, count, last
from rich.console import Console
from tiny_policies import tiny_policy

from autotune.core.errors import AutotuneError
from autotune.core.types import Tier
from autotune.daemon.jobs import OutcomeKind, TuneOutcome
from autotune.daemon.status import DaemonStatus, Grade

SETTINGS = HERE / "live_quick_settings.yaml"


def run(python: Path, out: Path, console: Console, ports: int) -> None:
    """The whole of it.

    Raises:
        AutotuneError: something that it shows did not happen.
    """
    with on_stage(python, out, console, ports, SETTINGS) as stage:
        begun(stage)
        recorded(stage)
        searched(stage)
        published(stage)
        taken_back(stage, FIRST)
        stage.require_answers()


def recorded(stage: Stage) -> None:
    """Records and events arrive, and what they tell is in the status."""
    status = stage.wait("records and events must tell how full the tiers are", _knows_tiers, LEARNING_S)
    used = {tier.tier.name: tier.used_bytes for tier in status.tiers}
    if status.host is None or not status.host.memory_bytes:
        raise StoryError("the machine must be looked at", got=f"{status.host}")
    stage.title(f"recorded: bytes on the tiers {used}, of a machine with {status.host.memory_bytes}")


def searched(stage: Stage) -> None:
    """A search on what was recorded has ended, and says what it found."""
    stage.wait("a search must end", lambda status: status.retune.last_at is not None, LEARNING_S)
    outcome = TuneOutcome.model_validate_json((stage.paths.state / "work" / "outcome.json").read_bytes())
    if outcome.kind is not OutcomeKind.NO_GAIN or outcome.requests < 1:
        raise StoryError("no search is worth 99 % of the cost", got=f"{outcome.kind}: {outcome.text}")
    stage.title(f"searched on {outcome.requests} requests: {outcome.text}")


def published(stage: Stage) -> None:
    """A policy that was put into the state folder is published, and the engine says that it is in force."""
    over = count(stage.sidecar.status(), *ENDINGS)
    policy = tiny_policy(DEVICE_BLOCKS, HOST_BLOCKS)
    stage.try_out(policy, "good-policy.yaml", "the policy must be put on trial")
    live = stage.wait("the engine must say that it obeys it", _obeyed, TRIAL_S).live_hash
    ended = stage.wait("the trial must end", lambda status: count(status, *ENDINGS) > over, TRIAL_S)
    change = last(ended, *ENDINGS)
    stage.title(f"published {live}; {change.kind.value if change else 'nothing'}: {change.reason if change else ''}")


def _knows_tiers(status: DaemonStatus) -> bool:
    used = {tier.tier: tier.used_bytes for tier in status.tiers}
    grades = {target.grade for target in status.targets}
    return grades == {Grade.TELEMETRY} and bool(used.get(Tier.DEVICE)) and bool(used.get(Tier.HOST))


def _obeyed(status: DaemonStatus) -> bool:
    return status.live_hash is not None and {target.policy_hash for target in status.targets} == {status.live_hash}


def main() -> int:
    """Run it.

    Returns:
        0 if everything happened, 1 if not, 130 if it was interrupted.
    """
    signal.signal(signal.SIGTERM, interrupt)
    parser = argparse.ArgumentParser(description="The sidecar beside a real vLLM server, in short.")
    parser.add_argument("--engine", type=Path, required=True, help="python that has vllm")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--events-port", type=int, required=True, help="first of two free ports for KV events")
    given = parser.parse_args()
    try:
        run(given.engine, given.out.absolute(), Console(width=WIDE), given.events_port)
    except KeyboardInterrupt:
        return 130
    except AutotuneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
