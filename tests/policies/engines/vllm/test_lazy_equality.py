"""The real engine under policies that store lazily and rank the device gives the tokens of a run without offload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_pool import EnginePool
from engine_scenarios import Outcome, Scenario
from test_equality import BLOCK_BYTES, BLOCK_TOKENS, HYBRID_BLOCK_BYTES, PLUGIN, check, host, works

from autotune.core.policy import DeviceTier, RankKnobs, RankSection, StoredTier, Tiers
from autotune.core.types import Admission, StoreMode
from autotune.export.document import render
from autotune.testing.documents import example_document

pytestmark = pytest.mark.engine("vllm")

KNOBS = RankKnobs(lambda_recency=0.25, tau_turnovers=2.0, turnover_s=5.0)


def policy_text(
    model: str, store_mode: StoreMode, *, ranks_device: bool, token_bytes: int = BLOCK_BYTES // BLOCK_TOKENS
) -> str:
    """A policy for a tiny model, on a machine where loading always pays."""
    document = example_document()
    sections = {
        "fingerprint": document.fingerprint.model_copy(
            update={"model": Path(model).name, "kv_bytes_per_token": token_bytes}
        ),
        "costs": document.costs.model_copy(
            update={"kv_bytes_per_token": token_bytes, "prefill_linear_s_per_token": 1e-2}
        ),
        "tiers": Tiers(
            device=DeviceTier(policy="rank" if ranks_device else "lru"),
            host=StoredTier(policy="rank", admission=Admission.ALL, store_mode=store_mode),
        ),
        "rank": RankSection(host=KNOBS, device=KNOBS if ranks_device else None),
    }
    return render(document.model_copy(update=sections))


def run(pool: EnginePool, folder: Path, scenario: Scenario, text: str, **settings: Any) -> Outcome:
    """Run a scenario under a policy, with tokens compared."""
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    offload = host(60, policy_file=str(path)) | settings
    return check(pool, Scenario(**{**vars(scenario), "offload": offload, "connector": PLUGIN}))


@pytest.mark.parametrize("ranks_device", [False, True])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_lazy_stores_change_no_token(
    engine_pool: EnginePool, tiny_llama: str, tmp_path: Path, concurrency: int, ranks_device: bool
) -> None:
    """One after the other and four at a time, blocks are stored near eviction, loaded again, and nothing differs."""
    scenario = Scenario(tiny_llama, works(), concurrency=concurrency, device_blocks=48)
    text = policy_text(tiny_llama, StoreMode.LAZY, ranks_device=ranks_device)
    outcome = run(engine_pool, tmp_path, scenario, text)
    assert outcome.metrics["kv_autotune_lazy_stores_total"] > 0


def test_lazy_stores_over_a_slow_link_and_preemptions_change_no_token(
    engine_pool: EnginePool, tiny_llama: str, tmp_path: Path
) -> None:
    """Copies take long and the device is too small for what runs at once."""
    scenario = Scenario(tiny_llama, works(), concurrency=6, device_blocks=30)
    text = policy_text(tiny_llama, StoreMode.LAZY, ranks_device=True)
    outcome = run(engine_pool, tmp_path, scenario, text, simulated_link_gb_per_s=0.05)
    assert outcome.metrics["kv_autotune_lazy_stores_total"] > 0


def test_resets_between_lazy_stores_change_no_token(engine_pool: EnginePool, tiny_llama: str, tmp_path: Path) -> None:
    """The caches are emptied twice while requests are served."""
    scenario = Scenario(tiny_llama, works(), device_blocks=30, resets_at=(60, 150))
    text = policy_text(tiny_llama, StoreMode.LAZY, ranks_device=False)
    outcome = run(engine_pool, tmp_path, scenario, text)
    assert outcome.resets == 2
    assert outcome.metrics["kv_autotune_lazy_stores_total"] > 0


def test_a_ranked_device_changes_no_token(engine_pool: EnginePool, tiny_llama: str, tmp_path: Path) -> None:
    """Device keep alone, with eager stores."""
    scenario = Scenario(tiny_llama, works(), concurrency=4, device_blocks=48)
    run(engine_pool, tmp_path, scenario, policy_text(tiny_llama, StoreMode.EAGER, ranks_device=True))


def test_windows_are_stored_eagerly_beside_a_ranked_device(
    engine_pool: EnginePool, tiny_hybrid: str, tmp_path: Path
) -> None:
    """A model with several groups of blocks is not stored lazily; its device may be ranked all the same."""
    scenario = Scenario(tiny_hybrid, works(), concurrency=2, device_blocks=64)
    token_bytes = 3 * HYBRID_BLOCK_BYTES // BLOCK_TOKENS
    text = policy_text(tiny_hybrid, StoreMode.LAZY, ranks_device=True, token_bytes=token_bytes)
    outcome = run(engine_pool, tmp_path, scenario, text, cpu_bytes_to_use=100 * HYBRID_BLOCK_BYTES)
    assert outcome.metrics["kv_autotune_lazy_stores_total"] == 0
