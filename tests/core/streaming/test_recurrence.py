"""The recurrence of a streamed step against measured steps, closed forms and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import StreamingError
from autotune.core.streaming import Placement, overlap_frac, predict_step, streamed_layers

LAYER_S = 3.39e-3
N_LAYERS = 12


def predicted_s(n_streamed: int, load_s: float, depth: int, placement: Placement = Placement.EVEN) -> float:
    """Step of the twelve layers."""
    chosen = streamed_layers(range(N_LAYERS), n_streamed, placement)
    loads = [load_s if layer in chosen else None for layer in range(N_LAYERS)]
    return predict_step([LAYER_S] * N_LAYERS, loads, depth).step_s


@pytest.mark.parametrize(
    ("transfer_per_compute", "n_streamed", "depth", "measured_s"),
    [
        (1, 12, 0, 85.5e-3),
        (1, 12, 1, 43.6e-3),
        (2, 6, 0, 84.8e-3),
        (2, 6, 1, 42.6e-3),
        (2, 12, 0, 131.7e-3),
        (2, 12, 1, 85.2e-3),
    ],
)
def test_it_predicts_measured_steps(transfer_per_compute: int, n_streamed: int, depth: int, measured_s: float) -> None:
    """Within 8 percent of steps of a prototype: 12 layers of 3.39 ms on a CPU with a simulated link."""
    predicted = predicted_s(n_streamed, transfer_per_compute * LAYER_S, depth)
    assert predicted == pytest.approx(measured_s, rel=0.08)
    assert predicted < measured_s  # what it leaves out takes time


@pytest.mark.parametrize("n_streamed", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0, 2.0, 5.0])
def test_evenly_spread_and_one_ahead_is_the_larger_of_both(n_streamed: int, ratio: float) -> None:
    """Where streamed layers divide the step evenly, d = 1 gives max(compute, transfer), and d = 0 their sum."""
    load_s = ratio * LAYER_S * N_LAYERS / n_streamed
    compute_s, transfer_s = N_LAYERS * LAYER_S, n_streamed * load_s
    assert predicted_s(n_streamed, load_s, 1) == pytest.approx(max(compute_s, transfer_s))
    assert predicted_s(n_streamed, load_s, 0) == pytest.approx(compute_s + transfer_s)


def test_a_row_of_streamed_layers_is_slower() -> None:
    """With one load ahead, layers in one row wait for each other where spread ones do not."""
    assert predicted_s(6, 2 * LAYER_S, 1, Placement.FIRST) > 1.1 * predicted_s(6, 2 * LAYER_S, 1)


TIMES = st.floats(1e-6, 1.0)
STEPS = st.lists(st.tuples(TIMES, st.none() | TIMES), min_size=1, max_size=12)


@given(STEPS, st.integers(0, 14))
def test_a_step_lies_between_its_bounds(layers: list[tuple[float, float | None]], depth: int) -> None:
    """No step is shorter than its compute or its transfer, or longer than their sum; waits are the difference."""
    compute, loads = [c_s for c_s, _ in layers], [x_s for _, x_s in layers]
    step = predict_step(compute, loads, depth)
    slack = 1e-9 + 1e-9 * step.step_s
    assert max(step.compute_s, step.transfer_s) - slack <= step.step_s <= step.compute_s + step.transfer_s + slack
    assert step.step_s == pytest.approx(step.compute_s + step.wait_s)
    assert 0.0 <= step.overlap_frac <= 1.0


@given(STEPS, st.integers(0, 12))
def test_more_depth_is_never_slower(layers: list[tuple[float, float | None]], depth: int) -> None:
    """A load that may be issued earlier never makes a step longer."""
    compute, loads = [c_s for c_s, _ in layers], [x_s for _, x_s in layers]
    deeper = predict_step(compute, loads, depth + 1)
    assert deeper.step_s <= predict_step(compute, loads, depth).step_s * (1 + 1e-9)


def test_overlap_is_the_beta_of_the_speed_up() -> None:
    """Where the transfer is the smaller part, the step is c + x - beta * x."""
    assert overlap_frac(10.0, 10.0, 10.0) == 0.0
    assert overlap_frac(10.0, 5.0, 2.5) == 0.5
    assert overlap_frac(5.0, 10.0, 5.0) == 1.0
    assert overlap_frac(1.0, 0.0, 0.0) == 1.0


def test_impossible_input_is_refused() -> None:
    """Different shapes, negative times and negative depths are errors."""
    for compute, loads, depth in (([1.0], [], 1), ([-1.0], [None], 1), ([1.0], [-1.0], 1), ([1.0], [1.0], -1)):
        with pytest.raises(StreamingError):
            predict_step(compute, loads, depth)
