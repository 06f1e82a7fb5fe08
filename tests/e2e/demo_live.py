"""``make demo-live``: the sidecar beside a real server, from attach to a policy that it takes back.

A tiny random model is served by vLLM on the CPU, with the plug-in and without a policy. An endless load asks for what
conversations of a recorded service asked for. ``kv-autotune attach`` finds out the rest: it learns what recompute and
loads cost, tunes on what was recorded, puts the result on trial and keeps it if it pays. Then the load changes its
nature, and everything happens again. At last a bad policy is put where an operator would put one of his own, and the
guard takes it back. What each stretch was worth is read from the engine's own counters.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from endless_load import NATURES
from live_parts import WINDOW_S, EnginePage, Load, Paths, Sidecar, StoryError, count, engine, last
from live_table import Scene, show
from rich.console import Console
from scaled_trace import BLOCK_TOKENS, CutSettings, cut, write_mooncake
from server import ROOT, environment

from autotune.core.errors import AutotuneError
from autotune.core.policy import Budgets, Costs, PolicyDocument
from autotune.core.policy import load as load_policy
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics
from autotune.daemon.dashboard import picture
from autotune.daemon.jobs import TuneJob
from autotune.daemon.status import ChangeKind, DaemonStatus
from autotune.daemon.wiring import assumed_costs
from autotune.export import save
from autotune.geometry import load_model

DEVICE_BLOCKS, HOST_BLOCKS, LONGEST_BLOCKS = 40, 250, 32
ENDINGS = (ChangeKind.CANARY_KEPT, ChangeKind.ROLLED_BACK)
FIRST, SECOND = NATURES
WIDE = 140  # columns where there is no terminal
NEVER_TOKENS = 1_000_000  # a run that is shorter than this is not loaded: no run is
LEARNING_S, TRIAL_S, STARTING_S = 240.0, 120.0, 30.0
HERE = Path(__file__).parent
SETTINGS = HERE / "live_settings.yaml"


@dataclass(slots=True)
class Stage:
    """What all steps share.

    Attributes:
        console: Where it is told.
        page: The engine's own counters.
        sidecar: The sidecar.
        load: The load.
        paths: Files.
        scenes: What was measured so far.
    """

    console: Console
    page: EnginePage
    sidecar: Sidecar
    load: Load
    paths: Paths
    scenes: list[Scene] = field(default_factory=list)

    def title(self, text: str) -> None:
        """Head of a step."""
        self.console.print(f"\n[bold]{time.monotonic() - _BEGAN_S:4.0f} s  {text}[/bold]", highlight=False)

    def measure(self, load: str, policy: str, begin_s: float, end_s: float, promised: DaemonStatus | None) -> None:
        """Add a stretch to the table."""
        predictions = promised.predictions if promised is not None else ()
        self.scenes.append(Scene(load, policy, self.page.between(begin_s, end_s), predictions))

    def wait(self, what: str, done: Callable[[DaemonStatus], bool], limit_s: float) -> DaemonStatus:
        """Wait until something is true of the sidecar's status.

        Raises:
            StoryError: it does not come true in time, or the load or the sidecar ended.
        """
        self.load.child.require_running()
        return self.sidecar.wait(what, done, limit_s)

    def require_answers(self) -> None:
        """See that the engine answered everything.

        Raises:
            StoryError: it did not.
        """
        if self.load.told["failed"] or not self.load.told["answered"]:
            raise StoryError("every request must be answered", got=f"{self.load.told['failed']} failed")

    def try_out(self, policy: PolicyDocument, name: str, what: str) -> None:
        """Put a policy into the state folder, as an operator would do, and wait until it is on trial."""
        file, candidate = self.paths.out / name, self.paths.state / "candidate.yaml"
        save(policy, file)
        self.console.print(f"  $ cp {file} {candidate}", highlight=False, soft_wrap=True)
        trials = count(self.sidecar.status(), ChangeKind.CANARY_STARTED)
        shutil.copy(file, candidate)
        self.wait(what, lambda status: count(status, ChangeKind.CANARY_STARTED) > trials, STARTING_S)


_BEGAN_S = time.monotonic()


def run(python: Path, out: Path, console: Console, ports: int) -> list[Scene]:
    """The whole demo; what was measured in each stretch.

    Raises:
        AutotuneError: something that it shows did not happen.
    """
    with on_stage(python, out, console, ports) as stage:
        begun(stage)
        tuned(stage, FIRST, "the engine's LRU", trial=1)
        stage.title(f"the load changes: {SECOND}")
        stage.load.change(SECOND)
        drift = stage.wait("the change of the load must be noticed", _noticed, LEARNING_S)
        console.print(f"  noticed: {drift.retune.reason}", highlight=False)
        tuned(stage, SECOND, "the policy for the first load", trial=2)
        taken_back(stage, SECOND)
        stage.require_answers()
        return stage.scenes


def begun(stage: Stage) -> None:
    """The sidecar is attached, and shows what it sees."""
    stage.title(f"kv-autotune attach; the load: {FIRST}")
    console = stage.console
    console.print(f"  $ kv-autotune {' '.join(stage.sidecar.command[1:])}", highlight=False, soft_wrap=True)
    console.print(f"  web page: {stage.sidecar.wait_for_address()}", highlight=False)
    status = stage.wait("all sources must be found", _sees_all, 60.0)
    for target in status.targets:
        names = ", ".join(f"{source.name} ({'ok' if source.ok else source.error})" for source in target.sources)
        console.print(f"  {target.url}: {target.engine} {target.version}, sources {names}", highlight=False)


def tuned(stage: Stage, nature: str, before: str, trial: int) -> None:
    """A search on the recorded past, a trial, and a minute of what was kept."""
    started = stage.wait(
        "a policy must be found and put on trial",
        lambda status: count(status, ChangeKind.CANARY_STARTED) >= trial,
        LEARNING_S,
    )
    now_s = time.monotonic()
    stage.title("a policy is on trial")
    stage.console.print(picture(started, min(stage.console.width, WIDE)))
    stage.measure(nature, before, now_s - WINDOW_S, now_s, None)
    ended = stage.wait("the trial must end", lambda status: count(status, *ENDINGS) >= trial, TRIAL_S)
    change = last(ended, *ENDINGS)
    if change is None or change.kind is not ChangeKind.CANARY_KEPT:
        raise StoryError("the policy that was found must be kept", got=change.reason if change else "nothing")
    stage.title(f"kept: {change.reason}")
    begin_s = time.monotonic()
    time.sleep(WINDOW_S + 2.0)
    status = stage.sidecar.status()
    stage.measure(nature, f"policy {status.live_hash}", begin_s, begin_s + WINDOW_S + 1.0, status)


def taken_back(stage: Stage, nature: str) -> None:
    """A policy that never loads anything is put into the state folder, as an operator would do."""
    stage.title("drill: a policy that never loads from the host")
    good = load_policy(stage.paths.policy)
    host = good.tiers.host
    if host is None:
        raise StoryError("the policy in force must have a host tier", got="none")
    tiers = good.tiers.model_copy(update={"host": host.model_copy(update={"min_load_tokens": NEVER_TOKENS})})
    bad, over = good.model_copy(update={"tiers": tiers}), count(stage.sidecar.status(), *ENDINGS)
    stage.try_out(bad, "bad-policy.yaml", "the operator's policy must be put on trial")
    began_s = time.monotonic()
    ended = stage.wait("the bad policy must be taken back", lambda s: count(s, *ENDINGS) > over, TRIAL_S)
    change = last(ended, *ENDINGS)
    if change is None or change.kind is not ChangeKind.ROLLED_BACK:
        raise StoryError("the bad policy must be taken back", got=change.reason if change else "nothing")
    now_s = time.monotonic()
    stage.measure(nature, "the bad policy", began_s, now_s, None)
    stage.title(f"taken back after {now_s - began_s:.0f} s: {change.reason}")
    stage.console.print(picture(ended, min(stage.console.width, WIDE)))
    if load_policy(stage.paths.policy) != good:
        raise StoryError("the policy before must be in force again", got="another one")


@contextmanager
def on_stage(python: Path, out: Path, console: Console, ports: int, settings: Path = SETTINGS) -> Iterator[Stage]:
    """Engine, load and sidecar, from their start to their end.

    Args:
        python: Interpreter of the environment that has vLLM.
        out: Where everything is written.
        console: Where it is told.
        ports: First of two free ports for KV events.
        settings: Of the sidecar.
    """
    paths = _fresh(out)
    model, cut_path = out / "tiny-llama", out / "conversations.jsonl"
    console.print("building a tiny model, cutting the trace down, compiling the simulator ...")
    subprocess.run(
        [str(python), str(HERE / "tiny_model.py"), "llama", str(model)],
        check=True,
        env=environment(),
        capture_output=True,
    )
    scaling = CutSettings(share_frac=1.0, longest_blocks=LONGEST_BLOCKS, speed_up=1.0)
    write_mooncake(cut(Trace.open("sample:conversation"), scaling), cut_path)
    (out / "compiled").mkdir(exist_ok=True)
    _compile(out / "compiled")
    block_bytes = BLOCK_TOKENS * load_model(str(model)).kv_bytes_per_token
    console.print(f"{time.monotonic() - _BEGAN_S:4.0f} s  starting vllm serve ...", highlight=False)
    with ExitStack() as stack:
        server = stack.enter_context(engine(python, model, paths, (DEVICE_BLOCKS, HOST_BLOCKS), block_bytes, ports))
        page = stack.enter_context(EnginePage(server.url))
        load = Load(python, server.url, cut_path, out / "load.log", FIRST)
        stack.enter_context(load.child)

        def tell(line: str) -> None:
            console.print(f"  │ {line}", markup=False, highlight=False)

        sidecar = Sidecar(server.url, paths, settings, tell)
        stack.enter_context(sidecar.child)
        yield Stage(console, page, sidecar, load, paths)
    console.print("\nthe sidecar, the load and the server have ended", highlight=False)


def _fresh(out: Path) -> Paths:
    """The folder, without what an earlier run left."""
    paths = Paths(out)
    for folder in (paths.state, paths.records):
        shutil.rmtree(folder, ignore_errors=True)
    paths.policy.unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    return paths


def _compile(out: Path) -> None:
    """Search for a moment, so that the first search beside the engine need not wait for the simulator's compilation."""
    from autotune.daemon.child_work import tune_and_validate  # compiled code, which only this step needs

    costs = Costs.of(assumed_costs(None, None))
    block_bytes = Trace.open("sample:conversation").block_tokens * costs.kv_bytes_per_token
    job = TuneJob(
        trace="sample:conversation",
        out=str(out),
        model="any",
        kv_dtype="bfloat16",
        costs=costs,
        budgets=Budgets(device_bytes=500 * block_bytes, host_bytes=2000 * block_bytes),
        semantics=EngineSemantics.VLLM_0_32,
        trials=3,
        confidence=0.95,
        newest_frac=0.2,
        min_requests=1,
        min_gain_frac=0.0,
        timeout_s=600.0,
        cpu_s=600.0,
        cores=1,
        max_bytes=2**32,
    )
    tune_and_validate(job)


def _sees_all(status: DaemonStatus) -> bool:
    sources = [source for target in status.targets for source in target.sources]
    return {"prometheus", "telemetry", "kv_events"} <= {source.name for source in sources if source.ok}


def _noticed(status: DaemonStatus) -> bool:
    return status.retune.reason is not None and "changed" in status.retune.reason


def interrupt(number: int, frame: object) -> NoReturn:
    """Being ended from outside is like Ctrl-C: everything that was started is stopped first."""
    raise KeyboardInterrupt


def main() -> int:
    """Run the demo and print its outcome.

    Returns:
        0 if everything happened, 1 if not, 130 if it was interrupted.
    """
    signal.signal(signal.SIGTERM, interrupt)
    parser = argparse.ArgumentParser(description="The sidecar beside a real vLLM server.")
    parser.add_argument("--engine", type=Path, default=ROOT / ".venv-vllm/bin/python", help="python that has vllm")
    parser.add_argument("--out", type=Path, default=ROOT / "out/live")
    parser.add_argument("--events-port", type=int, default=18757, help="first of two free ports for KV events")
    given = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=WIDE)
    try:
        scenes = run(given.engine, given.out.absolute(), console, given.events_port)
    except KeyboardInterrupt:
        sys.stderr.write("stopped; nothing is left running\n")
        return 130
    except AutotuneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    show(console, scenes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
