"""The sidecar's page in headless Chromium: run by 'make test-browser'."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx
import pytest
import uvicorn
from chromium import Browser, chromium
from local_client import TOKEN
from showcase import NOON, ScriptedController, bare_status, busy_past, busy_status

from autotune.core.sidecar_settings import CollectSettings, HttpSettings, SidecarSettings
from autotune.core.types import Tier
from autotune.daemon.http.app import build_app
from autotune.daemon.http.server import HttpServer
from autotune.daemon.status import Curve, DaemonStatus, Prediction, ShadowStatus

pytestmark = pytest.mark.browser

HOSTILE = "</li><img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}\u202e&amp;"
PICTURES = {"hits", "seconds", "memory", "promises", "shadows", "timeline", "curves"}
LOW_CONTRAST = """
const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const light = (colour) => colour.slice(0, 3).map((part) => part / 255)
  .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
const behind = (node) => {
  for (let at = node; at instanceof Element; at = at.parentElement) {
    const colour = rgb(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] > 0.5) return colour;
  }
  return [255, 255, 255];
};
const found = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data.trim()).join("");
  if (!own || ["SCRIPT", "NOSCRIPT", "title"].includes(node.tagName) || !node.getClientRects().length) continue;
  const style = getComputedStyle(node);
  const ink = rgb(node instanceof SVGElement ? style.fill : style.color);
  const [high, low] = [light(ink), light(behind(node))].sort((a, b) => b - a);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < 4.5) found.push(`${own.slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return found;
"""
UNNAMED = """
const shown = (node) => node.getClientRects().length;
const unnamed = [...document.querySelectorAll("svg")].filter((node) => shown(node))
  .filter((node) => node.getAttribute("role") !== "img" || !node.getAttribute("aria-label"));
const regions = [...document.querySelectorAll("section, [role=region]")].filter((node) => shown(node))
  .filter((node) => !node.ariaLabel && !document.getElementById(node.getAttribute("aria-labelledby")));
const heads = [...document.querySelectorAll("h1, h2, h3")].filter((node) => shown(node));
const levels = heads.map((node) => +node.tagName[1]);
const jumps = levels.filter((level, index) => index && level > levels[index - 1] + 1);
return [...unnamed, ...regions, ...jumps].map((thing) => thing.outerHTML?.slice(0, 80) ?? thing);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of this file."""
    with chromium() as found:
        yield found


@pytest.fixture
def server(controller: ScriptedController) -> Iterator[HttpServer]:
    """A server of a busy daemon that looks at it once, a day ago, so that the past is what a test makes it."""
    settings = SidecarSettings(collect=CollectSettings(interval_s=3600.0), http=HttpSettings(port=0, trend_points=240))
    controller.shown = busy_status(NOON - timedelta(days=1))
    with HttpServer(controller, settings, {}) as running:
        while not httpx.get(f"{running.url}/v1/trend").json()["points"]:
            time.sleep(0.01)
        controller.shown = busy_status()
        yield running


@pytest.fixture(autouse=True)
def fresh(browser: Browser) -> None:
    """Forget what earlier tests left in the logs."""
    browser.driver.get("about:blank")
    browser.show()
    browser.complaints()
    browser.requests()


def remember(controller: ScriptedController, url: str, past: list[DaemonStatus]) -> None:
    """Let the server see a past."""
    with httpx.Client(base_url=url) as client:
        for status in past:
            controller.shown = status
            client.get("/v1/status")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_picture_is_drawn_without_complaint(
    scheme: str, browser: Browser, server: HttpServer, controller: ScriptedController
) -> None:
    """All pictures are there, neither scripts nor the security policy complain, and no other host is asked."""
    remember(controller, server.url, busy_past())
    browser.show(scheme)
    browser.open(server.url)
    drawn = browser.run("return [...document.querySelectorAll('svg')].map((node) => node.parentElement.id)")
    assert set(drawn) >= PICTURES
    assert browser.complaints() == []
    asked = browser.requests()
    assert asked
    assert all(address.startswith(server.url) for address in asked)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read(scheme: str, browser: Browser, server: HttpServer, controller: ScriptedController) -> None:
    """Every word stands out from what is behind it by 4.5 to 1 or more (WCAG 2.2, 1.4.3)."""
    remember(controller, server.url, busy_past(points=4))
    browser.show(scheme)
    browser.open(server.url)
    assert browser.run(LOW_CONTRAST) == []


def test_everything_has_a_name(browser: Browser, server: HttpServer) -> None:
    """Pictures are images with words, regions are labelled, and headings leave no level out."""
    browser.open(server.url)
    assert browser.run(UNNAMED) == []
    assert browser.run("return document.documentElement.lang") == "en"


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
@pytest.mark.parametrize("status", [bare_status(), busy_status()], ids=["bare", "busy"])
def test_page_fits_any_width(
    width: int, status: DaemonStatus, browser: Browser, server: HttpServer, controller: ScriptedController
) -> None:
    """From a small phone to a wide screen nothing sticks out to the side."""
    controller.shown = status
    browser.show(width=width)
    browser.open(server.url)
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_figures_are_those_of_the_status(browser: Browser, server: HttpServer, controller: ScriptedController) -> None:
    """What the page says is what the status says, in the units that people read."""
    controller.shown = busy_status().model_copy(
        update={"predictions": (Prediction(signal="ttft_p95_s", predicted=1.0, low=0.9, high=1.1, observed=1.25),)}
    )
    browser.open(server.url)
    words = " ".join(browser.text().replace("\xa0", " ").split())
    assert controller.shown.verdict.text in words
    for expected in (
        "mode auto",
        "a policy is on trial",
        "Against plain LRU 2.7 min more saved than LRU would have",
        "Promises kept 0 of 1",
        "TTFT p95 rose by 19 % (95 %: 12 to 27 %); at most 10 % are put up with",
        "expected gain 3 to 9 %",
        "http://10.0.0.12:8000 hashes blocks with another seed",
        "no cgroup is mounted",
        "412 tokens 350 to 505 tokens 9,120 4 s",
    ):
        assert expected in words
    pictures = browser.run("return [...document.querySelectorAll('svg')].map((n) => n.getAttribute('aria-label'))")
    assert any("promised 1\xa0s, came 1.25\xa0s, outside" in label for label in pictures)
    assert any("Recompute: 412\xa0ms/s" in label for label in pictures)


def test_nothing_known_is_said_so(browser: Browser, server: HttpServer, controller: ScriptedController) -> None:
    """Before anything was collected the page says so, and shows neither zeros nor traces of code."""
    controller.shown = bare_status()
    browser.open(server.url)
    words = browser.text()
    assert "Nothing was changed" in words
    assert "not measured yet" in words
    assert "0 %" not in words.replace("\xa0", " ")
    assert not [trace for trace in ("NaN", "undefined", "null", "Infinity", "[object") if trace in words]
    assert browser.complaints() == []


def test_odd_figures_leave_no_traces(browser: Browser, server: HttpServer, controller: ScriptedController) -> None:
    """Zeros, tiny and huge figures, single points and unknown parts are drawn without traces of code."""
    odd = busy_status()
    device = odd.tiers[0].model_copy(update={"hit_frac": 0.0, "used_bytes": 0, "capacity_bytes": 0})
    disk = odd.tiers[1].model_copy(update={"tier": Tier.DISK, "hit_frac": None, "used_bytes": None})
    controller.shown = odd.model_copy(
        update={
            "tiers": (device, disk),
            "curves": (
                Curve(name="flat", ages_s=(5.0,), values=(0.0,)),
                Curve(name="none", ages_s=(), values=()),
                Curve(name="below", ages_s=(0.0, 1e-9, 1e9), values=(1.0, -2.0, -3e12)),
            ),
            "shadows": (
                ShadowStatus(name="lru", seconds=None, regret_s=None, sampled_frac=1.0),
                ShadowStatus(name="arc", seconds=0.0, regret_s=0.0, sampled_frac=1e-6),
            ),
            "predictions": (Prediction(signal="x", predicted=0.0, low=0.0, high=0.0, observed=0.0),),
        }
    )
    browser.open(server.url)
    page = browser.run("return document.body.innerText + document.querySelector('main').outerHTML")
    assert not [trace for trace in ("NaN", "undefined", "Infinity", "[object") if trace in page]
    assert browser.complaints() == []


def test_page_follows_the_status(browser: Browser, server: HttpServer, controller: ScriptedController) -> None:
    """A change of the daemon is on the page after the next beat, without loading it again."""
    browser.open(server.url)
    later = busy_status().model_copy(update={"mode": "freeze", "at": busy_past(points=1)[1].at.replace(minute=1)})
    controller.shown = DaemonStatus.model_validate_json(later.model_dump_json(by_alias=True, warnings=False))
    browser.ask_again()
    assert browser.wait("return document.getElementById('badges').innerText.includes('mode freeze')")
    assert browser.run("return document.querySelectorAll('#hits svg').length") == 1


def test_dead_sidecar_is_said_so(browser: Browser, controller: ScriptedController) -> None:
    """Where the sidecar no longer answers the page says since when, and keeps the last figures."""
    with HttpServer(controller, SidecarSettings(http=HttpSettings(port=0)), {}) as server:
        browser.open(server.url)
    browser.ask_again()
    browser.wait("return !document.getElementById('alert').hidden")
    words = browser.text()
    assert "The sidecar does not answer" in words
    assert "2.7\xa0min" in words


def test_hostile_words_stay_words(browser: Browser, server: HttpServer, controller: ScriptedController) -> None:
    """Text from outside is shown as it is: it makes no element and runs nothing."""
    status = controller.shown
    change = status.history[-1].model_copy(update={"reason": HOSTILE, "undo": HOSTILE, "from_hash": HOSTILE})
    source = status.targets[0].sources[0].model_copy(update={"name": HOSTILE, "error": HOSTILE})
    target = status.targets[0].model_copy(update={"url": HOSTILE, "model": HOSTILE, "sources": (source,)})
    controller.shown = status.model_copy(
        update={
            "history": (change,),
            "targets": (target,),
            "group": HOSTILE,
            "findings": (HOSTILE,),
            "verdict": status.verdict.model_copy(update={"text": HOSTILE}),
            "estimates": tuple(e.model_copy(update={"name": HOSTILE, "unit": HOSTILE}) for e in status.estimates),
            "shadows": tuple(s.model_copy(update={"name": HOSTILE}) for s in status.shadows),
            "curves": tuple(c.model_copy(update={"name": HOSTILE}) for c in status.curves),
        }
    )
    browser.open(server.url)
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("return document.getElementById('verdict').textContent") == HOSTILE
    assert browser.complaints() == []


@contextmanager
def guarded_server(controller: ScriptedController) -> Iterator[str]:
    """A server that shows nothing without the token, as one beyond loopback, but on loopback."""
    settings = SidecarSettings(http=HttpSettings(host="0.0.0.0", allow_remote=True))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(build_app(controller, settings, TOKEN), log_config=None)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(5.0)


def test_page_asks_for_the_token(browser: Browser, controller: ScriptedController) -> None:
    """Where reading needs the token the page asks for it, and keeps it for this window alone."""
    with guarded_server(controller) as url:
        browser.driver.get(url)
        browser.wait("return !document.getElementById('token-form').hidden")
        browser.run(f"document.getElementById('token').value = '{TOKEN}'")
        browser.run("document.querySelector('#token-form button').click()")
        browser.wait("return document.documentElement.dataset.drawn")
        assert browser.run("return document.getElementById('token-form').hidden") is True
        assert browser.run("return [document.cookie, localStorage.length, document.getElementById('token').value]") == [
            "",
            0,
            "",
        ]


def test_page_is_used_by_keyboard(browser: Browser, server: HttpServer) -> None:
    """The first stop of the keyboard is the way past the head, and tables that scroll can be reached."""
    browser.open(server.url)
    stops = "a[href], button, input, [tabindex='0']"
    first = f'return document.querySelector("{stops}").textContent'
    assert browser.run(first) == "Skip to the figures"
    assert browser.run("return [...document.querySelectorAll('.scroll')].every((node) => node.tabIndex === 0)")
