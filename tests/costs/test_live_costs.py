"""Costs of a running engine from its records: one interface with the table, and evidence beside every figure."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.access import AccessRecord
from autotune.core.break_even import break_even_tokens
from autotune.core.telemetry.segments import read_segments, read_transfers
from autotune.core.telemetry.wire import Direction, TransferRecord
from autotune.core.types import Tier
from autotune.costs import load_hardware, profile
from autotune.costs.exposed_wait import ExposedWait, PreemptionCost
from autotune.costs.live import LiveCosts, LiveSettings
from autotune.costs.model import CostModel, TableCosts, break_even, first_length
from autotune.geometry import load_model
from autotune.testing.streams import make_costs

MODEL, MACHINE = load_model("llama-3.1-8b"), load_hardware("h100-sxm")
TABLE = profile(MODEL, MACHINE)
TRUTH = replace(
    TABLE,
    prefill_linear_s=9e-5,
    prefill_quadratic_s=4e-9,
    load_bytes_per_s=20e9,
    load_latency_s=60e-6,
    store_bytes_per_s=9e9,
)
BLOCK_TOKENS = 16


def computed_run(at_s: float, request: int, first: int, tokens: int, seconds: float, epoch: int = 0) -> AccessRecord:
    """A run that was computed after ``first`` blocks that were found."""
    blocks = tuple(range(1_000 * request + first, 1_000 * request + first + tokens // BLOCK_TOKENS))
    return AccessRecord(at_s, epoch, request, request, blocks, first, tokens, None, 0, seconds)


def fed(n: int, seed: int = 1) -> LiveCosts:
    """Costs after ``n`` requests and copies of a machine that is slower than its table."""
    costs = LiveCosts(TableCosts(TABLE), BLOCK_TOKENS)
    costs.begin_epoch(0, 1_000.0)
    draw = np.random.default_rng(seed)
    for request in range(n):
        first, n_blocks = int(draw.integers(0, 200)), int(draw.integers(2, 300))
        start, end = first * BLOCK_TOKENS, (first + n_blocks) * BLOCK_TOKENS
        seconds = float((TRUTH.prefill_s(end) - TRUTH.prefill_s(start)) * np.exp(0.1 * draw.standard_normal()))
        costs.access(computed_run(float(request), request, first, n_blocks * BLOCK_TOKENS, seconds))
        size = int(2.0 ** draw.uniform(18, 27))
        for way, speed in ((Direction.LOAD, 20e9), (Direction.STORE, 9e9)):
            taken = (60e-6 + size / speed) * float(np.exp(0.1 * draw.standard_normal()))
            costs.transfer(TransferRecord(float(request), 0, way, size, taken))
    return costs


def named(costs: CostModel, now_s: float) -> dict[str, float]:
    """Values of all estimates."""
    return {estimate.name: estimate.value for estimate in costs.estimates(now_s)}


def test_the_machine_is_found_through_its_records() -> None:
    """From 400 requests and copies the profile is that of the machine, and says what it rests on."""
    costs = fed(400)
    found = costs.profile()
    assert found.prefill_linear_s == pytest.approx(TRUTH.prefill_linear_s, rel=0.05)
    assert found.prefill_quadratic_s == pytest.approx(TRUTH.prefill_quadratic_s, rel=0.25)
    assert found.load_bytes_per_s == pytest.approx(20e9, rel=0.05)
    assert found.store_bytes_per_s == pytest.approx(9e9, rel=0.05)
    assert found.load_latency_s == pytest.approx(60e-6, rel=0.3)
    assert found.kv_bytes_per_token == TABLE.kv_bytes_per_token
    assert "prefill: 400 prefills measured" in found.source
    assert found.source.endswith(f"the rest: {TABLE.source}")


def test_every_estimate_has_evidence_and_age() -> None:
    """Measured figures say how many samples they have and how old they are; the others say that they are a table's."""
    costs = fed(100)
    known = {estimate.name: estimate for estimate in costs.estimates(1_109.0)}
    for name in ("prefill_linear_s", "load_bytes_per_s", "store_latency_s"):
        assert known[name].samples == 100
        assert known[name].age_s == pytest.approx(10.0)
        assert known[name].is_measured
    assert not known["preemption_s"].is_measured
    assert known["store_exposed_frac"].age_s is None
    assert {"reuse_within_60_s", "reuse_within_600_s", "reuse_within_3600_s"} < set(known)


def test_before_any_record_the_table_is_the_answer() -> None:
    """Nothing fed: the table's profile, word for word, and the names of a table are among the estimates."""
    costs = LiveCosts(TableCosts(TABLE), BLOCK_TOKENS)
    found = costs.profile()
    assert found.source == TABLE.source
    assert found.prefill_linear_s == pytest.approx(TABLE.prefill_linear_s)
    assert found.load_bytes_per_s == pytest.approx(TABLE.load_bytes_per_s)
    assert set(named(TableCosts(TABLE), 0.0)) <= set(named(costs, 0.0))


def test_break_even_has_bounds_that_close() -> None:
    """The length lies between its bounds; the table's are far apart, those of 400 records hold the true length."""
    true = break_even_tokens(TRUTH, 0, BLOCK_TOKENS)
    table, live = break_even(TableCosts(TABLE), 0.0, 0, BLOCK_TOKENS), fed(400).break_even(1_400.0, 0, BLOCK_TOKENS)
    for found in (table, live):
        assert found.low_tokens is not None
        assert found.tokens is not None
        assert found.low_tokens <= found.tokens
        assert found.high_tokens is None or found.tokens <= found.high_tokens
    assert true is not None
    assert live.low_tokens is not None
    assert live.high_tokens is not None
    assert live.low_tokens <= true <= live.high_tokens
    assert table.high_tokens is None or table.high_tokens - (table.low_tokens or 0) > live.high_tokens - live.low_tokens


def test_break_even_in_words() -> None:
    """A link on which loading never pays says so, also where one end of the bounds does."""
    slow = TableCosts(make_costs(prefill_linear_s=0.1, load_bytes_per_s=1.0))
    assert str(break_even(slow, 0.0)) == "never (never to never)"
    assert str(break_even(TableCosts(TABLE), 0.0, 0, 16)).startswith("16 tokens (16 to ")


@given(st.integers(1, 5_000), st.integers(1, 64))
def test_the_first_length_is_found(least: int, block_tokens: int) -> None:
    """Of whole blocks, the first that reaches a length; none where nothing ever pays."""
    assert first_length(lambda n: n >= least, block_tokens) == -(-least // block_tokens) * block_tokens
    assert first_length(lambda n: False, block_tokens) is None


def test_records_of_a_real_server() -> None:
    """What vLLM 0.32 wrote on a busy machine: prefill far from the table, both links, and a break-even with an end."""
    records = Path(__file__).parents[1] / "data/telemetry"
    costs = LiveCosts(TableCosts(replace(TABLE, kv_bytes_per_token=2_048)), 32)
    for record in read_segments(records):
        costs.access(record)
    for copy in read_transfers(records):
        costs.transfer(copy)
    known, found = {estimate.name: estimate for estimate in costs.estimates(10.0)}, costs.break_even(10.0, 0, 32)
    assert known["prefill_linear_s"].samples == known["load_bytes_per_s"].samples == 36
    assert 0.1 < float(costs.profile().prefill_s(2_048)) < 1.0  # seconds of one prompt were .09 to .99
    assert 5e9 < known["load_bytes_per_s"].low < known["load_bytes_per_s"].high < 8e9
    assert found.tokens == 32
    assert found.high_tokens is not None
    assert found.high_tokens <= 256
    assert known["reuse_within_60_s"].samples == 36 // 6 * (8 + 16 + 24 + 32 + 48 + 64)  # every prompt came once more


def test_records_without_seconds_teach_reuse_alone() -> None:
    """An engine that does not time its prefills leaves the prefill at the table, and reuse is learned all the same."""
    costs = LiveCosts(TableCosts(TABLE), BLOCK_TOKENS)
    for turn in range(50):
        record = computed_run(float(turn), 0, 0, 64, 0.0)
        costs.access(replace(record, request=turn, tier=Tier.DEVICE if turn % 2 else None))
    assert named(costs, 50.0)["prefill_linear_s"] == pytest.approx(TABLE.prefill_linear_s)
    assert named(costs, 50.0)["reuse_within_60_s"] > 0.5


def test_epochs_follow_each_other() -> None:
    """Records of a new epoch count from its start, if nobody said when it began from the newest moment known."""
    costs = LiveCosts(TableCosts(TABLE), BLOCK_TOKENS)
    costs.begin_epoch(3, 500.0)
    costs.access(computed_run(10.0, 1, 0, 64, 1.0, epoch=3))
    costs.access(computed_run(5.0, 1, 0, 64, 1.0, epoch=4))
    newest = {estimate.name: estimate for estimate in costs.estimates(520.0)}["prefill_linear_s"]
    assert newest.age_s == pytest.approx(5.0)
    assert costs.reuse(520.0).samples == 0


def test_counters_alone_are_enough() -> None:
    """An engine that only counts gives sums over intervals, from which the same coefficients follow."""
    costs = LiveCosts(TableCosts(TABLE), BLOCK_TOKENS)
    draw = np.random.default_rng(5)
    for interval in range(200):
        tokens = draw.integers(100, 8_000, 5).astype(float)
        pairs = float((tokens * (tokens + 1.0) / 2.0).sum())
        seconds = float(TRUTH.prefill_s(tokens).sum() * np.exp(0.05 * draw.standard_normal()))
        costs.prefills(5.0 * interval, 5, float(tokens.sum()), pairs, seconds)
        costs.copies(5.0 * interval, Direction.LOAD, 4, 4e8, 4 * 60e-6 + 4e8 / 20e9)
        costs.exposure(5.0 * interval, 1.0 + 0.3 * 0.5 * (interval % 3), 1.0, 0.5 * (interval % 3))
        costs.preemption(5.0 * interval, 0.5)
    found, known = costs.profile(), named(costs, 1_000.0)
    assert found.prefill_linear_s == pytest.approx(TRUTH.prefill_linear_s, rel=0.1)
    assert found.load_bytes_per_s == pytest.approx(20e9, rel=0.05)
    assert found.store_exposed_frac == pytest.approx(0.3, abs=0.03)
    assert known["preemption_s"] == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("n", [5, 20, 100])
def test_exposed_share_is_covered(n: int) -> None:
    """Of 60 simulations with a wrong level of prefill, at least 90 % have the true share in their interval."""
    inside = 0
    for seed in range(60):
        draw, wait = np.random.default_rng(seed), ExposedWait("store_exposed_frac", 0.0, "assumed")
        for turn in range(n):
            computed_s, copied_s = draw.uniform(1.0, 5.0), draw.uniform(0.0, 3.0)
            observed_s = (1.1 * computed_s + 0.3 * copied_s) * float(np.exp(0.05 * draw.standard_normal()))
            wait.observe(float(turn), observed_s, computed_s, copied_s)
        estimate = wait.estimate(float(n))
        assert 0.0 <= estimate.low <= estimate.high <= 1.0
        inside += estimate.low <= 0.3 <= estimate.high
    assert inside >= 54


@given(st.lists(st.tuples(st.floats(1.0, 10.0), st.floats(0.0, 100.0)), max_size=20), st.floats(0.0, 10.0))
def test_a_preemption_costs_something_between(seen: list[tuple[float, float]], assumed_s: float) -> None:
    """The mean lies in an interval without negative seconds, between what was assumed and what was seen."""
    cost = PreemptionCost()
    for at, (events, seconds) in enumerate(seen):
        cost.observe(float(at), seconds, events)
    estimate = cost.estimate(100.0, assumed_s)
    rates = [seconds / events for events, seconds in seen] + [assumed_s]
    assert min(rates) - 1e-9 <= estimate.value <= max(rates) + 1e-9
    assert 0.0 <= estimate.low <= estimate.high
    assert estimate.samples == len(seen)


def test_memory_is_bounded() -> None:
    """However many records come, no more than the bounds are kept."""
    costs = LiveCosts(TableCosts(TABLE), BLOCK_TOKENS, LiveSettings(max_samples=50, max_followed_blocks=100))
    for request in range(500):
        costs.access(computed_run(0.1 * request, request, 0, 160, 1.0))
    known = {estimate.name: estimate for estimate in costs.estimates(50.0)}
    assert known["prefill_linear_s"].samples == 50
    assert costs.reuse(50.0).followed_frac < 1.0


def test_learning_costs_needs_no_heavy_package() -> None:
    """What learns them runs in the sidecar's process: NumPy is all that it loads, no compiler and no model library."""
    probe = (
        "import sys, autotune.costs.live; print({'numba', 'scipy', 'sklearn', 'pyarrow', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
