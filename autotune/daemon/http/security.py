"""Who may ask for what: names of hosts, origins, the token, sizes, and the headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import Request

from autotune.core.errors import AutotuneError, ConfigError
from autotune.core.sidecar_settings import HttpSettings
from autotune.core.strict_yaml import read_text

TOKEN_VARIABLE = "KV_AUTOTUNE_HTTP_TOKEN"
MIN_TOKEN_CHARS = 16
_MAX_TOKEN_BYTES = 4096
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

HEADERS = {
    # Scripts, styles and data come from this server only; nothing inline, nothing from elsewhere, no frame around it.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class HttpError(AutotuneError):
    """A request that is refused, with the status of the answer."""

    def __init__(self, status: HTTPStatus, rule: str, *, got: object = None, remedy: str = "") -> None:
        self.status = status
        super().__init__(rule, got=got, remedy=remedy)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only; a name other than ``localhost`` counts as not."""
    name = host.removeprefix("[").removesuffix("]").lower()
    if name in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def read_token(settings: HttpSettings, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token, from its file or the environment; ``None`` = none is set.

    Raises:
        ConfigError: the file cannot be read, or the token is too short or not printable ASCII.
    """
    if settings.token_file is not None:
        token = read_text(Path(settings.token_file), ConfigError, _MAX_TOKEN_BYTES).strip()
        where = settings.token_file
    else:
        token, where = environ.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE
        if not token:
            return None
    if len(token) < MIN_TOKEN_CHARS or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(
            f"the token in {where} must be {MIN_TOKEN_CHARS} or more printable ASCII characters without spaces",
            got=f"{len(token)} characters",
            remedy="make one with: openssl rand -hex 32",
        )
    return token


def check_bind(settings: HttpSettings, token: str | None) -> None:
    """Refuse an address that others can reach, where that was not asked for or nothing protects it.

    Raises:
        ConfigError: the address is not loopback, and allow_remote or the token is missing.
    """
    if is_loopback(settings.host):
        return
    if not settings.allow_remote:
        raise ConfigError(
            "the sidecar listens on loopback unless http.allow_remote is true",
            got=settings.host,
            remedy="use 127.0.0.1, or allow it and set a token",
        )
    if token is None:
        raise ConfigError(
            "an address beyond loopback needs a token",
            got="none",
            remedy=f"set http.token_file or {TOKEN_VARIABLE}",
        )


@dataclass(frozen=True, slots=True)
class Gate:
    """What a request must bring.

    Attributes:
        token: What orders, and every request beyond loopback, must carry; ``None`` = orders are refused.
        reads_need_token: Whether reading needs it, too.
        hosts: Names under which the server may be asked; ``None`` = any, since the token stands for them.
    """

    token: str | None = field(repr=False)
    reads_need_token: bool
    hosts: frozenset[str] | None

    @classmethod
    def of(cls, settings: HttpSettings, token: str | None) -> Gate:
        """The gate of a server with these settings.

        Raises:
            ConfigError: see :func:`check_bind`.
        """
        check_bind(settings, token)
        remote = not is_loopback(settings.host)
        names = {*_LOOPBACK_NAMES, settings.host.lower(), *(name.lower() for name in settings.allowed_hosts)}
        return cls(token, remote, None if remote and not settings.allowed_hosts else frozenset(names))

    def check_host(self, request: Request) -> None:
        """Refuse a name that is not this server's: a foreign page may point a name of its own at this address.

        Raises:
            HttpError: the name is unknown.
        """
        if self.hosts is None:
            return
        name = _host_name(request.headers.get("host", ""))
        if name not in self.hosts and not is_loopback(name):
            raise HttpError(
                HTTPStatus.MISDIRECTED_REQUEST,
                "the sidecar answers under the names of loopback and those of http.allowed_hosts",
                got=repr(name[:80]),
                remedy="use 127.0.0.1, or name the host in http.allowed_hosts",
            )

    def check_read(self, request: Request) -> None:
        """Refuse to show anything where reading needs the token.

        Raises:
            HttpError: the token is needed and missing or wrong.
        """
        if self.reads_need_token:
            self._check_token(request)

    def check_order(self, request: Request) -> None:
        """Refuse an order that may come from a foreign page, or from somebody without the token.

        Raises:
            HttpError: the origin is another one, the body is not JSON, or the token is missing or wrong.
        """
        self._check_origin(request)
        self._check_token(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "an order is a JSON object",
                got=repr(kind[:80]),
                remedy="send Content-Type: application/json",
            )

    def _check_origin(self, request: Request) -> None:
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
        own = request.headers.get("host", "").lower()
        foreign = origin is not None and urlsplit(origin).netloc.lower() != own
        if foreign or site.lower() not in {"none", "same-origin"}:
            raise HttpError(
                HTTPStatus.FORBIDDEN, "orders are not taken from pages of other sites", got=repr((origin or site)[:80])
            )

    def _check_token(self, request: Request) -> None:
        if self.token is None:
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                "orders need a token, and none is set",
                remedy=f"start the sidecar with http.token_file or {TOKEN_VARIABLE}",
            )
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not _same(given.strip(), self.token):
            raise HttpError(HTTPStatus.UNAUTHORIZED, "this needs the token", remedy="send Authorization: Bearer TOKEN")


def _same(given: str, token: str) -> bool:
    """Whether two texts are equal, in a time that says nothing about where or how long they differ."""
    digests = (hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, token))
    return hmac.compare_digest(*digests)


def _host_name(header: str) -> str:
    """The name of a Host header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""
