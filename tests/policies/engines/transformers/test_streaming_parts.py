"""The parts of the streaming cache: the host's copy, the link, the order of passes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.errors import StreamingError
from autotune.testing.clocks import ManualClock

pytestmark = pytest.mark.engine("torch", "transformers")

OPERATIONS = st.lists(st.tuples(st.sampled_from(["append", "cut", "select"]), st.integers(1, 90)), max_size=8)


@given(OPERATIONS)
def test_the_master_holds_what_concatenation_would(operations: list[tuple[str, int]]) -> None:
    """Appended, cut and reordered in any order, it is the tensor that an engine would have built."""
    import torch

    from autotune_policies.engines.transformers.master import HostMaster, as_stored

    master, expected, counter = HostMaster(is_pinned=False), torch.empty((2, 3, 0, 4)), 0
    for name, number in operations:
        if name == "append":
            new = torch.arange(counter, counter + 24 * number, dtype=torch.float32).reshape(2, 3, number, 4)
            counter += 24 * number
            for room, part in zip(master.extend(new, new), (new, new), strict=True):
                room.copy_(as_stored(part))
            expected = torch.cat([expected, new], dim=2)
        elif not master.n_tokens:
            continue
        elif name == "cut":
            keep = max(master.n_tokens - number, 0)
            expected = expected[:, :, :keep]
            master.adopt(*(part[..., :keep, :] for part in master.views()))
        else:
            expected = expected[[1, 0]]
            master.adopt(*(part[[1, 0]] for part in master.views()))
        assert master.n_tokens == expected.shape[2]
        if master.n_tokens:
            assert all(torch.equal(part, expected) for part in master.views())
            assert all(part.is_contiguous() for part in master.contents())
            assert master.used_bytes == 2 * expected.nbytes


def test_cutting_copies_nothing() -> None:
    """A cut keeps the memory, so that candidates that were refused cost no copy."""
    import torch

    from autotune_policies.engines.transformers.master import HostMaster

    master, new = HostMaster(is_pinned=False), torch.ones((1, 2, 5, 4))
    master.extend(new, new)
    before = [part.data_ptr() for part in master.views()]
    master.adopt(*(part[..., :3, :] for part in master.views()))
    assert (master.n_tokens, [part.data_ptr() for part in master.views()]) == (3, before)


class TickingClock(ManualClock):
    """Time that passes only by being looked at."""

    def monotonic_s(self) -> float:
        """The time, a tenth of a millisecond after the last look."""
        self.advance(1e-4)
        return super().monotonic_s()


def test_a_simulated_link_takes_bytes_over_pace() -> None:
    """A load's time on the link is exactly its bytes over the pace, whatever the copy itself took."""
    import torch

    from autotune_policies.engines.transformers.link import ThreadLink
    from autotune_policies.engines.transformers.master import HostMaster

    link, master = ThreadLink(2**20, TickingClock()), HostMaster(is_pinned=False)
    new = torch.ones((1, 2, 16, 8))
    assert link.store(master, new, new) == 2 * new.nbytes
    loads = [link.load(master) for _ in range(3)]
    assert all(torch.equal(load.wait().keys, new) for load in loads)
    assert link.transfer_s() == pytest.approx(3 * 2 * new.nbytes / 2**20)
    link.close()


def test_an_abandoned_load_is_not_under_way_any_more() -> None:
    """Its memory may be changed after that; loads behind it are served."""
    import torch

    from autotune_policies.engines.transformers.link import ThreadLink
    from autotune_policies.engines.transformers.master import HostMaster

    link, master = ThreadLink(), HostMaster(is_pinned=False)
    new = torch.ones((1, 2, 16, 8))
    link.store(master, new, new)
    first, second = link.load(master), link.load(master)
    first.abandon()
    assert first.is_done
    assert torch.equal(second.wait().values, new)
    link.close()


@pytest.mark.parametrize(
    ("passes", "is_refused"),
    [
        ([[0, 1, 2], [0, 1, 2], [0, 1, 2]], False),
        ([[1, 3], [1, 3]], False),
        ([[0, 1], [0, 1, 2]], True),  # the first pass broke off
        ([[0, 1, 2], [0, 1], [0, 1, 2]], True),  # the second did
        ([[0, 1, 2], [0], [0, 1, 2]], True),
    ],
)
def test_a_pass_that_broke_off_is_noticed(passes: list[list[int]], is_refused: bool) -> None:
    """Passes that update different layers are refused, before the next is complete."""
    from autotune_policies.engines.transformers.steps import StepOrder

    def run() -> int:
        order = StepOrder(ManualClock())
        for layers in passes:
            for layer in layers:
                order.arrive(layer)
                order.leave(layer, is_decode=True, waited_s=0.0)
        return order.steps

    if is_refused:
        with pytest.raises(StreamingError, match="same layers"):
            run()
    else:
        assert run() == len(passes)


def test_compute_is_the_time_between_updates_without_waits() -> None:
    """A layer's compute runs from its update to the next one, the last one's to the next pass; waits do not count."""
    from autotune_policies.engines.transformers.steps import StepOrder

    clock = ManualClock()
    order = StepOrder(clock)
    for _ in range(3):
        for layer, gap_s in ((0, 2.0), (2, 5.0)):
            order.arrive(layer)
            clock.advance(101.0)
            order.leave(layer, is_decode=True, waited_s=100.0)
            clock.advance(gap_s)
    assert order.layer_compute_s(3) == (3.0, 0.0, 6.0)
    assert order.compute_s == 3 * 3.0 + 2 * 1.0


def test_only_exact_types_of_plain_full_attention_are_streamed() -> None:
    """Subclasses, windows and layers that others read stay on the device."""
    from types import SimpleNamespace

    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    from autotune_policies.engines.transformers.layers import streamable_layers

    own = type("Own", (DynamicLayer,), {})
    layers: list[Any] = [DynamicLayer(), own(), DynamicSlidingWindowLayer(4), DynamicLayer(), DynamicLayer()]
    assert streamable_layers(layers, SimpleNamespace()) == (0, 3, 4)
    shared = SimpleNamespace(num_kv_shared_layers=2, num_hidden_layers=7, layer_types=None)
    assert streamable_layers(layers, shared) == (0, 3)
    modes = SimpleNamespace(kv_sharing_modes=["store", None, None, None, None])
    assert streamable_layers(layers, modes) == (3, 4)
    types = SimpleNamespace(layer_types=["linear_attention", "x", "x", "full_attention", "full_attention"])
    assert streamable_layers(layers, types) == (3, 4)
