"""The engine is asked where it publishes its KV events, and what it says is checked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from autotune.core.clock import SystemClock
from autotune.core.signals import Target
from autotune_collectors.kv_events.collector import KvEventsCollector
from autotune_collectors.kv_events.discovery import discover

SAID = {
    "enable_kv_cache_events": True,
    "publisher": "zmq",
    "endpoint": "tcp://*:5557",
    "replay_endpoint": "tcp://*:5558",
    "buffer_steps": 10000,
    "topic": "kv@tiny",
}


@contextmanager
def engine(status: int, body: str) -> Iterator[Target]:
    """A server that says this under the path that vLLM has, and 404 elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/kv_event_sources"
            self.send_response(status if found else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode() if found else b"{}")

        def log_message(self, *args: object) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Target(f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()


def test_both_endpoints_are_found_on_the_engines_host() -> None:
    """What the engine listens on everywhere is reached where the engine is; the first rank counts."""
    with engine(200, json.dumps({"1": SAID | {"endpoint": "tcp://*:6000"}, "0": SAID})) as target:
        assert discover(target, 2.0) == ("tcp://127.0.0.1:5557", "tcp://127.0.0.1:5558")


def test_an_address_of_its_own_is_kept() -> None:
    """A socket's path is taken as it is, and without a replay endpoint there is none."""
    with engine(200, json.dumps({"0": SAID | {"endpoint": "ipc:///run/kv", "replay_endpoint": None}})) as target:
        assert discover(target, 2.0) == ("ipc:///run/kv", None)


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        "[]",
        "no JSON",
        json.dumps({"0": None}),
        json.dumps({"0": SAID | {"enable_kv_cache_events": False}}),
        json.dumps({"0": SAID | {"publisher": "null"}}),
        json.dumps({"0": SAID | {"endpoint": 5557}}),
        json.dumps({"0": SAID | {"endpoint": "x" * 300}}),
    ],
)
def test_nothing_is_followed_where_nothing_usable_is_said(body: str) -> None:
    """An engine that publishes nothing, or says something else, has no events to follow."""
    with engine(200, body) as target:
        assert discover(target, 2.0) is None
        assert KvEventsCollector.discovered(target, 2.0, SystemClock()) is None


def test_an_engine_without_that_page_is_no_fault() -> None:
    """Older engines answer 404, and one that is down does not answer."""
    with engine(404, "{}") as target:
        assert discover(target, 2.0) is None
    assert discover(target, 0.5) is None


def test_an_endpoint_that_is_no_address_is_not_followed() -> None:
    """What ZMQ would refuse is left alone instead of ending the sidecar."""
    with engine(200, json.dumps({"0": SAID | {"endpoint": "nonsense"}})) as target:
        assert KvEventsCollector.discovered(target, 2.0, SystemClock()) is None
