"""The policy document of a streaming search."""

from __future__ import annotations

from autotune.core.policy import Budgets, Costs, Fingerprint, LruDocument, PolicyDocument, Streaming
from autotune.search.streaming.result import StreamingResult

ENGINES = ("transformers>=5.0,<5.25",)


def make_streaming_document(result: StreamingResult) -> PolicyDocument:
    """P and d with the budget that they were tuned for; idle blocks are left to the engine's own rule.

    The costs are those of this model on this machine, and rough: the prompt's time is spread evenly over its tokens,
    and there is no disk.
    """
    chosen, kv = result.chosen, result.model
    prompt_tokens = result.workload.prompt_tokens * chosen.setting.batch
    link = "simulated link" if result.link_is_simulated else "measured link"
    kv_bytes = kv.layer_token_bytes * len(kv.candidates)
    return LruDocument(
        fingerprint=Fingerprint(
            model=kv.name.rstrip("/").rsplit("/", 1)[-1],
            kv_dtype=kv.element_type,
            kv_bytes_per_token=kv_bytes,
            trace_block_tokens=1,
            engines=ENGINES,
        ),
        budgets=Budgets(device_bytes=result.space.budget_bytes),
        costs=Costs(
            prefill_linear_s_per_token=chosen.measured.prefill_s / prompt_tokens,
            prefill_quadratic_s_per_token_pair=0.0,
            kv_bytes_per_token=kv_bytes,
            load_bytes_per_s=result.load_bytes_per_s,
            load_latency_s=0.0,
            store_bytes_per_s=result.load_bytes_per_s,
            store_latency_s=0.0,
            disk_bytes_per_s=result.load_bytes_per_s,
            disk_latency_s=0.0,
            store_exposed_frac=0.0,
            source=f"short generations, {link}",
        ),
        streaming=Streaming(
            resident_frac=result.resident_frac,
            prefetch_depth=chosen.setting.prefetch_depth,
            placement=chosen.setting.placement,
        ),
    )
