from __future__ import annotations

from typing import Any

import pytest
from local_client import LocalClient
from showcase import ScriptedController, bare_status, busy_status

from autotune.daemon.http.endpoints import ORDERS, READS
from autotune.daemon.http.pages import PAGES
from autotune.daemon.status import DaemonStatus, Grade, Mode, Phase

BODIES: dict[str, dict[str, Any]] = {
    "/v1/mode": {"mode": "observe"},
    "/v1/rollback": {"reason": "it feels slow"},
    "/v1/freeze": {},
}


@pytest.mark.parametrize("path", [read.path for read in READS])
@pytest.mark.parametrize("status", [bare_status(), busy_status()], ids=["bare", "busy"])
def test_reads_answer_with_their_model(
    path: str, status: DaemonStatus, client: LocalClient, controller: ScriptedController
) -> None:
    """Every GET answers with the model that the table names, whether much or nothing is known."""
    controller.shown = status
    (read,) = [read for read in READS if read.path == path]
    answer = client.get(path)
    assert answer.status_code == 200
    assert read.answer.model_validate_json(answer.content).model_dump_json(by_alias=True) == answer.text


@pytest.mark.parametrize("order", ORDERS, ids=[order.path for order in ORDERS])
def test_orders_answer_with_their_model(order: Any, client: LocalClient, bearer: dict[str, str]) -> None:
    """Every POST takes its body and says what came of it."""
    answer = client.post(order.path, json=BODIES[order.path], headers=bearer)
    assert answer.status_code == 200
    assert order.answer.model_validate_json(answer.content)


def test_status_is_the_controllers(client: LocalClient, controller: ScriptedController) -> None:
    """/v1/status is what the controller says, to the last figure."""
    assert DaemonStatus.model_validate_json(client.get("/v1/status").content) == controller.shown


def test_dead_target_does_not_kill_liveness(client: LocalClient, controller: ScriptedController) -> None:
    """With every engine dead and all figures old the sidecar is alive and not ready, and says which source fails."""
    controller.shown, controller.is_ready = bare_status(), False
    assert client.get("/healthz").status_code == 200
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (503, False)
    assert answer.json()["stale"] == ["http://127.0.0.1:8000: prometheus: refused"]


def test_stopped_loop_is_not_alive(client: LocalClient, controller: ScriptedController) -> None:
    """A loop that has stopped is no longer alive."""
    controller.shown = bare_status().model_copy(update={"phase": Phase.STOPPED})
    assert client.get("/healthz").status_code == 503


def test_capabilities_follow_the_evidence(client: LocalClient, controller: ScriptedController) -> None:
    """Policies can be tuned on telemetry only."""
    assert client.get("/v1/capabilities").json()["can_tune"] is True
    target = controller.shown.targets[0].model_copy(update={"grade": Grade.EVENTS_ONLY})
    controller.shown = controller.shown.model_copy(update={"targets": (target,)})
    found = client.get("/v1/capabilities").json()
    assert (found["can_tune"], found["grades"], found["orders"]) == (False, ["events_only"], True)


def test_policies_are_null_where_there_are_none(client: LocalClient, controller: ScriptedController) -> None:
    """A policy comes with its hash, and nothing published is null, not an error."""
    assert client.get("/v1/policy").json()["hash"] == controller.shown.live_hash
    controller.shown = bare_status()
    for path in ("/v1/policy", "/v1/recommendation"):
        assert client.get(path).json() == {"hash": None, "yaml": None}


def test_history_shows_the_newest(client: LocalClient, controller: ScriptedController) -> None:
    """A limit cuts the oldest changes off, and the total says so."""
    found = client.get("/v1/history?limit=2").json()
    assert found["total"] == 7
    assert [change["reason"] for change in found["changes"]] == [c.reason for c in controller.shown.history[-2:]]


@pytest.mark.parametrize("limit", ["0", "-1", "10001", "x", "", "1e3", "٣", "99999999999999999999"])
def test_limit_out_of_range_is_refused(limit: str, client: LocalClient) -> None:
    """A limit that is no number of the range is one line with the rule."""
    answer = client.get("/v1/history", params={"limit": limit})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"].startswith("limit is a number from 1 to 10000; got ")


def test_orders_reach_the_controller(
    client: LocalClient, controller: ScriptedController, bearer: dict[str, str]
) -> None:
    """Each order is carried out once, signed with where it came from, and its answer shows what it did."""
    assert client.post("/v1/mode", json={"mode": "recommend"}, headers=bearer).json()["mode"] == "recommend"
    done = client.post("/v1/rollback", json={"reason": "too slow"}, headers=bearer).json()
    assert (done["live_hash"], done["last_change"]) == (controller.shown.confirmed_hash, "rolled_back")
    assert client.post("/v1/freeze", json={}, headers=bearer).json()["mode"] == "freeze"
    assert controller.orders == [("mode recommend", "http"), ("rollback too slow", "http"), ("freeze", "http")]


def test_order_that_cannot_be_done_says_why(
    client: LocalClient, controller: ScriptedController, bearer: dict[str, str]
) -> None:
    """What the controller refuses comes back with rule and remedy, and nothing changed."""
    controller.shown = bare_status()
    answer = client.post("/v1/mode", json={"mode": "auto"}, headers=bearer)
    assert answer.status_code == 409
    assert answer.json()["detail"] == "the mode auto needs a policy file to publish to; got none; give --policy"
    assert controller.shown.mode is Mode.OBSERVE


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/mode", b'{"mode": "wild"}', "mode must be one of"),
        ("/v1/mode", b'{"mdoe": "auto"}', "did you mean 'mode'"),
        ("/v1/mode", b"[]", "must be a"),
        ("/v1/mode", b"{", "JSON"),
        ("/v1/mode", b"\xff\xfe", "JSON"),
        ("/v1/rollback", b'{"reason": ""}', "at least 1 character"),
        ("/v1/rollback", b'{"reason": "' + b"x" * 201 + b'"}', "at most 200 characters"),
        ("/v1/freeze", b'{"now": true}', "now is not a known name"),
    ],
)
def test_bad_bodies_are_refused(
    path: str,
    body: bytes,
    message: str,
    client: LocalClient,
    controller: ScriptedController,
    bearer: dict[str, str],
) -> None:
    """A body that is not what the order takes is one line with the rule, and nothing is done."""
    answer = client.post(path, content=body, headers=bearer | {"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert message in answer.json()["detail"]
    assert controller.orders == []


def test_trend_remembers_each_moment_once(client: LocalClient, controller: ScriptedController) -> None:
    """The past has one point per moment, however often it is asked for."""
    for _ in range(3):
        client.get("/v1/status")
    points = client.get("/v1/trend").json()["points"]
    assert len(points) == 1
    assert points[0]["hit_fracs"][0] == [0, controller.shown.tiers[0].hit_frac]
    assert points[0]["lru_regret_s"] == -161.5


@pytest.mark.parametrize("page", PAGES, ids=[page.path for page in PAGES])
def test_page_files_are_served(page: Any, client: LocalClient) -> None:
    """Every file of the page comes as what it is."""
    answer = client.get(page.path)
    assert (answer.status_code, answer.content) == (200, page.read())
    assert answer.headers["content-type"].startswith(page.media_type)


def test_unknown_paths_and_methods_are_problems(client: LocalClient) -> None:
    """What is not there is 404 and what cannot be done there 405, in the form of every fault."""
    assert client.get("/v1/nothing").json()["status"] == 404
    answer = client.request("DELETE", "/v1/status")
    assert (answer.status_code, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


def test_fault_of_the_daemon_tells_nothing(client: LocalClient, controller: ScriptedController) -> None:
    """A fault inside is 500 without what it was about; the log has that."""
    controller.shown = None  # type: ignore[assignment]
    answer = client.get("/v1/status")
    assert answer.status_code == 500
    assert "NoneType" not in answer.text
