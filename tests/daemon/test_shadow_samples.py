"""Sampled shadows: what a sample may say, how far off it is, and that a checkpoint continues it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.access import AccessRecord
from autotune.core.errors import ConfigError
from autotune.core.eviction import PolicySpec
from autotune.core.types import StoreMode
from autotune.daemon.shadow_cache import ShadowEngine, ShadowPolicy
from autotune.daemon.shadow_sampling import HUB_CHILDREN, ChainSampler, mixed, sampled_frac
from autotune.daemon.shadow_snapshot import ShadowSnapshot, unpacked
from autotune.daemon.shadows import Shadows, ShadowSettings, observe_all
from autotune.testing.streams import make_costs

BLOCK_TOKENS = 16
COSTS = make_costs(prefill_linear_s=1e-4, prefill_quadratic_s=1e-9, load_bytes_per_s=1e6, load_latency_s=1e-4)
ENGINE = ShadowEngine(600, 2_400, BLOCK_TOKENS)
LIVE = ShadowPolicy("live")
RANK = ShadowPolicy("rank", host=PolicySpec.of("rank", lambda_recency=0.05, tau_s=50.0, ghost_ratio=4.0))
WHOLE = ShadowSettings(frac=1.0, max_periods=1_000, accesses_per_s=1e12, history_turnovers=1e6)


def chats(seed: int, n: int, *, epoch: int = 0, shared: int = 4) -> list[AccessRecord]:
    """Conversations behind common first blocks that go on or end; some speak three times as often as others."""
    draw, grown, records = np.random.default_rng(seed), dict[int, int](), []
    for request in range(n):
        chat = int(draw.integers(0, 40)) if draw.random() < 0.3 else 1_000 + int(draw.integers(0, 1_200))
        grown[chat] = min(grown.get(chat, 6) + 2, 40)
        own = [mixed(1_000_003 * chat + depth) for depth in range(grown[chat])]
        blocks = (*range(shared), *own)
        tokens = BLOCK_TOKENS * len(blocks) + 5
        records.append(AccessRecord(0.05 * request, epoch, request, -1, blocks, 0, tokens, None, 0, 0.0))
    return records


def test_a_sample_is_as_good_as_it_says() -> None:
    """Of samples of a half and a quarter, regret lies within 3 standard errors and 4 % of the live policy's seconds."""
    records, engine = chats(1, 4_000), ShadowEngine(2_000, 4_000, BLOCK_TOKENS)
    whole = {r.name: r for r in observe_all(Shadows(engine, COSTS, LIVE, [RANK], WHOLE), records).reports()}
    assert whole["rank"].regret_s > 0.02 * whole["live"].seconds
    for frac, salt in ((0.5, 0), (0.5, 1), (0.25, 2)):
        sample = replace(WHOLE, frac=frac, salt=salt)
        _, rank = observe_all(Shadows(engine, COSTS, LIVE, [RANK], sample), records).reports()
        off = rank.regret_s - whole["rank"].regret_s
        assert abs(off) < 0.04 * whole["live"].seconds
        assert abs(off) < 3.0 * rank.sampling_se_s
        assert abs(rank.seconds - whole["rank"].seconds) < 3.0 * rank.seconds_se


def test_the_live_policy_has_no_regret_against_itself() -> None:
    """Its own shadow differs by nothing, and no error of any kind is claimed."""
    live, twin = observe_all(Shadows(ENGINE, COSTS, LIVE, [LIVE.stock("twin")], WHOLE), chats(2, 800)).reports()
    assert live.seconds == twin.seconds
    assert (twin.regret_s, twin.regret_se_s) == (0.0, 0.0)


def test_errors_in_time_need_two_periods() -> None:
    """Within the first period nothing is known about steadiness; later it is, and only so many periods are kept."""
    settings = replace(WHOLE, period_requests=100, max_periods=5)
    shadows = observe_all(Shadows(ENGINE, COSTS, LIVE, [RANK], settings), chats(3, 100))
    assert shadows.reports()[1].regret_se_s is None
    observe_all(shadows, [replace(record, request=record.request + 100) for record in chats(4, 900)])
    report = shadows.reports()[1]
    assert (report.periods, report.requests) == (5, 500)
    assert report.period_se_s is not None
    assert report.period_se_s > 0.0


def test_conversations_stay_on_one_side() -> None:
    """Once the common prompt is known as such, all requests of a conversation fall on the same side of the sample."""
    sampler, sides = ChainSampler(0.5), dict[int, set[bool]]()
    for record in chats(5, 3_000):
        place = sampler.place(record.block_ids)
        if record.request > 200:
            sides.setdefault(record.block_ids[4], set()).add(sampler.holds(place))
    assert all(len(side) == 1 for side in sides.values())
    share = np.mean([True in side for side in sides.values()])
    assert 0.4 < share < 0.6


def test_a_lower_share_is_a_part_of_the_sample() -> None:
    """Whatever is in a sample of an eighth is in that of a half too, and a salt draws another one."""
    places = [ChainSampler(1.0).place([block]) for block in range(2_000)]
    eighth, half = ({p for p in places if ChainSampler(frac).holds(p)} for frac in (0.125, 0.5))
    assert eighth < half
    assert 150 < len(eighth) < 350
    assert ChainSampler(1.0, salt=1).place([7]) != ChainSampler(1.0).place([7])


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=6), max_size=30), st.floats(1e-3, 1.0))
def test_every_request_has_a_side(requests: list[list[int]], frac: float) -> None:
    """Whatever the blocks, a place is a number of 64 bits, and the same request at once has the same."""
    sampler = ChainSampler(frac)
    for blocks in requests:
        place = sampler.place(blocks)
        assert 0 <= place < 2**64
        assert sampler.place(blocks) == place


def test_a_block_is_shared_when_many_chains_part_in_it() -> None:
    """Up to the last child but one the first block names the chain; from then on the child does."""
    sampler = ChainSampler(1.0)
    places = [sampler.place([1, child]) for child in range(10, 10 + HUB_CHILDREN + 2)]
    assert len(set(places[: HUB_CHILDREN - 1])) == 1
    assert len(set(places[HUB_CHILDREN - 1 :])) == 3


@pytest.mark.parametrize(
    ("capacities", "frac"),
    [
        ((300, 1_200), 1.0),
        ((2_000, 8_000), 1.0),
        ((4_000, 16_000), 0.5),
        ((50_000, 500_000), 1 / 64),
        ((600, 90_000), 1.0),
    ],
)
def test_share_to_begin_with(capacities: tuple[int, int], frac: float) -> None:
    """Small caches are whole; large ones shrink to the bound, but the smallest tier keeps several hundred blocks."""
    assert sampled_frac(capacities, 512, 16_384) == frac


def test_too_many_accesses_halve_the_sample() -> None:
    """Above the bound on accesses the share falls, the ledger begins anew, and the smallest tier keeps its blocks."""
    settings = ShadowSettings(frac=1.0, least_blocks=200, accesses_per_s=100.0)
    shadows = observe_all(Shadows(ENGINE, COSTS, LIVE, [RANK], settings), chats(6, 6_000))
    assert shadows.sampled_frac == 0.25
    assert shadows.reports()[0].sampled_frac == 0.25
    assert shadows.reports()[0].requests < 6_000


def test_a_checkpoint_continues_as_if_nothing_had_happened() -> None:
    """Restored from text in the middle, shadows report to the last bit what uninterrupted ones do."""
    records = chats(7, 3_000)
    lazy = ShadowPolicy("lazy", store_mode=StoreMode.LAZY)
    settings = replace(WHOLE, frac=0.5, salt=9)
    whole = observe_all(Shadows(ENGINE, COSTS, LIVE, [RANK, lazy], settings), records)
    first = observe_all(Shadows(ENGINE, COSTS, LIVE, [RANK, lazy], settings), records[:2_000])
    text = first.snapshot().model_dump_json()
    second = Shadows.restored(ShadowSnapshot.model_validate_json(text), COSTS, settings)
    assert second.policies == first.policies
    observe_all(second, records[2_000:])
    for one, other in zip(whole.reports(), second.reports(), strict=True):
        assert other.name == one.name
        assert other == one


def test_bounded_history_restores_the_live_cache() -> None:
    """With the history that is kept by default, LRU is rebuilt exactly: it holds what its newest requests name."""
    settings = ShadowSettings(frac=1.0, accesses_per_s=1e12, max_periods=1_000)
    records = chats(8, 3_000)
    whole = observe_all(Shadows(ENGINE, COSTS, LIVE, settings=settings), records)
    first = observe_all(Shadows(ENGINE, COSTS, LIVE, settings=settings), records[:2_000])
    second = Shadows.restored(first.snapshot(), COSTS, settings)
    observe_all(second, records[2_000:])
    assert second.reports()[0].seconds == pytest.approx(whole.reports()[0].seconds, rel=0.01)
    assert len(first.snapshot().model_dump_json()) < 500_000


def test_a_candidate_that_joins_is_warm() -> None:
    """A policy that joins in the middle and equals the live one has no regret from its first request on."""
    records = chats(9, 2_000)
    shadows = observe_all(Shadows(ENGINE, COSTS, LIVE, settings=WHOLE), records[:1_000])
    shadows.follow(LIVE, [LIVE.stock("late")])
    observe_all(shadows, records[1_000:])
    late = shadows.reports()[1]
    assert late.name == "late"
    assert late.periods < len(records) // 256
    assert abs(late.regret_s) < 0.25 * late.seconds


def test_a_new_live_policy_is_what_regret_is_against() -> None:
    """After a change the former candidate is first, and its shadow goes on with its cache."""
    records = chats(10, 2_000)
    shadows = observe_all(Shadows(ENGINE, COSTS, LIVE, [RANK], WHOLE), records[:1_000])
    before = {report.name: report for report in shadows.reports()}
    shadows.follow(RANK, [LIVE])
    after = {report.name: report for report in shadows.reports()}
    assert shadows.live == "rank"
    assert next(iter(after)) == "rank"
    assert after["live"].regret_s == pytest.approx(-before["rank"].regret_s)
    assert after["rank"].seconds == before["rank"].seconds


def test_an_epoch_empties_the_caches() -> None:
    """The same requests in a new epoch find nothing of the old one, and what was counted stays."""
    records = chats(11, 300)
    one = observe_all(Shadows(ENGINE, COSTS, LIVE, settings=WHOLE), records).reports()[0]
    again = [replace(record, epoch=1) for record in records]
    both = observe_all(Shadows(ENGINE, COSTS, LIVE, settings=WHOLE), [*records, *again]).reports()[0]
    assert both.requests == 2 * one.requests
    assert both.device_hit_frac == pytest.approx(one.device_hit_frac)


def test_runs_of_one_request_are_one_request() -> None:
    """A request told in three runs, in whatever order, counts once and as a whole."""
    whole = chats(12, 1)[0]
    parts = [
        replace(whole, block_ids=whole.block_ids[low:high], first_depth_blocks=low, tokens=16 * (high - low))
        for low, high in ((4, 8), (0, 4), (8, len(whole.block_ids)))
    ]
    shadows = observe_all(Shadows(ENGINE, COSTS, LIVE, settings=WHOLE), parts)
    (report,) = shadows.reports()
    assert report.requests == 1
    assert report.seconds == pytest.approx(float(COSTS.prefill_s(16 * len(whole.block_ids))))


def test_costs_may_change() -> None:
    """Seconds are counted with the costs of their time."""
    shadows = observe_all(Shadows(ENGINE, COSTS, LIVE, settings=WHOLE), chats(13, 1))
    shadows.reprice(replace(COSTS, prefill_linear_s=2e-4, prefill_quadratic_s=2e-9))
    other = replace(chats(14, 1)[0], request=1, block_ids=(77, 78), tokens=33)
    observe_all(shadows, [other])
    first_s = float(COSTS.prefill_s(chats(13, 1)[0].tokens))
    assert shadows.reports()[0].seconds == pytest.approx(first_s + 2 * float(COSTS.prefill_s(33)))


def test_what_does_not_fit_together_is_refused() -> None:
    """Two policies of one name, and a checkpoint whose columns disagree or are no numbers, are named."""
    with pytest.raises(ConfigError, match="a name of its own"):
        Shadows(ENGINE, COSTS, LIVE, [LIVE])
    snapshot = observe_all(Shadows(ENGINE, COSTS, LIVE), chats(15, 20)).snapshot()
    torn = snapshot.model_copy(update={"history": snapshot.history.model_copy(update={"tokens": ""})})
    with pytest.raises(ConfigError, match="have one length"):
        Shadows.restored(torn, COSTS)
    with pytest.raises(ConfigError, match="base64"):
        unpacked("no numbers!")
