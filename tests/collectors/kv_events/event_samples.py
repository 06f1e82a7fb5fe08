"""Frames of KV events: recorded ones, ones in each engine's form, and a publisher that speaks the engines' protocol."""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import zmq

FOLDER = Path(__file__).parents[2] / "data" / "kv_events"
_U32 = struct.Struct(">I")
_POLL_MS = 5


def recorded(name: str) -> list[list[bytes]]:
    """The messages of a recorded stream, frame by frame."""
    content = (FOLDER / f"vllm-0.32.0-{name}.bin").read_bytes()
    messages, place = [], 0
    while place < len(content):
        (n_frames,) = _U32.unpack_from(content, place)
        place += _U32.size
        frames = []
        for _ in range(n_frames):
            (length,) = _U32.unpack_from(content, place)
            place += _U32.size
            frames.append(content[place : place + length])
            place += length
        messages.append(frames)
    return messages


def encoded(*events: Any, time_s: float = 1.7e9) -> bytes:
    """A payload."""
    return msgspec.msgpack.encode([time_s, list(events), 0])


def stored(*hashes: Any, parent: Any = None, medium: Any = "GPU", **more: Any) -> dict[str, Any]:
    """An event in vLLM's form."""
    tokens = list(range(16 * len(hashes)))
    return {
        "type": "BlockStored",
        "block_hashes": list(hashes),
        "parent_block_hash": parent,
        "token_ids": tokens,
        "block_size": 16,
        "lora_id": None,
        "medium": medium,
        "lora_name": None,
    } | more


def removed(*hashes: Any, medium: Any = "GPU", **more: Any) -> dict[str, Any]:
    """An event in vLLM's form."""
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": medium} | more


CLEARED = {"type": "AllBlocksCleared"}


def number(sequence: int) -> bytes:
    """A sequence frame."""
    return sequence.to_bytes(8, "big", signed=True)


class EventServer:
    """A PUB and a ROUTER socket that answer as the engines' publishers do, in a thread of its own.

    Args:
        endpoint: Where to publish.
        replay_endpoint: Where to answer; ``None`` = nowhere.
        buffer_steps: Messages kept for replays.
        first: Number of the first message.
    """

    def __init__(
        self, endpoint: str, replay_endpoint: str | None = None, buffer_steps: int = 10_000, first: int = 0
    ) -> None:
        self.endpoint, self.replay_endpoint = endpoint, replay_endpoint
        self.sequence = first
        self.kept: deque[tuple[int, bytes]] = deque(maxlen=buffer_steps)
        self._context = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._pub.bind(endpoint)
        self._router: Any = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if replay_endpoint is not None:
            self._router = self._context.socket(zmq.ROUTER)
            self._router.bind(replay_endpoint)
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()

    def publish(self, payload: bytes, *, is_sent: bool = True) -> None:
        """Send a message, or lose it on the way."""
        with self._lock:
            if is_sent:
                self._pub.send_multipart((b"kv", number(self.sequence), payload))
            self.kept.append((self.sequence, payload))
            self.sequence += 1

    def send(self, *frames: bytes) -> None:
        """Send frames as they are."""
        self._pub.send_multipart(frames)

    def close(self) -> None:
        """Stop."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._router.close(linger=0)
        self._pub.close(linger=0)
        self._context.term()

    def _serve(self) -> None:
        while not self._stop.is_set():
            if not self._router.poll(_POLL_MS):
                continue
            client, _, start = self._router.recv_multipart()
            with self._lock:
                kept = [item for item in self.kept if item[0] >= int.from_bytes(start, "big")]
            for sequence, payload in kept:
                self._router.send_multipart((client, b"", b"kv", number(sequence), payload))
            self._router.send_multipart((client, b"", b"", number(-1), b""))


def wait_until(holds: Callable[[], bool], turns: int = 400) -> None:
    """Give other threads time until something holds; an error if it never does."""
    for _ in range(turns):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came to hold")


def connect(server: EventServer, collector: Any) -> None:
    """Have a publisher and a collector find each other: PUB drops what nobody is subscribed to yet."""

    def is_there() -> bool:
        collector.collect(0.0)
        return bool(collector.view().connected)

    wait_until(is_there)
    threading.Event().wait(0.05)  # the subscription travels after the handshake


def block_sets(messages: Sequence[bytes]) -> dict[str, set[tuple[Any, int]]]:
    """What is resident after these payloads, worked out plainly: for each medium, hashes that were not removed."""
    resident: dict[str, set[tuple[Any, int]]] = {}
    for payload in messages:
        for event in msgspec.msgpack.decode(payload)[1]:
            if event["type"] == "AllBlocksCleared":
                resident.clear()
                continue
            blocks = {(block, event.get("group_idx") or 0) for block in event["block_hashes"]}
            there = resident.setdefault(event["medium"], set())
            if event["type"] == "BlockStored":
                there |= blocks
            else:
                there -= blocks
    return resident
