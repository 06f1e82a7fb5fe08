"""The real engine under a learned policy gives the tokens of a run without offload, and tells what it decided by."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_pool import EnginePool
from engine_scenarios import FileWrite, Outcome, Scenario
from test_equality import BLOCK_BYTES, BLOCK_TOKENS, PLUGIN, check, host, works

from autotune.core.decide import features as f
from autotune.core.policy import WriteBudget, load
from autotune.core.telemetry.segments import read_segments
from autotune.core.types import StoreMode
from autotune.export.document import render

pytestmark = pytest.mark.engine("vllm")

LEARNED = Path(__file__).parents[3] / "data" / "policies" / "learned_conversation.yaml"
TOKEN_BYTES = BLOCK_BYTES // BLOCK_TOKENS


def policy_text(model: str, store_mode: StoreMode, write: WriteBudget | None = None, **section: Any) -> str:
    """The learned policy of the bundled sample for a tiny model, on a machine where loading always pays."""
    document: Any = load(LEARNED)
    learned = {"rerank_s": 0.05, "device_age_s": 0.5, **section}
    fingerprint = {"model": Path(model).name, "kv_bytes_per_token": TOKEN_BYTES}
    costs = {"kv_bytes_per_token": TOKEN_BYTES, "prefill_linear_s_per_token": 1e-2}
    stored = document.tiers.host.model_copy(update={"store_mode": store_mode})
    sections = {
        "fingerprint": document.fingerprint.model_copy(update=fingerprint),
        "costs": document.costs.model_copy(update=costs),
        "tiers": document.tiers.model_copy(update={"host": stored}),
        "class_hazard": document.class_hazard.model_copy(update=learned),
        "budgets": document.budgets.model_copy(update={"host_write": write}),
    }
    return render(document.model_copy(update=sections))


def run(pool: EnginePool, folder: Path, scenario: Scenario, text: str, **settings: Any) -> Outcome:
    """Run a scenario under a policy, with tokens compared."""
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    offload = host(60, policy_file=str(path)) | settings
    return check(pool, replace(scenario, offload=offload, connector=PLUGIN))


@pytest.mark.parametrize("store_mode", [StoreMode.LAZY, StoreMode.EAGER])
def test_a_learned_policy_changes_no_token(
    engine_pool: EnginePool, tiny_llama: str, tmp_path: Path, store_mode: StoreMode
) -> None:
    """Four requests at a time, a device and a host that are ordered by what is expected of their blocks."""
    scenario = Scenario(tiny_llama, works(), concurrency=4, device_blocks=48)
    outcome = run(engine_pool, tmp_path, scenario, policy_text(tiny_llama, store_mode, copy_factor=0.3))
    lazy = outcome.metrics["kv_autotune_lazy_stores_total"]
    assert (lazy > 0) == (store_mode is StoreMode.LAZY)


def test_a_tight_write_budget_is_kept_and_changes_no_token(
    engine_pool: EnginePool, tiny_llama: str, tmp_path: Path
) -> None:
    """Under half a block per second the engine refuses most of what it would store; what comes out stays the same."""
    scenario = Scenario(tiny_llama, works(), concurrency=4, device_blocks=48)
    free = run(engine_pool, tmp_path, scenario, policy_text(tiny_llama, StoreMode.EAGER))
    budget = WriteBudget(bytes_per_s=0.5 * BLOCK_BYTES, burst_s=60.0)
    log, path = tmp_path / "decisions.jsonl", tmp_path / "limited.yaml"
    path.write_text(policy_text(tiny_llama, StoreMode.EAGER, budget), encoding="utf-8")
    told = {"decision_log": str(log), "decision_log_sample_frac": 1.0}
    outcome = engine_pool.run(replace(scenario, offload=host(60, policy_file=str(path)) | told, connector=PLUGIN))
    assert outcome.tokens == free.tokens
    admitted = "kv_autotune_admissions_total"
    assert outcome.metrics[admitted] < 0.5 * free.metrics[admitted]
    assert outcome.metrics["kv_autotune_fallbacks_total"] == 0
    assert outcome.metrics["kv_autotune_refusals_total/over_budget"] > 0
    assert "the write budget" in log.read_text("ascii")


def test_models_that_follow_each_other_change_no_token(
    engine_pool: EnginePool, tiny_llama: str, tmp_path: Path
) -> None:
    """Another document comes every few steps, as when the tuner learns while the engine serves."""
    path = tmp_path / "policy.yaml"
    texts = [policy_text(tiny_llama, StoreMode.LAZY, device_age_s=age_s) for age_s in (0.0, 1.0, 20.0)]
    scenario = Scenario(
        tiny_llama,
        works(n=36),
        concurrency=2,
        device_blocks=48,
        writes=tuple(FileWrite(0, str(path), text) for text in texts),
        write_every=40,
    )
    outcome = run(engine_pool, tmp_path, scenario, texts[0], simulated_link_latency_ms=10.0)
    assert outcome.metrics["kv_autotune_policy_reloads_total"] >= 3


def test_chunks_of_several_blocks_change_no_token(engine_pool: EnginePool, tiny_llama: str, tmp_path: Path) -> None:
    """Chunks of two blocks are stored eagerly, whatever the policy says, and ranked as chunks."""
    scenario = Scenario(tiny_llama, works(), concurrency=4, device_blocks=48)
    text = policy_text(tiny_llama, StoreMode.LAZY)
    outcome = run(engine_pool, tmp_path, scenario, text, blocks_per_chunk=2)
    assert outcome.metrics["kv_autotune_lazy_stores_total"] == 0


def test_records_carry_what_was_decided_by(engine_pool: EnginePool, tiny_llama: str, tmp_path: Path) -> None:
    """With telemetry on, every record says what is known of each of its stretches, and they add up to its blocks."""
    scenario = Scenario(tiny_llama, works(), device_blocks=48)
    text = policy_text(tiny_llama, StoreMode.EAGER)
    log = tmp_path / "decisions.jsonl"
    told = {"telemetry": f"file:{tmp_path / 'records'}", "decision_log": str(log), "decision_log_sample_frac": 1.0}
    run(engine_pool, tmp_path, scenario, text, **told)
    assert {"EVICT", "OFFLOAD", "LOAD"} <= {json.loads(line)["action"] for line in log.read_text("ascii").splitlines()}
    assert "class " in log.read_text("ascii")
    records = list(read_segments(tmp_path / "records"))
    assert len({record.request for record in records}) == len(scenario.works)
    for record in records:
        runs = record.features.runs
        assert runs is not None
        assert sum(n for n, _ in runs) == len(record.block_ids)
        assert all(len(row) == f.N_FEATURES for _, row in runs)
        assert {row[f.OUTPUT_TOKENS] for _, row in runs} == {12.0}
    assert max(row[f.USES] for record in records for _, row in record.features.runs or ()) > 1
