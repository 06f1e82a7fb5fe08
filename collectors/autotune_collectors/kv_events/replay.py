"""Asking an engine for messages again.

Source: vLLM 0.24 to 0.33 and SGLang 0.5, ``_service_replay`` of their publishers: a DEALER sends an empty frame and a
sequence number; the messages from it on come back, behind an empty frame each, and a last one with the number -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import zmq

from autotune.core.clock import Clock
from autotune_collectors.kv_events.wire import EventError, parse_sequence
from autotune_collectors.subscription import MAX_MESSAGE_BYTES, reachable

_MAX_WAITING = 20_000
_MIN_FRAMES = 2


class ReplayClient:
    """One engine's replay endpoint.

    Args:
        context: ZMQ context.
        endpoint: Where it listens.
        timeout_s: Seconds that one replay may take; what has come until then counts.
        clock: Tells how long it has taken.
    """

    def __init__(self, context: Any, endpoint: str, timeout_s: float, clock: Clock) -> None:
        self._context = context
        self._endpoint = reachable(endpoint)
        self._timeout_s = timeout_s
        self._clock = clock

    def since(self, sequence: int) -> Iterator[tuple[int, bytes]]:
        """Number and payload of every message from ``sequence`` on that the engine still has, in order.

        A socket of its own for each request: late answers to an earlier one cannot be taken for answers to this one.

        Raises:
            EventError: the engine does not answer, or not in this form.
        """
        socket = self._context.socket(zmq.DEALER)
        try:
            for option, value in (
                (zmq.LINGER, 0),
                (zmq.RCVHWM, _MAX_WAITING),
                (zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES),
                (zmq.IPV6, 1),
            ):
                socket.setsockopt(option, value)
            yield from self._answers(socket, sequence)
        except zmq.ZMQError as problem:
            raise EventError("a replay endpoint must be an address of ZMQ", got=str(problem)) from problem
        finally:
            socket.close(linger=0)

    def _answers(self, socket: Any, sequence: int) -> Iterator[tuple[int, bytes]]:
        socket.connect(self._endpoint)
        socket.send_multipart((b"", sequence.to_bytes(8, "big")), zmq.NOBLOCK)
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        while (left_s := deadline_s - self._clock.monotonic_s()) > 0.0 and socket.poll(left_s * 1_000.0):
            frames = socket.recv_multipart(zmq.NOBLOCK)
            if len(frames) < _MIN_FRAMES:
                raise EventError("an answer of a replay has a sequence and a payload", got=f"{len(frames)} frames")
            number, _ = parse_sequence(frames[-2])
            if number < 0:
                return
            yield number, frames[-1]
        raise EventError("a replay must end in time", got=f"none after {self._timeout_s:g} s")
