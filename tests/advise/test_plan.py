"""Plans, against figures worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.advise.plan import Plan, PlanRequest, build_plan
from autotune.advise.plan.reload import ReloadModel
from autotune.core.errors import ConfigError
from autotune.core.shapes import HardwareSpec, LinkSpec
from autotune.core.units import GB, GIB
from autotune.geometry import ModelGeometry, geometry_names, load_geometry
from autotune.geometry.geometry import Weights
from autotune.geometry.kinds import Factor, Technique

K128 = 131_072


def machine(link_gib_s: float = 25.0, memory_bytes: int = 80 * GB) -> HardwareSpec:
    """400 TFLOP/s, 3.35 TB/s, and a link without latency."""
    link = LinkSpec(link_gib_s * GIB, 0.0)
    return HardwareSpec("test", memory_bytes, 400e12, 1.0, 1.0, link, link, link, 0.0, 3.35e12)


def llama(active: int = 8_030_000_000) -> ModelGeometry:
    """Llama 3.1 8B with a rounded number of weights."""
    return replace(load_geometry("llama-3.1-8b"), weights=Weights(active, active, 2 * active))


def planned(**changes: object) -> Plan:
    """A plan for 8 sequences of 8,192 tokens."""
    values: dict[str, object] = {"context_tokens": 8192, "concurrency": 8} | changes
    return build_plan(llama(), machine(), PlanRequest(**values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "start", "recompute_ms", "reload_ms"),
    [
        (4096, 0, 175.45, 20),
        (4096, 4096, 197.44, 20),
        (4096, 126_976, 857.15, 20),
        (131_072, 0, 16_521.6, 640),
    ],
)
def test_reload_against_recompute(run: int, start: int, recompute_ms: float, reload_ms: float) -> None:
    """Runs of Llama 3.1 8B at 400 TFLOP/s and 25 GiB/s."""
    model = ReloadModel(llama(), machine())
    assert 1000 * model.recompute_s(run, start) == pytest.approx(recompute_ms, rel=1e-4)
    assert 1000 * model.reload_s(run) == pytest.approx(reload_ms)


def test_half_a_gibibyte() -> None:
    """512 MiB at 25 GiB/s take 20 ms, at 25 GB/s 21.4748."""
    assert 1000 * ReloadModel(llama(), machine()).reload_s(4096) == pytest.approx(20.0)
    slower = machine(25e9 / GIB)
    assert 1000 * ReloadModel(llama(), slower).reload_s(4096) == pytest.approx(21.4748, abs=5e-5)


def test_break_even_link() -> None:
    """4,096 tokens load as fast as they are computed at 2.8498 GiB/s; above, loading pays, and below it does not."""
    point = ReloadModel(llama(), machine()).point(4096)
    assert point.break_even_bytes_per_s / GIB == pytest.approx(2.8498, abs=5e-5)
    assert ReloadModel(llama(), machine(2.8497)).reload_s(4096) > point.recompute_s
    assert ReloadModel(llama(), machine(2.8499)).reload_s(4096) < point.recompute_s


def test_break_even_length_is_the_first_that_pays() -> None:
    """On a slow link long runs pay and short ones do not; on one without bandwidth worth the name none does."""
    model = ReloadModel(llama(), machine(2.7))
    first = model.break_even_tokens(0)
    assert first is not None
    assert first > 100
    assert model.reload_s(first) < model.recompute_s(first)
    assert model.reload_s(first - 1) >= model.recompute_s(first - 1)
    later = model.break_even_tokens(4096)
    assert later is not None
    assert later < first
    mqa = load_geometry("mistral-7b-v0.1")
    assert ReloadModel(mqa, machine(1e-6)).break_even_tokens(0) is None


def test_windows_bound_the_pairs() -> None:
    """A window's attention costs no more per token than its width, wherever the run starts."""
    model = ReloadModel(load_geometry("mistral-7b-v0.1"), machine())
    far, farther = (model.recompute_s(100, start) for start in (8192, 65_536))
    assert far == farther
    assert model.recompute_s(4097) - model.recompute_s(4096) == pytest.approx(far / 100)


def test_kv_is_exact_and_whole() -> None:
    """DeepSeek-V3 at 128K: 9,210,691,584 bytes for one sequence, three times as many for three."""
    request = PlanRequest(context_tokens=K128, concurrency=3, ranks=16)
    plan = build_plan(load_geometry("deepseek-v3"), machine(), request)
    assert plan.kv_bytes == 3 * 9_210_691_584
    assert plan.kv_bytes_per_token == 70_272
    assert plan.sequence.total == 9_210_691_584  # every rank keeps all of it


def test_capacity_is_exact() -> None:
    """Sequences that fit at p are floor(M / (p S + buffers)), with M what weights and workspace leave."""
    plan = planned()
    pool = math.floor(Fraction("0.9") * 80 * GB) - 2 * 8_030_000_000 - 4 * GIB
    assert plan.memory.pool_bytes == pool
    found = {capacity.resident_frac: capacity.sequences for capacity in plan.capacities}
    assert found["1"] == pool // GIB
    half = Fraction(1, 2) * GIB + 2 * GIB // 32
    assert found["0.5"] == int(pool / half)
    assert found["0"] == pool // (2 * GIB // 32)


def test_device_and_host_peak() -> None:
    """At p 0.5 half of the KV and two buffers per sequence are on the device, the rest on the host."""
    memory = planned(resident_frac="0.5").memory
    assert memory.resident_bytes == 4 * GIB
    assert memory.buffer_bytes == 8 * 2 * (GIB // 32)
    assert memory.host_bytes == 4 * GIB
    assert memory.host_pinned_bytes == 4 * GIB  # sixteen layers of 256 MiB, which is a power of two
    assert memory.peak_bytes == 2 * 8_030_000_000 + 4 * GIB + memory.resident_bytes + memory.buffer_bytes
    assert planned(resident_frac="0.5", concurrency=5).memory.host_pinned_bytes == 4 * GIB
    assert planned().memory.buffer_bytes == 0


def test_windows_and_states_stay() -> None:
    """Nothing of a model with windows only can be streamed, so p changes nothing."""
    geometry = load_geometry("mistral-7b-v0.1")
    plan = build_plan(geometry, machine(), PlanRequest(8192, 8, resident_frac="0.1"))
    assert plan.sequence.streamable == 0
    assert plan.memory.host_bytes == 0
    assert len({capacity.sequences for capacity in plan.capacities}) == 1


def test_step_time() -> None:
    """A step reads weights and KV once; half of 8 GiB takes 160 ms at 25 GiB/s, which p 0.963 would hide."""
    step = planned(resident_frac="0.5").step
    assert step is not None
    compute_s = (2 * 8_030_000_000 + 8 * GIB) / 3.35e12
    assert step.compute_s == pytest.approx(compute_s)
    assert step.transfer_s == pytest.approx(0.160)
    assert step.step_s == pytest.approx(0.160)
    assert step.step_without_overlap_s == pytest.approx(0.160 + compute_s)
    assert step.hiding_resident_frac == pytest.approx(1 - compute_s * 25 / 8)
    assert step.beta_needed is None
    reachable = planned(resident_frac="0.5", step_goal_s=0.1637).step
    assert reachable is not None
    assert reachable.beta_needed == pytest.approx((0.160 + compute_s - 0.1637) / compute_s)


def test_what_does_not_fit_is_named_with_a_remedy() -> None:
    """200 sequences do not fit; a share that would is named, with what it does to a step."""
    plan = planned(concurrency=64)
    missing = [fit for fit in plan.fits if not fit.fits]
    assert [fit.what for fit in missing] == ["all sequences on the device"]
    assert missing[0].remedy == "p 0.5 would fit, and its loads would be longer than the computation"
    assert all(fit.fits for fit in planned().fits)
    assert not planned(resident_frac="0.5", host_bytes=GIB).fits[-1].fits


@pytest.mark.parametrize("name", geometry_names())
def test_the_product_of_techniques_is_what_lies_on_the_device(name: str) -> None:
    """For every model, start times all ratios is the end, and the model's own techniques lead to its exact KV."""
    request = PlanRequest(32_768, 8, ranks=32, resident_frac="0.5", shared_prefix_tokens=1000)
    found = build_plan(load_geometry(name), machine(), request)
    product = Fraction(found.waterfall.start_bytes)
    for step in found.waterfall.steps:
        product *= step.ratio
        assert product == step.bytes_after
    assert product == found.waterfall.end_bytes
    own = [s for s in found.waterfall.steps if s.technique not in {Technique.PREFIX_SHARING, Technique.OFFLOAD}]
    assert (own[-1].bytes_after if own else found.waterfall.start_bytes) == found.kv_bytes


def test_which_factor_each_technique_reduces() -> None:
    """Gemma 3n reduces heads, layers and tokens; quantisation bits; sharing duplicates; offload what is resident."""
    request = PlanRequest(32_768, 8, resident_frac="0.5", shared_prefix_tokens=1000)
    plan = build_plan(load_geometry("gemma-3n-e4b", kv_dtype="fp8"), machine(), request)
    assert [step.factor for step in plan.waterfall.steps] == [
        Factor.HEADS,
        Factor.LAYERS,
        Factor.TOKENS,
        Factor.BITS,
        Factor.DUPLICATES,
        Factor.RESIDENCE,
    ]
    assert plan.waterfall.steps[0].ratio == Fraction(1, 4)
    assert plan.waterfall.steps[3].ratio == Fraction(1, 2)


def test_paging_costs() -> None:
    """4,097 tokens in blocks of 16 take 4,112."""
    steps = planned(context_tokens=4097).waterfall.steps
    paging = next(step for step in steps if step.technique is Technique.PAGING)
    assert paging.ratio == Fraction(4112, 4097)


def test_options_save_memory_or_bandwidth() -> None:
    """Sparse reads save bandwidth and cost memory; FP8 halves both; what the plan uses already is not offered."""
    plan = planned(context_tokens=32_768, concurrency=1)
    by_setting = {option.setting: option for option in plan.options}
    sparse = next(option for option in plan.options if option.technique is Technique.SPARSE_READS)
    assert (sparse.kept_frac, sparse.read_frac) == (1.0625, 0.1875)
    assert (by_setting["fp8"].kept_frac, by_setting["fp8"].read_frac) == (0.5, 0.5)
    quantised = build_plan(llama().in_precision("fp8"), machine(), PlanRequest(32_768, 1, resident_frac="0.5"))
    offered = {option.setting for option in quantised.options}
    assert "fp8" not in offered
    assert not any(option.technique is Technique.OFFLOAD for option in quantised.options)


def test_unknown_figures_are_said_and_not_guessed() -> None:
    """Without a size of weights there is no plan; without active weights no times, and the notes say so."""
    unknown = replace(llama(), weights=Weights(None, None, None))
    with pytest.raises(ConfigError, match=r"needs the size of the weights of llama-3\.1-8b.*--weights-gib"):
        build_plan(unknown, machine(), PlanRequest(8192, 8))
    sized = replace(llama(), weights=Weights(None, None, 16 * GB))
    plan = build_plan(sized, machine(), PlanRequest(8192, 8))
    assert plan.step is None
    assert plan.reload == ()
    assert sum("not known" in note for note in plan.notes) == 2


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"context_tokens": 0}, "at least 1"),
        ({"resident_frac": "1.1"}, "p is a number from 0 to 1"),
        ({"resident_frac": "half"}, "p is a number from 0 to 1"),
        ({"shared_prefix_tokens": 9000}, "no longer than the context"),
        ({"memory_frac": 0.0}, "share of device memory"),
        ({"step_goal_s": 0.0}, "more than 0 seconds"),
    ],
)
def test_requests_out_of_range_are_refused(changes: dict[str, object], rule: str) -> None:
    """Each rule is named."""
    with pytest.raises(ConfigError, match=rule):
        planned(**changes)


@given(st.integers(1, 200_000), st.integers(1, 64), st.sampled_from(["1", "0.7", "0.3", "0"]))
def test_what_stays_and_what_streams_is_all(context: int, concurrency: int, share: str) -> None:
    """Whatever the load, resident and streamed bytes together are all KV in whole blocks."""
    plan = planned(context_tokens=context, concurrency=concurrency, resident_frac=share)
    held = plan.memory.resident_bytes + plan.memory.host_bytes
    assert held == concurrency * plan.sequence.total
    assert held >= plan.kv_bytes
