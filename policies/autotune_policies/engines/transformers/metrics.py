"""A streaming cache's counters as Prometheus series, read when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from autotune_policies.engines.transformers.stats import StreamingStats

_PREFIX = "kv_autotune_streaming"
_COUNTERS: tuple[tuple[str, str, Callable[[StreamingStats], float]], ...] = (
    ("steps", "Forward passes, those of prompts included.", lambda s: s.steps),
    ("loads", "Loads issued.", lambda s: s.loads),
    ("loaded_bytes", "Bytes host to device.", lambda s: s.loaded_bytes),
    ("stored_bytes", "Bytes device to host.", lambda s: s.stored_bytes),
    ("dropped_bytes", "Bytes loaded and never computed on.", lambda s: s.dropped_bytes),
    ("prefetch_hits", "Layers that had arrived when compute needed them.", lambda s: s.prefetch_hits),
    ("prefetch_late", "Layers that were still on their way.", lambda s: s.prefetch_late),
    ("prefetch_misses", "Layers whose load was issued when compute needed them.", lambda s: s.prefetch_misses),
    ("transfer_seconds", "Time for which the link was busy with loads.", lambda s: s.transfer_s),
    ("wait_seconds", "Time for which compute waited for loads.", lambda s: s.wait_s),
)
_GAUGES: tuple[tuple[str, str, Callable[[StreamingStats], float]], ...] = (
    ("overlap_ratio", "beta: hidden part of the transfers that could be hidden.", lambda s: s.overlap_frac),
    ("resident_layers", "Streamable layers that stay on the device.", lambda s: s.n_resident),
    ("streamed_layers", "Layers that are streamed.", lambda s: s.n_streamed),
    ("prefetch_depth", "Streamed layers loaded ahead.", lambda s: s.prefetch_depth),
    ("slots", "Slots held.", lambda s: s.slots),
    ("device_bytes", "KV bytes on the device, slots included.", lambda s: s.device_bytes),
    ("host_bytes", "Host memory of the masters.", lambda s: s.host_bytes),
)


class StreamingCollector:
    """Shows one cache to a Prometheus registry: ``registry.register(StreamingCollector(cache.stats))``.

    Args:
        stats: Gives a snapshot; it is called for every scrape and costs the generation nothing.
    """

    def __init__(self, stats: Callable[[], StreamingStats]) -> None:
        self._stats = stats

    def describe(self) -> Iterable[Any]:
        """The series without values, so that registering one calls nothing."""
        yield from (CounterMetricFamily(f"{_PREFIX}_{name}", text) for name, text, _ in _COUNTERS)
        yield from (GaugeMetricFamily(f"{_PREFIX}_{name}", text) for name, text, _ in _GAUGES)

    def collect(self) -> Iterable[Any]:
        """The series of one scrape, all from one snapshot."""
        now = self._stats()
        for name, text, value in _COUNTERS:
            yield CounterMetricFamily(f"{_PREFIX}_{name}", text, value=value(now))
        for name, text, value in _GAUGES:
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value(now))
