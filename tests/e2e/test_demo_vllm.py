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

from autotune.core.policy import RankDocument
from autotune.export import save
from autotune.testing.documents import example_document

pytestmark = pytest.mark.engine("vllm", "aiohttp", "prometheus_client", "numba")

SCRIPT = Path(__file__).parent / "demo_vllm.py"
BLOCK_BYTES = 32 * 2048
STARTS_S = 300.0


def tiny_policy(folder: Path) -> Path:
    """A policy for the tiny model: the rank rule on a host pool of 150 blocks, beside 72 on the device."""
    document = example_document()
    assert document.rank.host
    knobs = document.rank.host.model_copy(
        update={"lambda_recency": 0.1, "tau_turnovers": 1.0, "turnover_s": 2.0, "ghost_ratio": 10.0}
    )
    costs = {"prefill_linear_s_per_token": 4e-5, "prefill_quadratic_s_per_token_pair": 7e-8, "kv_bytes_per_token": 2048}
    links = {"load_bytes_per_s": 4e8, "load_latency_s": 3e-4, "store_bytes_per_s": 4e8, "store_latency_s": 3e-4}
    save(
        RankDocument(
            fingerprint=document.fingerprint.model_copy(
                update={"model": "tiny-llama", "kv_bytes_per_token": 2048, "trace_block_tokens": 32}
            ),
            budgets=document.budgets.model_copy(
                update={"device_bytes": 72 * BLOCK_BYTES, "host_bytes": 150 * BLOCK_BYTES}
            ),
            tiers=document.tiers,
            rank=document.rank.model_copy(update={"host": knobs}),
            costs=document.costs.model_copy(update={**costs, **links}),
        ),
        folder / "policy.yaml",
    )
    return folder / "policy.yaml"


def command(folder: Path, *options: str) -> list[str]:
    """The demo with everything in a folder."""
    given = ("--engine", sys.executable, "--out", str(folder), "--policy", str(tiny_policy(folder)))
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
