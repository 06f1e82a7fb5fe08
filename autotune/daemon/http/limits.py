"""What surrounds every request: sizes, the headers of every answer, and a count of answers."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from autotune.daemon.http.security import HEADERS, HttpError

MAX_TARGET_CHARS = 2048
REFUSED = "kv_autotune.refused"  # key of the scope: why the request is refused by its head alone


class Limits:
    """The application of the server: what is too large is refused unread, and every answer has the security headers.

    Args:
        inner: What comes behind it.
        max_body_bytes: Largest body.
        answers: Counts answers by method and status.
    """

    def __init__(self, inner: Starlette, max_body_bytes: int, answers: Counter[tuple[str, int]]) -> None:
        self.inner = inner
        self._max_body_bytes = max_body_bytes
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        left_bytes = self._max_body_bytes

        async def receive_within_limit() -> Message:
            nonlocal left_bytes
            message = await receive()
            left_bytes -= len(message.get("body", b""))
            if left_bytes < 0:
                raise self._too_large()
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
                self._answers[scope["method"], message["status"]] += 1
            await send(message)

        scope[REFUSED] = self._refused(scope)
        await self.inner(scope, receive_within_limit, send_with_headers)

    def _refused(self, scope: Scope) -> HttpError | None:
        """Why a request is refused by its head alone."""
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET_CHARS:
            return HttpError(HTTPStatus.REQUEST_URI_TOO_LONG, f"an address has at most {MAX_TARGET_CHARS} characters")
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._max_body_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> HttpError:
        return HttpError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {self._max_body_bytes} bytes", got="more"
        )
