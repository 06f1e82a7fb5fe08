"""Whether tuning would pay, and what is wrong, from pages alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from autotune.advise.doctor import Basis, Diagnosis, Verdict, diagnose, window_between, window_since_start
from autotune.advise.live import read_saved_page
from autotune.core.errors import ConfigError
from autotune.core.signals import FindingKind, Snapshot

PAGES = Path(__file__).parents[2] / "data/metrics"
# A busy hour of one engine: 36 million prompt tokens, of which 6 million are computed at 0.1 ms each.
BUSY: Mapping[str, float] = {
    "vllm:prompt_tokens_total": 36e6,
    "vllm:prefix_cache_queries_total": 36e6,
    "vllm:prefix_cache_hits_total": 30e6,
    "vllm:external_prefix_cache_queries_total": 0,
    'vllm:prompt_tokens_by_source_total{source="local_compute"}': 6e6,
    'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}': 30e6,
    'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}': 0,
    "vllm:generation_tokens_total": 3e6,
    'vllm:request_success_total{finished_reason="stop"}': 9000,
    "vllm:num_preemptions_total": 0,
    "vllm:kv_cache_usage_perc": 0.4,
    'vllm:cache_config_info{block_size="16",num_gpu_blocks="20000",enable_prefix_caching="True"}': 1,
    'vllm:request_prefill_time_seconds_bucket{le="+Inf"}': 9000,
    "vllm:request_prefill_time_seconds_sum": 600,
    "vllm:request_prefill_time_seconds_count": 9000,
    'vllm:request_inference_time_seconds_bucket{le="+Inf"}': 9000,
    "vllm:request_inference_time_seconds_sum": 18000,
    "vllm:request_inference_time_seconds_count": 9000,
}


def page(at_s: float = 0.0, **changes: float) -> Snapshot:
    """The busy page with other values; names have __ for : and are completed."""
    values = dict(BUSY)
    for name, value in changes.items():
        values[name.replace("__", ":", 1)] = value
    return page_of(values, at_s)


def page_of(values: Mapping[str, float], at_s: float = 0.0) -> Snapshot:
    """A page with these samples."""
    text = "".join(f"{name} {value}\n" for name, value in values.items())
    return read_saved_page(text.encode(), target="test", at_s=at_s)


def subjects(diagnosis: Diagnosis, kind: FindingKind) -> list[str]:
    """What findings of one kind are about."""
    return [finding.subject for finding in diagnosis.findings if finding.kind is kind]


def evidence(diagnosis: Diagnosis, kind: FindingKind) -> str:
    """All evidence of one kind."""
    return "; ".join(finding.evidence for finding in diagnosis.findings if finding.kind is kind)


def after(window_s: float = 3600.0, **changes: float) -> Diagnosis:
    """Diagnosis of an hour in which all that stands on the page happened."""
    nothing = page_of({name: 0.0 if "info" not in name and "usage" not in name else v for name, v in BUSY.items()})
    return diagnose(window_between(nothing, page(window_s, **changes)))


def test_the_upper_bound_is_all_prefill() -> None:
    """600 s of prefill in an hour are four device-hours a day; requests that overlap can only make it less."""
    answer = after()
    assert answer.basis is Basis.INTERVAL
    assert answer.worth.verdict is Verdict.MAY_PAY
    assert answer.worth.low_device_hours_per_day == 0.0
    assert answer.worth.high_device_hours_per_day == pytest.approx(24 * 600 / 3600)
    assert answer.figures.prefill_s_per_token_high == pytest.approx(1e-4)
    assert answer.figures.prefill_s_per_token_low == pytest.approx(1e-4 / 5)
    assert answer.figures.requests_at_once == pytest.approx(5.0)
    assert answer.figures.turnover_s == pytest.approx(320_000 / (9e6 / 3600))
    assert answer.is_tuning_possible


def test_devices_scale_the_hours() -> None:
    """Eight devices work on each prefill, so eight times the hours; fewer than ranks are refused."""
    nothing = page_of({name: 0.0 if "info" not in name and "usage" not in name else v for name, v in BUSY.items()})
    window = window_between(nothing, page(3600.0))
    assert diagnose(window, 8).worth.high_device_hours_per_day == pytest.approx(8 * 4.0)
    with pytest.raises(ConfigError, match="at least as many devices"):
        diagnose(window, 0)


def test_time_that_overlaps_is_no_more_than_the_clock() -> None:
    """Prefill times of many requests at once add up to more than the hour; the device has only that hour."""
    answer = after(**{"vllm__request_prefill_time_seconds_sum": 90_000.0})
    assert answer.worth.high_device_hours_per_day == pytest.approx(24.0)


def test_ghost_hits_prove_a_loss() -> None:
    """What the plug-in saw asked for again after it had left is the lower bound, at the cost of full overlap."""
    answer = after(
        **{
            "vllm__kv_autotune_ghost_hits_total": 100_000.0,
            'vllm__kv_autotune_lookup_chunks_total{result="hit"}': 0.0,
        }
    )
    # The counter was not announced on the first page, so its increase is unknown there.
    assert answer.worth.low_device_hours_per_day == 0.0
    total = diagnose(window_since_start(page(**{"vllm__kv_autotune_ghost_hits_total": 100_000.0}), 3600.0))
    assert total.worth.low_device_hours_per_day == pytest.approx(24 * 100_000 * 16 * 2e-5 / 3600)
    assert total.worth.verdict is Verdict.PAYS
    assert "the plug-in is there" in total.tunes


def test_a_device_that_never_evicted_has_nothing_to_gain() -> None:
    """As long as all tokens since the start fit, every computed one was new."""
    roomy = {k: v for k, v in BUSY.items() if "20000" not in k}
    roomy['vllm:cache_config_info{block_size="16",num_gpu_blocks="9000000",enable_prefix_caching="True"}'] = 1
    answer = diagnose(window_since_start(page_of(roomy), 3600.0))
    assert answer.worth.verdict is Verdict.DOES_NOT_PAY
    assert answer.worth.high_device_hours_per_day == 0.0
    assert "nothing has been evicted yet" in answer.worth.because[0]
    assert not answer.is_tuning_possible


def test_the_first_filling_was_new() -> None:
    """Since the start, what filled the empty device cannot have been there before."""
    answer = diagnose(window_since_start(page(), 3600.0))
    filled = 6e6 + 3e6 + 9000 * 16
    assert answer.worth.high_device_hours_per_day == pytest.approx(4.0 * (1 - 320_000 / filled))


def test_what_is_missing_is_said() -> None:
    """Without times, or without traffic, there is no answer but what it takes."""
    lacking = {k: v for k, v in BUSY.items() if "time_seconds" not in k}
    answer = diagnose(window_since_start(page_of(lacking), None))
    assert answer.worth.verdict is Verdict.CANNOT_TELL
    assert answer.worth.high_device_hours_per_day is None
    words = "; ".join(answer.worth.missing)
    assert "how long the engine has been running" in words
    assert "how long prefill takes" in words
    idle = after(**{'vllm__request_success_total{finished_reason="stop"}': 3.0})
    assert "3 of requests finished" in "; ".join(idle.worth.missing)


def test_time_to_the_first_token_bounds_prefill_where_nothing_else_does() -> None:
    """An engine without prefill times has an upper bound by the first token, and none below."""
    text = """sglang:prompt_tokens_total 1000000
sglang:cached_tokens_total 500000
sglang:num_requests_total 100
sglang:time_to_first_token_seconds_sum 80
sglang:time_to_first_token_seconds_count 100
sglang:queue_time_seconds_sum 30
sglang:queue_time_seconds_count 100
"""
    answer = diagnose(window_since_start(read_saved_page(text.encode(), target="t"), 3600.0))
    assert answer.figures.prefill_s_per_token_high == pytest.approx(50 / 500_000)
    assert answer.figures.prefill_s_per_token_low == 0.0
    assert "no plug-in" in answer.tunes


def test_a_restart_between_two_looks_is_said() -> None:
    """What was counted before the restart is left out, and without a time since then there is no rate."""
    answer = diagnose(window_between(page(0.0), page(10.0, vllm__prompt_tokens_total=5.0)))
    assert (answer.basis, answer.seconds) == (Basis.SINCE_START, None)
    assert "began anew between the two looks" in answer.notes[0]


@pytest.mark.parametrize(
    ("changes", "subject", "words"),
    [
        (
            {"vllm__external_prefix_cache_hits_total": 0.0, "vllm__kv_offload_load_bytes_total": 5e9},
            "external_hit_tokens",
            "stayed at 0",
        ),
        ({"vllm__prefix_cache_hits_total": 40e6}, "prefix_hit_tokens", "40,000,000 tokens were found of 36,000,000"),
        ({"vllm__external_prefix_cache_queries_total": 12e6}, "external_query_tokens", "which lacked 6,000,000"),
        (
            {"vllm__prefix_cache_queries_total": 45e6, "vllm__num_preemptions_total": 500.0},
            "prefix_hit_tokens",
            "between 58.3 % and 83.3 % of the prompts",
        ),
        ({"vllm__prompt_tokens_total": 50e6}, "prompt_tokens", "add up to 36,000,000"),
    ],
    ids=["hits without tokens", "more hits than queries", "other denominator", "preemption", "sources"],
)
def test_contradictions(changes: dict[str, float], subject: str, words: str) -> None:
    """Each contradiction names its signal and both figures, and has a remedy."""
    answer = diagnose(window_since_start(page(**changes), 3600.0))
    found = [f for f in answer.findings if f.kind is FindingKind.CONTRADICTORY and f.subject == subject]
    assert words in "; ".join(finding.evidence for finding in found)
    assert all(finding.remedy for finding in found)


def test_a_sound_page_has_no_contradiction_and_no_wrong_setting() -> None:
    """Rules that fire on a healthy page are worth nothing."""
    values = {**BUSY, "vllm:external_prefix_cache_queries_total": 6e6, "vllm:external_prefix_cache_hits_total": 0}
    answer = diagnose(window_since_start(page_of(values), 3600.0))
    assert subjects(answer, FindingKind.CONTRADICTORY) == []
    assert subjects(answer, FindingKind.MISCONFIGURED) == []


def test_queries_of_whole_prompts_are_another_denominator() -> None:
    """LMCache counts what the device has too."""
    values = {**BUSY, 'lmcache:num_lookup_tokens_total{worker_id="0"}': 36e6, "lmcache:num_lookup_hits_total": 30e6}
    del values["vllm:external_prefix_cache_queries_total"]
    answer = diagnose(window_since_start(page_of(values), 3600.0))
    assert "counts whole prompts" in evidence(answer, FindingKind.CONTRADICTORY)


@pytest.mark.parametrize(
    ("changes", "subject", "words"),
    [
        (
            {"vllm__kv_offload_store_bytes_total": 1e10, "vllm__kv_offload_load_bytes_total": 1e8},
            "offload",
            "(1.0 %)",
        ),
        (
            {
                "vllm__external_prefix_cache_queries_total": 6e6,
                "vllm__external_prefix_cache_hits_total": 1e6,
                "vllm__kv_offload_load_time_total": 500.0,
            },
            "loads",
            "took 500.00 s, computing them takes at most 100.00 s",
        ),
        ({"vllm__num_preemptions_total": 900.0}, "device tier", "900 preemptions in 9,000 requests"),
        ({"vllm__kv_offload_allocation_failure_total": 7.0}, "host tier", "7 stores found no room"),
        ({"vllm__kv_offload_cpu_cache_usage_perc": 0.97}, "host tier", "transfers hold 97 %"),
        ({"vllm__kv_autotune_fallbacks_total": 1.0}, "plug-in", "1 faults after which"),
    ],
    ids=["stores never pay", "loads cost more", "preemptions", "no room", "pinned", "plug-in"],
)
def test_wrong_settings(changes: dict[str, float], subject: str, words: str) -> None:
    """Each wrong setting is named with its figures, and has a remedy."""
    answer = diagnose(window_since_start(page(**changes), 3600.0))
    found = [f for f in answer.findings if f.kind is FindingKind.MISCONFIGURED and f.subject == subject]
    assert words in "; ".join(finding.evidence for finding in found)
    assert all(finding.remedy for finding in found)


def test_prefix_caching_that_is_off_is_said_first() -> None:
    """Nothing can be found where nothing is kept."""
    values = {k: v for k, v in BUSY.items() if "info" not in k}
    values['vllm:cache_config_info{block_size="16",num_gpu_blocks="20000",enable_prefix_caching="False"}'] = 1
    assert "prefix caching" in subjects(diagnose(window_since_start(page_of(values), 60.0)), FindingKind.MISCONFIGURED)


def test_a_host_tier_smaller_than_the_device() -> None:
    """In tokens where the page tells both, in bytes per loaded token where it tells the flag, else in blocks."""
    text = "sglang:max_total_num_tokens 500000\nsglang:hicache_host_total_tokens 200000\n"
    small = diagnose(window_since_start(read_saved_page(text.encode(), target="t"), 60.0))
    assert "holds 200,000 tokens, the device 500,000" in evidence(small, FindingKind.MISCONFIGURED)
    values = {k: v for k, v in BUSY.items() if "info" not in k}
    values['vllm:cache_config_info{block_size="16",kv_offloading_size="10.0",num_gpu_blocks="20000"}'] = 1
    values |= {"vllm:external_prefix_cache_hits_total": 1e6, "vllm:kv_offload_load_bytes_total": 1e6 * 131_072}
    stated = diagnose(window_since_start(page_of(values), 60.0))
    assert "holds 81,920 tokens, the device 320,000" in evidence(stated, FindingKind.MISCONFIGURED)


def test_processes_with_different_hashes_find_nothing_of_each_other() -> None:
    """Ranks that store and never find point at the seed; a hash that may have one is worth a note."""
    two = (
        "".join(
            f'vllm:external_prefix_cache_queries_total{{engine="{rank}"}} 90000\n'
            f'vllm:external_prefix_cache_hits_total{{engine="{rank}"}} {{hits}}\n'
            f'vllm:kv_offload_store_bytes_total{{engine="{rank}"}} 1000\n'
            for rank in (0, 1)
        )
        + 'vllm:cache_config_info{prefix_caching_hash_algo="xxhash",block_size="16"} 1\n'
    )
    silent = diagnose(window_since_start(read_saved_page(two.replace("{hits}", "0").encode(), target="t"), 60.0))
    assert "of 180,000 tokens looked up behind the device none was found" in evidence(silent, FindingKind.MISCONFIGURED)
    assert "PYTHONHASHSEED" in "".join(f.remedy for f in silent.findings if f.subject == "hash of blocks")
    finds = diagnose(window_since_start(read_saved_page(two.replace("{hits}", "7").encode(), target="t"), 60.0))
    assert "hash of blocks" not in subjects(finds, FindingKind.MISCONFIGURED)
    assert "xxhash begins at a random value" in evidence(finds, FindingKind.NOTE)


def test_a_slow_link_is_seen_on_a_real_page() -> None:
    """VLLM on a link of 5 MB/s: loading took four times as long as computing would have."""
    real = read_saved_page((PAGES / "vllm_0.32.0_offload_slow_link.prom").read_bytes(), target="t")
    answer = diagnose(window_since_start(real, 60.0))
    assert "loading 10,240 tokens took 4.19 s" in evidence(answer, FindingKind.MISCONFIGURED)
    assert answer.figures.bytes_per_token == 2048.0
