"""Applications with a daemon behind them, and clients that speak to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from local_client import LOCAL, TOKEN, LocalClient
from showcase import ScriptedController, busy_status

from autotune.core.sidecar_settings import HttpSettings, SidecarSettings
from autotune.daemon.http.app import build_app

ClientMaker = Callable[..., LocalClient]


@pytest.fixture
def controller() -> ScriptedController:
    """A daemon with all that it can show."""
    return ScriptedController(busy_status())


@pytest.fixture
def make_client(controller: ScriptedController) -> ClientMaker:
    """Makes clients of applications with the settings, the token and the address that a test wants."""

    def make(http: HttpSettings | None = None, token: str | None = TOKEN, base_url: str = LOCAL) -> LocalClient:
        app = build_app(controller, SidecarSettings(http=http or HttpSettings()), token)
        return LocalClient(app, base_url)

    return make


@pytest.fixture
def client(make_client: ClientMaker) -> LocalClient:
    """A client of an application on loopback that has a token."""
    return make_client()


@pytest.fixture
def bearer() -> dict[str, str]:
    """The header that carries the token."""
    return {"Authorization": f"Bearer {TOKEN}"}
