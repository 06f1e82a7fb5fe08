"""A policy for the tiny model, as a search might have found it."""

from __future__ import annotations

from autotune.core.policy import RankDocument
from autotune.testing.documents import example_document

BLOCK_TOKENS, KV_BYTES_PER_TOKEN = 32, 2048
BLOCK_BYTES = BLOCK_TOKENS * KV_BYTES_PER_TOKEN


def tiny_policy(device_blocks: int, host_blocks: int) -> RankDocument:
    """The rank rule for pools of that many blocks."""
    document = example_document()
    assert document.rank.host
    knobs = document.rank.host.model_copy(
        update={"lambda_recency": 0.1, "tau_turnovers": 1.0, "turnover_s": 2.0, "ghost_ratio": 10.0}
    )
    costs = {
        "prefill_linear_s_per_token": 4e-5,
        "prefill_quadratic_s_per_token_pair": 7e-8,
        "kv_bytes_per_token": KV_BYTES_PER_TOKEN,
    }
    links = {"load_bytes_per_s": 4e8, "load_latency_s": 3e-4, "store_bytes_per_s": 4e8, "store_latency_s": 3e-4}
    return RankDocument(
        fingerprint=document.fingerprint.model_copy(
            update={
                "model": "tiny-llama",
                "kv_bytes_per_token": KV_BYTES_PER_TOKEN,
                "trace_block_tokens": BLOCK_TOKENS,
            }
        ),
        budgets=document.budgets.model_copy(
            update={"device_bytes": device_blocks * BLOCK_BYTES, "host_bytes": host_blocks * BLOCK_BYTES}
        ),
        tiers=document.tiers,
        rank=document.rank.model_copy(update={"host": knobs}),
        costs=document.costs.model_copy(update={**costs, **links}),
    )
