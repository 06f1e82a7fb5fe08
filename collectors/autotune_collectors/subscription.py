"""A ZMQ subscription that never waits, holds a bounded number of messages, and knows whether its publisher is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from autotune.core.errors import ConfigError
from autotune.core.units import MIB

_ANYWHERE = re.compile(r"tcp://(\*|0\.0\.0\.0|\[::\]):")
_RETRY_MS, _MAX_RETRY_MS = 100, 5_000
_HEARTBEAT_MS = 5_000  # so that a machine that vanished is noticed; half-open connections stay silent for hours
MAX_MESSAGE_BYTES = 64 * MIB
_UP = zmq.EVENT_HANDSHAKE_SUCCEEDED
_DOWN = zmq.EVENT_DISCONNECTED


def reachable(endpoint: str, host: str = "127.0.0.1") -> str:
    """The address to connect to where ``endpoint`` is one to bind, such as ``tcp://*:5557``."""
    return _ANYWHERE.sub(f"tcp://{host}:", endpoint)


class Subscription:
    """Messages of one publisher, and of those that take its place.

    Args:
        endpoint: Where it publishes, as ``tcp://HOST:PORT`` or ``ipc://PATH``.
        topic: What every message wanted begins with; empty for all of them.
        max_waiting: Messages that may wait here; beyond, ZMQ drops them.

    Attributes:
        connected: Whether there is a publisher, as of the last look.
        disconnects: How often one went away.

    Raises:
        ConfigError: no ZMQ address.
    """

    def __init__(self, endpoint: str, topic: bytes, max_waiting: int) -> None:
        self.connected = False
        self.disconnects = 0
        self.context: zmq.Context[Any] = zmq.Context(io_threads=1)
        self._socket: Any = self.context.socket(zmq.SUB)
        for option, value in (
            (zmq.RCVHWM, max_waiting),
            (zmq.LINGER, 0),
            (zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES),
            (zmq.RECONNECT_IVL, _RETRY_MS),
            (zmq.RECONNECT_IVL_MAX, _MAX_RETRY_MS),
            (zmq.HEARTBEAT_IVL, _HEARTBEAT_MS),
            (zmq.IPV6, 1),
            (zmq.SUBSCRIBE, topic),
        ):
            self._socket.setsockopt(option, value)
        self._monitor: Any = self._socket.get_monitor_socket(_UP | _DOWN)
        try:
            self._socket.connect(reachable(endpoint))
        except zmq.ZMQError as problem:
            self.close()
            raise ConfigError(
                "an endpoint must be an address of ZMQ",
                got=f"{endpoint!r}: {problem}",
                remedy="write tcp://HOST:PORT or ipc://PATH",
            ) from problem

    def look(self) -> None:
        """Take notice of publishers that came and went."""
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            self.connected = event == _UP
            self.disconnects += event == _DOWN

    def messages(self, max_messages: int) -> Iterator[list[bytes]]:
        """What waits now, frame by frame, at most so many messages.

        Raises:
            OSError: the socket does not work.
        """
        receive = self._socket.recv_multipart
        for _ in range(max_messages):
            try:
                message: list[bytes] = receive(zmq.NOBLOCK)
            except zmq.Again:
                return
            except zmq.ZMQError as problem:
                raise OSError(problem.errno, str(problem)) from problem
            yield message

    def close(self) -> None:
        """Let go of the sockets."""
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=0)
        self.context.term()
