"""Advice from the counters of a running engine."""

from __future__ import annotations

from fractions import Fraction

import pytest

from autotune.advise.advice import Answer, Pressure, advise
from autotune.advise.live import observe_page
from autotune.advise.pressure import Observations
from autotune.core.errors import ConfigError
from autotune.core.signals import CollectError
from autotune.core.units import GIB
from autotune.geometry.kinds import Technique

# Lines of a page of vLLM 0.32.0 with its own offloading.
PAGE = """\
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 0.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 20160.0
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.796044142136812e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 5888.0
vllm:external_prefix_cache_queries_total{engine="0",model_name="tiny"} 14272.0
vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} 10240.0
vllm:num_preemptions_total{engine="0",model_name="tiny"} 0.0
vllm:request_prompt_tokens_count{engine="0",model_name="tiny"} 56.0
vllm:request_prompt_tokens_sum{engine="0",model_name="tiny"} 20160.0
vllm:request_generation_tokens_sum{engine="0",model_name="tiny"} 896.0
"""


def observed(page: str = PAGE) -> Observations:
    """What a page says of a device with 40 GiB for Llama 3.1 8B."""
    return observe_page(
        page,
        growth_bytes=Fraction(131_072),
        device_bytes=40 * GIB,
        weights_bytes=16 * 10**9,
        break_even_tokens=64,
    )


def replaced(series: str, value: str) -> str:
    """The page with another value of one series."""
    lines = [
        f"{line.rpartition(' ')[0]} {value}" if line.startswith(series + "{") else line for line in PAGE.splitlines()
    ]
    return "\n".join(lines)


def test_counters_are_read() -> None:
    """Shares and means come from sums; what counters do not say stays unknown."""
    seen = observed()
    assert seen.device_hit_frac == 5888 / 20160
    assert seen.host_hit_frac == 10240 / 14272
    assert seen.mean_context_tokens == (20160 + 896) / 56
    assert (seen.running_bytes, seen.requests_short, seen.read_frac) == (0, 0, 0.0)
    assert (seen.footprint_bytes, seen.idle_frac, seen.unbounded_hit_frac) == (None, None, None)


def test_blocks_that_the_host_finds_are_idle_blocks_that_come_back() -> None:
    """A host that has most of what left the device shows that offload answers."""
    advice = advise(observed())
    assert [finding.pressure for finding in advice.findings] == [Pressure.IDLE]
    assert "the host has 71.7 %" in advice.findings[0].evidence
    assert advice.techniques[0].technique is Technique.OFFLOAD
    assert "record a trace" in advice.notes[1]


def test_preempted_requests_are_short_of_space() -> None:
    """Preemptions show that running requests do not fit: quantise before evicting."""
    page = replaced("vllm:num_preemptions_total", "7.0").replace("vllm:external", "other:external")
    advice = advise(observed(page))
    assert [finding.pressure for finding in advice.findings] == [Pressure.RUNNING]
    assert "7 requests were preempted or wait for space" in advice.findings[0].evidence
    answers = {row.technique: row.answer for row in advice.techniques}
    assert answers[Technique.QUANTISATION] is Answer.FIRST
    assert answers[Technique.EVICTION_BUDGET] is Answer.LATER


def test_a_full_device_reads_mostly_kv() -> None:
    """At 90 % of 40 GiB in use a step reads more KV than weights; ranks are averaged, not added."""
    page = replaced("vllm:kv_cache_usage_perc", "0.9")
    assert Pressure.BANDWIDTH in {finding.pressure for finding in advise(observed(page)).findings}
    both = page + '\nvllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.1\n'
    assert observed(both).running_bytes == 20 * GIB
    assert observed(both).running_tokens == 20 * GIB // 131_072


def test_without_a_host_and_without_pressure_nothing_is_short() -> None:
    """Unknown reuse is no reuse that is missing: no pressure is made up."""
    advice = advise(observed(PAGE.replace("vllm:external", "other:external")))
    assert advice.findings == ()


@pytest.mark.parametrize("value", ["nan", "-1", "many"])
def test_what_is_no_number_is_named(value: str) -> None:
    """A series with another value than a number is unknown, and named with what it has."""
    with pytest.raises(ConfigError, match="advice needs a page with prefix_hit_tokens") as problem:
        observed(replaced("vllm:prefix_cache_hits_total", value))
    assert value in str(problem.value)


def test_another_page_is_refused() -> None:
    """A page of something else is refused; one that lacks a signal is refused with its name."""
    with pytest.raises(CollectError, match="an engine that is known here"):
        observed("# nothing\nprocess_cpu_seconds_total 1.0\n")
    with pytest.raises(ConfigError, match=r"a page with device_kv_frac .*; got one without; fetch /metrics"):
        observed("vllm:prompt_tokens_total 5\n")


def test_pages_of_other_engines_are_read_too() -> None:
    """The advice needs signals, not the names of one engine."""
    page = """sglang:token_usage{tp_rank="0"} 0.5
sglang:prompt_tokens_total 1000
sglang:cached_tokens_total 250
sglang:num_retracted_requests_total 0
sglang:num_queue_reqs 0
sglang:prompt_tokens_histogram_count 10
sglang:prompt_tokens_histogram_sum 1000
sglang:generation_tokens_total 200
"""
    seen = observed(page)
    assert (seen.device_hit_frac, seen.mean_context_tokens, seen.running_bytes) == (0.25, 120.0, 20 * GIB)
