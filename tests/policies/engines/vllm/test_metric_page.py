"""vLLM takes the series as they are defined, and shows what was counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from autotune_policies.engines.vllm.metrics import PolicyCounters, RefusalReason, metric_metadata
from autotune_policies.engines.vllm.series import DEFINITIONS

pytestmark = pytest.mark.engine("vllm", "prometheus_client", "msgspec")


def prom_metrics(monkeypatch: pytest.MonkeyPatch) -> Any:
    """VLLM's own page writer, set up for a spec that defines our series."""
    from prometheus_client import Counter, Gauge, Histogram
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading import metrics
    from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
    from vllm.v1.metrics.prometheus import unregister_vllm_metrics

    monkeypatch.setattr(CPUOffloadingSpec, "build_metric_definitions", lambda extra_config: metric_metadata())
    monkeypatch.setattr(metrics.OffloadingSpecFactory, "get_spec_cls", lambda extra_config: CPUOffloadingSpec)
    config = SimpleNamespace(kv_transfer_config=SimpleNamespace(kv_connector_extra_config={}))
    unregister_vllm_metrics()
    types = {Counter: Counter, Gauge: Gauge, Histogram: Histogram}
    return metrics.OffloadPromMetrics(config, types, ["model_name", "engine"], {0: ["tiny", "0"]})


def samples() -> dict[str, float]:
    """Our samples on the page, by name and own labels."""
    from prometheus_client import REGISTRY

    return {
        sample.name + "".join(f" {value}" for name, value in sample.labels.items() if name not in ENGINE_LABELS):
        sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name.startswith("kv_autotune_") and not sample.name.endswith("_created")
    }  # fmt: skip


ENGINE_LABELS = {"model_name", "engine"}


def test_counts_reach_the_page_under_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, drained, serialised as between vLLM's processes, aggregated and shown: the figures are the same."""
    import msgspec
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats

    page = prom_metrics(monkeypatch)
    counters = PolicyCounters(capacity_chunks=100, telemetry="file:///var/records")
    counters.set_policy("rank", "ab" * 32)
    for step in range(3):
        counters.resident_chunks = step
        counters.admissions += 2
        counters.refusals[RefusalReason.BELOW_VICTIM] += 1
        counters.observe_decision(3e-5)
        stats, other = OffloadingConnectorStats(), OffloadingConnectorStats()
        counters.drain(stats)
        data = msgspec.msgpack.decode(msgspec.msgpack.encode(other.aggregate(stats).data))
        page.observe(data)
    shown = samples()
    assert shown["kv_autotune_admissions_total"] == 6
    assert shown["kv_autotune_refusals_total below_victim"] == 3
    assert shown["kv_autotune_refusals_total no_room"] == 0
    assert shown["kv_autotune_resident_chunks"] == 2
    assert shown["kv_autotune_capacity_chunks"] == 100
    assert shown["kv_autotune_policy_info rank abababababab"] == 1
    assert shown["kv_autotune_telemetry_info file:///var/records"] == 1
    assert shown["kv_autotune_decision_seconds_count"] == 3
    assert shown["kv_autotune_decision_seconds_bucket 5e-05"] == 3
    assert shown["kv_autotune_decision_seconds_bucket 2.5e-05"] == 0
    for series in DEFINITIONS:
        assert any(name.startswith(series.name) for name in shown)


def test_a_second_engine_in_the_process_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """VLLM takes only its own series off the registry; ours must neither clash nor keep old counts."""
    first = prom_metrics(monkeypatch)
    first.observe({"types": {"kv_autotune_admissions_total": "counter"},
                   "data": {"kv_autotune_admissions_total": {(): 5}}})  # fmt: skip
    assert samples()["kv_autotune_admissions_total"] == 5
    prom_metrics(monkeypatch)
    assert "kv_autotune_admissions_total" not in samples()
