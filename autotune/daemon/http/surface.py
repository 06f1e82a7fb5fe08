"""What the server answers, as plain functions of the controller: no HTTP in here but the status of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

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
)
from autotune.daemon.http.security import HttpError
from autotune.daemon.http.trend import TrendKeeper
from autotune.daemon.status import Controller, DaemonStatus, Grade, Mode, Phase

API_VERSION = "v1"
WHO = "http"  # who gave an order, in the audit log
MAX_HISTORY = 10_000
_Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A model and the status that it is sent with."""

    model: BaseModel
    status: HTTPStatus = HTTPStatus.OK


@dataclass(frozen=True, slots=True)
class Surface:
    """The daemon, seen from outside.

    Attributes:
        controller: The daemon.
        trend: Its past.
        orders: Whether a token is set.
        reads_need_token: Whether reading needs it.
    """

    controller: Controller
    trend: TrendKeeper
    orders: bool
    reads_need_token: bool = field(default=False)

    def healthz(self, _query: _Query) -> Answer:
        """Whether the loop runs; a dead engine or old figures do not matter here."""
        phase = self.controller.status().phase
        alive = phase is not Phase.STOPPED
        return Answer(Health(alive=alive, phase=phase), HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE)

    def readyz(self, _query: _Query) -> Answer:
        """Whether the figures of at least one target are fresh."""
        ready = self.controller.ready()
        stale = tuple(_stale(self.controller.status()))
        return Answer(Readiness(ready=ready, stale=stale), HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)

    def status(self, _query: _Query) -> Answer:
        """Everything that the sidecar shows."""
        status = self.controller.status()
        self.trend.add(status)
        return Answer(status)

    def capabilities(self, _query: _Query) -> Answer:
        """What can be asked of this sidecar here."""
        status = self.controller.status()
        present = {target.grade for target in status.targets}
        return Answer(
            Capabilities(
                version=status.version,
                api=API_VERSION,
                modes=tuple(Mode),
                grades=tuple(grade for grade in Grade if grade in present),
                can_tune=Grade.TELEMETRY in present,
                orders=self.orders,
                reads_need_token=self.reads_need_token,
            )
        )

    def recommendation(self, _query: _Query) -> Answer:
        """The policy that is recommended."""
        text = self.controller.recommendation()
        return Answer(PolicyText(hash=self.controller.status().recommendation_hash if text else None, yaml=text))

    def policy(self, _query: _Query) -> Answer:
        """The policy that is published."""
        text = self.controller.policy()
        return Answer(PolicyText(hash=self.controller.status().live_hash if text else None, yaml=text))

    def history(self, query: _Query) -> Answer:
        """The last changes, with their reasons and how to undo them."""
        limit = _limit(query)
        changes = self.controller.history()
        return Answer(History(total=len(changes), changes=tuple(changes[max(0, len(changes) - limit) :])))

    def explain(self, _query: _Query) -> Answer:
        """Why the present policy and advice are what they are."""
        return Answer(Explanation(text=self.controller.explain()))

    def past(self, _query: _Query) -> Answer:
        """The past as the page draws it."""
        return Answer(self.trend.trend())

    def set_mode(self, order: ModeOrder) -> Answer:
        """Let the sidecar do more or less from the next round on."""
        self.controller.set_mode(order.mode, WHO)
        return self._done()

    def rollback(self, order: RollbackOrder) -> Answer:
        """Put the confirmed policy in force now."""
        self.controller.rollback(order.reason, WHO)
        return self._done()

    def freeze(self, _order: FreezeOrder) -> Answer:
        """Change nothing from now on; what is on trial is taken back."""
        self.controller.freeze(WHO)
        return self._done()

    def _done(self) -> Answer:
        status: DaemonStatus = self.controller.status()
        last = status.history[-1].kind if status.history else None
        return Answer(Done(mode=status.mode, live_hash=status.live_hash, last_change=last))


def _limit(query: _Query) -> int:
    text = query.get("limit", "100")
    if not (text.isascii() and text.isdecimal() and len(text) < 8 and 1 <= int(text) <= MAX_HISTORY):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"limit is a number from 1 to {MAX_HISTORY}", got=repr(text[:40]))
    return int(text)


def _stale(status: DaemonStatus) -> list[str]:
    """Sources that do not deliver, and why."""
    return [
        f"{target.url}: {source.name}: {source.error or 'nothing yet'}"
        for target in status.targets
        for source in target.sources
        if not source.ok or source.age_s is None
    ]
