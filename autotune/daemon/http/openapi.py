"""The OpenAPI document, written from the table of endpoints and the models.

Source: OpenAPI Specification 3.1.1, whose schemas are JSON Schema 2020-12, which is what pydantic writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from autotune.daemon.http.endpoints import ORDERS, READS, Access, Limit, Order, Read
from autotune.daemon.http.models import Problem

_REF = "#/components/schemas/{model}"
_JSON, _PROBLEM = "application/json", "application/problem+json"
_BEARER: list[dict[str, list[str]]] = [{"token": []}]
_ORDER_FAULTS = {
    "400": "The body is not what the endpoint takes.",
    "401": "The token is missing or wrong.",
    "403": "No token is set, or the request comes from a page of another site.",
    "409": "The sidecar cannot do it now.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "421": "The name of the host is not one of this server.",
}
_READ_FAULTS = {
    "401": _ORDER_FAULTS["401"],
    "421": _ORDER_FAULTS["421"],
    "503": "It is not so, or the sidecar cannot say now.",
}


def openapi_document() -> dict[str, Any]:
    """The document as plain data."""
    paths: dict[str, dict[str, Any]] = {}
    for read in READS:
        paths.setdefault(read.path, {})["get"] = _read(read)
    for order in ORDERS:
        paths.setdefault(order.path, {})["post"] = _order(order)
    paths["/metrics"] = {"get": _metrics()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kv-autotune sidecar",
            "version": version("kv-autotune"),
            "summary": "What the sidecar beside an LLM server sees, decided and can be told to do.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _read(read: Read) -> dict[str, Any]:
    answers = {"200": _answer(read.answer, "As asked.")}
    faults = _READ_FAULTS | ({"400": "The query is out of range."} if read.query else {})
    responses = answers | _faults(faults)
    if read.may_fail:
        responses["503"]["content"][_JSON] = {"schema": _ref(read.answer)}
    open_to_all = read.access is Access.OPEN
    return {
        **_head(read.call, read.path),
        **({"parameters": [_parameter(limit) for limit in read.query]} if read.query else {}),
        "responses": responses,
        # Without a token where the server is on loopback: either of the two is enough.
        "security": [{}] if open_to_all else [{}, *_BEARER],
    }


def _order(order: Order) -> dict[str, Any]:
    return {
        **_head(order.call, order.path),
        "requestBody": {"required": True, "content": {_JSON: {"schema": _ref(order.body)}}},
        "responses": {"200": _answer(order.answer, "Done.")} | _faults(_ORDER_FAULTS),
        "security": _BEARER,
    }


def _metrics() -> dict[str, Any]:
    return {
        "operationId": "metrics",
        "summary": "The sidecar's own series, for Prometheus.",
        "responses": {
            "200": {"description": "As asked.", "content": {"text/plain": {"schema": {"type": "string"}}}},
            **_faults(_READ_FAULTS),
        },
        "security": [{}, *_BEARER],
    }


def _head(call: Callable[..., object], path: str) -> dict[str, Any]:
    return {"operationId": path.rpartition("/")[2], "summary": inspect.getdoc(call) or ""}


def _parameter(limit: Limit) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": limit.lowest, "maximum": limit.highest, "default": limit.default}
    return {"name": limit.name, "in": "query", "required": False, "description": limit.meaning, "schema": schema}


def _answer(model: type[BaseModel], meaning: str) -> dict[str, Any]:
    return {"description": meaning, "content": {_JSON: {"schema": _ref(model)}}}


def _faults(faults: dict[str, str]) -> dict[str, Any]:
    return {
        status: {"description": meaning, "content": {_PROBLEM: {"schema": _ref(Problem)}}}
        for status, meaning in sorted(faults.items())
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


def _schemas() -> dict[str, Any]:
    answers = {read.answer for read in READS} | {order.answer for order in ORDERS} | {Problem}
    wanted: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "serialization") for model in answers]
    wanted += [(order.body, "validation") for order in ORDERS]
    _, schema = models_json_schema(sorted(wanted, key=lambda pair: pair[0].__name__), ref_template=_REF)
    definitions: dict[str, Any] = schema["$defs"]
    return dict(sorted(definitions.items()))
