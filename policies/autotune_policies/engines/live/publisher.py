"""Records on a socket: ZMQ PUB, three frames a message as vLLM publishes its KV events."""

from __future__ import annotations

import logging
import struct
from typing import Any

from autotune.core.clock import Clock
from autotune.core.errors import MissingExtraError
from autotune.core.telemetry.wire import TOPIC
from autotune_policies.engines.live.targets import TelemetryTarget

_HEADER_EVERY_S = 5.0  # a subscriber that comes late waits no longer for it while records flow
_MAX_WAITING = 10_000  # messages per subscriber; beyond, ZMQ drops them and the subscriber sees a gap
_SEQUENCE = struct.Struct(">Q")
_LOGGER = logging.getLogger(__name__)


class Publisher:
    """Publishes frames; a subscriber that is slow or not there holds nobody up.

    Args:
        target: Address to bind. It is bound at the first frame and, where that fails, tried again at the next.
        clock: Tells when a header is due again.

    Raises:
        MissingExtraError: this environment has no pyzmq.
    """

    def __init__(self, target: TelemetryTarget, clock: Clock) -> None:
        self._zmq = _import_zmq()
        self._endpoint = target.endpoint
        self._clock = clock
        self._socket: Any = None
        self._header_s = clock.monotonic_s()  # the first one goes with the first epoch
        self._sent = 0
        if target.leaves_the_machine:
            _LOGGER.warning("telemetry listens on %s, where other machines can read it", self._endpoint)

    def needs_header(self, frame_bytes: int) -> bool:
        """Whether the last header is old."""
        now_s = self._clock.monotonic_s()
        if now_s - self._header_s < _HEADER_EVERY_S:
            return False
        self._header_s = now_s
        return True

    def write(self, frame: bytes) -> None:
        """Publish one frame: topic, number of the message (8 bytes, most significant first), frame.

        Raises:
            zmq.ZMQError: the address cannot be bound.
        """
        socket = self._socket or self._bind()
        socket.send_multipart((TOPIC, _SEQUENCE.pack(self._sent), frame), self._zmq.NOBLOCK)
        self._sent += 1

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close(linger=100)  # milliseconds for what is on its way

    def _bind(self) -> Any:
        socket = self._zmq.Context.instance().socket(self._zmq.PUB)
        try:
            socket.setsockopt(self._zmq.SNDHWM, _MAX_WAITING)
            socket.bind(self._endpoint)
        except self._zmq.ZMQError:
            socket.close(linger=0)
            raise
        self._socket = socket
        return socket


def _import_zmq() -> Any:
    try:
        import zmq
    except ImportError as problem:
        raise MissingExtraError(
            "telemetry on a socket needs the package pyzmq", remedy="pip install pyzmq"
        ) from problem
    return zmq
