"""One call script for every manager: what vLLM's connector calls when it serves a trace, without a server.

The script comes from a run of the simulator in its ``vllm`` mode: who gets its turn when, what the device holds then,
and when each request ends. A manager is led through it with synchronous copies; what it answers is written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from types import SimpleNamespace
from typing import Any

from autotune.sim.vllm_decisions import VllmDecisions
from autotune_policies.engines.vllm import compat
from autotune_policies.engines.vllm.features import FinishedRequest

GROUP = (0).to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a manager decided for one request.

    Attributes:
        host_hits: Chunks found on the host after those of the device.
        stored: Chunks that got a place, in order; ``None`` = no room.
        evicted: Chunks that left for them, in order.
    """

    host_hits: int
    stored: tuple[int, ...] | None
    evicted: tuple[int, ...]


class ManualTime:
    """Monotonic nanoseconds that stand still until they are set."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        """The time that was set."""
        return self.now_ns


class Stopwatch:
    """Sums up the processor seconds that a manager's methods take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, manager: Any) -> Any:
        """The manager, with every method that the script calls timed."""
        timed = SimpleNamespace()
        for name in (
            "on_new_request",
            "prepare_load",
            "complete_load",
            "prepare_store",
            "complete_store",
            "on_request_finished",
            "on_schedule_end",
            "lookup",
        ):
            setattr(timed, name, self._timed(getattr(manager, name)))
        return timed

    def _timed(self, method: Any) -> Any:
        def call(*args: Any) -> Any:
            began = thread_time()
            answer = method(*args)
            self.seconds += thread_time() - began
            return answer

        return call


def key_of(block: int) -> bytes:
    """A key as vLLM makes it: 32 bytes of hash, and the group."""
    return block.to_bytes(32, "big") + GROUP


def block_of(key: bytes) -> int:
    """The block that a key was made from."""
    return int.from_bytes(key[:-4], "big")


def lead_through(
    manager: Any, script: VllmDecisions, chunk_tokens: int, time: ManualTime, *, tells_ends: bool = False
) -> list[Answer]:
    """Make every call of the script; returns one answer per request, in the order of the trace.

    Args:
        manager: The manager.
        script: The calls.
        chunk_tokens: Tokens of a chunk.
        time: The manager's time.
        tells_ends: Whether it hears what each request was like, as our connector tells it.
    """
    answers: list[Answer] = [Answer(0, (), ())] * len(script.start_ns)
    running: dict[int, Any] = {}
    for call in script.calls.tolist():
        if call >= 0:
            time.now_ns = int(script.start_ns[call])
            running[call] = compat.new_req_context(f"request-{call}")
            answers[call] = _serve(manager, script, call, running[call], chunk_tokens)
        else:
            time.now_ns = int(script.end_ns[-1 - call])
            _end_step(manager)
            if tells_ends:
                manager.note_ended(f"request-{-1 - call}", ended(script, -1 - call))
            manager.on_request_finished(running.pop(-1 - call))
    return answers


def ended(script: VllmDecisions, r: int) -> FinishedRequest:
    """What the connector tells of a request that has ended."""
    trace = script.result.trace
    return FinishedRequest(
        keys=[key_of(block) for block in script.chunks.of(r).tolist()],
        device_chunks=int(script.device_hit_chunks[r]),
        host_chunks=int(script.host_hit_chunks[r]),
        prompt_tokens=int(trace.input_tokens[r]),
        output_tokens=int(trace.output_tokens[r]),
        finish_reason=None if trace.stop_reason[r] < 0 else trace.stop_reasons[int(trace.stop_reason[r])],
        session_id=None,
        start_ns=int(script.start_ns[r]),
    )


def _serve(manager: Any, script: VllmDecisions, r: int, context: Any, chunk_tokens: int) -> Answer:
    keys = [key_of(block) for block in script.chunks.of(r).tolist()]
    manager.on_new_request(context)
    if hasattr(context, "set_offload_key_position"):
        for depth, key in enumerate(keys):
            context.set_offload_key_position(key, (depth + 1) * chunk_tokens)
    on_device = int(script.device_hit_chunks[r])
    on_host = 0
    for key in keys[on_device:]:
        if not compat.lookup_answers().is_hit(manager.lookup(key, context)):
            break
        on_host += 1
    chunk_blocks = script.result.config.chunk_blocks
    if on_host * chunk_blocks - int(script.result.device_hit[r]) % chunk_blocks < chunk_blocks:
        on_host = 0  # the connector loads nothing that is shorter than a chunk
    if on_host:
        loaded = keys[on_device : on_device + on_host]
        manager.prepare_load(loaded, context)
        manager.complete_load(loaded, context)
    offered = keys[on_device + on_host :] if on_host else keys
    if not offered:
        return Answer(on_host, (), ())
    output = manager.prepare_store(offered, context)
    if output is None:
        return Answer(on_host, None, ())
    manager.complete_store(output.keys_to_store, context)
    return Answer(on_host, tuple(map(block_of, output.keys_to_store)), tuple(map(block_of, output.evicted_keys)))


def _end_step(manager: Any) -> None:
    try:
        manager.on_schedule_end(None)
    except TypeError:  # vLLM 0.24 gives no context
        manager.on_schedule_end()
