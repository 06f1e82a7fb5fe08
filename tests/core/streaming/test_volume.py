"""Bytes on the device and over the link."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import StreamingError
from autotune.core.streaming import device_bytes, fit_resident_layers, generation_volume


@given(st.integers(0, 20), st.integers(1, 100), st.integers(1, 4), st.integers(1, 50), st.integers(1, 20))
def test_volume_is_the_sum_over_steps(n_streamed: int, row: int, batch: int, prompt: int, new: int) -> None:
    """Step t loads prompt + t tokens of each streamed layer, and each token is stored once."""
    volume = generation_volume(n_streamed, row, batch, prompt, new, 1)
    per_token = n_streamed * row * batch
    assert volume.loaded_bytes == sum(per_token * (prompt + step) for step in range(new - 1))
    assert volume.stored_bytes == per_token * (prompt + new - 1)
    assert volume.ahead_bytes == (volume.stored_bytes // n_streamed if n_streamed else 0)


@given(st.integers(1, 60), st.integers(0, 8), st.integers(1, 1000), st.integers(0, 100_000))
def test_what_fits_is_the_most_that_fits(n_layers: int, depth: int, layer: int, budget: int) -> None:
    """The number found stays within the budget, and one layer more would not."""
    fitting = fit_resident_layers(n_layers, depth, layer, budget)
    sizes = [device_bytes(n, n_layers - n, depth, layer) for n in range(n_layers + 1)]
    if fitting is None:
        assert min(sizes) > budget
    else:
        assert sizes[fitting] <= budget
        assert all(size > budget for size in sizes[fitting + 1 :])


def test_slots_are_d_plus_one_and_none_where_nothing_is_streamed() -> None:
    """Four resident and two streamed layers with d = 1 take six; with d = 3 a third slot is all there can be."""
    assert device_bytes(4, 2, 1, 10) == 60
    assert device_bytes(4, 2, 3, 10) == 70
    assert device_bytes(6, 0, 3, 10) == 60


def test_layers_without_bytes_are_refused() -> None:
    """A layer of no size would fit any number of times."""
    with pytest.raises(StreamingError):
        fit_resident_layers(3, 1, 0, 10)
