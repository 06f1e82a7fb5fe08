"""Offload changes where KV lies and never what comes out: the real engine, with offload and without."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_pool import EnginePool
from engine_scenarios import FileWrite, Outcome, Scenario, Work

from autotune.core.access import AccessRecord
from autotune.core.clock import SystemClock
from autotune.core.policy import DeviceTier, RankKnobs, RankSection, StoredTier, Tiers
from autotune.core.telemetry.segments import read_segments
from autotune.core.types import Admission, Tier
from autotune.export.document import render
from autotune.testing.documents import example_document
from autotune.traces.rolling.columns import read_segment
from autotune.traces.rolling.epochs import segments_of
from autotune.traces.rolling.feed import RecordingFeed
from autotune.traces.rolling.recorder import Recorder

pytestmark = pytest.mark.engine("vllm")

BLOCK_TOKENS = 32
BLOCK_BYTES = 65_536  # of the tiny Llama: 4 layers x 32 tokens x 4 heads x 32 x 2 (keys, values) x 2 bytes
HYBRID_BLOCK_BYTES = 32_768  # of the tiny hybrid: 2 layers to a group
SPECS = "autotune_policies.engines.vllm.spec"
PLUGIN = {"kv_connector": "AutotuneConnector", "kv_connector_module_path": "autotune_policies.engines.vllm.connector"}


def works(n: int = 24, n_prefixes: int = 6, prefix_tokens: int = 256, own_tokens: int = 40) -> tuple[Work, ...]:
    """Requests that share prefixes, in an order in which each prefix comes back after others."""
    draw = random.Random(7)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(500) for _ in range(count))

    prefixes = [tokens(prefix_tokens) for _ in range(n_prefixes)]
    return tuple(Work(f"request {i}", draw.choice(prefixes) + tokens(own_tokens)) for i in range(n))


def host(n_chunks: int, chunk_bytes: int = BLOCK_BYTES, **further: Any) -> dict[str, Any]:
    """Settings of a host pool of so many chunks."""
    pool = {
        "spec_name": "AutotuneOffloadingSpec",
        "spec_module_path": SPECS,
        "cpu_bytes_to_use": n_chunks * chunk_bytes,
    }
    return pool | further


def more(scenario: Scenario, **settings: Any) -> dict[str, Any]:
    """The settings of a scenario and these."""
    return (scenario.offload or {}) | settings


def check(pool: EnginePool, scenario: Scenario, *, n_different: int = 0) -> Outcome:
    """Run with offload and without; every request gives the same tokens, and KV was really loaded.

    Args:
        pool: The engine.
        scenario: With offload.
        n_different: At least so many requests must differ instead; for runs that spoil what they load.
    """
    plain = Scenario(
        model=scenario.model,
        works=scenario.works,
        device_blocks=64,
        block_tokens=scenario.block_tokens,
        max_model_tokens=scenario.max_model_tokens,
        max_batched_tokens=scenario.max_batched_tokens,
        engine=scenario.engine,
    )
    expected, outcome = pool.run(plain).tokens, pool.run(scenario)
    assert expected.keys() == outcome.tokens.keys() == {work.name for work in scenario.works}
    different = [name for name in expected if expected[name] != outcome.tokens[name]]
    assert bool(different) == bool(n_different), different
    assert len(different) >= n_different
    assert outcome.load_bytes > 0
    assert outcome.leftover_files == ()
    assert outcome.metrics["kv_autotune_fallbacks_total"] == 0
    if "policy_file" in (scenario.offload or {}):
        assert outcome.metrics["kv_autotune_policy_reloads_total"] >= 1  # it was read and is in force
    return outcome


def policy_text(
    model: str,
    *,
    lambda_recency: float = 0.25,
    admission: Admission = Admission.MARGINAL,
    kv_bytes_per_token: int = BLOCK_BYTES // BLOCK_TOKENS,
) -> str:
    """A policy for a tiny model: the rank rule on the host, on a machine where loading always pays."""
    document = example_document()
    fingerprint = document.fingerprint.model_copy(
        update={"model": Path(model).name, "kv_bytes_per_token": kv_bytes_per_token}
    )
    costs = document.costs.model_copy(
        update={"kv_bytes_per_token": kv_bytes_per_token, "prefill_linear_s_per_token": 1e-2}
    )
    knobs = RankKnobs(lambda_recency=lambda_recency, tau_turnovers=2.0, turnover_s=5.0, cost_weight=0.5)
    tiers = Tiers(device=DeviceTier(), host=StoredTier(policy="rank", admission=admission))
    sections = {"fingerprint": fingerprint, "costs": costs, "tiers": tiers, "rank": RankSection(host=knobs)}
    return render(document.model_copy(update=sections))


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory: pytest.TempPathFactory, tiny_llama: str) -> Path:
    """A policy that no test changes."""
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text(policy_text(tiny_llama), encoding="utf-8")
    return path


@pytest.fixture
def obedient(tiny_llama: str, policy_file: Path) -> Scenario:
    """The usual run under a policy: one request after the other, a host pool that is too small for all."""
    return Scenario(tiny_llama, works(), offload=host(40, policy_file=str(policy_file)), connector=PLUGIN)


def test_vllm_itself(engine_pool: EnginePool, tiny_llama: str) -> None:
    """The spec alone, under vLLM's connector and without a policy, is plain LRU and changes no token."""
    outcome = check(engine_pool, Scenario(tiny_llama, works(), offload=host(40)))
    assert outcome.manager == "AutotuneOffloadingManager"
    assert outcome.store_bytes > 40 * BLOCK_BYTES


def test_spoiled_loads_are_noticed(engine_pool: EnginePool, tiny_llama: str) -> None:
    """One wrong bit per load changes tokens, so the comparison can fail."""
    check(engine_pool, Scenario(tiny_llama, works(), offload=host(40), corrupt_loads=True), n_different=3)


def test_one_after_the_other(engine_pool: EnginePool, obedient: Scenario) -> None:
    """Sequential requests under a policy."""
    outcome = check(engine_pool, obedient)
    assert outcome.metrics["kv_autotune_admissions_total"] > 0


def test_eight_at_once_with_evictions(engine_pool: EnginePool, obedient: Scenario) -> None:
    """Eight requests at a time; chunks leave the host while others are loaded."""
    outcome = check(engine_pool, replace(obedient, concurrency=8))
    assert outcome.metrics["kv_autotune_evictions_total"] > 0


def test_shared_prefixes(engine_pool: EnginePool, obedient: Scenario) -> None:
    """Eight requests at a time that all begin alike, so that they wait for the same loads."""
    alike = works(n=24, n_prefixes=2, prefix_tokens=384)
    check(engine_pool, replace(obedient, works=alike, concurrency=8))


@pytest.mark.parametrize(("block_tokens", "blocks_per_chunk"), [(32, 2), (32, 4), (64, 1), (64, 2)])
def test_blocks_and_chunks(
    engine_pool: EnginePool, obedient: Scenario, block_tokens: int, blocks_per_chunk: int
) -> None:
    """Blocks of two sizes, and chunks of one, two and four of them; prefixes end within a chunk."""
    settings = more(obedient, blocks_per_chunk=blocks_per_chunk)
    outcome = check(
        engine_pool,
        replace(
            obedient,
            offload=settings,
            concurrency=4,
            block_tokens=block_tokens,
            device_blocks=24 * BLOCK_TOKENS // block_tokens,
        ),
    )
    assert outcome.metrics["kv_autotune_capacity_chunks"] == 40 * BLOCK_TOKENS // (block_tokens * blocks_per_chunk)


def test_preempted_requests(engine_pool: EnginePool, obedient: Scenario) -> None:
    """Outputs outgrow a tiny device, so running requests are preempted and start again from what is stored."""
    growing = works(n=12, own_tokens=20)
    growing = tuple(replace(work, output_tokens=60) for work in growing)
    outcome = check(engine_pool, replace(obedient, works=growing, concurrency=8, device_blocks=20))
    assert outcome.preemptions > 0


def test_aborts_during_loads(engine_pool: EnginePool, obedient: Scenario) -> None:
    """Requests are aborted while a slow link still loads for them, and asked for again."""
    slow = more(obedient, simulated_link_latency_ms=30.0, simulated_link_gb_per_s=0.05)
    outcome = check(engine_pool, replace(obedient, offload=slow, concurrency=4, aborts_in_load=5))
    assert outcome.aborted_in_load == 5


def test_reset_caches(engine_pool: EnginePool, obedient: Scenario) -> None:
    """Every tier is emptied in the middle of the run, requests running."""
    outcome = check(engine_pool, replace(obedient, concurrency=4, resets_at=(20, 60)))
    assert outcome.resets == 2


def test_two_tiers(engine_pool: EnginePool, obedient: Scenario, policy_file: Path, tmp_path: Path) -> None:
    """A small host with files behind it: chunks come back from disk through the host."""
    files = [{"type": "fs", "root_dir": str(tmp_path)}]
    tiers = host(16, policy_file=str(policy_file), secondary_tiers=files)
    tiers["spec_name"] = "AutotuneTieringOffloadingSpec"
    outcome = check(engine_pool, replace(obedient, offload=tiers))
    assert outcome.metrics["vllm:prompt_tokens_cached_by_source_total/disk"] > 0


def test_several_cache_groups(engine_pool: EnginePool, tiny_hybrid: str, tmp_path: Path) -> None:
    """A model that mixes sliding windows with full attention keeps its KV in several groups."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_text(tiny_hybrid, kv_bytes_per_token=3 * HYBRID_BLOCK_BYTES // BLOCK_TOKENS))
    scenario = Scenario(
        tiny_hybrid,
        works(),
        concurrency=2,
        device_blocks=64,
        offload=host(100, HYBRID_BLOCK_BYTES, policy_file=str(policy)),
        connector=PLUGIN,
    )
    outcome = check(engine_pool, scenario)
    assert outcome.cache_groups == 3
    assert outcome.metrics["kv_autotune_policy_reload_errors_total"] == 0
    check(engine_pool, replace(scenario, corrupt_loads=True), n_different=3)


def test_a_policy_that_flips(engine_pool: EnginePool, obedient: Scenario, tmp_path: Path) -> None:
    """The policy is replaced over and over during the run."""
    path = tmp_path / "policy.yaml"
    texts = [
        policy_text(obedient.model, lambda_recency=1.0, admission=Admission.ALL),
        policy_text(obedient.model, lambda_recency=0.1),
        policy_text(obedient.model, lambda_recency=0.5, admission=Admission.TWO_HIT),
    ]
    path.write_text(texts[0], encoding="utf-8")
    outcome = check(
        engine_pool,
        replace(
            obedient,
            works=works(n=48),
            offload=host(40, policy_file=str(path), simulated_link_latency_ms=20.0),
            writes=tuple(FileWrite(0, str(path), text) for text in texts),
            write_every=40,
        ),
    )
    assert outcome.metrics["kv_autotune_policy_reloads_total"] >= 3


def test_a_file_that_breaks(engine_pool: EnginePool, obedient: Scenario, tmp_path: Path) -> None:
    """The policy file becomes unreadable in the middle of the run; the old policy stays and the engine serves."""
    path = tmp_path / "policy.yaml"
    path.write_text(policy_text(obedient.model), encoding="utf-8")
    outcome = check(
        engine_pool,
        replace(
            obedient,
            works=works(n=48),
            offload=host(40, policy_file=str(path), simulated_link_latency_ms=20.0),
            writes=(FileWrite(30, str(path), "kind: [\n"),),
        ),
    )
    assert outcome.metrics["kv_autotune_policy_reload_errors_total"] >= 1
    assert outcome.metrics["kv_autotune_policy_reloads_total"] == 1


def test_what_the_engine_tells(engine_pool: EnginePool, obedient: Scenario, tmp_path: Path) -> None:
    """With telemetry and decision log on, what is recorded of each request adds up to what the engine counted."""
    records, log = tmp_path / "records", tmp_path / "decisions.jsonl"
    told = {"telemetry": f"file:{records}", "decision_log": str(log), "decision_log_sample_frac": 1.0}
    outcome = check(engine_pool, replace(obedient, offload=more(obedient, **told)))
    runs = list(read_segments(records))
    assert len({run.request for run in runs}) == len(obedient.works)
    assert sum(run.tokens for run in runs) == sum(len(work.prompt) for work in obedient.works)
    on_host = [run for run in runs if run.tier is Tier.HOST]
    assert sum(run.moved_bytes for run in on_host) == outcome.load_bytes
    assert sum(run.tokens for run in on_host) == outcome.metrics["vllm:external_prefix_cache_hits_total"]
    assert all(run.features.stop_reason == "length" for run in runs)
    check_recording(records, tmp_path / "recording", obedient, on_host)
    actions = {json.loads(line)["action"] for line in log.read_text(encoding="ascii").splitlines()}
    assert {"OFFLOAD", "EVICT", "LOAD"} <= actions
    assert outcome.metrics["kv_autotune_lost_records_total/telemetry"] == 0


def check_recording(records: Path, folder: Path, scenario: Scenario, on_host: list[AccessRecord]) -> None:
    """The sidecar's collector and recorder write each request once, with what the engine found of it."""
    from autotune_collectors.telemetry import TelemetryCollector

    recorder = Recorder(folder, SystemClock())
    turn = TelemetryCollector(f"file:{records}").collect(0.0)
    RecordingFeed(recorder).take(turn.records)
    recorder.close()
    (path,) = segments_of(folder).values()
    columns = read_segment(path)
    assert columns is not None
    assert (turn.lost, recorder.lost, columns.words) == (0, 0, ("length",))
    assert sorted(columns.rows["input_tokens"].tolist()) == sorted(len(work.prompt) for work in scenario.works)
    assert columns.rows["host_blocks"].sum() == sum(len(run.block_ids) for run in on_host)
    assert columns.facts.block_tokens == BLOCK_TOKENS


@pytest.mark.slow
def test_two_ranks(engine_pool: EnginePool, obedient: Scenario) -> None:
    """Two ranks of tensor parallelism, each with its half of the heads in a pool of its own, under one manager."""
    outcome = check(engine_pool, replace(obedient, engine={"tensor_parallel_size": 2}))
    assert outcome.metrics["kv_autotune_capacity_chunks"] == 40
    assert outcome.metrics["kv_autotune_policy_reload_errors_total"] == 0
