"""The engine's own counters, read from its ``/metrics`` page.

Source: vLLM 0.32.0, ``v1/metrics/loggers.py`` (prompt_tokens_by_source, prompt_tokens_cached_by_source) and
``distributed/kv_transfer/kv_connector/v1/offloading/metrics.py`` (kv_offload_load_bytes and its like). The older
``kv_offload_total_bytes`` counts the same transfers once more and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

# Field of EngineCounters → sample and the labels it must have.
_SAMPLES: dict[str, tuple[str, dict[str, str]]] = {
    "device_tokens": ("vllm:prompt_tokens_cached_by_source_total", {"source": "device"}),
    "host_tokens": ("vllm:prompt_tokens_cached_by_source_total", {"source": "host"}),
    "computed_tokens": ("vllm:prompt_tokens_by_source_total", {"source": "local_compute"}),
    "stored_bytes": ("vllm:kv_offload_store_bytes_total", {}),
    "loaded_bytes": ("vllm:kv_offload_load_bytes_total", {}),
    "store_s": ("vllm:kv_offload_store_time_total", {}),
    "load_s": ("vllm:kv_offload_load_time_total", {}),
    "stores": ("vllm:kv_offload_store_size_count", {}),
    "loads": ("vllm:kv_offload_load_size_count", {}),
    "first_tokens": ("vllm:time_to_first_token_seconds_count", {}),
    "first_token_s": ("vllm:time_to_first_token_seconds_sum", {}),
    "prefill_s": ("vllm:request_prefill_time_seconds_sum", {}),
    "preemptions": ("vllm:num_preemptions_total", {}),
    "evictions": ("kv_autotune_evictions_total", {}),
    "fallbacks": ("kv_autotune_fallbacks_total", {}),
}


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """What an engine has counted since its start; differences of two readings are what happened between them.

    Attributes:
        device_tokens: Prompt tokens found on the device.
        host_tokens: Prompt tokens loaded from the host.
        computed_tokens: Prompt tokens computed.
        stored_bytes: Bytes copied from the device to the host.
        loaded_bytes: Bytes copied from the host to the device.
        store_s: Seconds that stores took.
        load_s: Seconds that loads took.
        stores: Number of stores.
        loads: Number of loads.
        first_tokens: Requests that got their first token.
        first_token_s: Seconds that they waited for it, together.
        prefill_s: Seconds that their prefills took, together.
        preemptions: Requests that lost their place on the device.
        evictions: Chunks that left the host; counted by our manager only.
        fallbacks: Times that our manager fell back to LRU.
    """

    device_tokens: float = 0.0
    host_tokens: float = 0.0
    computed_tokens: float = 0.0
    stored_bytes: float = 0.0
    loaded_bytes: float = 0.0
    store_s: float = 0.0
    load_s: float = 0.0
    stores: float = 0.0
    loads: float = 0.0
    first_tokens: float = 0.0
    first_token_s: float = 0.0
    prefill_s: float = 0.0
    preemptions: float = 0.0
    evictions: float = 0.0
    fallbacks: float = 0.0

    def __sub__(self, earlier: EngineCounters) -> EngineCounters:
        """What was counted after an earlier reading."""
        names = [field.name for field in fields(self)]
        return EngineCounters(**{name: getattr(self, name) - getattr(earlier, name) for name in names})

    @property
    def prompt_tokens(self) -> float:
        """Prompt tokens of all requests."""
        return self.device_tokens + self.host_tokens + self.computed_tokens


def parse(page: str) -> EngineCounters:
    """The counters on a page; those that it does not have are 0, and those of several engines are summed."""
    sums = dict.fromkeys(_SAMPLES, 0.0)
    for name, labels, value in _samples(page):
        for field, (wanted, needed) in _SAMPLES.items():
            if name == wanted and needed.items() <= labels.items():
                sums[field] += value
    return EngineCounters(**sums)


def _samples(page: str) -> Iterator[tuple[str, dict[str, str], float]]:
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value
