"""``kv-autotune attach`` as a process: what it prints, what SIGHUP does, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from autotune.daemon.status import DaemonStatus

PAGE = (Path(__file__).parents[1] / "data/metrics/vllm_0.10.0_old_and_new_names.prom").read_bytes()


class Metrics(BaseHTTPRequestHandler):
    """Answers with one page of metrics."""

    def do_GET(self) -> None:
        """The page."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def engine() -> Iterator[str]:
    """The address of a page of metrics."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Metrics) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def attached(engine: str, folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A sidecar that runs, and is ended."""
    settings = folder / "settings.yaml"
    settings.write_text("sidecar: {collect: {interval_s: 0.2}}\n", encoding="utf-8")
    command = [sys.executable, "-c", "from autotune.cli import main; main()", "attach", engine, "--http-port", "0"]
    command += ["--state", str(folder / "state"), "--settings", str(settings), *options]
    environ = os.environ | {"XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_json_lines_reload_and_end(engine: str, tmp_path: Path) -> None:
    """Each round is one line of JSON; an invalid file is refused with one line; SIGTERM ends it well."""
    with attached(engine, tmp_path, "--json-lines") as process:
        assert process.stdout is not None
        statuses = [DaemonStatus.model_validate_json(process.stdout.readline()) for _ in range(3)]
        assert statuses[-1].targets[0].alive
        assert statuses[0].at < statuses[-1].at
        (tmp_path / "settings.yaml").write_text("sidecar: {collect: {intervall_s: 1.0}}\n", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30.0)
    assert process.returncode == 0, errors
    kept = [line for line in errors.splitlines() if line.startswith("settings are kept as they were")]
    assert len(kept) == 1
    assert "did you mean 'interval_s'?" in kept[0]


def test_plain_lines_without_a_terminal(engine: str, tmp_path: Path) -> None:
    """Where output is no terminal there are plain lines without controls, one per change of state."""
    with attached(engine, tmp_path) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
    assert "observe starting" in lines[0]
    assert "targets 1/1" in lines[1]
    assert not [line for line in lines if "\x1b" in line]


def test_check_config_prints_what_holds(tmp_path: Path, engine: str) -> None:
    """--check-config prints every setting and ends without touching anything."""
    with attached(engine, tmp_path, "--check-config", "--mode", "auto") as process:
        output, errors = process.communicate(timeout=30.0)
    assert (process.returncode, errors) == (0, "")
    assert "  mode: auto\n" in output
    assert "    interval_s: 0.2\n" in output
    assert not (tmp_path / "state").exists()
