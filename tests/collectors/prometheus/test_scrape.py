"""Fetching a page from servers that behave, and from servers that do not."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from autotune.core.errors import ConfigError
from autotune.core.signals import CollectError, Secret, Signal, Target, Tls
from autotune.testing.clocks import ManualClock
from autotune_collectors.prometheus import PrometheusCollector, ScrapeLimits
from autotune_collectors.prometheus.scrape import Scraper

PAGE = b"vllm:prompt_tokens_total 7\nvllm:generation_tokens_total 5\n"
TLS = Path(__file__).parents[2] / "data/tls"
Answer = Callable[[BaseHTTPRequestHandler], None]
QUICK = ScrapeLimits(total_s=0.4, read_s=0.2, max_bytes=100_000)


def answer(
    body: bytes = PAGE, status: int = 200, kind: str = "text/plain; version=0.0.4; charset=utf-8", **headers: str
) -> Answer:
    """A whole answer."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return send


@contextmanager
def serving(respond: Answer, *, tls: bool = False) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server on loopback, its address, and the headers that it was sent (with the path as ``:path``)."""
    seen: list[dict[str, str]] = []
    stop = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        stopping = stop

        def do_GET(self) -> None:
            seen.append({**dict(self.headers.items()), ":path": self.path})
            try:
                respond(self)
            except OSError:
                return  # the client has gone

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "loopback.cert.pem", TLS / "loopback.key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}", seen
    finally:
        stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


def fault(respond: Answer, limits: ScrapeLimits = QUICK) -> str:
    """What a fetch from such a server fails with."""
    with serving(respond) as (url, _), pytest.raises(CollectError) as problem:
        Scraper(Target(url), limits).page()
    return str(problem.value)


def trickle(piece: bytes, head: bytes) -> Answer:
    """An answer that never stalls for long and never ends."""

    def send(handler: BaseHTTPRequestHandler) -> None:
        stop: threading.Event = handler.stopping  # type: ignore[attr-defined]
        handler.wfile.write(head)
        while not stop.wait(0.02):
            handler.wfile.write(piece)

    return send


def hang(handler: BaseHTTPRequestHandler) -> None:
    """No answer at all."""
    handler.stopping.wait(5.0)  # type: ignore[attr-defined]


def test_a_page_is_fetched_and_read() -> None:
    """The collector asks /metrics, and /version now and then, and gives a snapshot of its time."""
    with serving(answer()) as (url, seen):
        collector = PrometheusCollector(Target(url), ManualClock())
        first = collector.collect(10.0)
        second = collector.collect(15.0)
    assert first.ok
    assert first.snapshot is not None
    assert first.snapshot.value(Signal.PROMPT_TOKENS) == 7.0
    assert (first.snapshot.at_s, first.snapshot.target) == (10.0, url)
    assert second.ok
    assert [request[":path"] for request in seen] == ["/metrics", "/version", "/metrics"]


def test_the_version_is_asked_for() -> None:
    """What /version says selects the entries of that version."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        body = b'{"version": "0.32.0"}' if handler.path == "/version" else PAGE
        answer(body, kind="application/json" if handler.path == "/version" else "text/plain")(handler)

    with serving(respond) as (url, _):
        collected = PrometheusCollector(Target(url), ManualClock()).collect(1.0)
    assert collected.snapshot is not None
    assert collected.snapshot.engine.version == "0.32.0"


def test_a_failing_target_is_reported_and_not_raised() -> None:
    """A status, a page of something else and a closed port each become one line."""
    for respond, line in ((answer(b"", 503), "status 503"), (answer(b"up 1\n"), "none of them known")):
        with serving(respond) as (url, _):
            collected = PrometheusCollector(Target(url), ManualClock(), QUICK).collect(1.0)
        assert (collected.ok, collected.snapshot) == (False, None)
        assert line in (collected.error or "")
    gone = PrometheusCollector(Target(url), ManualClock(), QUICK).collect(1.0)
    assert "no connection" in (gone.error or "")


def test_secrets_go_to_the_target_and_into_no_text() -> None:
    """The token and the key are sent as headers, and neither a message nor a representation shows them."""
    with serving(answer(b"", 403)) as (url, seen):
        target = Target(url, bearer=Secret("tok-123"), headers={"X-API-Key": Secret("key-456")})
        collector = PrometheusCollector(target, ManualClock(), QUICK)
        collected = collector.collect(1.0)
    assert seen[0]["Authorization"] == "Bearer tok-123"
    assert seen[0]["X-API-Key"] == "key-456"
    assert "give the API key or token" in (collected.error or "")
    for text in (collected.error or "", repr(target), str(target.bearer)):
        assert "tok-123" not in text
        assert "key-456" not in text


def test_redirects_are_not_followed() -> None:
    """A token must not reach where a redirect points to."""
    with serving(answer()) as (other, seen):
        text = fault(answer(b"", 302, Location=f"{other}/metrics"))
    assert "redirects are not followed" in text
    assert seen == []


def test_hanging_and_trickling_answers_end() -> None:
    """Silence ends at the time of a read; a body, or a header, that trickles on ends at the total time."""
    assert "nothing for 0.2 s" in fault(hang)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    assert "nothing whole within 0.4 s" in fault(trickle(b"x", head + b"\r\n"))
    assert "nothing whole within 0.4 s" in fault(trickle(b"x", head + b"X-Long: "))


def test_size_is_bounded_while_it_comes() -> None:
    """A page beyond its limit is given up before it is whole, packed or not."""
    wide = ScrapeLimits(total_s=20.0, read_s=5.0, max_bytes=100_000)
    assert "at most 100,000 bytes" in fault(
        trickle(b"x" * 65_536, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"), wide
    )
    bomb = gzip.compress(b"0" * 50_000_000)
    assert "at most 100,000 bytes" in fault(answer(bomb, Content_Encoding="gzip"), wide)
    roomy = ScrapeLimits(total_s=20.0, read_s=5.0, max_bytes=64 * 1024**2)
    assert "unpacks to at most 200 times" in fault(answer(bomb, Content_Encoding="gzip"), roomy)


def test_gzip_is_unpacked_and_broken_gzip_refused() -> None:
    """A packed page is read; one that is cut off, or is none, is an error."""
    packed = gzip.compress(PAGE * 3)
    with serving(answer(packed, Content_Encoding="gzip")) as (url, seen):
        assert Scraper(Target(url), QUICK).page() == PAGE * 3
    assert seen[0]["Accept-Encoding"] == "gzip"
    assert "must be whole" in fault(answer(packed[:-9], Content_Encoding="gzip"))
    assert "must be gzip" in fault(answer(b"vllm:x 1\n", Content_Encoding="gzip"))
    assert "plain or packed with gzip" in fault(answer(PAGE, Content_Encoding="br"))


def test_kind_and_characters_are_checked() -> None:
    """HTML is no page of metrics, and neither is Latin-1."""
    assert "plain text; got 'text/html'" in fault(answer(b"<html>", kind="text/html; charset=utf-8"))
    assert "is UTF-8; got 'iso-8859-1'" in fault(answer(kind="text/plain; charset=iso-8859-1"))


def test_an_answer_that_is_no_http_is_one_line() -> None:
    """Another protocol on the port is said as such."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"+PONG\r\n")

    assert "no HTTP" in fault(respond)


def test_certificates_are_checked_unless_told_otherwise() -> None:
    """A certificate that nothing vouches for is refused; its own authority, or no check at all, lets it in."""
    with serving(answer(), tls=True) as (url, _):
        with pytest.raises(CollectError, match="certificate that is not trusted"):
            Scraper(Target(url), ScrapeLimits()).page()
        trusted = Target(url, tls=Tls(ca_file=TLS / "loopback.cert.pem"))
        assert Scraper(trusted, ScrapeLimits()).page() == PAGE
        assert Scraper(Target(url, tls=Tls(verify=False)), ScrapeLimits()).page() == PAGE
    with pytest.raises(CollectError, match="readable PEM files"):
        Scraper(Target(url, tls=Tls(ca_file=TLS / "SOURCE.md")), ScrapeLimits())


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("ftp://host/metrics", "http or https"),
        ("127.0.0.1:8000", "http or https"),
        ("http://user:tok-123@host", "no user or password"),
        ("http://host:99999/", "broken host or port"),
        ("http://ho st/", "spaces"),
        ("http:///metrics", "http or https"),
    ],
)
def test_addresses_that_cannot_be_asked_are_refused(url: str, rule: str) -> None:
    """The rule is named, and the address, which may hold a secret, is not repeated."""
    with pytest.raises(ConfigError, match=rule) as problem:
        Target(url)
    assert "tok-123" not in str(problem.value)


def test_a_path_of_its_own_is_kept() -> None:
    """/metrics is asked for where no path is given; names for logs have no query."""
    assert Target("http://host:1").metrics_url == "http://host:1/metrics"
    assert Target("http://host:1/prometheus/metrics?model=a").metrics_url == "http://host:1/prometheus/metrics?model=a"
    assert Target("http://host:1/prometheus/metrics?key=a").name == "http://host:1/prometheus/metrics"


def test_secrets_come_from_files_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """White space around them is dropped; what is missing or has several lines is refused without being shown."""
    (tmp_path / "token").write_text(" tok-123\n", encoding="utf-8")
    assert Secret.from_file(tmp_path / "token").reveal() == "tok-123"
    monkeypatch.setenv("ENGINE_KEY", "key-456")
    assert Secret.from_env("ENGINE_KEY").reveal() == "key-456"
    (tmp_path / "two").write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="one line of ASCII text"):
        Secret.from_file(tmp_path / "two")
    with pytest.raises(ConfigError, match="NO_SUCH_KEY must hold a secret"):
        Secret.from_env("NO_SUCH_KEY")
