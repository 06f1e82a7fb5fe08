"""From the bytes of an answer to the text of a page: packing, kind and characters, all of them bounded."""

from __future__ import annotations

import json
import zlib

from autotune.core.signals import CollectError, Finding, FindingKind

_KINDS = frozenset({"", "text/plain", "application/openmetrics-text", "application/json", "application/octet-stream"})
_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii"})
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_MAX_EXPANSION = 200  # pages of metrics shrink to a twentieth


class Unpacker:
    """Takes an answer's bytes as they come and stops before they are too many.

    Args:
        encoding: What the answer says of its packing.
        max_bytes: Most bytes of the page, unpacked.

    Raises:
        CollectError: the packing is not gzip.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        if encoding.strip().lower() not in ("", "identity", "gzip", "x-gzip"):
            raise CollectError("a page is plain or packed with gzip", got=repr(encoding[:40]))
        packed = encoding.strip().lower() in ("gzip", "x-gzip")
        self._gzip = zlib.decompressobj(_GZIP_WINDOW) if packed else None
        self._max_bytes = max_bytes
        self._n_packed = 0
        self._page = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Add what came.

        Raises:
            CollectError: the page grows beyond its limit, unpacks to a suspicious size, or is broken.
        """
        self._n_packed += len(chunk)
        if self._gzip is None:
            self._page += chunk
        else:
            self._page += self._unpack(chunk)
        if len(self._page) > self._max_bytes:
            raise CollectError(
                f"a page of metrics has at most {self._max_bytes:,} bytes",
                got="more",
                remedy="ask the engine itself, not a gateway, or raise sidecar.collect.max_page_mib",
            )
        if self._gzip is not None and len(self._page) > max(_MAX_EXPANSION * self._n_packed, 1 << 20):
            raise CollectError(
                f"a packed page unpacks to at most {_MAX_EXPANSION} times its size",
                got=f"{len(self._page):,} bytes so far",
            )

    def finish(self) -> bytes:
        """The whole page.

        Raises:
            CollectError: it ended too early.
        """
        if self._gzip is not None and not self._gzip.eof:
            raise CollectError("a packed page must be whole", got="one that was cut off")
        return bytes(self._page)

    def _unpack(self, chunk: bytes) -> bytes:
        room = self._max_bytes - len(self._page) + 1
        gzip = self._gzip
        if gzip is None or gzip.eof:
            return b""
        try:
            return gzip.decompress(gzip.unconsumed_tail + chunk, room)
        except zlib.error as problem:
            raise CollectError("a packed page must be gzip", got=str(problem)[:80]) from problem


def check_kind(content_type: str) -> None:
    """Refuse an answer that is no page of metrics by its own account.

    Raises:
        CollectError: it is of another kind, or in other characters than UTF-8.
    """
    kind, _, rest = content_type.partition(";")
    if kind.strip().lower() not in _KINDS:
        raise CollectError(
            "a page of metrics is plain text",
            got=repr(kind.strip()[:60]),
            remedy="give the address of the engine's /metrics, not of a page about it",
        )
    for parameter in rest.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in _CHARSETS:
            raise CollectError("a page of metrics is UTF-8", got=repr(value.strip()[:40]))


def page_text(page: bytes) -> tuple[str, Finding | None]:
    """The text of a page, and what was odd about it.

    Raises:
        CollectError: it is no text.
    """
    try:
        text = page.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise CollectError(
            "a page of metrics is UTF-8 text",
            got=f"other bytes at offset {problem.start:,}",
            remedy="check the address",
        ) from problem
    if "\0" in text:
        raise CollectError("a page of metrics is text", got="zero bytes", remedy="check the address")
    if not text.lstrip().startswith('"'):
        return text, None
    try:  # some builds of llama.cpp send the page as one JSON string
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return text, None
    words = "the whole page is one quoted text, which is read without its quotes"
    return str(inner), Finding(FindingKind.MALFORMED, "page", words, "take a newer version of the engine")
