"""The engine's counters, from a page as vLLM 0.32 writes it."""

from __future__ import annotations

import pytest
from metrics_page import EngineCounters, parse

pytestmark = pytest.mark.engine("prometheus_client")

# From the page of a real server: every series that is read, and those beside them that must not be counted as well.
PAGE = """\
# HELP vllm:prompt_tokens_by_source_total Number of prompt tokens by source.
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"} 4352.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_cache_hit"} 20288.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="external_kv_transfer"} 9920.0
# HELP vllm:prompt_tokens_cached_by_source_total Prefix-cache hit tokens by the cache tier that supplied them.
# TYPE vllm:prompt_tokens_cached_by_source_total counter
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="tiny",source="device"} 20288.0
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="tiny",source="host"} 9920.0
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="tiny",source="disk"} 0.0
# HELP vllm:kv_offload_total_bytes_total Total bytes transferred by KV offload (deprecated).
# TYPE vllm:kv_offload_total_bytes_total counter
vllm:kv_offload_total_bytes_total{engine="0",model_name="tiny",transfer_type="CPU_to_GPU"} 2.031616e+07
vllm:kv_offload_total_bytes_total{engine="0",model_name="tiny",transfer_type="GPU_to_CPU"} 7.340032e+06
# HELP vllm:kv_offload_load_bytes_total Bytes loaded.
# TYPE vllm:kv_offload_load_bytes_total counter
vllm:kv_offload_load_bytes_total{engine="0",model_name="tiny"} 2.031616e+07
# HELP vllm:kv_offload_load_time_total Seconds of loads.
# TYPE vllm:kv_offload_load_time_total counter
vllm:kv_offload_load_time_total{engine="0",model_name="tiny"} 0.01916894100031641
# HELP vllm:kv_offload_store_bytes_total Bytes stored.
# TYPE vllm:kv_offload_store_bytes_total counter
vllm:kv_offload_store_bytes_total{engine="0",model_name="tiny"} 7.340032e+06
# HELP vllm:kv_offload_store_size Sizes of stores.
# TYPE vllm:kv_offload_store_size histogram
vllm:kv_offload_store_size_bucket{engine="0",le="+Inf",model_name="tiny"} 32.0
vllm:kv_offload_store_size_count{engine="0",model_name="tiny"} 32.0
vllm:kv_offload_store_size_sum{engine="0",model_name="tiny"} 7.340032e+06
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="tiny"} 3.0
# HELP kv_autotune_evictions_total Chunks that left the host to make room.
# TYPE kv_autotune_evictions_total counter
kv_autotune_evictions_total{engine="0",model_name="tiny"} 7.0
"""


def test_every_counter_is_read_once() -> None:
    """Each field has its series' value; the deprecated byte counter beside it does not count again."""
    assert parse(PAGE) == EngineCounters(
        device_tokens=20288,
        host_tokens=9920,
        computed_tokens=4352,
        stored_bytes=7_340_032,
        loaded_bytes=20_316_160,
        load_s=0.01916894100031641,
        stores=32,
        preemptions=3,
        evictions=7,
    )
    assert parse(PAGE).prompt_tokens == 34_560


def test_missing_series_are_zero() -> None:
    """A server without offloading has none of the offloading series."""
    assert parse("") == EngineCounters()


def test_engines_are_summed() -> None:
    """Data-parallel engines count by themselves; the reading is their sum."""
    second = "\n".join(line for line in PAGE.splitlines() if "num_preemptions" in line and not line.startswith("#"))
    page = PAGE.replace(second, second + "\n" + second.replace('engine="0"', 'engine="1"'))
    assert parse(page).preemptions == 6


def test_difference_is_what_came_between() -> None:
    """Two readings subtract field by field."""
    later, earlier = EngineCounters(host_tokens=10, loads=4), EngineCounters(host_tokens=3, loads=4)
    assert later - earlier == EngineCounters(host_tokens=7)
