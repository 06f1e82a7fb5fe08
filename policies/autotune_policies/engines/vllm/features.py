"""What the connector sees of requests and copies and their manager does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestFeatures:
    """What a connector knows of a request and its manager does not.

    Attributes:
        request_id: The engine's name of the request.
        prompt_tokens: Prompt tokens.
        output_tokens: Tokens generated so far; 0 when the request is new.
        finish_reason: The engine's own word once it has ended: ``stop``, ``length``, ``abort``, …
        priority: Scheduling priority.
        session_id: What ties requests of one conversation together, if the client said.
        preemptions: How often it was preempted.
    """

    request_id: str
    prompt_tokens: int
    output_tokens: int
    finish_reason: str | None
    priority: int
    session_id: str | None
    preemptions: int


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


def features_of(request: Any) -> RequestFeatures:
    """What the engine's request tells.

    Source: vLLM 0.24 to 0.33, v1/request.py; ``session_id`` stands on the request from 0.30 on, and clients may give
    one in ``kv_transfer_params`` before that.
    """
    params = request.kv_transfer_params or {}
    session = getattr(request, "session_id", None) or params.get("session_id")
    reason = request.get_finished_reason()
    return RequestFeatures(
        request_id=request.request_id,
        prompt_tokens=request.num_prompt_tokens,
        output_tokens=request.num_output_tokens,
        finish_reason=None if reason is None else str(reason),
        priority=int(getattr(request, "priority", 0)),
        session_id=None if session is None else str(session),
        preemptions=int(getattr(request, "num_preemptions", 0)),
    )
