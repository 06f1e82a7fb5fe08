"""What all replays of the demo share, and everything that touches the engine: its scripts, its servers, its replays."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate import MeasuredCosts
from prediction import Pools
from replay import Replay
from scaled_trace import BLOCK_TOKENS, CutSettings, cut, read_mooncake, write_mooncake
from screen import Advance, Screen
from server import Server, ServerError, ServerSettings, environment
from tiny_model import VOCABULARY

from autotune.core import policy as policies
from autotune.core.trace import Trace
from autotune.geometry import load_model

HOST_FRAC = 0.03  # of the blocks that the cut touches
SPARE_DEVICE_BLOCKS = 8  # beyond the longest prompt
TUNED_FRAC = 0.6  # of the time: the policy is tuned on it, and has not seen the rest
RIVALS = ("LRU", "ARC")
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What the demo is started with.

    Attributes:
        engine: Interpreter of the environment that has vLLM.
        out: Where everything that it writes goes.
        cut: How the trace is scaled down.
        trials: Settings that the search tries.
        policy: Policy file to show instead of a tuned one.
        rivals: Which of vLLM's own policies to compare with.
    """

    engine: Path
    out: Path
    cut: CutSettings
    trials: int = 100
    policy: Path | None = None
    rivals: tuple[str, ...] = RIVALS


@dataclass(frozen=True, slots=True)
class Stage:
    """What all replays share.

    Attributes:
        settings: What the demo was started with.
        model: Folder of the model.
        block_bytes: KV of one block.
        cut_path: File of the cut.
        trace: The cut.
        later: First request of the part that the policy has not seen.
        pools: Room for KV.
        screen: Where progress is shown.
    """

    settings: DemoSettings
    model: Path
    block_bytes: int
    cut_path: Path
    trace: Trace
    later: int
    pools: Pools
    screen: Screen

    @property
    def host_bytes(self) -> int:
        """Size of the host pool."""
        return self.pools.host_blocks * self.block_bytes


def prepare(settings: DemoSettings, screen: Screen) -> Stage:
    """Model, cut and pools.

    Raises:
        AutotuneError: one of them cannot be made.
    """
    settings.out.mkdir(parents=True, exist_ok=True)
    model, cut_path = settings.out / "tiny-llama", settings.out / "cut.jsonl"
    with screen.step("building a tiny model with random weights"):
        for _ in _lines(settings, "tiny_model.py", "llama", model):
            continue
    with screen.step("cutting the bundled trace down"):
        write_mooncake(cut(Trace.open("sample:conversation"), settings.cut), cut_path)
    trace = read_mooncake(cut_path)
    block_bytes = BLOCK_TOKENS * load_model(str(model)).kv_bytes_per_token
    pools = Pools(settings.cut.longest_blocks + SPARE_DEVICE_BLOCKS, round(HOST_FRAC * trace.n_blocks))
    if settings.policy is not None:
        budgets = policies.load(settings.policy).budgets
        pools = Pools(budgets.device_bytes // block_bytes, budgets.host_bytes // block_bytes)
    later = trace.first_request_at(TUNED_FRAC * trace.span_s)
    return Stage(settings, model, block_bytes, cut_path, trace, later, pools, screen)


@contextmanager
def served(stage: Stage, name: str, config: str) -> Iterator[Server]:
    """A server with this argument for ``--kv-transfer-config``, from its start to its end.

    Raises:
        ServerError: it does not start.
    """
    settings = ServerSettings(
        python=stage.settings.engine,
        model=stage.model,
        device_blocks=stage.pools.device_blocks,
        max_model_tokens=stage.pools.device_blocks * BLOCK_TOKENS,
        log=stage.settings.out / f"server-{name.lower()}.log",
        kv_transfer_config=config,
    )
    server = Server(settings)
    with stage.screen.step(f"{name}: starting vllm serve"):
        server.start()
    with server:
        yield server


def measure_costs(stage: Stage, server: Server) -> MeasuredCosts:
    """Prefill and link of a server; its caches are empty afterwards.

    Raises:
        ServerError: a request failed.
    """
    longest_blocks = stage.settings.cut.longest_blocks
    with stage.screen.step("measuring prefill and link on this server"):
        arguments = (server.url, "--vocabulary", VOCABULARY, "--longest-blocks", longest_blocks)
        costs = MeasuredCosts(**_last(_lines(stage.settings, "calibrate.py", *arguments), "costs"))
        server.reset_caches()
    return costs


def replay(stage: Stage, name: str, server: Server) -> Replay:
    """The cut, against a server.

    Raises:
        ServerError: a request failed.
    """
    n_requests = stage.trace.n_requests
    with stage.screen.step(f"{name}: replaying {n_requests:,} requests", n_requests) as advance:
        arguments = (server.url, stage.cut_path, "--vocabulary", VOCABULARY)
        return Replay.of(_last(_lines(stage.settings, "replay.py", *arguments, advance=advance), "replay"))


def _lines(
    settings: DemoSettings, script: str, *arguments: object, advance: Advance | None = None
) -> Iterator[dict[str, Any]]:
    """The objects that a script prints in the engine's environment; it is stopped if we stop.

    Raises:
        ServerError: it failed; the message ends with what it said.
    """
    command = [str(settings.engine), str(HERE / script), *map(str, arguments)]
    log = settings.out / f"{script.removesuffix('.py')}.log"
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(), start_new_session=True
        ) as child,
    ):
        try:
            for line in child.stdout or ():
                told = json.loads(line)
                if advance is not None and "done" in told:
                    advance(told["done"])
                yield told
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        raise ServerError(f"{script} must succeed", got=log.read_text(encoding="utf-8")[-2000:])


def _last(lines: Iterator[dict[str, Any]], name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in lines:
        found = line.get(name, found)
    return found
