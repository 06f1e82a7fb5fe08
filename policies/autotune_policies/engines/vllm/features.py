"""What the connector sees of requests and copies and their manager does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune_policies.engines.vllm.client_hints import ClientHints, hints_of


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """What one request did, told when it ends.

    Attributes:
        keys: Full chunks of its prompt in the first group with full attention, in prefix order.
        device_chunks: How many of them the device had when it was first scheduled.
        host_chunks: How many after those were loaded.
        prompt_tokens: Prompt tokens.
        output_tokens: Generated tokens.
        finish_reason: The engine's own word: ``stop``, ``length``, ``abort``, …
        session_id: What ties requests of one conversation together, if the client said.
        priority: Scheduling priority.
        preemptions: How often it was preempted.
        prefill_s: Seconds of its prefill; 0 = not known.
        start_ns: When its blocks were first looked up, on the monotonic clock; 0 = not known.
        generated: Full chunks of what it generated, behind those of its prompt.
        hints: What the client told.
    """

    keys: Sequence[bytes]
    device_chunks: int
    host_chunks: int
    prompt_tokens: int
    output_tokens: int
    finish_reason: str | None
    session_id: str | None
    priority: int = 0
    preemptions: int = 0
    prefill_s: float = 0.0
    start_ns: int = 0
    generated: Sequence[bytes] = ()
    hints: ClientHints = field(default=ClientHints())


@dataclass(frozen=True, slots=True)
class TransferReport:
    """Copies of one direction that finished in one step, over all ranks.

    Attributes:
        is_load: Host to device; otherwise device to host.
        n_copies: Copies.
        n_bytes: Their bytes.
        seconds: Their seconds, summed.
    """

    is_load: bool
    n_copies: int
    n_bytes: int
    seconds: float


def finished_request(
    request: Any,
    keys: Sequence[bytes],
    device_chunks: int,
    host_chunks: int,
    prefill_s: float = 0.0,
    start_ns: int = 0,
    generated: Sequence[bytes] = (),
) -> FinishedRequest:
    """What the engine's request tells, with what it found.

    Source: vLLM 0.24 to 0.33, v1/request.py; ``session_id`` stands on the request from 0.30 on, and clients may give
    one in ``kv_transfer_params`` before that.
    """
    params = request.kv_transfer_params or {}
    hints = hints_of(params)
    session = hints.session_id or getattr(request, "session_id", None) or params.get("session_id")
    reason = request.get_finished_reason()
    return FinishedRequest(
        keys=keys,
        device_chunks=min(device_chunks, len(keys)),
        host_chunks=max(0, min(host_chunks, len(keys) - device_chunks)),
        prompt_tokens=request.num_prompt_tokens,
        output_tokens=request.num_output_tokens,
        finish_reason=None if reason is None else str(reason),
        session_id=None if session is None else str(session),
        priority=int(getattr(request, "priority", 0)),
        preemptions=int(getattr(request, "num_preemptions", 0)),
        prefill_s=prefill_s,
        start_ns=start_ns,
        generated=generated,
        hints=hints,
    )
