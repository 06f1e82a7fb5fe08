"""Where an engine is and how to be let in, with secrets that no message, log or bundle shows."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from autotune.core.errors import ConfigError
from autotune.core.strict_yaml import read_text

_MAX_SECRET_BYTES = 16_384
_LOCAL_HOSTS = frozenset({"localhost", "::1", "0.0.0.0"})
_LOCAL_NETWORK = "127."
_HEADER = re.compile(r"[A-Za-z0-9-]+")


class Secret:
    """A text that prints as stars; :meth:`reveal` is called where it is sent and nowhere else."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not text or not text.isprintable() or not text.isascii():
            raise ConfigError("a secret is one line of ASCII text", got="none, or one with other characters")
        self._text = text

    @classmethod
    def from_file(cls, path: Path) -> Secret:
        """The content of a file without the white space around it.

        Raises:
            ConfigError: the file cannot be read, or holds no single line.
        """
        return cls(read_text(path, ConfigError, _MAX_SECRET_BYTES).strip())

    @classmethod
    def from_env(cls, name: str) -> Secret:
        """The value of an environment variable.

        Raises:
            ConfigError: it is not set, or holds no single line.
        """
        if name not in os.environ:
            raise ConfigError(f"the environment variable {name} must hold a secret", got="it is not set")
        return cls(os.environ[name].strip())

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(********)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True)
class Tls:
    """How an engine proves who it is, and how we do.

    Attributes:
        ca_file: Certificates to trust instead of those of the system.
        cert_file: Certificate that we show, with its chain.
        key_file: Key of that certificate where it lies in a file of its own.
        verify: Whether the engine's certificate is checked at all.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """One server of an engine.

    Attributes:
        url: ``http`` or ``https``; without a path, ``/metrics`` is asked for.
        bearer: Sent as ``Authorization: Bearer``.
        headers: More headers, such as an API key under the name that a gateway wants.
        tls: For ``https``.
        model: Served model to read where a page shows several.

    Raises:
        ConfigError: the address is no such URL, or has credentials in it.
    """

    url: str
    bearer: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    tls: Tls = Tls()
    model: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be asked, and credentials where logs would show them; no message repeats the text."""
        remedy = "such as http://127.0.0.1:8000"
        try:
            parts = urlsplit(self.url)
            has_port = parts.port is None or parts.port > 0
        except ValueError:
            raise ConfigError("a target must be a URL", got="one with a broken host or port", remedy=remedy) from None
        if parts.username is not None or parts.password is not None:
            raise ConfigError(
                "a target's URL has no user or password in it", got="one", remedy="give a token by file or environment"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
            raise ConfigError("a target must be an http or https URL", got=f"scheme {parts.scheme!r}", remedy=remedy)
        if not self.url.isprintable() or " " in self.url:
            raise ConfigError("a target must be a URL", got="one with spaces or control characters", remedy=remedy)
        if wrong := [name for name in self.headers if not _HEADER.fullmatch(name)]:
            raise ConfigError("a header's name has letters, digits and dashes", got=repr(wrong[0][:40]))

    @property
    def name(self) -> str:
        """Address without query, fit for logs."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, as far as its address tells."""
        host = (urlsplit(self.url).hostname or "").casefold()
        return host in _LOCAL_HOSTS or host.startswith(_LOCAL_NETWORK) or host == socket.gethostname().casefold()

    @property
    def metrics_url(self) -> str:
        """Address of the page."""
        parts = urlsplit(self.url)
        path = parts.path if parts.path.strip("/") else "/metrics"
        return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))

    def url_of(self, path: str) -> str:
        """Address of another path on the same server."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, path, "", ""))
