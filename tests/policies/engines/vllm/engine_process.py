"""A process with vLLM in it that runs scenarios, each in a fork of its own.

vLLM takes seconds to import and a forked child has it at once; each scenario still gets a process that nothing ran in
before. One line of JSON per scenario comes in on standard input (the scenario's file, the outcome's file), one line
goes out (the child's exit code).
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any

SHARED_MEMORY = Path("/dev/shm")


def serve() -> None:
    """Run what standard input asks for until it ends."""
    import vllm.v1.engine.llm_engine
    import vllm.v1.kv_offload.tiering.spec
    import vllm.v1.worker.cpu_worker  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        scenario_file, outcome_file = line.split()
        child = os.fork()
        if child == 0:
            os._exit(_run_file(Path(scenario_file), Path(outcome_file)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run_file(scenario_file: Path, outcome_file: Path) -> int:
    from engine_scenarios import Scenario

    try:
        os.dup2(os.open(outcome_file.with_suffix(".log"), os.O_CREAT | os.O_WRONLY), 1)
        os.dup2(1, 2)
        outcome = run(Scenario.from_json(scenario_file.read_text(encoding="utf-8")))
        outcome_file.write_text(outcome.to_json(), encoding="utf-8")
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def run(scenario: Any) -> Any:
    """Start an engine in this process, do the work, shut it down, and report."""
    from engine_scenarios import Outcome

    files_before = _shared_files()
    engine = _engine(scenario)
    core = engine.engine_core.engine_core
    if scenario.corrupt_loads:
        _spoil_loads()
    drive = _Drive(engine, core, scenario)
    drive.run()
    report: dict[str, Any] = {
        "tokens": drive.tokens,
        "steps": drive.steps,
        "aborted_in_load": drive.aborted_in_load,
        "resets": drive.resets,
        "cache_groups": len(core.scheduler.kv_cache_config.kv_cache_groups),
        "metrics": _metrics(),
    }
    if scenario.offload is not None:
        connector = core.scheduler.connector
        parts = getattr(connector, "sub_connectors", [connector])  # of vLLM's MultiConnector
        manager = next(part.connector_scheduler.manager for part in parts if hasattr(part, "connector_scheduler"))
        report["manager"] = type(manager).__name__
    core.shutdown()
    return Outcome(**report, leftover_files=tuple(sorted(_shared_files() - files_before)))


def _engine(scenario: Any) -> Any:
    from vllm.config import KVTransferConfig
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    transfer = None
    if scenario.offload is not None:
        connector = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"} | scenario.connector
        transfer = KVTransferConfig(**connector, kv_connector_extra_config=scenario.offload)
    arguments = {
        "model": scenario.model,
        "dtype": "bfloat16",
        "block_size": scenario.block_tokens,
        "num_gpu_blocks_override": scenario.device_blocks,
        "max_model_len": scenario.max_model_tokens,
        "max_num_batched_tokens": scenario.max_batched_tokens,
        "max_num_seqs": 8,
        "enforce_eager": True,
        "enable_prefix_caching": True,
        "disable_log_stats": False,
        "kv_transfer_config": transfer,
    } | scenario.engine
    return LLMEngine.from_engine_args(EngineArgs(**arguments))


class _Drive:
    """Submits the work, steps the engine, and interferes where the scenario says so."""

    def __init__(self, engine: Any, core: Any, scenario: Any) -> None:
        self.engine, self.core, self.scenario = engine, core, scenario
        self.tokens: dict[str, list[int]] = {}
        self.steps = self.aborted_in_load = self.resets = 0
        self._waiting = list(scenario.works)
        self._inside: dict[str, Any] = {}  # by the number that the engine knows the request by
        self._submitted = 0

    def run(self) -> None:
        while self._waiting or self._inside:
            while self._waiting and len(self._inside) < self.scenario.concurrency:
                self._submit(self._waiting.pop(0))
            self._interfere()
            for output in self.engine.step():
                if output.finished and (work := self._inside.pop(output.request_id, None)) is not None:
                    self.tokens[work.name] = list(output.outputs[0].token_ids)
            self.steps += 1

    def _submit(self, work: Any) -> None:
        from vllm import SamplingParams

        parameters = SamplingParams(temperature=0.0, max_tokens=work.output_tokens, ignore_eos=True)
        number = str(self._submitted)
        self._submitted += 1
        self._inside[number] = work
        self.engine.add_request(number, {"prompt_token_ids": list(work.prompt)}, parameters)

    def _interfere(self) -> None:
        scenario = self.scenario
        if self.steps in scenario.resets_at:
            self.resets += bool(self.engine.reset_prefix_cache(reset_running_requests=True, reset_connector=True))
        for index, write in enumerate(scenario.writes):
            every, n = scenario.write_every, len(scenario.writes)
            due = self.steps == write.at_step if every == 0 else self.steps % (every * n) == every * index
            if due:
                Path(write.path).write_text(write.text, encoding="utf-8")
        if self.aborted_in_load < scenario.aborts_in_load:
            self._abort_a_load()

    def _abort_a_load(self) -> None:
        from vllm.v1.request import RequestStatus

        for request in self.core.scheduler.requests.values():
            if request.status == RequestStatus.WAITING_FOR_REMOTE_KVS:
                number = next(n for n in self._inside if request.request_id.split("-")[0] == n)
                self.engine.abort_request([number])
                self._waiting.insert(0, self._inside.pop(number))
                self.aborted_in_load += 1
                return


def _spoil_loads() -> None:
    """After each load, flip one bit in the last block that it wrote, in the first layer of each group."""
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    pages = get_kv_transfer_group().connector_worker.worker._pages
    copy = pages.load

    def load(pairs: Any) -> None:
        copy(pairs)
        for pair in pairs:
            ref = pages.groups[pair.group_index][0]
            pages.tensors[ref.tensor_index].device[pair.blocks[-1], ref.used_bytes // 2 + 1] ^= 0x40

    pages.load = load


def _metrics() -> dict[str, float]:
    from prometheus_client import REGISTRY

    values: dict[str, float] = {}
    for family in REGISTRY.collect():
        if family.name.startswith(("vllm:", "kv_autotune")) and family.type in {"counter", "gauge"}:
            for sample in family.samples:
                labels = [value for name, value in sample.labels.items() if name not in {"engine", "model_name"}]
                name = "/".join([sample.name, *labels])
                values[name] = values.get(name, 0.0) + sample.value
    return values


def _shared_files() -> set[str]:
    return {path.name for path in SHARED_MEMORY.glob("vllm_offload_*")}


if __name__ == "__main__":
    serve()
