"""The demo in short: two real servers, a few requests, a given policy."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_policies import tiny_policy

from autotune.export import save

pytestmark = pytest.mark.engine("vllm", "aiohttp", "prometheus_client", "numba")

SCRIPT = Path(__file__).parent / "demo_vllm.py"
STARTS_S = 300.0


def policy_file(folder: Path) -> Path:
    """A policy for the tiny model on a host pool of 150 blocks, beside 72 on the device."""
    save(tiny_policy(72, 150), folder / "policy.yaml")
    return folder / "policy.yaml"


def command(folder: Path, *options: str) -> list[str]:
    """The demo with everything in a folder."""
    given = ("--engine", sys.executable, "--out", str(folder), "--policy", str(policy_file(folder)))
    return [sys.executable, str(SCRIPT), *given, *options]


def servers_of(folder: Path) -> list[int]:
    """Processes whose command line names the folder and a server."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in line and b"serve" in line.split(b"\0"):
            found.append(int(entry.parent.name))
    return found


def test_short_demo_measures_what_it_predicts(tmp_path: Path) -> None:
    """Two servers answer every request alike, offload really happens, and hits are near the prediction."""
    options = ("--requests", "120", "--speed-up", "60", "--rivals", "LRU")
    done = subprocess.run(
        command(tmp_path, *options), capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "100"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "of 120 requests are equal in every run." in done.stdout
    assert "fell back" not in done.stdout
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if re.match(r"(LRU|ours) ", line)}
    assert set(rows) == {"LRU", "ours"}
    for row in rows.values():  # the second table: four pairs of measured and predicted shares
        pairs = [(float(a), float(b)) for a, b in re.findall(r"([\d.]+) \| ([\d.]+)", row)]
        assert len(pairs) == 4
        (device, _), (host, _), (both, predicted), _ = pairs
        assert device > 0.0
        assert host > 0.0 or row.startswith("LRU")
        assert abs(both - predicted) < 5.0  # of few requests; the whole demo is within 2
    assert servers_of(tmp_path) == []


def test_interrupted_demo_leaves_no_server(tmp_path: Path) -> None:
    """Ctrl-C while a server starts ends the demo with status 130, and every process of the server with it."""
    demo = subprocess.Popen(command(tmp_path, "--requests", "5"), stderr=subprocess.PIPE, text=True)
    deadline_s = time.monotonic() + STARTS_S
    while not servers_of(tmp_path) and demo.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert servers_of(tmp_path)
    demo.send_signal(signal.SIGINT)
    _, told = demo.communicate(timeout=STARTS_S)
    assert demo.returncode == 130, told
    assert "no server is left running" in told
    assert servers_of(tmp_path) == []
