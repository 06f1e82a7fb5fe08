"""``make demo-vllm``: a real server obeys a tuned policy, and its own counters say what that is worth.

A tiny random model is served on the CPU. A cut of the bundled trace of a production service is replayed once per
policy: vLLM's own LRU, its own ARC, and one tuned on the earlier part of the cut. The outcome is printed beside what
the simulator had said. It runs in the environment of the tuner and starts everything that touches the engine in the
engine's own.
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from calibrate import MeasuredCosts
from demo_stage import RIVALS, TUNED_FRAC, DemoSettings, Stage, measure_costs, prepare, replay, served
from demo_table import Run, show
from measured_hardware import hardware_yaml
from prediction import measured, predicted, same_tokens
from replay import Replay
from rich.console import Console
from scaled_trace import CutSettings
from screen import Screen
from server import ROOT, ServerError, stock_config, with_link

from autotune.core import policy as policies
from autotune.core.costs import CostProfile
from autotune.core.errors import AutotuneError
from autotune.costs import load_hardware, profile
from autotune.export import export_policy, save
from autotune.geometry import load_model

OURS = "ours"
# As on a server with an 8B model on an H100, the link carries a token's KV about ten times as fast as it is computed.
LINK = {"simulated_link_gb_per_s": 0.5, "simulated_link_latency_ms": 0.1}
SERVED_ITL_S = 0.01  # where nothing was measured
SIMULATED = {"LRU": "lru", "ARC": "vllm_arc"}  # vLLM's own policies by the simulator's names


@dataclass(frozen=True, slots=True)
class Tuned:
    """A policy and what its prediction needs.

    Attributes:
        path: The policy file.
        costs: What prefill and transfers take.
        itl_s: Seconds per output token.
    """

    path: Path
    costs: CostProfile
    itl_s: float


def run(settings: DemoSettings, screen: Screen) -> tuple[list[Run], bool]:
    """The whole demo: one replay per policy, and whether all tokens were equal.

    Raises:
        AutotuneError: a part of it failed.
    """
    if settings.policy is None:
        import_module("autotune.api")  # where the search is not installed, that shows now and not after minutes
    stage = prepare(settings, screen)
    replays: dict[str, Replay] = {}
    costs: MeasuredCosts | None = None
    for name in settings.rivals:
        with served(stage, name, stock_config(name.lower(), stage.host_bytes, LINK)) as server:
            if costs is None and settings.policy is None:
                costs = measure_costs(stage, server)
            replays[name] = replay(stage, name, server)
    tuned = _tuned(stage, costs)
    policy = policies.load(tuned.path)
    config = export_policy(policy, tuned.path, "vllm").text
    with served(stage, OURS, with_link(config, LINK)) as server:
        replays[OURS] = replay(stage, OURS, server)
    rules = {name: SIMULATED[name] for name in settings.rivals} | {OURS: policy}
    runs = [
        Run(
            name,
            outcome,
            measured(stage.trace, outcome, stage.later),
            predicted(stage.trace, rules[name], stage.pools, tuned.costs, tuned.itl_s, stage.later),
        )
        for name, outcome in replays.items()
    ]
    return runs, same_tokens(list(replays.values()))


def _tuned(stage: Stage, costs: MeasuredCosts | None) -> Tuned:
    """The policy that was given, or one tuned with the measured costs."""
    given = stage.settings.policy
    if given is not None:
        return Tuned(given, policies.load(given).costs.profile(), SERVED_ITL_S)
    if costs is None:
        raise ServerError("costs must be measured before a policy is tuned", remedy="name at least one rival")
    shape = load_model(str(stage.model))
    hardware = stage.settings.out / "hardware.yaml"
    hardware.write_text(hardware_yaml(shape, costs), encoding="utf-8")
    with stage.screen.step("tuning on the earlier part of the cut"):
        path = _tune(stage, hardware, costs.itl_s)
    return Tuned(path, profile(shape, load_hardware(str(hardware))), costs.itl_s)


def _tune(stage: Stage, hardware: Path, itl_s: float) -> Path:
    # The search is not installed in an engine's environment, where a given policy can be shown.
    from autotune.api import tune
    from autotune.core.settings import SearchSettings, Settings, SimulationSettings
    from autotune.core.types import EngineSemantics, Timing
    from autotune.core.units import MS_PER_S

    result = tune(
        stage.trace,
        model=str(stage.model),
        hardware=str(hardware),
        device_blocks=stage.pools.device_blocks,
        host_blocks=stage.pools.host_blocks,
        settings=Settings(
            search=SearchSettings(trials=stage.settings.trials, train_frac=TUNED_FRAC, random_search=False),
            simulation=SimulationSettings(
                engine=EngineSemantics.VLLM_0_32, timing=Timing.SERVICE, itl_ms=itl_s * MS_PER_S
            ),
        ),
        trace_name=str(stage.cut_path),
    )
    path = stage.settings.out / "policy.yaml"
    save(result.document, path)
    return path


def _settings() -> DemoSettings:
    plain = CutSettings()
    parser = argparse.ArgumentParser(description="A real vLLM server under LRU, ARC and a tuned policy.")
    parser.add_argument("--engine", type=Path, default=ROOT / ".venv-vllm/bin/python", help="python that has vllm")
    parser.add_argument("--out", type=Path, default=ROOT / "out/vllm")
    parser.add_argument("--requests", type=int, help="only so many requests from the start of the cut")
    parser.add_argument("--speed-up", type=float, default=plain.speed_up, help="factor on the pace of arrivals")
    parser.add_argument("--seed", type=int, default=plain.seed, help="which conversations are drawn")
    parser.add_argument("--trials", type=int, default=100, help="settings that the search tries")
    parser.add_argument("--policy", type=Path, help="policy file to show instead of a tuned one")
    parser.add_argument("--rivals", nargs="*", default=list(RIVALS), choices=RIVALS, help="whom to compare with")
    given = parser.parse_args()
    scaling = CutSettings(requests=given.requests, speed_up=given.speed_up, seed=given.seed)
    return DemoSettings(given.engine, given.out.absolute(), scaling, given.trials, given.policy, tuple(given.rivals))


def _interrupt(number: int, frame: object) -> NoReturn:
    """Being ended from outside is like Ctrl-C: everything that was started is stopped first."""
    raise KeyboardInterrupt


def main() -> int:
    """Run the demo and print its outcome.

    Returns:
        0 if it ran and every token was equal, 1 if not, 130 if it was interrupted.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    settings = _settings()
    try:
        with Screen() as screen:
            runs, equal = run(settings, screen)
    except KeyboardInterrupt:
        sys.stderr.write("stopped; no server is left running\n")
        return 130
    except AutotuneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    show(Console(), runs, equal)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
