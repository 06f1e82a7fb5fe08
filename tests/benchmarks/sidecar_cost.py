"""What the sidecar costs: its processor time and memory in steady state, and the throughput of the engine beside it.

    python tests/benchmarks/sidecar_cost.py steady [--seconds 60] [--rates 1000 10000]
    python tests/benchmarks/sidecar_cost.py engine [--engine .venv-vllm/bin/python] [--pairs 30]

*steady* runs ``kv-autotune attach`` as a user does, in mode ``observe``, beside two processes that play an engine: one
publishes KV events, in the frames that vLLM publishes; one serves a page of metrics that was recorded from vLLM, with
counters that grow. The page is read every five seconds. What counts is the processor time of the sidecar's process, as
the system counts it, after half a minute in which it starts; memory is what is resident at the end.

*engine* serves a tiny model and sends it bursts of requests in pairs: one while the sidecar runs beside it, one while
its process is stopped (SIGSTOP), in an order that alternates. What counts is the ratio of the times within each pair.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "daemon"))
sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

from kv_events import publish
from page_server import EnginePage, serving

from autotune.daemon.client import SidecarClient
from autotune.daemon.status import DaemonStatus

ROOT = Path(__file__).parents[2]
SCRAPE_S, START_S = 5.0, 30.0
ATTACH = str(Path(sys.executable).parent / "kv-autotune")
T_975 = {29: 2.045, 39: 2.023, 59: 2.001}  # Student's t for 30, 40 and 60 pairs
_HZ = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Steady:
    """One run.

    Attributes:
        events_per_s: KV events that were published.
        core_frac: Processor seconds per second.
        resident_mb: Memory at the end, in units of a million bytes.
        peak_mb: Its peak.
        lost: Events and records that were not taken.
        ok: Whether every source answered at the end.
    """

    events_per_s: int
    core_frac: float
    resident_mb: float
    peak_mb: float
    lost: int
    ok: bool


class Attached:
    """A sidecar as a user runs it.

    Args:
        url: The engine.
        state: Its state folder.
        options: More of the command line.
    """

    def __init__(self, url: str, state: Path, *options: str) -> None:
        given = [ATTACH, "attach", url, "--state", str(state), "--http-port", "0", *options]
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "KV_AUTOTUNE_COLLECT_INTERVAL_S": str(SCRAPE_S)}
        self._log = (state.parent / "sidecar.log").open("wb")
        self.process = subprocess.Popen(given, stdout=self._log, stderr=self._log, env=environ)
        self._address = state / "address"

    def status(self) -> DaemonStatus:
        """What it says of itself."""
        while not self._address.exists():
            time.sleep(0.1)
        told = SidecarClient(self._address.read_text("utf-8").strip(), None).read("/v1/status")
        return DaemonStatus.model_validate_json(json.dumps(told))

    def cpu_s(self) -> float:
        """Processor seconds of its process so far, without those of children."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _HZ

    def memory_mb(self, name: str) -> float:
        """``VmRSS`` or ``VmHWM``."""
        text = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
        return int(found[1]) * 1024 / 1e6 if found else math.nan

    def stop(self) -> None:
        """End it, whether or not it is stopped for the moment."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(60)
        self._log.close()


@contextmanager
def attached(url: str, state: Path, *options: str) -> Iterator[Attached]:
    """A sidecar from its start to its end."""
    sidecar = Attached(url, state, *options)
    try:
        yield sidecar
    finally:
        sidecar.stop()


def serve_page(port: Any) -> None:
    """Play an engine's page until this process is ended."""
    with serving(EnginePage()) as url:
        port.put(url)
        signal.pause()


def steady(events_per_s: int, seconds: float) -> Steady:
    """One run of the sidecar beside a played engine."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        folder, ready, urls = Path(name), context.Event(), context.Queue()
        page = context.Process(target=serve_page, args=(urls,), daemon=True)
        engine = context.Process(target=publish, args=(name, events_per_s, seconds + START_S + 5.0, ready), daemon=True)
        page.start()
        engine.start()
        try:
            with attached(urls.get(), folder / "state", "--events", f"ipc://{name}/pub") as sidecar:
                sidecar.status()
                ready.set()
                time.sleep(START_S)
                before_s, began_s = sidecar.cpu_s(), time.monotonic()
                time.sleep(seconds)
                used_s, took_s = sidecar.cpu_s() - before_s, time.monotonic() - began_s
                sources = [source for target in sidecar.status().targets for source in target.sources]
                memory = sidecar.memory_mb("VmRSS"), sidecar.memory_mb("VmHWM")
        finally:
            for process in (page, engine):
                process.terminate()
                process.join()
    lost, ok = sum(source.lost for source in sources), all(source.ok for source in sources)
    return Steady(events_per_s, used_s / took_s, *memory, lost, ok)


def report_steady(rates: list[int], seconds: float) -> None:
    """Print one line per rate."""
    print("| events/s | share of a core | memory | its peak | lost | sources |")
    print("| ---: | ---: | ---: | ---: | ---: | --- |")
    for rate in rates:
        run = steady(rate, seconds)
        state = "all answer" if run.ok else "NOT all answer"
        memory = f"{run.resident_mb:.0f} MB | {run.peak_mb:.0f} MB"
        print(f"| {run.events_per_s:,} | {run.core_frac:.2%} | {memory} | {run.lost} | {state} |", flush=True)


async def send_pairs(url: str, sidecar: Attached, pairs: int, requests: int) -> list[float]:
    """Seconds with the sidecar divided by seconds without, per pair, after three pairs that warm the server up."""
    import httpx

    rng, ratios = random.Random(0), list[float]()
    async with httpx.AsyncClient(timeout=300.0, limits=httpx.Limits(max_keepalive_connections=0)) as client:
        for pair in range(-3, pairs):
            prompts = [[rng.randrange(500) for _ in range(rng.randrange(64, 512))] for _ in range(requests)]
            seconds: dict[bool, float] = {}
            for beside in (True, False) if pair % 2 else (False, True):
                sidecar.process.send_signal(signal.SIGCONT if beside else signal.SIGSTOP)
                await client.post(f"{url}/reset_prefix_cache?reset_external=true")
                seconds[beside] = await _burst(client, url, prompts)
            if pair >= 0:
                ratios.append(seconds[True] / seconds[False])
                print(f"pair {pair + 1:>3}: with {seconds[True]:.2f} s, without {seconds[False]:.2f} s", flush=True)
    return ratios


async def _burst(client: Any, url: str, prompts: list[list[int]]) -> float:
    gate = asyncio.Semaphore(8)

    async def one(prompt: list[int]) -> None:
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 16, "ignore_eos": True, "temperature": 0.0}
        async with gate:
            (await client.post(f"{url}/v1/completions", json=body)).raise_for_status()

    began_s = time.perf_counter()
    await asyncio.gather(*map(one, prompts))
    return time.perf_counter() - began_s


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Geometric mean of the ratios with its 95 % interval, by Student's t on their logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    half = T_975.get(len(logs) - 1, 1.96) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def report_engine(python: Path, pairs: int, requests: int, events_port: int) -> None:
    """Serve, send the pairs, print the interval."""
    from live_parts import Paths, engine
    from server import environment

    with tempfile.TemporaryDirectory() as name:
        paths = Paths(Path(name))
        model = paths.out / "tiny-llama"
        script = str(ROOT / "tests/e2e/tiny_model.py")
        subprocess.run([str(python), script, "llama", str(model)], check=True, env=environment(), capture_output=True)
        with engine(python, model, paths, (128, 700), 65_536, events_port) as server:
            options = ("--telemetry", f"file:{paths.records}", "--policy", str(paths.policy))
            with attached(server.url, paths.state, *options) as sidecar:
                sidecar.status()
                ratios = asyncio.run(send_pairs(server.url, sidecar, pairs, requests))
    mean, low, high = interval(ratios)
    print(f"time with / time without over {len(ratios)} pairs: {mean:.4f}, 95 % interval {low:.4f} to {high:.4f}")


def main() -> None:
    """Measure one of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("steady", "engine"))
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each steady run")
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 10_000], help="events per second")
    parser.add_argument("--engine", type=Path, default=ROOT / ".venv-vllm/bin/python", help="python that has vllm")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--requests", type=int, default=40, help="of one burst")
    parser.add_argument("--events-port", type=int, default=18760, help="first of two free ports for KV events")
    given = parser.parse_args()
    if given.what == "steady":
        report_steady(given.rates, given.seconds)
    else:
        report_engine(given.engine, given.pairs, given.requests, given.events_port)


if __name__ == "__main__":
    main()
