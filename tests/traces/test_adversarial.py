"""The adversarial traces do what their names say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.costs import CostProfile
from autotune.core.errors import TraceError
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.testing.streams import make_costs
from autotune.traces.adversarial import KINDS
from autotune.traces.stats import infinite_hits

COSTS: CostProfile = make_costs()


def _opened(name: str, *, seed: int = 0, **parameters: float) -> Trace:
    text = "".join(f",{key}={value:g}" for key, value in parameters.items())
    return Trace.open(f"adversarial:{name},seed={seed}{text}")


def _at_position(trace: Trace, position: int) -> npt.NDArray[np.int32]:
    """Block at a position of every prompt, such as 0 for the first."""
    return trace.block_ids[trace.block_offsets[:-1] + position]


def _hits(trace: Trace, policy: str, device_blocks: int) -> int:
    config = CacheConfig(device_blocks, device_policy=PolicySpec(policy))
    return int(simulate_cache(trace, config, COSTS).device_hit.sum())


@pytest.mark.parametrize("name", KINDS)
def test_a_seed_is_a_trace(name: str) -> None:
    """The same seed gives the same trace and hash, another seed another one."""
    one, again, other = _opened(name, seed=1), _opened(name, seed=1), _opened(name, seed=2)
    assert np.array_equal(one.arrival_s, again.arrival_s)
    assert one.provenance == again.provenance
    assert one.provenance.sha256 != other.provenance.sha256
    assert not np.array_equal(one.output_tokens, other.output_tokens)


@pytest.mark.parametrize("name", KINDS)
def test_an_id_stands_for_its_whole_prefix(name: str) -> None:
    """A block never stands behind two different blocks, nor at two depths, nor twice in a prompt."""
    trace = _opened(name)
    before: dict[int, tuple[int, int]] = {}
    for request in range(trace.n_requests):
        blocks = trace.blocks_of(request).tolist()
        assert len(set(blocks)) == len(blocks)
        for depth, (block, parent) in enumerate(zip(blocks, [-1, *blocks], strict=False)):
            assert before.setdefault(block, (depth, parent)) == (depth, parent)


@pytest.mark.parametrize("name", KINDS)
def test_there_is_something_to_learn_and_something_to_lose(name: str) -> None:
    """Many accesses are repeats, the clairvoyant beats LRU clearly, and there are enough accesses to learn from."""
    trace = _opened(name)
    assert trace.n_accesses > 50_000
    assert infinite_hits(trace) > 0.4 * trace.n_accesses
    capacity = trace.n_blocks // 20
    assert _hits(trace, "clairvoyant", capacity) > 1.2 * _hits(trace, "lru", capacity)


@given(seed=st.integers(0, 2**31 - 1), scale=st.floats(10.0, 1e5))
@settings(max_examples=10)
def test_time_scales_with_the_span(seed: int, scale: float) -> None:
    """Requests fill the span that was asked for, whatever it is."""
    for name, drawn in {"loops": {"rounds": 2}, "stopping_reuse": {"documents": 5}}.items():
        trace = _opened(name, seed=seed, span_s=float(f"{scale:g}"), **drawn)
        assert 0.7 * scale < trace.span_s < 1.3 * scale


def test_floods_never_come_back() -> None:
    """Every prompt of a flood begins with a block that no other prompt has, and arrives within its flood."""
    trace = _opened("scan_flood", floods=3, flood_requests=50, flood_s=30, requests=500, documents=20, span_s=900)
    first, counts = np.unique(_at_position(trace, 0), return_counts=True)
    once = np.isin(_at_position(trace, 0), first[counts == 1])
    assert 150 <= once.sum() <= 160  # a document may be asked for once as well
    starts_s = np.array([150.0, 450.0, 750.0]) - 5.0  # times begin with the first request
    in_flood = ((trace.arrival_s[:, None] >= starts_s) & (trace.arrival_s[:, None] < starts_s + 40.0)).any(axis=1)
    assert (once & ~in_flood).sum() <= 10


def test_regimes_switch_what_comes_back() -> None:
    """In even regimes only long prompts repeat, in odd ones only short ones."""
    trace = _opened("regime_switch", regimes=4, prompts_per_regime=40, gap_s=5, span_s=4000)
    lengths = np.diff(trace.block_offsets)
    first, index, counts = np.unique(_at_position(trace, 0), return_index=True, return_counts=True)
    assert len(first) == 4 * 2 * 40
    begun_in = (trace.arrival_s[index] // 1000.0).astype(int)
    is_long = lengths[index] == 24
    inner = np.abs(trace.arrival_s[index] % 1000.0 - 500.0) < 450.0  # times begin with the first request
    favoured = is_long == (begun_in % 2 == 0)
    assert set(counts[inner & favoured]) == {5}
    assert set(counts[inner & ~favoured]) == {1}


def test_the_trap_gives_back_what_the_lure_took() -> None:
    """Short prompts never repeat in the lure and repeat within seconds in the trap; long ones live in the lure only."""
    trace = _opened("trap", rounds=2, span_s=2000)
    lengths = np.diff(trace.block_offsets)
    within_s = (trace.arrival_s + 0.5) % 1000.0  # times begin with the first request
    in_trap = within_s > 702.0
    assert not (in_trap & (lengths == 24)).any()
    first = _at_position(trace, 0)
    uses = np.bincount(first, minlength=trace.n_blocks)[first]
    inner = (within_s > 5.0) & (within_s < 695.0)
    assert set(uses[inner & (lengths == 8)]) == {1}
    early = in_trap & (within_s < 940.0)
    assert set(uses[early]) == {5}
    assert np.median(uses[inner & (lengths == 24)]) >= 4


def test_lru_finds_nothing_in_a_loop_larger_than_the_cache() -> None:
    """A loop of 20 documents never hits under LRU with room for 19, and always hits with room for all."""
    trace = _opened("loops", loops=1, smallest=20, rounds=6, document_blocks=4)
    assert trace.n_blocks == 80
    assert _hits(trace, "lru", 76) == 0
    assert _hits(trace, "lru", 80) == 5 * 80
    assert _hits(trace, "clairvoyant", 76) > 300


def test_loops_grow() -> None:
    """Each loop has more documents than the one before, by the ratio."""
    trace = _opened("loops", loops=3, smallest=10, ratio=2, rounds=2, document_blocks=1)
    uses = np.bincount(trace.block_ids)
    assert set(uses) == {2}
    assert trace.n_blocks == 10 + 20 + 40
    assert trace.block_ids[:20].tolist() == [*range(10), *range(10)]


def test_popularity_turns_upside_down() -> None:
    """The most popular document of one period is the least popular kind of the next, and is popular again after."""
    trace = _opened("reversed_popularity", documents=40, requests=4000, periods=2)
    half = trace.arrival_s < 1800.0
    first = _at_position(trace, 0)
    earlier, later = (np.bincount(first[part], minlength=trace.n_blocks) for part in (half, ~half))
    favourite = int(np.argmax(earlier))
    assert earlier[favourite] > 5 * later[favourite]
    assert later.max() > 5 * earlier[int(np.argmax(later))]


def test_regular_reuse_stops_for_good() -> None:
    """Documents come at steady intervals, equally often, and not at all once the next generation is under way."""
    trace = _opened("stopping_reuse", generations=3, documents=10, cycles=6, jitter_frac=0.01, span_s=1800)
    first = _at_position(trace, 0)
    for document in np.unique(first):
        times_s = trace.arrival_s[first == document]
        assert len(times_s) == 6
        assert np.allclose(np.diff(times_s), 100.0, atol=1.5)
    assert len(np.unique(first)) == 30


def test_every_other_storm_falls_silent() -> None:
    """Sessions of the first storm have many turns, those of the second one only, and turns extend each other."""
    trace = _opened("session_storm", storms=2, sessions=30, trickle=1, turns=8)
    turns = np.bincount(trace.session)
    assert turns[:30].min() >= 4
    assert set(turns[30:60]) == {1}
    session = np.flatnonzero(trace.session == 0)
    for earlier, later in pairwise(session.tolist()):
        shorter = trace.blocks_of(earlier)
        assert np.array_equal(trace.blocks_of(later)[: len(shorter)], shorter)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scan_floods", "did you mean 'scan_flood'"),
        ("loops,sizes=3", "known: span_s, loops, smallest, ratio, rounds, document_blocks, seed"),
        ("loops,rounds", "parameters follow the name"),
        ("loops,rounds=many", "finite number"),
        ("loops,rounds=2.5", "integer"),
        ("loops,span_s=-1", "above 0"),
        ("loops,seed=-1", "seed must be an integer"),
        ("loops,document_blocks=1000000", "at most 50,000,000 block accesses"),
    ],
)
def test_unfit_parameters_are_refused(text: str, words: str) -> None:
    """A wrong name, parameter or value is refused in one line that says what would do."""
    with pytest.raises(TraceError, match=words):
        Trace.open(f"adversarial:{text}")


def test_two_traces_are_no_stream() -> None:
    """Only one is drawn at a time, for their blocks do not belong together."""
    with pytest.raises(TraceError, match="one at a time"):
        Trace.open(["adversarial:loops", "adversarial:scan_flood"])
