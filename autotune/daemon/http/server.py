"""The server itself: uvicorn in a thread of its own, beside the loop."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping

import uvicorn

from autotune.core.errors import ConfigError
from autotune.core.sidecar_settings import HttpSettings, SidecarSettings
from autotune.daemon.http.app import build_app
from autotune.daemon.http.security import read_token
from autotune.daemon.status import Controller

_STOP_TIMEOUT_S = 5.0
_MAX_CONNECTIONS = 64
_MAX_HEAD_BYTES = 16 * 1024


class HttpServer:
    """Serves a controller until it is stopped; a context manager.

    Args:
        controller: The daemon.
        settings: Its settings.
        environ: Where the token is, if no file has it.

    Raises:
        ConfigError: the address is not loopback and not allowed, the token is not valid, or the port is taken.
    """

    def __init__(
        self, controller: Controller, settings: SidecarSettings, environ: Mapping[str, str] = os.environ
    ) -> None:
        app = build_app(controller, settings, read_token(settings.http, environ))
        self._socket = _listen(settings.http)
        self._host = settings.http.host
        config = uvicorn.Config(
            app,
            access_log=False,
            date_header=True,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            http="h11",
            lifespan="on",
            limit_concurrency=_MAX_CONNECTIONS,
            log_config=None,
            loop="asyncio",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=10,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="kv-autotune-http", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._socket.getsockname()[1]}"

    def start(self) -> None:
        """Begin to answer; the port is held since the server was made."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the answers that are under way, or give up on them, and free the port."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT_S)
        self._socket.close()

    def __enter__(self) -> HttpServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _listen(settings: HttpSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_MAX_CONNECTIONS)
    except (OSError, UnicodeError) as problem:
        raise ConfigError(
            "the sidecar's address must be free",
            got=f"{settings.host}:{settings.port}: {getattr(problem, 'strerror', None) or problem}",
            remedy="set another http.port, or stop who has it",
        ) from problem
