"""What engines and gateways do to pages, one case each."""

from __future__ import annotations

import json
import math

import pytest

from autotune.core.signals import CollectError, FindingKind, Signal, Snapshot
from autotune_collectors.prometheus import read_page
from autotune_collectors.prometheus.page import MAX_PAGE_BYTES


def read(text: str, **options: str) -> Snapshot:
    """What a page with this text says."""
    return read_page(text.encode(), target="test", at_s=1.0, **options)


def told(snapshot: Snapshot, kind: FindingKind) -> str:
    """Evidence of all findings of one kind."""
    return "; ".join(finding.evidence for finding in snapshot.findings if finding.kind is kind)


@pytest.mark.parametrize("value", ["NaN", "-nan", "nan", "-1", "-1.0", "+Inf", "-Inf"])
def test_what_engines_write_for_unknown_is_unknown(value: str) -> None:
    """-1, NaN and infinity are None, with a finding, and never 0."""
    page = read(f'vllm:num_requests_running{{engine="0"}} {value}\n')
    assert page.readings[Signal.REQUESTS_RUNNING].value is None
    assert told(page, FindingKind.MALFORMED)


def test_one_unknown_rank_makes_the_sum_unknown() -> None:
    """The sum over ranks is not known while one of them is not."""
    page = read('vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} NaN\n')
    assert page.value(Signal.REQUESTS_RUNNING) is None


@pytest.mark.parametrize("value", ["None", "null", "", "0x10", "1_000", "12abc", '"5"'])
def test_texts_for_numbers_cost_their_line_only(value: str) -> None:
    """A line without a number is counted and told; the lines beside it are read."""
    page = read(f"vllm:num_requests_running {value}\nvllm:num_requests_waiting 4\n")
    assert page.value(Signal.REQUESTS_RUNNING) is None
    assert page.value(Signal.REQUESTS_WAITING) == 4.0
    assert "no samples" in told(page, FindingKind.MALFORMED)
    assert not page.complete


def test_none_in_a_label_is_unknown() -> None:
    """Settings that vLLM has not computed yet are the text None."""
    page = read('vllm:cache_config_info{block_size="16",num_gpu_blocks="None",enable_prefix_caching="False"} 1.0\n')
    assert page.value(Signal.BLOCK_TOKENS) == 16.0
    assert Signal.DEVICE_BLOCKS not in page.readings
    assert page.value(Signal.PREFIX_CACHING) == 0.0


def test_room_of_ranks_adds_up_and_settings_do_not() -> None:
    """Two engines have twice the blocks of one and the same block size."""
    line = 'vllm:cache_config_info{{block_size="16",engine="{}",num_gpu_blocks="100"}} 1.0\n'
    page = read(line.format(0) + line.format(1))
    assert (page.value(Signal.DEVICE_BLOCKS), page.value(Signal.BLOCK_TOKENS)) == (200.0, 16.0)


def test_tensor_parallel_ranks_count_once_and_their_bytes_add_up() -> None:
    """Four shards report the same tokens each, and a quarter of the bytes."""
    lines = "".join(
        f'sglang:load_back_tokens_total{{tp_rank="{rank}",pool="kv"}} 1000\n'
        f'sglang:load_back_bytes_total{{tp_rank="{rank}"}} 500\n'
        for rank in range(4)
    )
    page = read(lines)
    assert page.value(Signal.LOAD_TOKENS) == 1000.0
    assert page.value(Signal.LOAD_BYTES) == 2000.0


def test_shares_of_ranks_are_averaged() -> None:
    """Two ranks that are half full are half full, under whatever labels they come."""
    page = read('llamacpp:kv_cache_usage_ratio 0.5\nllamacpp:kv_cache_usage_ratio{slot="1"} 0.7\n')
    assert page.value(Signal.DEVICE_KV_FRAC) == pytest.approx(0.6)


def test_a_percentage_is_not_taken_for_a_fraction() -> None:
    """A share above one is of another unit, so it is unknown."""
    page = read('vllm:kv_cache_usage_perc{engine="0"} 42.5\n')
    assert page.value(Signal.DEVICE_KV_FRAC) is None
    assert "no share of one" in told(page, FindingKind.MALFORMED)


@pytest.mark.parametrize("prefix", ["vllm:", "vllm_", "ray_vllm_", "ray_vllm:", "gateway_team7_vllm_"])
def test_prefixes_of_gateways_are_seen_through(prefix: str) -> None:
    """Ray writes underscores for colons, and gateways put names in front."""
    page = read(f"{prefix}prompt_tokens_total 7\n{prefix}kv_autotune_evictions_total 3\n")
    assert page.value(Signal.PROMPT_TOKENS) == 7.0
    assert page.value(Signal.PLUGIN_EVICTIONS) == 3.0
    assert page.engine.layers == ("kv-autotune",)


def test_two_spellings_of_one_series_count_once() -> None:
    """A page with vllm: and vllm_ names has the same counts twice."""
    page = read("vllm_prompt_tokens_total 7\nvllm:prompt_tokens_total 7\nray_vllm_generation_tokens_total 5\n")
    assert page.value(Signal.PROMPT_TOKENS) == 7.0
    assert page.value(Signal.GENERATION_TOKENS) == 5.0
    assert "each counts once" in told(page, FindingKind.ALIASED)


def test_a_series_that_stands_twice_counts_once() -> None:
    """Processes that register twice repeat a series with the same labels."""
    page = read('vllm:prompt_tokens_total{engine="0"} 7\nvllm:prompt_tokens_total{engine="0"} 7\n')
    assert page.value(Signal.PROMPT_TOKENS) == 7.0
    assert "more than once" in told(page, FindingKind.MALFORMED)


def test_names_of_one_thing_that_differ_contradict_each_other() -> None:
    """A deprecated name that says something else than its successor is a contradiction."""
    page = read("vllm:prefix_cache_hits_total 1000\nvllm:gpu_prefix_cache_hits_total 10\n")
    assert page.value(Signal.PREFIX_HIT_TOKENS) == 1000.0
    assert "is 1000" in told(page, FindingKind.CONTRADICTORY)


def test_an_entry_of_another_version_is_left_out() -> None:
    """Where the version is known, names that it no longer has are not believed."""
    text = "vllm:gpu_prefix_cache_hits_total 10\nvllm:prompt_tokens_total 1\n"
    assert read(text).value(Signal.PREFIX_HIT_TOKENS) == 10.0
    assert read(text, version="0.10.2").value(Signal.PREFIX_HIT_TOKENS) == 10.0
    assert read(text, version="0.32.0").value(Signal.PREFIX_HIT_TOKENS) is None


def test_two_engines_on_one_page() -> None:
    """The one with more series is read, and that the other is left out is said."""
    page = read("vllm:prompt_tokens_total 7\nvllm:generation_tokens_total 5\nsglang:prompt_tokens_total 90\n")
    assert (page.engine.name, page.value(Signal.PROMPT_TOKENS)) == ("vllm", 7.0)
    assert "SGLang" in told(page, FindingKind.AMBIGUOUS)


def test_a_layer_on_an_engines_page_fills_what_the_engine_does_not_say() -> None:
    """LMCache beside vLLM: its stored tokens are read, its lookups do not replace vLLM's own."""
    page = read(
        "vllm:prompt_tokens_total 7\nvllm:external_prefix_cache_queries_total 100\n"
        'lmcache:num_lookup_tokens_total{worker_id="0"} 900\nlmcache:num_stored_tokens_total{worker_id="0"} 64\n'
    )
    assert page.engine.layers == ("lmcache",)
    assert page.value(Signal.EXTERNAL_QUERY_TOKENS) == 100.0
    assert page.value(Signal.STORE_TOKENS) == 64.0


def test_created_samples_are_times_and_no_values() -> None:
    """_created of a counter is when it began; it is never added to the counter."""
    page = read("vllm:prompt_tokens_total 7\nvllm:prompt_tokens_created 1.75e9\n")
    reading = page.readings[Signal.PROMPT_TOKENS]
    assert (reading.value, reading.created_s) == (7.0, 1.75e9)


def test_histograms_that_make_no_sense_are_unknown() -> None:
    """Counts that fall from bucket to bucket are no histogram."""
    falling = (
        'vllm:time_to_first_token_seconds_bucket{le="0.1"} 9\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 3\n'
    )
    page = read(falling + "vllm:prompt_tokens_total 7\n")
    assert Signal.TTFT_S not in page.histograms
    assert "not cumulated" in told(page, FindingKind.MALFORMED)


def test_ranks_with_other_buckets_keep_count_and_sum() -> None:
    """Buckets that differ cannot be added; counts and sums can."""
    family = "vllm:e2e_request_latency_seconds"
    page = read(
        f'{family}_bucket{{engine="0",le="1"}} 1\n{family}_bucket{{engine="0",le="+Inf"}} 2\n'
        f'{family}_sum{{engine="0"}} 3\n{family}_count{{engine="0"}} 2\n'
        f'{family}_bucket{{engine="1",le="2"}} 1\n{family}_bucket{{engine="1",le="+Inf"}} 1\n'
        f'{family}_sum{{engine="1"}} 1\n{family}_count{{engine="1"}} 1\n'
    )
    histogram = page.histograms[Signal.E2E_S]
    assert (histogram.count, histogram.sum, histogram.bounds) == (3.0, 4.0, ())


def test_triton_tells_blocks_by_a_label() -> None:
    """One family of the TensorRT-LLM backend holds them all."""
    family = 'nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="{}",model="tensorrt_llm",version="1"}} {}\n'
    page = read(
        family.format("max", 6239)
        + family.format("used", 12)
        + family.format("tokens_per", 64)
        + 'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 3\n'
        + 'nv_inference_request_success{model="preprocessing",version="1"} 8\n'
        + 'nv_inference_request_success{model="tensorrt_llm",version="1"} 8\n'
        + 'nv_inference_request_success{model="ensemble",version="1"} 8\n'
    )
    assert page.engine.name == "triton"
    assert (page.value(Signal.DEVICE_BLOCKS), page.value(Signal.BLOCK_TOKENS)) == (6239.0, 64.0)
    assert (page.value(Signal.REQUESTS_RUNNING), page.value(Signal.REQUESTS_FINISHED)) == (3.0, 8.0)
    assert (page.engine.ranks, told(page, FindingKind.AMBIGUOUS)) == (1, "")


def test_statistics_of_iterations_are_read_from_their_newest_item() -> None:
    """TensorRT-LLM's JSON: momentary and cumulated values of the last item; increments of one iteration are not."""
    items = [
        {"iter": 1, "numActiveRequests": 9, "kvCacheStats": {"usedNumBlocks": 9, "maxNumBlocks": 100}},
        {
            "iter": 2,
            "numActiveRequests": 2,
            "numCompletedRequests": 5,
            "kvCacheStats": {"usedNumBlocks": 7, "maxNumBlocks": 100, "tokensPerBlock": 32, "reusedBlocks": 40},
        },
    ]
    page = read(json.dumps(items))
    assert page.engine.name == "tensorrt-llm"
    assert (page.value(Signal.REQUESTS_RUNNING), page.value(Signal.DEVICE_BLOCKS)) == (2.0, 100.0)
    assert (page.value(Signal.BLOCKS_REUSED), page.value(Signal.REQUESTS_FINISHED)) == (40.0, None)


def test_a_page_in_quotes_is_read() -> None:
    """Some builds of llama.cpp send the page as one JSON string."""
    page = read(json.dumps("# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 12\n"))
    assert page.value(Signal.COMPUTED_TOKENS) == 12.0
    assert "quoted" in told(page, FindingKind.MALFORMED)


def test_exemplars_timestamps_and_carriage_returns_are_put_up_with() -> None:
    """OpenMetrics and proxies add to lines; the value stays the value."""
    page = read(
        'vllm:prompt_tokens_total{engine="0"} 7 1754997400236\r\n'
        'vllm:e2e_request_latency_seconds_bucket{le="+Inf"} 5 # {trace_id="x"} 0.3\n# EOF\n'
    )
    assert page.value(Signal.PROMPT_TOKENS) == 7.0
    assert page.histograms[Signal.E2E_S].count == 5.0


def test_huge_numbers_do_not_become_infinite_sums() -> None:
    """Whole numbers beyond a float, and sums beyond it, are unknown."""
    page = read(
        f"vllm:num_requests_running {10**400}\n"
        'vllm:prompt_tokens_total{engine="0"} 1e308\nvllm:prompt_tokens_total{engine="1"} 1e308\n'
    )
    assert page.value(Signal.REQUESTS_RUNNING) is None
    assert page.value(Signal.PROMPT_TOKENS) is None


@pytest.mark.parametrize(
    ("page", "rule"),
    [
        (b"", "known here"),
        (b"up 1\nprocess_cpu_seconds_total 3\n", "known here"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"vllm:prompt_tokens_total 1\0", "is text"),
        (b"[]", "must have an item"),
        (b"[" * 100_000, "must be JSON"),
        (b'{"detail":"Not Found"}', "known here"),
        (b"<html><body>Grafana</body></html>", "known here"),
    ],
)
def test_what_is_no_page_is_refused(page: bytes, rule: str) -> None:
    """Something else than a page of a known engine is one error with the rule."""
    with pytest.raises(CollectError, match=rule):
        read_page(page, target="test", at_s=1.0)


def test_a_page_beyond_all_bounds_is_refused() -> None:
    """A size that no engine has is refused before it is looked at."""
    with pytest.raises(CollectError, match="at most 64 MiB"):
        read_page(b"x" * (MAX_PAGE_BYTES + 1), target="test", at_s=1.0)


def test_endless_lines_and_names_cost_themselves_only() -> None:
    """A line without end is left out, whether it is a name or labels."""
    text = "vllm:" + "x" * 1_000_000 + " 1\n" + 'vllm:num_requests_running{engine="' + "0" * 100_000 + '"} 1\n'
    page = read(text + "vllm:num_requests_waiting 4\n")
    assert page.value(Signal.REQUESTS_WAITING) == 4.0
    assert page.value(Signal.REQUESTS_RUNNING) is None
    assert math.isfinite(page.at_s)
