from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

import httpx
import pytest
from local_client import TOKEN
from showcase import ScriptedController, bare_status

from autotune.core.errors import ConfigError
from autotune.core.sidecar_settings import CollectSettings, HttpSettings, SidecarSettings
from autotune.daemon.http.server import HttpServer

HEAVY = {"numba", "sklearn", "optuna", "pyarrow", "plotly", "scipy", "pandas", "torch"}
PORT = 18_410


def wait_for_the_past(server: HttpServer) -> None:
    """Return once the server remembers a moment by itself."""
    for _ in range(1000):
        if httpx.get(f"{server.url}/v1/trend").json()["points"]:
            return
        time.sleep(0.01)
    raise AssertionError("no point of the past was kept")


def settings(**http: object) -> SidecarSettings:
    """Settings of a server on a free port that looks at the daemon often."""
    return SidecarSettings(
        collect=CollectSettings(interval_s=0.01), http=HttpSettings.model_validate({"port": 0} | http)
    )


def test_server_answers_until_it_is_stopped(controller: ScriptedController) -> None:
    """It answers on its address, keeps the past by itself, and its port is free again afterwards."""
    with HttpServer(controller, settings(port=PORT), {}) as server:
        assert server.url == f"http://127.0.0.1:{PORT}"
        assert httpx.get(f"{server.url}/healthz").json()["alive"] is True
        wait_for_the_past(server)
    socket.create_server(("127.0.0.1", PORT)).close()


def test_server_on_ipv6(controller: ScriptedController) -> None:
    """The other loopback works, its address in brackets."""
    with HttpServer(controller, settings(host="::1"), {}) as server:
        assert server.url.startswith("http://[::1]:")
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_orders_over_the_network(controller: ScriptedController) -> None:
    """The token of the environment opens, and only that."""
    with HttpServer(controller, settings(), {"KV_AUTOTUNE_HTTP_TOKEN": TOKEN}) as server:
        address = f"{server.url}/v1/freeze"
        assert httpx.post(address, json={}).status_code == 401
        assert httpx.post(address, json={}, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert controller.orders == [("freeze", "http")]


def test_taken_port_is_one_line(controller: ScriptedController) -> None:
    """A port that somebody has is an error that names it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigError, match=r"must be free; got 127\.0\.0\.1:\d+: Address already in use"),
    ):
        HttpServer(controller, settings(port=taken.getsockname()[1]), {})


def test_remote_address_is_refused_before_anything_listens(controller: ScriptedController) -> None:
    """Without flag and token no socket is opened beyond loopback."""
    with pytest.raises(ConfigError, match="loopback"):
        HttpServer(controller, settings(host="0.0.0.0"), {"KV_AUTOTUNE_HTTP_TOKEN": TOKEN})


def test_server_that_never_started_can_be_stopped(controller: ScriptedController) -> None:
    """Stopping frees the port even where nothing was started."""
    server = HttpServer(controller, settings(), {})
    port = int(server.url.rpartition(":")[2])
    server.stop()
    socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.parametrize(
    "sent", [b"\x00\xff\x16\x03\x01garbage\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 40_000]
)
def test_garbage_does_not_stop_it(sent: bytes, controller: ScriptedController) -> None:
    """What is no HTTP, or a head without end, is refused, and the next request is answered."""
    with HttpServer(controller, settings(), {}) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as connection:
            connection.sendall(sent)
            assert connection.recv(4096).startswith((b"HTTP/1.1 4", b""))
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_fault_of_the_daemon_does_not_end_the_past(controller: ScriptedController) -> None:
    """A daemon that cannot say its status for a while is remembered again as soon as it can."""
    controller.failing = True
    with HttpServer(controller, settings(), {}) as server:
        assert httpx.get(f"{server.url}/v1/status").status_code == 503
        controller.failing, controller.shown = False, bare_status()
        wait_for_the_past(server)


def test_serving_imports_nothing_heavy() -> None:
    """The server's modules bring in none of the packages that make a process large."""
    code = "import json, sys, autotune.daemon.http.server; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in json.loads(done.stdout)} & HEAVY
