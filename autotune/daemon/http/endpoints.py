"""The table of endpoints: the routes and the OpenAPI document are both made from it, so neither can lack one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel

from autotune.daemon.http.models import (
    Capabilities,
    Done,
    Explanation,
    FreezeOrder,
    Health,
    History,
    ModeOrder,
    PolicyText,
    Readiness,
    RollbackOrder,
    Trend,
)
from autotune.daemon.http.surface import MAX_HISTORY, Answer, Surface
from autotune.daemon.status import DaemonStatus


class Access(Enum):
    """Who may use an endpoint."""

    OPEN = "open"  # tells nothing that matters: probes and the page itself
    READ = "read"  # needs the token beyond loopback
    ORDER = "order"  # needs the token always


@dataclass(frozen=True, slots=True)
class Limit:
    """A whole number in the query."""

    name: str
    lowest: int
    highest: int
    default: int
    meaning: str


@dataclass(frozen=True, slots=True)
class Read:
    """A GET that answers with a model.

    Attributes:
        path: Where it is.
        answer: Model of the answer.
        call: Makes the answer; its docstring is the endpoint's summary.
        access: Who may use it.
        may_fail: Whether 503 is one of its answers, with the same model.
        query: What its query may hold.
    """

    path: str
    answer: type[BaseModel]
    call: Callable[[Surface, Mapping[str, str]], Answer]
    access: Access = Access.READ
    may_fail: bool = False
    query: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """A POST that takes a model and answers with what came of it.

    Attributes:
        path: Where it is.
        body: Model of the body.
        call: Carries it out; its docstring is the endpoint's summary.
    """

    path: str
    body: type[BaseModel]
    call: Callable[[Surface, Any], Answer]
    answer: type[BaseModel] = Done


_LIMIT = Limit("limit", 1, MAX_HISTORY, 100, "Changes to show, the newest ones.")

READS = (
    Read("/healthz", Health, Surface.healthz, Access.OPEN, may_fail=True),
    Read("/readyz", Readiness, Surface.readyz, Access.READ, may_fail=True),
    Read("/v1/status", DaemonStatus, Surface.status),
    Read("/v1/capabilities", Capabilities, Surface.capabilities),
    Read("/v1/recommendation", PolicyText, Surface.recommendation),
    Read("/v1/policy", PolicyText, Surface.policy),
    Read("/v1/history", History, Surface.history, query=(_LIMIT,)),
    Read("/v1/explain", Explanation, Surface.explain),
    Read("/v1/trend", Trend, Surface.past),
)
ORDERS = (
    Order("/v1/mode", ModeOrder, Surface.set_mode),
    Order("/v1/rollback", RollbackOrder, Surface.rollback),
    Order("/v1/freeze", FreezeOrder, Surface.freeze),
)
