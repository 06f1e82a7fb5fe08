from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_client import TOKEN, LocalClient
from showcase import ScriptedController

from autotune.core.errors import ConfigError
from autotune.core.sidecar_settings import HttpSettings
from autotune.daemon.http.endpoints import READS, Access
from autotune.daemon.http.pages import PAGES
from autotune.daemon.http.security import HEADERS, Gate, check_bind, is_loopback, read_token

ClientMaker = Callable[..., LocalClient]
REMOTE = HttpSettings(host="0.0.0.0", allow_remote=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_loopback_needs_nothing(host: str) -> None:
    """An address of this machine alone is taken without a token."""
    assert is_loopback(host)
    check_bind(HttpSettings(host=host), None)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "127.0.0.1.nip.io"]
)
def test_other_addresses_need_flag_and_token(host: str) -> None:
    """Any other address is refused unless it is allowed and a token is set; each refusal says what is missing."""
    with pytest.raises(ConfigError, match=r"unless http\.allow_remote is true"):
        check_bind(HttpSettings(host=host), TOKEN)
    with pytest.raises(ConfigError, match="needs a token"):
        check_bind(HttpSettings(host=host, allow_remote=True), None)
    check_bind(HttpSettings(host=host, allow_remote=True), TOKEN)


def test_token_comes_from_file_or_environment(tmp_path: Path) -> None:
    """The file has precedence over the environment, white space around it does not count, and none is none."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    environ = {"KV_AUTOTUNE_HTTP_TOKEN": "another-token-of-some-length"}
    assert read_token(HttpSettings(token_file=str(file)), environ) == TOKEN
    assert read_token(HttpSettings(), environ) == "another-token-of-some-length"
    assert read_token(HttpSettings(), {}) is None


@pytest.mark.parametrize(
    "text", ["short", "", "x" * 5000, "spaces are not for headers", "umläute-im-schlüssel", "tab\tin-the-middle"]
)
def test_weak_tokens_are_refused_unseen(text: str, tmp_path: Path) -> None:
    """A token that is too short, too long or fits no header is refused, and the message does not show it."""
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_token(HttpSettings(token_file=str(file)), {})
    assert not text or text not in str(caught.value).replace(str(file), "")


def test_token_is_never_shown(client: LocalClient) -> None:
    """Neither the text form of the gate nor any answer has the token in it."""
    assert TOKEN not in repr(Gate.of(HttpSettings(), TOKEN))
    for path in ("/v1/status", "/v1/capabilities", "/metrics", "/openapi.json", "/"):
        assert TOKEN not in client.get(path).text


@pytest.mark.parametrize(
    "given", [None, "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, "Bearer "]
)
def test_orders_need_the_token(given: str | None, client: LocalClient, controller: ScriptedController) -> None:
    """Without the very token an order is refused and nothing is done."""
    headers = {} if given is None else {"Authorization": given}
    answer = client.post("/v1/freeze", json={}, headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert controller.orders == []


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=60))
def test_no_other_token_opens(client: LocalClient, given: str) -> None:
    """No text but the token itself is taken for it, whatever its characters."""
    header = f"Bearer {given}".encode("latin-1")
    answer = client.post("/v1/freeze", json={}, headers={b"Authorization": header})
    assert (answer.status_code == 200) == (given.strip() == TOKEN)


def test_tokens_are_compared_in_constant_time(
    client: LocalClient, monkeypatch: pytest.MonkeyPatch, bearer: dict[str, str]
) -> None:
    """The comparison is that of hmac, on texts of one length whatever was given."""
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def watched(first: bytes, second: bytes) -> bool:
        compared.append((len(first), len(second)))
        return compare(first, second)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    client.post("/v1/freeze", json={}, headers=bearer)
    client.post("/v1/freeze", json={}, headers={"Authorization": "Bearer x"})
    assert compared == [(32, 32), (32, 32)]


def test_without_a_token_orders_are_refused(make_client: ClientMaker, controller: ScriptedController) -> None:
    """Where no token is set no order is taken, not even one with an empty token."""
    client = make_client(token=None)
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer None"}):
        assert client.post("/v1/freeze", json={}, headers=headers).status_code == 403
    assert controller.orders == []
    assert client.get("/v1/status").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_foreign_pages_cannot_order(
    headers: dict[str, str], status: int, client: LocalClient, controller: ScriptedController, bearer: dict[str, str]
) -> None:
    """What a page of another site or a plain form can send is refused even with the token; the own page may."""
    sent = {"Content-Type": "application/json"} | headers | bearer
    assert client.post("/v1/freeze", content=b"{}", headers=sent).status_code == status
    assert len(controller.orders) == (status == 200)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 200),
        ("localhost", 200),
        ("[::1]:8765", 200),
        ("dashboard.example:8765", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_names_of_others_are_refused(host: str, status: int, make_client: ClientMaker) -> None:
    """A name that somebody else pointed at this address shows nothing; named hosts do."""
    client = make_client(HttpSettings(allowed_hosts=("Dashboard.example",)))
    assert client.get("/v1/status", headers={"Host": host}).status_code == status


def test_reading_from_afar_needs_the_token(make_client: ClientMaker, bearer: dict[str, str]) -> None:
    """Beyond loopback nothing is shown without the token but the page's own files and that the loop runs."""
    client = make_client(REMOTE, base_url="http://10.0.0.5:8765")
    for read in READS:
        expected = 200 if read.access is Access.OPEN else 401
        assert client.get(read.path).status_code == expected, read.path
        assert client.get(read.path, headers=bearer).status_code == 200
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers=bearer).status_code == 200
    assert all(client.get(page.path).status_code == 200 for page in PAGES)


@pytest.mark.parametrize("path", ["/", "/v1/status", "/metrics", "/static/app.js", "/none", "/v1/history?limit=0"])
def test_every_answer_has_the_headers(path: str, client: LocalClient) -> None:
    """Security headers are on every answer, faults included, and nothing tells what serves them."""
    answer = client.get(path)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "server" not in answer.headers


def test_headers_are_on_internal_faults_too(client: LocalClient, controller: ScriptedController) -> None:
    """A fault inside answers with the same headers."""
    controller.shown = None  # type: ignore[assignment]
    assert client.get("/v1/status").headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


def test_policy_lets_nothing_inline_run() -> None:
    """The security policy names this server alone: nothing inline, nothing evaluated, no frames, no other host."""
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_large_bodies_are_refused_by_their_length(client: LocalClient, bearer: dict[str, str]) -> None:
    """A body that says it is too large is refused before it is read, on any path."""
    headers = bearer | {"Content-Type": "application/json", "Content-Length": str(16 * 1024 + 1)}
    assert client.post("/v1/rollback", content=b"{}", headers=headers).status_code == 413
    assert (
        client.post("/v1/rollback", content=b"{}", headers=headers | {"Content-Length": "9" * 400}).status_code == 413
    )
    assert client.post("/v1/rollback", content=b"{}", headers=headers | {"Content-Length": "-1"}).status_code == 413


def test_large_bodies_are_refused_while_they_come(
    client: LocalClient, controller: ScriptedController, bearer: dict[str, str]
) -> None:
    """A body without a length is read no further than the limit."""
    taken = []

    async def endless() -> AsyncIterator[bytes]:
        for number in range(10_000):
            taken.append(number)
            yield b" " * 1024

    headers = bearer | {"Content-Type": "application/json"}
    assert client.post("/v1/rollback", content=endless(), headers=headers).status_code == 413
    assert controller.orders == []
    assert len(taken) <= 18


def test_long_addresses_are_refused(client: LocalClient) -> None:
    """An address beyond the limit is refused."""
    assert client.get("/v1/history?limit=" + "1" * 3000).status_code == 414
