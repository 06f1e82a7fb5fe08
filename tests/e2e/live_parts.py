"""What ``make demo-live`` runs beside each other: an engine, a load, a sidecar, and a look at the engine's own page."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from endless_load import ROUND_S
from metrics_page import EngineCounters, parse
from server import BLOCK_TOKENS, Server, ServerSettings, environment
from tiny_model import VOCABULARY

from autotune.core.errors import AutotuneError
from autotune.daemon.client import SidecarClient
from autotune.daemon.status import Change, ChangeKind, DaemonStatus

HERE = Path(__file__).parent
_LOOK_S = 1.0
_GRACE_S = 30.0
_START_S = 60.0


class StoryError(AutotuneError):
    """Something that the demo shows did not happen."""


class Child:
    """A process that is always stopped, whose output goes to a file; a context manager.

    Args:
        command: What to run.
        log: Where its standard error goes.
        on_line: Called with every line of its standard output, in a thread.
        environ: Its environment; ours if not given.
    """

    def __init__(
        self, command: list[str], log: Path, on_line: Callable[[str], None], environ: dict[str, str] | None = None
    ) -> None:
        self._command, self._log, self._on_line, self._environ = command, log, on_line, environ
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] | None = None

    def __enter__(self) -> Child:
        """Start it."""
        self._errors = self._log.open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=self._environ,
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask it to end, and end it if it does not."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._errors is not None:
            self._errors.close()

    @property
    def pid(self) -> int:
        """Number of the process; 0 = it does not run."""
        return self._process.pid if self._process is not None else 0

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def require_running(self) -> None:
        """See that it has not ended.

        Raises:
            StoryError: it has; the message has its last words.
        """
        if self._process is None or self._process.poll() is not None:
            words = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise StoryError(f"{Path(self._command[1]).name} must run to the end", got=words or "it ended")

    def _read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self._on_line(line.rstrip("\n"))


@dataclass(frozen=True, slots=True)
class Paths:
    """Files of the demo, all in one folder."""

    out: Path

    @property
    def policy(self) -> Path:
        """What the engine watches and the sidecar writes."""
        return self.out / "live-policy.yaml"

    @property
    def records(self) -> Path:
        """Where the plug-in writes its records."""
        return self.out / "records"

    @property
    def state(self) -> Path:
        """State folder of the sidecar."""
        return self.out / "state"


def engine(python: Path, model: Path, paths: Paths, pools: tuple[int, int], block_bytes: int, ports: int) -> Server:
    """A server with our plug-in, which has no policy yet, so that the engine's own LRU is in force.

    Args:
        python: Interpreter of the environment that has vLLM.
        model: Folder of the model.
        paths: Files of the demo.
        pools: Blocks on the device and on the host.
        block_bytes: KV of one block.
        ports: First of two free ports for KV events.
    """
    device_blocks, host_blocks = pools
    connector = {
        "kv_connector": "AutotuneConnector",
        "kv_connector_module_path": "autotune_policies.engines.vllm.connector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "spec_name": "AutotuneOffloadingSpec",
            "spec_module_path": "autotune_policies.engines.vllm.spec",
            "cpu_bytes_to_use": host_blocks * block_bytes,
            "policy_file": str(paths.policy),
            "telemetry": f"file:{paths.records}",
            # As on a server with an 8B model on an H100, a token's KV is loaded about ten times as fast as computed.
            "simulated_link_gb_per_s": 0.5,
            "simulated_link_latency_ms": 0.1,
        },
    }
    events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{ports}",
        "replay_endpoint": f"tcp://*:{ports + 1}",
    }
    return Server(
        ServerSettings(
            python=python,
            model=model,
            device_blocks=device_blocks,
            max_model_tokens=device_blocks * BLOCK_TOKENS,
            log=paths.out / "server.log",
            kv_transfer_config=json.dumps(connector),
            kv_events_config=json.dumps(events),
        )
    )


class Load:
    """The endless load; a context manager.

    Args:
        python: Interpreter of the environment that has vLLM.
        url: The server.
        cut: File of the trace to draw from.
        log: Where what goes wrong is written.
        nature: Name of the kind of load to begin with.
    """

    def __init__(self, python: Path, url: str, cut: Path, log: Path, nature: str) -> None:
        given = [url, str(cut), "--vocabulary", str(VOCABULARY), "--nature", nature]
        self.child = Child([str(python), str(HERE / "endless_load.py"), *given], log, self._hear, environment())
        self.told: dict[str, int] = {"answered": 0, "failed": 0}

    def _hear(self, line: str) -> None:
        self.told |= json.loads(line)

    def change(self, nature: str) -> None:
        """From now on another kind of load."""
        self.child.tell(json.dumps({"nature": nature}))


class EnginePage:
    """What the engine's own ``/metrics`` counted, second by second; a context manager."""

    def __init__(self, url: str) -> None:
        self._url, self._stop = f"{url}/metrics", threading.Event()
        self._seen: list[tuple[float, EngineCounters]] = []
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> EnginePage:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop looking."""
        self._stop.set()
        self._thread.join()

    def between(self, begin_s: float, end_s: float) -> EngineCounters:
        """What was counted between two moments of the monotonic clock."""
        inside = [counters for at_s, counters in self._seen if begin_s <= at_s <= end_s]
        if len(inside) < 2:
            raise StoryError("the engine must be looked at twice", got=f"{len(inside)} times")
        return inside[-1] - inside[0]

    def _look(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                with urllib.request.urlopen(self._url, timeout=5) as page:
                    self._seen.append((time.monotonic(), parse(page.read().decode())))
            except OSError:
                continue  # the next look is a second away


class Sidecar:
    """``kv-autotune attach`` as a user runs it; a context manager.

    Args:
        url: The engine.
        paths: Files of the demo.
        settings: File with its settings.
        on_line: Called with every line that it prints.
    """

    def __init__(self, url: str, paths: Paths, settings: Path, on_line: Callable[[str], None]) -> None:
        program = [str(Path(sys.executable).parent / "kv-autotune"), "attach", url]
        places = ["--policy", str(paths.policy), "--state", str(paths.state)]
        self.command = [*program, *places, "--settings", str(settings)]
        self.child = Child([sys.executable, *self.command], paths.out / "sidecar.log", on_line)
        self._paths, self._address = paths, paths.state / "address"

    def wait_for_address(self) -> str:
        """Where it answers, as soon as it does.

        Raises:
            StoryError: it does not.
        """
        deadline_s = time.monotonic() + _START_S
        while not self._address.exists():
            self.child.require_running()
            if time.monotonic() > deadline_s:
                raise StoryError("the sidecar must say where it answers", got="nothing")
            time.sleep(0.2)
        return self._address.read_text(encoding="utf-8").strip()

    def status(self) -> DaemonStatus:
        """What it says now."""
        self.child.require_running()
        told = SidecarClient(self.wait_for_address(), None).read("/v1/status")
        return DaemonStatus.model_validate_json(json.dumps(told))

    def wait(self, what: str, done: Callable[[DaemonStatus], bool], limit_s: float) -> DaemonStatus:
        """The first status of which something is true.

        Args:
            what: The same in words.
            done: Whether it is.
            limit_s: How long to wait for it.

        Raises:
            StoryError: it does not come true in time.
        """
        deadline_s = time.monotonic() + limit_s
        while True:
            status = self.status()
            if done(status):
                return status
            if time.monotonic() > deadline_s:
                said = f"{status.phase.value}: {status.verdict.text} {'; '.join(status.findings)}"
                raise StoryError(f"within {limit_s:.0f} s {what}", got=said)
            time.sleep(0.5)


def last(status: DaemonStatus, *kinds: ChangeKind) -> Change | None:
    """The newest change of some kinds."""
    return next((change for change in reversed(status.history) if change.kind in kinds), None)


def count(status: DaemonStatus, *kinds: ChangeKind) -> int:
    """Number of changes of some kinds."""
    return sum(change.kind in kinds for change in status.history)


WINDOW_S = 3.0 * ROUND_S  # what is measured in it can be compared: whole rounds of the load ask for the same
