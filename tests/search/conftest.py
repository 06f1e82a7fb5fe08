"""A slice of real traffic as tuning problems, and evaluations with seconds that are given by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy
from sqlalchemy.engine import Engine

from autotune.api import cost_profile, tune
from autotune.core.settings import SearchSettings, Settings
from autotune.core.trace import Trace
from autotune.core.types import Admission, Tier
from autotune.search.choice import Split, split_in_time
from autotune.search.problem import Evaluation, Problem
from autotune.search.result import TuneResult
from autotune.search.setting import Setting
from autotune.sim.config import CacheConfig
from autotune.sim.queueing import QueueResult
from autotune.sim.result import CacheResult
from autotune.testing.streams import Ask, make_costs, make_trace

EvaluationOf = Callable[..., Evaluation]


@pytest.fixture(scope="session")
def chat() -> Trace:
    """The first 1,500 requests of the bundled conversation trace."""
    return Trace.open("sample:conversation").slice(0, 1500)


@pytest.fixture(scope="session")
def device_only(chat: Trace) -> Problem:
    """A device of 1,000 blocks and nothing below it."""
    return Problem(chat, CacheConfig(1000), cost_profile()[1], Tier.DEVICE)


@pytest.fixture(scope="session")
def with_host(chat: Trace) -> Problem:
    """A device of 300 blocks over a host of 1,500."""
    return Problem(chat, CacheConfig(300, 1500), cost_profile()[1], Tier.HOST)


@pytest.fixture(scope="session")
def split(with_host: Problem) -> Split:
    """The problem with a host, cut at 60 % of its time."""
    return split_in_time(with_host, 0.6)


@pytest.fixture(scope="session")
def ranked() -> Setting:
    """A setting of the rank rule that is not LRU's."""
    return Setting(lambda_recency=0.25, tau_turnovers=1.5, cost_weight=0.5, admission=Admission.MARGINAL)


@pytest.fixture(scope="session")
def ten_trials() -> Settings:
    """Settings for a short search of the rank rule alone."""
    return Settings(search=SearchSettings(trials=10, learned=False))


@pytest.fixture(scope="session")
def tuned(chat: Trace, ten_trials: Settings) -> TuneResult:
    """A tuning run on the slice with a host, in which the rank rule is chosen."""
    return tune(chat, device_blocks=300, host_blocks=1500, settings=ten_trials, trace_name="sample:conversation")


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[str]:
    """URL of an SQLite file that does not exist yet, and is not waited for until it is safe on the disk."""

    def do_not_wait(connection: Any, record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    sqlalchemy.event.listen(Engine, "connect", do_not_wait)
    yield f"sqlite:///{tmp_path}/study.db"
    sqlalchemy.event.remove(Engine, "connect", do_not_wait)


@pytest.fixture(scope="session")
def evaluation_of() -> EvaluationOf:
    """Function that makes an evaluation of seconds per request, and of latencies and stored blocks if given."""

    def make(
        cost_s: Sequence[int], ttft_s: Sequence[float] | None = None, stored_blocks: Sequence[int] | None = None
    ) -> Evaluation:
        # Nothing is found and a token takes a second, so a request costs as many seconds as it has tokens.
        trace = make_trace([Ask(float(i), [i], input_tokens=seconds) for i, seconds in enumerate(cost_s)])
        n = trace.n_requests
        none = np.zeros(n, np.int32)
        stored = none if stored_blocks is None else np.array(stored_blocks, np.int32)
        others = ("device_hit", "host_hit", "disk_hit", "stored_disk", "evicted_device", "evicted_host", "oversized")
        columns = dict.fromkeys(others, none)
        cache = CacheResult(trace, CacheConfig(1), make_costs(), stored=stored, wait_s=np.zeros(n), **columns)
        return Evaluation(cache, (0, n), None if ttft_s is None else queue_of(ttft_s))

    def queue_of(ttft_s: Sequence[float]) -> QueueResult:
        seconds = np.array(ttft_s, np.float64)
        return QueueResult(seconds, load_frac=0.5, goodput_frac=float((seconds <= 2.0).mean()), goodput_per_s=1.0)

    return make
