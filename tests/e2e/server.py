"""A real ``vllm serve`` on the CPU as a child process that is always stopped, with all its own children."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from autotune.core.errors import AutotuneError

ROOT = Path(__file__).parents[2]
BLOCK_TOKENS = 32  # attention on a CPU needs a multiple of 32
SERVED_NAME = "tiny"
_READY_S = 240.0
_POLL_S = 0.25
_GRACE_S = 20.0
_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # POST /reset_prefix_cache
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "PYTHONHASHSEED": "0",
}


class ServerError(AutotuneError):
    """The server did not start, or ended by itself."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What the server is started with.

    Attributes:
        python: Interpreter of the environment that has vLLM.
        model: Folder of the model.
        device_blocks: Blocks on the device that can hold KV.
        max_model_tokens: Longest prompt and output together.
        max_requests: Requests that run at the same time.
        kv_transfer_config: Text of that argument; none for a server without offloading.
        kv_events_config: Text of that argument; none for a server that publishes no KV events.
        log: Where the server's output goes.
    """

    python: Path
    model: Path
    device_blocks: int
    max_model_tokens: int
    log: Path
    max_requests: int = 8
    kv_transfer_config: str | None = None
    kv_events_config: str | None = None

    def command(self, port: int) -> list[str]:
        """The command line."""
        options: dict[str, str | int] = {
            "--served-model-name": SERVED_NAME,
            "--host": "127.0.0.1",
            "--port": port,
            "--dtype": "bfloat16",
            "--block-size": BLOCK_TOKENS,
            "--num-gpu-blocks-override": self.device_blocks + 1,  # the first block of the pool never holds KV
            "--max-model-len": self.max_model_tokens,
            "--max-num-batched-tokens": max(2048, self.max_model_tokens),
            "--max-num-seqs": self.max_requests,
        }
        if self.kv_transfer_config is not None:
            options["--kv-transfer-config"] = self.kv_transfer_config
        if self.kv_events_config is not None:
            options["--kv-events-config"] = self.kv_events_config
        flags = ["--enforce-eager", "--enable-prefix-caching", "--enable-prompt-tokens-details"]
        pairs = [str(part) for option in options.items() for part in option]
        program = [str(self.python), "-m", "vllm.entrypoints.cli.main"]
        return [*program, "serve", str(self.model), *pairs, *flags, "--disable-uvicorn-access-log"]


class Server:
    """A running server; use it as a context manager, so that it is stopped whatever happens.

    >>> with Server(settings) as server:  # doctest: +SKIP
    ...     print(server.url)
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.port = _free_port()
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        """Start it, unless that has been done."""
        if self._process is None:
            self.start()
        return self

    def start(self) -> None:
        """Start it and wait until it answers; nothing is left running if it does not.

        Raises:
            ServerError: it ended, or did not answer in time; the message ends with the last lines of its log.
        """
        self._log = self.settings.log.open("wb")
        self._process = subprocess.Popen(
            self.settings.command(self.port),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,  # its children are stopped as one group, and Ctrl-C reaches only us
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def stop(self) -> None:
        """Ask it to end, and end its whole group if it does not."""
        process, self._process = self._process, None
        if process is not None:
            for number, patience_s in ((signal.SIGINT, _GRACE_S), (signal.SIGTERM, _GRACE_S / 2)):
                _signal_group(process, number)
                if _ended(process, patience_s):
                    break
            _signal_group(process, signal.SIGKILL)  # also what may be left of the group
            process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None

    def reset_caches(self) -> None:
        """Empty the device's and the host's cache."""
        request = urllib.request.Request(f"{self.url}/reset_prefix_cache?reset_external=true", method="POST")
        with urllib.request.urlopen(request, timeout=30):
            return

    def _wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + _READY_S
        while time.monotonic() < deadline_s:
            if self._process is not None and self._process.poll() is not None:
                raise ServerError(
                    "vllm serve must start", got=f"exit status {self._process.returncode}: {self._tail()}"
                )
            if _answers(f"{self.url}/health"):
                return
            time.sleep(_POLL_S)
        raise ServerError(f"vllm serve must answer within {_READY_S:g} s", got=self._tail())

    def _tail(self) -> str:
        lines = self.settings.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"the log {self.settings.log} ends with", *lines[-25:]])


def stock_config(eviction_policy: str, host_bytes: int, link: Mapping[str, float]) -> str:
    """The argument for one of vLLM's own policies, with vLLM's own connector and manager.

    Args:
        eviction_policy: ``lru`` or ``arc``.
        host_bytes: Size of the host pool.
        link: Settings of the simulated link.
    """
    extra: dict[str, object] = {
        "spec_name": "StockManagerSpec",
        "spec_module_path": "stock_spec",
        "cpu_bytes_to_use": host_bytes,
        "eviction_policy": eviction_policy,
    }
    connector = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
    return with_link(json.dumps(connector), link)


def with_link(kv_transfer_config: str, link: Mapping[str, float]) -> str:
    """The same argument, with a simulated link between device and host."""
    config = json.loads(kv_transfer_config)
    config["kv_connector_extra_config"] |= link
    return json.dumps(config)


def environment() -> dict[str, str]:
    """Variables for processes in the engine's environment: this project and the scripts beside this one importable."""
    roots = [ROOT, ROOT / "policies", ROOT / "configs", ROOT / "tests/e2e"]
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join([*map(str, roots), *inherited])}


def _free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _ended(process: subprocess.Popen[bytes], patience_s: float) -> bool:
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        return False
    return True
