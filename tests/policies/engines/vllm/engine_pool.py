"""The real engine for tests: one process that has imported vLLM, and every scenario run at most once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from engine_scenarios import Outcome, Scenario

_HERE = Path(__file__).parent
_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # several runs on one machine must not share the first core
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # scheduler, manager and worker in the process that we look into
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # where there are several ranks
}


class EnginePool:
    """Runs scenarios and remembers what came of them.

    Args:
        folder: For the files that travel between the processes, and the engine's logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._outcomes: dict[str, Outcome] = {}
        self._process: subprocess.Popen[str] | None = None

    def run(self, scenario: Scenario) -> Outcome:
        """The outcome of a scenario.

        Raises:
            AssertionError: The engine failed; the message has the end of its log.
        """
        key = scenario.to_json()
        if key not in self._outcomes:
            self._outcomes[key] = self._run(key, self._folder / f"run-{len(self._outcomes)}")
        return self._outcomes[key]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _run(self, text: str, stem: Path) -> Outcome:
        scenario_file, outcome_file = stem.with_suffix(".scenario.json"), stem.with_suffix(".json")
        scenario_file.write_text(text, encoding="utf-8")
        self._ask(f"{scenario_file} {outcome_file}")
        if not outcome_file.is_file():
            log = outcome_file.with_suffix(".log")
            raise AssertionError(f"the engine failed; the end of {log}:\n{log.read_text(errors='replace')[-4000:]}")
        return Outcome.from_json(outcome_file.read_text(encoding="utf-8"))

    def _ask(self, line: str) -> None:
        process = self._process = self._process or self._start()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the engine's process has pipes")
        print(line, file=process.stdin, flush=True)
        if not process.stdout.readline():
            raise AssertionError("the engine's process has ended")

    def _start(self) -> subprocess.Popen[str]:
        with (self._folder / "server.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, str(_HERE / "engine_process.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | _ENVIRONMENT,
            )
        if process.stdout is None or not process.stdout.readline():
            raise AssertionError((self._folder / "server.log").read_text(errors="replace")[-4000:])
        return process
