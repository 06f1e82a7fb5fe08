"""Short cases: the start of a made trace on two engines on which the loop learns and the guard lets it."""

from __future__ import annotations

import pytest

from autotune.api import cost_profile
from autotune.core.trace import Trace
from autotune.core.types import Timing
from autotune.online.settings import GuardSettings, OnlineSettings
from autotune.search.online.case import Case, Engines, cases_of
from autotune.search.online.setting import LoopSetting


@pytest.fixture(scope="session")
def engines() -> Engines:
    """A device of 2 % of the footprint and one of 3 %."""
    return Engines(((0.02, Timing.SERVICE), (0.03, Timing.INSTANT)), cost_profile()[1])


@pytest.fixture(scope="session")
def storm() -> Trace:
    """The first 900 requests of a trace on which learning pays soon: sessions that come in storms."""
    return Trace.open("adversarial:session_storm").slice(0, 900)


@pytest.fixture(scope="session")
def cases(storm: Trace, engines: Engines) -> list[Case]:
    """The part from 20 % to 80 % of the time."""
    return cases_of("storm", storm, engines, (0.2, 0.8))


@pytest.fixture(scope="session")
def base() -> OnlineSettings:
    """A guard that decides soon."""
    return OnlineSettings(guard=GuardSettings(min_period_requests=16, min_periods=1, enter_errors=0.0, enter_frac=0.0))


@pytest.fixture(scope="session")
def quick(base: OnlineSettings) -> LoopSetting:
    """A setting that learns early and with few trees."""
    return LoopSetting.of(base).model_copy(update={"trees": 15, "first_fit_requests": 60, "refit_growth": 2.0})
