from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from local_client import LocalClient
from openapi_spec_validator import OpenAPIV31SpecValidator
from showcase import ScriptedController, bare_status, busy_status
from starlette.routing import Route

from autotune.daemon.http.openapi import openapi_document
from autotune.daemon.http.pages import PAGES

DOCUMENT = openapi_document()
OPERATIONS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]


def check(answer: Any, path: str, method: str) -> None:
    """The answer is one that the document names, and its body fits the schema."""
    described = DOCUMENT["paths"][path][method]["responses"]
    assert str(answer.status_code) in described, answer.text
    media_type = answer.headers["content-type"].partition(";")[0]
    schema = described[str(answer.status_code)]["content"][media_type]["schema"]
    if media_type != "text/plain":
        whole = schema | {"components": DOCUMENT["components"]}
        assert [error.message for error in Draft202012Validator(whole).iter_errors(answer.json())] == []


def test_document_is_valid() -> None:
    """The document follows OpenAPI 3.1."""
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_document_is_served(client: LocalClient) -> None:
    """/openapi.json is the document."""
    assert client.get("/openapi.json").json() == DOCUMENT


def test_document_names_every_route(client: LocalClient) -> None:
    """Nothing is served that the document lacks, but for itself and the page, and nothing named is missing."""
    routes = {route.path for route in client.app.inner.routes if isinstance(route, Route)}
    assert routes - set(DOCUMENT["paths"]) == {"/openapi.json", *(page.path for page in PAGES)}
    assert set(DOCUMENT["paths"]) <= routes


def test_operations_are_described() -> None:
    """Every operation has a name of its own and a summary."""
    operations = [DOCUMENT["paths"][path][method] for path, method in OPERATIONS]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(operation["summary"] for operation in operations)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_answers_fit_the_document(
    path: str, method: str, client: LocalClient, controller: ScriptedController, bearer: dict[str, str]
) -> None:
    """What comes back, from a bare and from a busy daemon, with and without the token, is what the document says."""
    for status in (bare_status(), busy_status()):
        controller.shown = status
        for headers in ({}, bearer):
            for body in ({}, {"mode": "freeze"}, {"reason": "why not"}):
                arguments = {"json": body} if method == "post" else {}
                check(client.request(method, path, headers=headers, **arguments), path, method)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["mode", "reason", "x"]) | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operation=st.sampled_from(OPERATIONS),
    query=st.dictionaries(st.sampled_from(["limit", "token"]), st.text(max_size=10), max_size=2),
    body=JSON,
)
def test_whatever_comes_in_the_answer_fits(
    operation: tuple[str, str], query: dict[str, str], body: object, client: LocalClient, bearer: dict[str, str]
) -> None:
    """No query and no body brings an answer that the document does not name."""
    path, method = operation
    arguments = {"json": body} if method == "post" else {}
    check(client.request(method, path, params=query, headers=bearer, **arguments), path, method)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_failing_daemon_fits_the_document(
    path: str, method: str, client: LocalClient, controller: ScriptedController, bearer: dict[str, str]
) -> None:
    """Where the daemon cannot say its status, reads are 503 and orders 409, as the document has it."""
    controller.failing = True
    arguments = {"json": {"mode": "freeze"} if path == "/v1/mode" else {}} if method == "post" else {}
    check(client.request(method, path, headers=bearer, **arguments), path, method)
