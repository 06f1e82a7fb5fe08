"""The live demo in short: a real server with a sidecar, a search, and policies that are tried and taken back."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.core.policy import load
from autotune.daemon.audit import AuditEntry
from autotune.daemon.status import ChangeKind

pytestmark = [
    pytest.mark.engine("vllm", "aiohttp", "prometheus_client", "numba"),
    pytest.mark.sidecar_environment,
    pytest.mark.slow,
]

SCRIPT = Path(__file__).parent / "live_quick.py"
SIDECAR_PYTHON = os.environ.get("SIDECAR_PYTHON") or str(Path(__file__).parents[2] / ".venv/bin/python")
PORTS = range(18_200, 18_248, 2)
LIMIT_S = 900.0


def two_free_ports() -> int:
    """The first of two neighbouring ports that nothing listens on."""
    for port in PORTS:
        with socket.socket() as first, socket.socket() as second:
            if first.connect_ex(("127.0.0.1", port)) and second.connect_ex(("127.0.0.1", port + 1)):
                return port
    raise AssertionError("no two free ports")


def left_running(folder: Path) -> list[str]:
    """Command lines of processes that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and int(entry.parent.name) != os.getpid():
            found.append(line)
    return found


def test_a_sidecar_beside_a_real_engine_tunes_publishes_and_takes_back(tmp_path: Path) -> None:
    """Sources are found, records arrive, a search ends, the engine obeys a policy, and a bad one is taken back."""
    out = tmp_path / "live"
    given = ("--engine", sys.executable, "--out", str(out), "--events-port", str(two_free_ports()))
    done = subprocess.run(
        [SIDECAR_PYTHON, str(SCRIPT), *given],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (out / "state" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [AuditEntry.model_validate_json(line) for line in lines]
    kinds = [entry.kind for entry in entries]
    first_ending = {ChangeKind.CANARY_KEPT, ChangeKind.ROLLED_BACK}
    assert kinds[0] is ChangeKind.CANARY_STARTED and kinds[1] in first_ending
    assert kinds[2:4] == [ChangeKind.CANARY_STARTED, ChangeKind.ROLLED_BACK]
    assert load(out / "live-policy.yaml").lease is None
    assert any((out / "state" / "recording").iterdir())
    assert "fell back" not in (out / "server.log").read_text(encoding="utf-8", errors="replace")
    assert left_running(out) == []
