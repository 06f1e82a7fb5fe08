"""A client that speaks to an application directly, as a program on the same machine would over the network."""

from __future__ import annotations

from typing import Any

import anyio
import httpx

from autotune.daemon.http.limits import Limits

LOCAL = "http://127.0.0.1:8765"
TOKEN = "correct-horse-battery-staple"


class LocalClient:
    """Sends requests without a socket; a fault of the application is an answer, as a server makes it one."""

    def __init__(self, app: Limits, base_url: str = LOCAL) -> None:
        self.app = app
        self._base_url = base_url

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """The answer to one request; arguments are those of httpx."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=self._base_url) as client:
                return await client.request(method, path, **arguments)

        return anyio.run(send)

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        """The answer to a GET."""
        return self.request("GET", path, **arguments)

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        """The answer to a POST."""
        return self.request("POST", path, **arguments)
