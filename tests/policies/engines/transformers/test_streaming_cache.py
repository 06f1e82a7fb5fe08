"""What a streaming cache does beside giving the right answer: slots, errors, its end, its figures."""

from __future__ import annotations

import copy
import gc
import threading
from pathlib import Path
from typing import Any

import pytest
from streaming_models import padded_batch, small_model

from autotune.core.errors import PolicyError, StreamingError
from autotune.core.streaming import Placement

pytestmark = pytest.mark.engine("torch", "transformers")


@pytest.fixture
def model() -> Any:
    """A Llama with five layers."""
    return small_model("llama", "float32")


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_loaded_layers_alive_never_exceed_the_slots(model: Any, depth: int) -> None:
    """Counted among all objects of the process, no more than d loaded layers wait beside the one in use."""
    from autotune_policies.engines.transformers import StreamingCache
    from autotune_policies.engines.transformers.link import Loaded

    alive: list[int] = []

    class Counting(StreamingCache):
        def update(self, *args: Any, **kwargs: Any) -> Any:
            states = super().update(*args, **kwargs)
            alive.append(sum(type(thing) is Loaded for thing in gc.get_objects()))
            return states

    gc.freeze()  # what is there already is no loaded layer, and need not be looked at every time
    try:
        with Counting(model.config, 0.0, depth) as cache:
            padded_batch(model, cache)
            assert cache.stats().peak_slots <= depth + 1
    finally:
        gc.unfreeze()
    assert max(alive) <= depth


def test_depth_zero_fetches_on_demand_and_depth_one_ahead(model: Any) -> None:
    """Without prefetch every load is issued when it is needed; with it none is."""
    from autotune_policies.engines.transformers import StreamingCache

    with StreamingCache(model.config, 0.0, 0) as cache:
        padded_batch(model, cache)
        on_demand = cache.stats()
    with StreamingCache(model.config, 0.0, 1) as cache:
        padded_batch(model, cache)
        ahead = cache.stats()
    assert (on_demand.prefetch_misses, on_demand.prefetch_hits + on_demand.prefetch_late) == (25, 0)
    assert (ahead.prefetch_misses, ahead.prefetch_hits + ahead.prefetch_late) == (0, 25)
    assert ahead.steps == 6


def test_placement_and_share_choose_the_layers(model: Any) -> None:
    """Half of five layers leaves two resident; the streamed three are spread, or in a row."""
    from autotune_policies.engines.transformers import StreamingCache

    chosen = {placement: StreamingCache(model.config, 0.5, placement=placement).streamed for placement in Placement}
    assert chosen == {Placement.EVEN: (0, 2, 4), Placement.FIRST: (0, 1, 2), Placement.LAST: (2, 3, 4)}


def test_device_bytes_are_resident_layers_and_slots(model: Any) -> None:
    """At the end of a generation the device has the resident layers and the loads for a next step."""
    from autotune_policies.engines.transformers import StreamingCache

    with StreamingCache(model.config, n_resident=2, prefetch_depth=1) as cache:
        padded_batch(model, cache)
        stats = cache.stats()
    layer_bytes = 3 * 25 * 2 * 2 * 8 * 4
    assert stats.device_bytes == (2 + stats.slots) * layer_bytes
    assert 1 <= stats.slots <= 2


def test_an_error_in_the_model_discards_the_cache(model: Any) -> None:
    """A pass that broke off is noticed by the next one, which is refused before it returns anything."""
    import torch

    from autotune_policies.engines.transformers import StreamingCache, cache_keyword

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    ids = torch.ones((3, 4), dtype=torch.long)
    cache = StreamingCache(model.config, 0.5, 1)
    handle = model.model.layers[2].register_forward_pre_hook(fail)
    try:
        with pytest.raises(RuntimeError, match="out of memory"):
            padded_batch(model, cache)
    finally:
        handle.remove()
    for _ in range(2):
        with torch.no_grad(), pytest.raises(StreamingError, match="new cache"):
            model(ids, use_cache=True, **{cache_keyword(model): cache})
    assert not running_threads()


def test_an_error_of_a_load_reaches_the_caller_and_discards_the_cache(model: Any, monkeypatch: Any) -> None:
    """What goes wrong in the worker is raised where the layer is needed, and nothing goes on after it."""
    from autotune_policies.engines.transformers import StreamingCache
    from autotune_policies.engines.transformers.master import HostMaster

    def fail(self: object) -> None:
        raise MemoryError("no slot")

    cache = StreamingCache(model.config, 0.0, 1)
    monkeypatch.setattr(HostMaster, "contents", fail)
    with pytest.raises(MemoryError, match="no slot"):
        padded_batch(model, cache)
    monkeypatch.undo()
    with pytest.raises(StreamingError, match="MemoryError in layer"):
        padded_batch(model, cache)
    assert not running_threads()


def test_an_interrupt_while_waiting_discards_the_cache(model: Any, monkeypatch: Any) -> None:
    """Ctrl-C in the middle of a load leaves no thread and no cache that could go on."""
    from autotune_policies.engines.transformers import StreamingCache
    from autotune_policies.engines.transformers.link import ThreadLink

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    cache = StreamingCache(model.config, 0.0, 2)
    monkeypatch.setattr(ThreadLink, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        padded_batch(model, cache)
    with pytest.raises(StreamingError, match="KeyboardInterrupt"):
        padded_batch(model, cache)
    assert not running_threads()


def test_a_failed_reorder_discards_the_cache(model: Any) -> None:
    """Half reordered layers would answer for the wrong sequence."""
    import torch

    from autotune_policies.engines.transformers import StreamingCache

    cache = StreamingCache(model.config, 0.0, 1)
    padded_batch(model, cache)
    with pytest.raises(IndexError):
        cache.reorder_cache(torch.tensor([0, 99]))
    with pytest.raises(StreamingError):
        padded_batch(model, cache)


def test_closing_ends_the_thread_and_further_use(model: Any) -> None:
    """After the context there is no thread and no memory, statistics can be read, and use is refused."""
    from autotune_policies.engines.transformers import StreamingCache

    with StreamingCache(model.config, 0.0, 1) as cache:
        padded_batch(model, cache)
        assert running_threads()
    assert not running_threads()
    assert cache.stats().loads == 26  # five layers in five steps, and one load ahead
    assert cache.stats().host_bytes == 0
    cache.close()
    with pytest.raises(StreamingError, match="closed"):
        padded_batch(model, cache)


def test_a_forgotten_cache_ends_its_thread(model: Any) -> None:
    """The thread does not keep the cache alive, and ends with it."""
    from autotune_policies.engines.transformers import StreamingCache

    cache = StreamingCache(model.config, 0.0, 1)
    padded_batch(model, cache)
    threads = running_threads()
    del cache
    gc.collect()
    for thread in threads:
        thread.join(timeout=10.0)
    assert not running_threads()


def test_copies_are_refused(model: Any) -> None:
    """A cache owns a thread, so neither copy nor deepcopy makes a second owner."""
    from autotune_policies.engines.transformers import StreamingCache

    with StreamingCache(model.config) as cache:
        for make in (copy.copy, copy.deepcopy):
            with pytest.raises(StreamingError, match="cannot be copied"):
                make(cache)


def test_gradients_are_refused(model: Any) -> None:
    """Streaming is for inference: a graph through a host copy would be wrong."""
    from autotune_policies.engines.transformers import StreamingCache, cache_keyword

    with StreamingCache(model.config) as cache, pytest.raises(StreamingError, match="inference"):
        model(model.dummy_inputs["input_ids"], use_cache=True, **{cache_keyword(model): cache})


def test_layers_on_several_devices_are_refused(model: Any) -> None:
    """A link leads to one device; a layer on another is an error before anything of it is stored."""
    import torch

    from autotune_policies.engines.transformers import StreamingCache

    here, there = (torch.empty((1, 2, 4, 8), device=device) for device in ("cpu", "meta"))
    cache = StreamingCache(model.config)
    cache.update(here, here, 0)
    with pytest.raises(StreamingError, match="cpu and meta"):
        cache.update(there, there, 1)
    cache = StreamingCache(model.config)
    with pytest.raises(StreamingError, match="CUDA devices, or on a CPU"):
        cache.update(there, there, 0)


def test_reset_forgets_tokens_and_keeps_the_cache(model: Any) -> None:
    """Where the installed Transformers empties its layers on reset, ours generates again as if new."""
    from transformers import DynamicCache

    from autotune_policies.engines.transformers import StreamingCache

    own = DynamicCache(config=model.config)
    with StreamingCache(model.config, 0.5, 1) as cache:
        first = padded_batch(model, cache)
        padded_batch(model, own)
        own.reset()
        cache.reset()
        assert cache.get_seq_length() == own.get_seq_length()
        if not own.get_seq_length():
            assert padded_batch(model, cache).is_bitwise(first)


def test_selected_and_repeated_sequences_equal_those_of_the_own_cache(model: Any) -> None:
    """Batch operations leave the same contents in host copies as in device layers."""
    import torch
    from transformers import DynamicCache

    from autotune_policies.engines.transformers import StreamingCache

    own = DynamicCache(config=model.config)
    padded_batch(model, own)
    with StreamingCache(model.config, 0.5, 1) as cache:
        padded_batch(model, cache)
        for each in (own, cache):
            each.batch_select_indices(torch.tensor([2, 0]))
            each.batch_repeat_interleave(2)
            each.crop(-3)
        for ours, theirs in zip(cache.layers, own.layers, strict=True):
            assert torch.equal(ours.keys, theirs.keys)
            assert torch.equal(ours.values, theirs.values)


def test_p_and_d_come_from_a_policy(model: Any, tmp_path: Path) -> None:
    """The section 'streaming' is obeyed; without it p is what the device budget holds beside two slots."""
    from autotune_policies.engines.transformers import StreamingCache

    plain = Path("tests/data/policies/v1_lru.yaml").read_text("utf-8")
    told, budget = tmp_path / "told.yaml", tmp_path / "budget.yaml"
    told.write_text(plain + "streaming: {resident_frac: 0.4, prefetch_depth: 3, placement: last}\n", "utf-8")
    budget.write_text(plain, "utf-8")
    cache = StreamingCache.from_policy(told, model.config)
    assert (cache.streamed, cache.prefetch_depth) == ((2, 3, 4), 3)
    cache = StreamingCache.from_policy(budget, model.config, layer_bytes=2**30 // 4)
    assert (len(cache.streamed), cache.prefetch_depth) == (3, 1)
    with pytest.raises(StreamingError, match="layer_bytes"):
        StreamingCache.from_policy(budget, model.config)
    with pytest.raises(StreamingError, match="2 slots"):
        StreamingCache.from_policy(budget, model.config, layer_bytes=2**30)
    told.write_text("schema: other\n", "utf-8")
    with pytest.raises(PolicyError):
        StreamingCache.from_policy(told, model.config)


def test_values_out_of_range_are_refused(model: Any) -> None:
    """A share above 1, a negative depth, too many resident layers and an unknown placement are errors, not guesses."""
    from autotune_policies.engines.transformers import StreamingCache

    for share, depth, n_resident in ((1.5, 1, None), (-0.1, 1, None), (0.5, -1, None), (0.0, 1, 6)):
        with pytest.raises(StreamingError):
            StreamingCache(model.config, share, depth, n_resident=n_resident)
    with pytest.raises(StreamingError, match="even, first, last"):
        StreamingCache(model.config, placement="middle")


@pytest.mark.engine("prometheus_client")
def test_statistics_are_shown_to_prometheus(model: Any) -> None:
    """A scrape carries bytes, waits, overlap and misses of that moment."""
    from prometheus_client import CollectorRegistry, generate_latest

    from autotune_policies.engines.transformers import StreamingCache
    from autotune_policies.engines.transformers.metrics import StreamingCollector

    registry = CollectorRegistry()
    with StreamingCache(model.config, 0.0, 0) as cache:
        registry.register(StreamingCollector(cache.stats))
        padded_batch(model, cache)
        page = generate_latest(registry).decode()
        stats = cache.stats()
    assert f"kv_autotune_streaming_loaded_bytes_total {float(stats.loaded_bytes)}" in page
    assert "kv_autotune_streaming_prefetch_misses_total 25.0" in page
    assert "kv_autotune_streaming_overlap_ratio " in page
    assert "kv_autotune_streaming_wait_seconds_total " in page


def running_threads() -> list[threading.Thread]:
    """Worker threads of streaming caches."""
    return [thread for thread in threading.enumerate() if thread.name == "kv-autotune-stream"]
