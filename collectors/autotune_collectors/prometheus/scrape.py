"""Fetching a page: bounded in time, in size and in what it may unpack to; secrets go to the target and nowhere else.

Redirects are not followed and proxies of the environment are not used, so that a token reaches no other host.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass

import httpx

from autotune.core.signals import CollectError, Target
from autotune_collectors.prometheus.body import Unpacker, check_kind

_MIB = 1024**2
_MAX_ANSWER_BYTES = 256 * 1024  # of a question such as /version
_ACCEPT = "text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.5,application/json;q=0.2"


@dataclass(frozen=True, slots=True)
class ScrapeLimits:
    """What a target may take.

    Attributes:
        total_s: Seconds for the whole answer, however it trickles.
        read_s: Seconds for each part of it, connecting included.
        max_bytes: Bytes of the page, unpacked.
    """

    total_s: float = 2.0
    read_s: float = 1.0
    max_bytes: int = 16 * _MIB


class Scraper:
    """Asks one target.

    Args:
        target: Whom, and how to be let in.
        limits: What it may take.

    Raises:
        CollectError: a certificate or key cannot be used.
    """

    def __init__(self, target: Target, limits: ScrapeLimits = ScrapeLimits()) -> None:
        self._target = target
        self._limits = limits
        self._verify: ssl.SSLContext | bool = _tls(target) if target.url.startswith("https:") else False
        self._headers = {name: secret.reveal() for name, secret in target.headers.items()}
        if target.bearer is not None:
            self._headers["Authorization"] = f"Bearer {target.bearer.reveal()}"

    def page(self) -> bytes:
        """The page of metrics as bytes, unpacked.

        Raises:
            CollectError: the target does not answer in time, or with something else.
        """
        return self._ask(self._target.metrics_url, self._limits.max_bytes)

    def field(self, path: str, field: str) -> str:
        """A text in a JSON object that the target serves under a path, empty if there is none.

        Raises:
            CollectError: the target does not answer in time.
        """
        value = self.tree(path).get(field)
        return value[:40] if isinstance(value, str) and value.isprintable() else ""

    def tree(self, path: str) -> dict[str, object]:
        """The JSON object that the target serves under a path, empty if it serves something else.

        Raises:
            CollectError: the target does not answer in time.
        """
        answer = self._ask(self._target.url_of(path), _MAX_ANSWER_BYTES)
        try:
            tree = json.loads(answer)
        except (ValueError, RecursionError):
            return {}
        return tree if isinstance(tree, dict) else {}

    def _ask(self, url: str, max_bytes: int) -> bytes:
        """Must not be called where an event loop runs: it runs one of its own, whose timeout covers every byte."""
        try:
            return asyncio.run(asyncio.wait_for(self._answer(url, max_bytes), self._limits.total_s))
        except TimeoutError as problem:
            raise self._fault(f"nothing whole within {self._limits.total_s:g} s") from problem
        except httpx.TimeoutException as problem:
            raise self._fault(f"nothing for {self._limits.read_s:g} s") from problem
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as problem:
            raise self._fault(_reason(problem)) from problem

    async def _answer(self, url: str, max_bytes: int) -> bytes:
        timeout = httpx.Timeout(self._limits.read_s)
        async with (
            httpx.AsyncClient(verify=self._verify, timeout=timeout, trust_env=False) as client,
            client.stream(
                "GET", url, headers={"Accept": _ACCEPT, "Accept-Encoding": "gzip", **self._headers}
            ) as response,
        ):
            self._check_status(response.status_code)
            check_kind(response.headers.get("content-type", ""))
            unpacker = Unpacker(response.headers.get("content-encoding", ""), max_bytes)
            async for chunk in response.aiter_raw():
                unpacker.feed(chunk)
            return unpacker.finish()

    def _check_status(self, status: int) -> None:
        if status == httpx.codes.OK:
            return
        remedy = "check the address"
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            remedy = "give the API key or token, by file or environment"
        elif 300 <= status < 400:
            remedy = "give the address that it points to; redirects are not followed, for the sake of the token"
        raise CollectError(f"{self._target.name} must serve its metrics", got=f"status {status}", remedy=remedy)

    def _fault(self, got: str) -> CollectError:
        return CollectError(
            f"{self._target.name} must answer", got=got, remedy="is the engine up, and is this its port?"
        )


def _reason(problem: Exception) -> str:
    """What went wrong, without what was sent: messages of the HTTP library may quote headers."""
    names = {
        "ConnectError": "no connection",
        "RemoteProtocolError": "an answer that is no HTTP",
        "ReadError": "an answer that broke off",
        "LocalProtocolError": "a request that cannot be sent; a header is not valid",
        "UnsupportedProtocol": "another protocol than http or https",
    }
    cause = problem.__cause__ or problem.__context__
    if isinstance(cause, ssl.SSLError) or "CERTIFICATE" in str(problem):
        return "a certificate that is not trusted"
    return names.get(type(problem).__name__, type(problem).__name__)


def _tls(target: Target) -> ssl.SSLContext:
    tls = target.tls
    try:
        context = ssl.create_default_context(cafile=None if tls.ca_file is None else str(tls.ca_file))
        if not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    except (OSError, ValueError) as problem:
        raise CollectError(
            "certificates and keys are readable PEM files without a password", got=type(problem).__name__
        ) from problem
    return context


def _no_password() -> str:
    """Called for a key with a password; an empty one makes loading fail instead of asking at the terminal."""
    return ""
