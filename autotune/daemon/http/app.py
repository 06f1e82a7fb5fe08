"""The web application: routes from the table of endpoints, faults as problems, the page, and the past by rounds."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from autotune.core.errors import AutotuneError
from autotune.core.sidecar_settings import SidecarSettings
from autotune.core.validation import explain_error
from autotune.daemon.http.endpoints import ORDERS, READS, Access, Order, Read
from autotune.daemon.http.limits import REFUSED, Limits
from autotune.daemon.http.metrics import MetricsPage
from autotune.daemon.http.models import Problem
from autotune.daemon.http.openapi import openapi_document
from autotune.daemon.http.pages import PAGES
from autotune.daemon.http.security import Gate, HttpError
from autotune.daemon.http.surface import Answer, Surface
from autotune.daemon.http.trend import TrendKeeper
from autotune.daemon.status import Controller

_Handler = Callable[[Request], Awaitable[Response]]
KIB = 1024


def build_app(controller: Controller, settings: SidecarSettings, token: str | None) -> Limits:
    """The application of one sidecar.

    Args:
        controller: The daemon.
        settings: Its settings.
        token: What orders must carry; ``None`` = orders are refused.

    Raises:
        ConfigError: the address is not loopback, and allow_remote or the token is missing.
    """
    gate = Gate.of(settings.http, token)
    trend = TrendKeeper(settings.http.trend_points)
    surface = Surface(controller, trend, token is not None, gate.reads_need_token)
    answers: Counter[tuple[str, int]] = Counter()
    document = json.dumps(openapi_document(), ensure_ascii=False).encode("utf-8")
    metrics = MetricsPage(controller, answers)
    routes = [
        *(_route(read.path, "GET", gate, read.access, _reading(surface, read)) for read in READS),
        *(_route(order.path, "POST", gate, Access.ORDER, _ordering(surface, order)) for order in ORDERS),
        _route("/metrics", "GET", gate, Access.READ, metrics.answer),
        _route("/openapi.json", "GET", gate, Access.OPEN, _fixed(document, "application/json")),
        *(_route(page.path, "GET", gate, Access.OPEN, _fixed(page.read(), page.media_type)) for page in PAGES),
    ]
    application = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _on_http_exception, Exception: _on_fault},
        lifespan=_keeping(trend, controller, settings.collect.interval_s),
    )
    # Around everything, so that answers to faults inside have the headers, too.
    return Limits(application, settings.http.max_body_kib * KIB, answers)


def _route(path: str, method: str, gate: Gate, access: Access, handler: _Handler) -> Route:
    async def guarded(request: Request) -> Response:
        try:
            if (refused := request.scope[REFUSED]) is not None:
                raise refused
            gate.check_host(request)
            if access is Access.ORDER:
                gate.check_order(request)
            elif access is Access.READ:
                gate.check_read(request)
            return await handler(request)
        except HttpError as problem:
            return problem_response(problem.status, str(problem))
        except AutotuneError as problem:
            ordered = access is Access.ORDER
            return problem_response(HTTPStatus.CONFLICT if ordered else HTTPStatus.SERVICE_UNAVAILABLE, str(problem))

    return Route(path, guarded, methods=[method])


def _reading(surface: Surface, read: Read) -> _Handler:
    async def handler(request: Request) -> Response:
        return _json(await run_in_threadpool(read.call, surface, dict(request.query_params)))

    return handler


def _ordering(surface: Surface, order: Order) -> _Handler:
    async def handler(request: Request) -> Response:
        body = await request.body()
        try:
            model = order.body.model_validate_json(body)
        except ValidationError as problem:
            fault = explain_error(problem, order.body, AutotuneError)
            raise HttpError(HTTPStatus.BAD_REQUEST, fault.rule, got=fault.got, remedy=fault.remedy) from problem
        return _json(await run_in_threadpool(order.call, surface, model))

    return handler


def _fixed(content: bytes, media_type: str) -> _Handler:
    async def handler(_request: Request) -> Response:
        return Response(content, media_type=media_type)

    return handler


def _json(answer: Answer) -> Response:
    return Response(answer.model.model_dump_json(by_alias=True), answer.status, media_type="application/json")


def problem_response(status: int, detail: str) -> Response:
    """A fault in the form of RFC 9457."""
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else None
    return Response(problem.model_dump_json(), status, headers, media_type="application/problem+json")


async def _on_http_exception(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR
    response = problem_response(status, f"{HTTPStatus(status).phrase}; see /openapi.json for what there is")
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


async def _on_fault(_request: Request, _error: Exception) -> Response:
    # The server's log has the traceback; a caller is told nothing that it holds.
    return problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, "the sidecar failed to answer; its log says why")


def _keeping(
    trend: TrendKeeper, controller: Controller, interval_s: float
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    async def keep() -> None:
        while True:
            with suppress(AutotuneError):  # a moment that is not known leaves a gap in the picture
                trend.add(await run_in_threadpool(controller.status))
            await asyncio.sleep(interval_s)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        keeper = asyncio.create_task(keep())
        try:
            yield
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper

    return lifespan
