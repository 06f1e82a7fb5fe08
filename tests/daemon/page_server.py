"""A stand-in for an engine: serves a recorded page whose counters grow, and misbehaves as a test asks."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = Path(__file__).parents[1] / "data" / "metrics" / "vllm_0.32.0_offload_concurrent.prom"
_COUNTED = re.compile(r"^((?:vllm|kv_autotune)\S*_(?:total|count|sum|bucket)(?:\{.*\})?) (\S+)$", re.MULTILINE)
_CHUNK = b"# " + b"x" * 65_533 + b"\n"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Fault(Enum):
    """How an engine may misbehave."""

    NONE = "none"
    HANG = "hang"
    TRICKLE = "trickle"
    HUGE = "huge"
    BINARY = "binary"
    NO_TEXT = "no text"
    ERROR = "error"
    EMPTY = "empty"


@dataclass
class EnginePage:
    """What the server does; tests change it while it runs.

    Attributes:
        fault: How it misbehaves.
        factor: What counters of the recorded page are multiplied with; grows with every look.
        key: What must come as bearer; empty = nothing.
        asked: Headers of all requests.
        further: More lines of the page.
    """

    fault: Fault = Fault.NONE
    factor: float = 10.0
    key: str = ""
    asked: list[str] = field(default_factory=list)
    further: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)
    _text: str = field(default_factory=PAGE.read_text)

    def text(self) -> bytes:
        """The page now."""
        self.factor += 1.0
        return _COUNTED.sub(
            lambda found: f"{found[1]} {float(found[2]) * self.factor}", self._text + self.further
        ).encode()

    def restart(self) -> None:
        """Counters as of a new process."""
        self.factor = 0.0


class _Handler(BaseHTTPRequestHandler):
    page: EnginePage

    def do_GET(self) -> None:
        page = self.page
        page.asked.append(self.headers.get("Authorization", ""))
        if page.key and self.headers.get("Authorization") != f"Bearer {page.key}":
            self._send(401, b"who are you?", _TEXT)
        elif self.path != "/metrics":
            self._send(404, b"{}", "application/json")
        else:
            self._page(page)

    def _page(self, page: EnginePage) -> None:
        if page.fault is Fault.HANG:
            page.stopped.wait(30.0)
        elif page.fault is Fault.TRICKLE:
            self._stream(page, [page.text()[at : at + 1] for at in range(1000)], 0.05)
        elif page.fault is Fault.HUGE:
            self._stream(page, [_CHUNK] * 3200, 0.0)
        elif page.fault is Fault.BINARY:
            self._send(200, os.urandom(50_000), "application/octet-stream")
        elif page.fault is Fault.NO_TEXT:
            self._send(200, b"\xff\xfe\x00\x81" * 5_000, _TEXT)
        elif page.fault is Fault.ERROR:
            self._send(500, b"Internal Server Error", _TEXT)
        elif page.fault is Fault.EMPTY:
            self._send(200, b"", _TEXT)
        else:
            self._send(200, page.text(), _TEXT)

    def _stream(self, page: EnginePage, pieces: list[bytes], pause_s: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", _TEXT)
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece)
                if pause_s and page.stopped.wait(pause_s):
                    return
        except OSError:
            return  # the scraper had enough, as it should

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(page: EnginePage, port: int = 0) -> Iterator[str]:
    """Serve a page on loopback; yields its address."""
    handler = type("Handler", (_Handler,), {"page": page})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        page.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()


def wait_until(condition: object, limit_s: float = 60.0) -> None:
    """Wait for something that another process or thread does.

    Raises:
        AssertionError: it did not come.
    """
    assert callable(condition)
    end_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end_s:
            raise AssertionError("what was waited for did not come")
        time.sleep(0.02)
