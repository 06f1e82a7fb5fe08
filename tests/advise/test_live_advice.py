"""Advice from the counters of a running engine."""

from __future__ import annotations

from fractions import Fraction

import pytest

from autotune.advise.advice import Answer, Pressure, advise
from autotune.advise.live import observe_page
from autotune.advise.pressure import Observations
from autotune.core.errors import ConfigError
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
    """A series with another value than a number is named."""
    with pytest.raises(ConfigError, match="vllm:prefix_cache_hits_total must be a number"):
        observed(replaced("vllm:prefix_cache_hits_total", value))


def test_another_page_is_refused() -> None:
    """A page of something else lacks the series, the first of which is named."""
    with pytest.raises(ConfigError, match="page of a running vLLM; got one without vllm:kv_cache_usage_perc"):
        observed("# nothing\nprocess_cpu_seconds_total 1.0\n")
