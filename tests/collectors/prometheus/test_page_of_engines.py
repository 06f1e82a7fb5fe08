"""Pages of real engines become canonical signals."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.core.signals import Denominator, FindingKind, Signal, Snapshot, rates
from autotune_collectors.prometheus import read_page

PAGES = Path(__file__).parents[2] / "data/metrics"


def read(name: str, **options: str) -> Snapshot:
    """What the page of that name says."""
    return read_page((PAGES / f"{name}.prom").read_bytes(), target="test", at_s=5.0, **options)


def kinds(snapshot: Snapshot, kind: FindingKind) -> list[str]:
    """Subjects of the findings of one kind."""
    return [finding.subject for finding in snapshot.findings if finding.kind is kind]


def test_vllm_0_32_tells_tokens_times_and_offload() -> None:
    """Counters, histograms, settings and the engine's age come from one page of vLLM 0.32."""
    page = read("vllm_0.32.0_offload_slow_link")
    assert (page.engine.name, page.engine.model, page.engine.version, page.engine.ranks) == (
        "vllm",
        "tiny",
        "after 0.28",
        1,
    )
    assert page.value(Signal.PREFIX_QUERY_TOKENS) == 20160.0
    assert page.value(Signal.PREFIX_HIT_TOKENS) == 5888.0
    assert page.value(Signal.EXTERNAL_QUERY_TOKENS) == 20160.0 - 5888.0
    assert page.value(Signal.CACHED_HOST_TOKENS) == 10240.0
    assert page.value(Signal.COMPUTED_TOKENS) == 4032.0
    assert (page.value(Signal.STORE_BYTES), page.value(Signal.LOAD_BYTES)) == (7340032.0, 20971520.0)
    assert page.value(Signal.LOAD_SECONDS) == pytest.approx(4.194304)
    assert (page.value(Signal.DEVICE_BLOCKS), page.value(Signal.BLOCK_TOKENS)) == (64.0, 32.0)
    assert page.value(Signal.REQUESTS_LENGTH) == 56.0
    ttft = page.histogram(Signal.TTFT_S)
    assert ttft is not None
    assert (ttft.count, sum(ttft.counts)) == (56.0, 56.0)
    assert ttft.mean == pytest.approx(6.18629264831543 / 56)
    assert page.engine.facts["prefix_caching_hash_algo"] == "sha256"
    assert "kv_offloading_size" not in page.engine.facts  # its text is None
    assert Signal.HOST_CAPACITY_BYTES not in page.readings


def test_old_names_beside_new_ones_count_once() -> None:
    """Deprecated names of vLLM's offloading are aliases; the new name counts, and both are told."""
    page = read("vllm_0.24_offload_after")
    assert page.value(Signal.STORE_BYTES) == 40370176.0
    assert page.value(Signal.LOAD_BYTES) == 35323904.0
    assert page.readings[Signal.STORE_BYTES].source == "vllm:kv_offload_store_bytes_total"
    assert len(kinds(page, FindingKind.ALIASED)) == 2
    assert not kinds(page, FindingKind.CONTRADICTORY)


def test_a_counter_that_moves_to_its_new_name_keeps_counting() -> None:
    """The new name has no sample before the first store; the old one, at 0, is where the increase begins."""
    before, after = read("vllm_0.24_offload_before"), read("vllm_0.24_offload_after")
    later = read_page((PAGES / "vllm_0.24_offload_after.prom").read_bytes(), target="test", at_s=15.0)
    assert before.readings[Signal.LOAD_BYTES].source == "vllm:kv_offload_total_bytes_total"
    between = rates(before, later)
    assert not between.reset
    assert between.delta(Signal.LOAD_BYTES) == after.value(Signal.LOAD_BYTES)
    assert between.per_second(Signal.PREFIX_HIT_TOKENS) == 833.6
    assert between.histograms[Signal.TTFT_S].count == 70.0


def test_vllm_0_10_has_two_names_of_one_cache() -> None:
    """Whichever of the two names is on the page is read; queries and hits need not come from the same one."""
    page = read("vllm_0.10.0_old_and_new_names")
    assert page.value(Signal.PREFIX_QUERY_TOKENS) == 32.0
    assert page.value(Signal.PREFIX_HIT_TOKENS) == 0.0
    assert page.readings[Signal.PREFIX_HIT_TOKENS].created_s == pytest.approx(1.7537953269353123e9)


def test_ranks_of_one_engine_are_added_and_two_models_are_said() -> None:
    """Data-parallel engines add up; where a page is about two models, that is said, and one can be chosen."""
    page = read("vllm_dp2_two_engines")
    assert page.value(Signal.PROMPT_TOKENS) == 104.0
    assert page.engine.ranks == 2
    assert page.engine.model == ""
    assert kinds(page, FindingKind.AMBIGUOUS) == ["vLLM"]
    one = read("vllm_dp2_two_engines", model="qwen3-8b")
    assert one.value(Signal.REQUESTS_RUNNING) is None
    assert one.engine.model == "qwen3-8b"
    assert not kinds(one, FindingKind.AMBIGUOUS)


def test_announced_series_are_unknown_and_not_zero() -> None:
    """HELP and TYPE without samples announce a signal and say nothing of its value."""
    page = read("vllm_announced_only")
    assert not page.readings
    assert {Signal.REQUESTS_RUNNING, Signal.PREEMPTIONS, Signal.DEVICE_KV_FRAC} <= page.declared
    assert page.value(Signal.REQUESTS_RUNNING) is None
    assert "prefix_hit_tokens" in kinds(page, FindingKind.MISSING)


def test_names_that_a_gateway_rewrote_are_recognised() -> None:
    """Ray's prefix is seen through; -1 is unknown."""
    page = read("vllm_behind_ray_2024-12")
    assert page.engine.name == "vllm"
    assert page.value(Signal.PROMPT_TOKENS) == 58.0
    assert page.value(Signal.DEVICE_KV_FRAC) == pytest.approx(5.88e-05, rel=1e-3)
    assert page.readings[Signal.DEVICE_HIT_FRAC].value is None
    assert "ray_vllm:gpu_prefix_cache_hit_rate" in kinds(page, FindingKind.MALFORMED)


def test_percent_and_fraction_of_sglang_are_told_apart() -> None:
    """The hit rate is a percentage in the pages of 2024, known by their other series, and a fraction later."""
    assert read("sglang_2024-09_percent").value(Signal.DEVICE_HIT_FRAC) == pytest.approx(0.8758777633289988)
    assert read("sglang_0.5.10").value(Signal.DEVICE_HIT_FRAC) == 0.2


def test_sglang_without_a_second_tier_counts_hits_without_their_source() -> None:
    """Cached tokens without a source are the device's."""
    page = read("sglang_0.5.10")
    assert page.value(Signal.PREFIX_HIT_TOKENS) == 1.0
    assert page.value(Signal.PREFIX_QUERY_TOKENS) == 5.0
    assert page.value(Signal.CACHED_HOST_TOKENS) is None
    assert page.value(Signal.DEVICE_CAPACITY_TOKENS) == 430839.0


def test_sglang_adds_data_parallel_ranks_and_reads_hicache() -> None:
    """Room and throughput of two ranks add up, and hits are told apart by where they were found."""
    page = read("sglang_dp2_hicache")
    assert page.engine.ranks == 2
    assert page.value(Signal.HOST_USED_TOKENS) == 5_000_000.0
    assert page.value(Signal.HOST_CAPACITY_TOKENS) == 2 * 3_908_736.0
    assert page.value(Signal.GENERATION_TOKENS_PER_S) == 150.0
    assert page.value(Signal.PREFIX_HIT_TOKENS) == 5.11430304e9
    assert page.value(Signal.CACHED_HOST_TOKENS) == 1.729396096e9
    assert page.value(Signal.COMPUTED_TOKENS) == 200.0
    assert page.value(Signal.LOAD_TOKENS) == 6789.0


def test_lmcache_in_process_is_a_layer() -> None:
    """Its page is recognised though no engine is on it."""
    page = read("lmcache_in_process")
    assert (page.engine.name, page.engine.model) == ("lmcache", "DeepSeek-V2-Lite-Chat")
    assert page.value(Signal.STORE_OPERATIONS) == 0.0


def test_lmcache_server_counts_whole_prompts() -> None:
    """The server's queries count prompts, device hits included, which is told with the value."""
    page = read("lmcache_mp")
    assert page.engine.name == "lmcache-mp"
    assert page.value(Signal.EXTERNAL_HIT_TOKENS) == 28_000.0
    assert page.readings[Signal.EXTERNAL_QUERY_TOKENS].denominator is Denominator.PROMPT
    assert page.value(Signal.HOST_USED_BYTES) == 34359738368.0
    assert page.value(Signal.HOST_KV_FRAC) == 0.4
    assert page.value(Signal.PROCESS_START_S) == 1788750000.0


def test_tensorrt_llm_behind_dynamo() -> None:
    """Requests and times are there, blocks are not: Dynamo's zero blocks of an engine that serves are unknown."""
    page = read("trtllm_1.x_dynamo")
    assert (page.engine.name, page.engine.layers) == ("tensorrt-llm", ("dynamo-kvbm",))
    assert page.value(Signal.REQUESTS_FINISHED) == 2.0
    ttft = page.histogram(Signal.TTFT_S)
    assert ttft is not None
    assert (ttft.count, ttft.quantile(0.5)) == (2.0, 0.04)
    assert page.value(Signal.DEVICE_BLOCKS) is None
    assert page.value(Signal.DEVICE_USED_BLOCKS) is None
    assert "device_blocks" in kinds(page, FindingKind.MISSING)


def test_kvbm_names_are_read_by_direction() -> None:
    """Offload h2d goes to disk, onboard h2d comes to the device."""
    page = read("kvbm_doc_example")
    assert page.value(Signal.STORE_BLOCKS) == 12_500.0
    assert page.value(Signal.LOAD_BLOCKS) == 9_400.0
    assert page.value(Signal.DISK_WRITE_BLOCKS) == 3_200.0
    assert page.value(Signal.HOST_HIT_FRAC) == 0.75
    assert page.value(Signal.OBJECT_HIT_FRAC) == 0.0


def test_llama_cpp_survives_its_nan() -> None:
    """A -nan beside it spoils nothing, and what llama.cpp does not count is said."""
    page = read("llamacpp_nan")
    assert page.engine.name == "llama-cpp"
    assert page.value(Signal.COMPUTED_TOKENS) == 0.0
    assert page.value(Signal.PREFIX_HIT_TOKENS) is None
    assert "prefix_hit_tokens" in kinds(page, FindingKind.MISSING)
