"""Talking to a sidecar that runs: its address, its token, and the orders that its HTTP interface takes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from autotune.core.errors import ConfigError
from autotune.core.files import write_atomically
from autotune.core.signals.target import Secret
from autotune.daemon.locks import state_home

ADDRESS_FILE = "address"
TOKEN_VARIABLE = "KV_AUTOTUNE_HTTP_TOKEN"
_TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class SidecarClient:
    """One sidecar.

    Attributes:
        url: Where it answers.
        token: What orders carry; ``None`` = none is known, so orders will be refused.
    """

    url: str
    token: Secret | None

    def order(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """Send an order such as ``/v1/rollback``.

        Raises:
            ConfigError: the sidecar does not answer, or refuses.
        """
        return self._ask("POST", path, json.dumps(body).encode("utf-8"))

    def read(self, path: str) -> dict[str, Any]:
        """What it says under a path such as ``/v1/status``.

        Raises:
            ConfigError: the sidecar does not answer, or refuses.
        """
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        parts = urlsplit(self.url)
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigError(
                "a sidecar is given by its own address", got=repr(self.url), remedy="such as http://127.0.0.1:8765"
            )
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.reveal()}"
        connection = HTTPConnection(parts.hostname, parts.port or 80, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read(_MAX_ANSWER_BYTES)
        except (OSError, HTTPException) as problem:
            raise ConfigError(
                f"a sidecar must answer at {self.url}",
                got=type(problem).__name__,
                remedy="is 'kv-autotune attach' running, and is this its HTTP address rather than the engine's?",
            ) from problem
        finally:
            connection.close()
        return self._answer(response.status, text)

    def _answer(self, status: int, text: bytes) -> dict[str, Any]:
        try:
            tree = json.loads(text)
        except ValueError:
            tree = None
        if not isinstance(tree, dict):
            raise ConfigError(f"{self.url} must be a sidecar", got=f"status {status} without JSON")
        if status >= 400:
            raise ConfigError(str(tree.get("detail") or f"status {status}"))
        return tree


def note_address(state: Path, url: str) -> None:
    """Leave the address of a sidecar in its state folder, so that others find its token.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        write_atomically(state / ADDRESS_FILE, url + "\n")
    except OSError as problem:
        raise ConfigError(f"{state} must be writable", got=problem.strerror or problem) from problem


def find_client(url: str, state: Path | None, token_file: Path | None) -> SidecarClient:
    """The sidecar at an address, with the token from a file, the environment or its state folder.

    Args:
        url: Where it answers.
        state: Its state folder; one of this user's with that address if not given.
        token_file: File with the token.

    Raises:
        ConfigError: a file that was named cannot be read.
    """
    if token_file is not None:
        return SidecarClient(url, Secret.from_file(token_file))
    if os.environ.get(TOKEN_VARIABLE):
        return SidecarClient(url, Secret.from_env(TOKEN_VARIABLE))
    folder = state or _folder_of(url)
    path = None if folder is None else folder / "token"
    return SidecarClient(url, Secret.from_file(path) if path is not None and path.exists() else None)


def _folder_of(url: str) -> Path | None:
    for path in sorted(state_home().glob(f"*/{ADDRESS_FILE}")):
        try:
            if path.read_text("ascii").strip().rstrip("/") == url.rstrip("/"):
                return path.parent
        except (OSError, UnicodeDecodeError):
            continue  # another sidecar's folder, which is none of our business
    return None
