"""The document that a setting becomes: valid, the same bytes every time, and true when simulated again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.api import Policy, cost_profile, simulate
from autotune.core import policy as documents
from autotune.core.policy import LruDocument, PolicyDocument, Prices, RankDocument, ReuseStep
from autotune.core.settings import SearchSettings, Settings, SimulationSettings
from autotune.core.trace import Trace
from autotune.core.types import Admission, StoreMode, Tier, Timing
from autotune.export import render
from autotune.search.choice import Judged, Split, split_in_time
from autotune.search.problem import Problem
from autotune.search.publishing import make_document
from autotune.search.result import Interval
from autotune.search.setting import LRU_SETTING, Setting
from autotune.sim.config import CacheConfig
from autotune.sim.queueing import QueueConfig

PRICES = Prices(
    device_s_per_byte=2e-12,
    host_s_per_byte=1e-12,
    reuse=(ReuseStep(frequency_min=1.0, probability=0.25, n_samples=4),),
)
RANKED = Setting(0.25, 1.5, 20.0, 0.5, 16.0, Admission.MARGINAL)
SETTINGS = [
    pytest.param(RANKED, id="rank"),
    pytest.param(replace(RANKED, half_life_turnovers=0.0), id="nothing fades"),
    pytest.param(replace(RANKED, admission=Admission.TWO_HIT), id="two hits"),
    pytest.param(replace(LRU_SETTING, admission=Admission.TWO_HIT), id="two hits and lru"),
    pytest.param(replace(RANKED, admission=Admission.ALL, min_load_tokens=1500), id="short loads recomputed"),
    pytest.param(replace(RANKED, chunk_blocks=4), id="chunks"),
    pytest.param(replace(RANKED, resident_frac=0.4), id="another split"),
    pytest.param(LRU_SETTING, id="lru"),
    pytest.param(replace(LRU_SETTING, min_load_tokens=1500), id="lru, short loads recomputed"),
    pytest.param(replace(LRU_SETTING, chunk_blocks=2), id="lru, chunks"),
]


def document_of(split: Split, judged: Judged, settings: Settings | None = None) -> PolicyDocument:
    """The document of a judged setting, with prices made up and a gap closed by 0.3."""
    judged = replace(judged, gain_frac=Interval(0.05, 0.01, 0.08))
    lru = split.judge(LRU_SETTING).evaluation
    return make_document(split, judged, lru, 0.3, PRICES, cost_profile()[0], settings or Settings(), 10)


@pytest.fixture(scope="module")
def document(split: Split) -> PolicyDocument:
    """The document of a rank rule on the host."""
    return document_of(split, split.judge(RANKED))


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_document_reads_back_as_written(setting: Setting, split: Split) -> None:
    """Every setting becomes a valid document, and YAML and back is the same one."""
    document = document_of(split, split.judge(setting))
    assert documents.parse(render(document)) == document


@pytest.mark.parametrize("setting", SETTINGS)
def test_simulating_the_policy_gives_what_it_promises(setting: Setting, split: Split) -> None:
    """The file, read back and simulated on the whole trace, costs and saves on the held-out part what it says."""
    judged = split.judge(setting)
    policy = Policy(documents.parse(render(document_of(split, judged))))
    again = simulate(split.whole.trace, policy, measure_from_s=split.fit_until_s)
    expected = policy.document.expectation
    assert expected is not None
    assert again.measured == split.held_out
    assert again.totals.cost_s == expected.cost_policy_s
    assert again.totals.net_seconds_saved == expected.net_seconds_saved_policy
    assert again.cache.config == judged.engine


@pytest.mark.parametrize("timing", Timing)
@pytest.mark.parametrize("store", StoreMode)
def test_every_mode_is_published(store: StoreMode, timing: Timing, with_host: Problem) -> None:
    """Store mode, timing and full blocks of the engine stand in the document, and simulate to its figures."""
    engine = replace(with_host.engine, store_mode=store, timing=timing, full_blocks=True)
    split = split_in_time(replace(with_host, trace=with_host.trace.slice(0, 500), engine=engine), 0.6)
    document = document_of(split, split.judge(RANKED))
    assert document.provenance is not None
    assert document.expectation is not None
    facts = document.provenance.simulation
    assert (facts.timing, facts.full_blocks) == (timing, True)
    assert document.tiers.host is not None
    assert document.tiers.host.store_mode is store
    again = simulate(
        split.whole.trace, Policy(document), timing=timing, full_blocks=True, measure_from_s=split.fit_until_s
    )
    assert again.totals.cost_s == document.expectation.cost_policy_s


def test_a_device_alone_is_published(device_only: Problem) -> None:
    """Without a host the rank rule governs the device, and there is no rule for what does not exist."""
    split = split_in_time(device_only, 0.6)
    document = document_of(split, split.judge(RANKED))
    assert document.tiers.device.policy == "rank"
    assert document.tiers.host is None
    assert document.rank is not None
    assert document.rank.host is None
    assert document.expectation is not None
    again = simulate(split.whole.trace, Policy(document), measure_from_s=split.fit_until_s)
    assert again.totals.cost_s == document.expectation.cost_policy_s


def test_a_disk_is_published(with_host: Problem) -> None:
    """A disk below the host keeps LRU and its bytes."""
    split = split_in_time(replace(with_host, engine=CacheConfig(100, 300, 1000)), 0.6)
    document = document_of(split, split.judge(RANKED))
    assert document.tiers.disk is not None
    assert document.tiers.disk.policy == "lru"
    assert document.expectation is not None
    again = simulate(split.whole.trace, Policy(document), measure_from_s=split.fit_until_s)
    assert again.totals.disk_hit_blocks > 0
    assert again.totals.cost_s == document.expectation.cost_policy_s


def test_the_same_run_gives_the_same_bytes(split: Split, document: PolicyDocument) -> None:
    """Judging and publishing once more writes the same text."""
    assert render(document_of(split, split.judge(RANKED))) == render(document)


@pytest.mark.parametrize("setting", [LRU_SETTING, replace(LRU_SETTING, min_load_tokens=1500)])
def test_lru_gives_a_document_of_kind_lru(setting: Setting, split: Split) -> None:
    """LRU is published as LRU, with no knobs, also where another knob than the rank's was turned."""
    document = document_of(split, split.judge(setting))
    assert isinstance(document, LruDocument)
    assert document.kind == "lru"
    assert document.tiers.host is not None
    assert (document.tiers.host.policy, document.tiers.host.admission) == ("lru", Admission.ALL)
    assert document.tiers.host.min_load_tokens == setting.min_load_tokens


def test_rank_gives_its_knobs(split: Split, document: PolicyDocument) -> None:
    """The knobs are those of the setting, and a turnover is that of LRU on the past."""
    assert isinstance(document, RankDocument)
    knobs = document.rank.host
    assert knobs is not None
    assert document.rank.device is None
    assert (knobs.lambda_recency, knobs.tau_turnovers, knobs.half_life_turnovers) == (0.25, 1.5, 20.0)
    assert (knobs.cost_weight, knobs.ghost_ratio) == (0.5, 16.0)
    assert knobs.turnover_s == split.past.turnover_s()
    assert documents.policy_spec(document, Tier.HOST) == split.judge(RANKED).engine.host_policy


def test_budgets_are_bytes(document: PolicyDocument) -> None:
    """300 and 1,500 blocks of 512 tokens with 131,072 bytes each."""
    assert document.budgets.device_bytes == 300 * 512 * 131_072
    assert document.budgets.host_bytes == 1500 * 512 * 131_072
    assert document.budgets.disk_bytes == 0


def test_another_split_moves_bytes_and_names_the_baselines(split: Split) -> None:
    """With 40 % on the device the budgets add up to the same, and the baseline's device stays on record."""
    document = document_of(split, split.judge(replace(RANKED, resident_frac=0.4)))
    block_bytes = 512 * 131_072
    assert document.budgets.device_bytes == 720 * block_bytes
    assert document.budgets.host_bytes == 1080 * block_bytes
    assert document.provenance is not None
    assert document.provenance.simulation.baseline_device_blocks == 300


def test_the_promise_compares_with_lru(split: Split, document: PolicyDocument) -> None:
    """The baseline's figures are those of LRU on the held-out part, and the bounds are the judged gain's."""
    lru = split.judge(LRU_SETTING).evaluation.totals
    promise = document.expectation
    assert promise is not None
    assert (promise.cost_baseline_s, promise.net_seconds_saved_baseline) == (lru.cost_s, lru.net_seconds_saved)
    assert (promise.gain_frac.value, promise.gain_frac.low, promise.gain_frac.high) == (0.05, 0.01, 0.08)
    assert promise.gap_closed_frac == 0.3
    assert promise.measured_on == "the last 40 % of the trace's time, which were not tuned on"


def test_provenance_is_enough_to_run_it_again(with_host: Problem, chat: Trace) -> None:
    """Trace, seed, trials, packages, queue and the device's policy stand in the document."""
    problem = replace(with_host, queue=QueueConfig(servers=4, time_scale=2.0, prefetch_depth=3))
    split = split_in_time(problem, 0.6)
    settings = Settings(
        search=SearchSettings(seed=5, sampler="random"), simulation=SimulationSettings(device_policy="arc")
    )
    source = document_of(split, split.judge(replace(RANKED, prefetch_depth=2)), settings).provenance
    assert source is not None
    assert source.trace.sha256 == chat.provenance.sha256
    assert (source.trace.format, source.trace.paths, source.trace.n_requests) == ("sample", ("conversation",), 1500)
    assert (source.seed, source.sampler, source.trials, source.train_frac) == (5, "random", 10, 0.6)
    assert {package.name for package in source.packages} == {"python", "numpy", "numba", "optuna"}
    facts = source.simulation
    assert (facts.servers, facts.time_scale, facts.prefetch_depth) == (4, 2.0, 2)
    assert (facts.device_blocks, facts.host_blocks, facts.measure_from_frac) == (300, 1500, 0.6)
    assert facts.baseline_device_blocks is None
    assert facts.device_policy is None
    assert facts.check_break_even


def test_prices_arrive(document: PolicyDocument) -> None:
    """Prices and reuse stand in the document as they were found."""
    assert document.prices == PRICES
