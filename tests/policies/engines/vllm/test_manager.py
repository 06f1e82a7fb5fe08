"""The manager of the host pool: it obeys a file that may change at any time, and nothing of ours can stop it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.core.policy import LruDocument, PolicyDocument, StoredTier, Tiers, WriteBudget
from autotune.core.types import Admission
from autotune.export import render
from autotune.testing.documents import example_document, example_learned_document

pytestmark = pytest.mark.engine("vllm")

CHUNK_TOKENS = 16
CAPACITY = 24


def key(chain: int, depth: int, group: int = 0) -> bytes:
    """A key of vLLM's length."""
    return bytes([chain]) * 31 + bytes([depth]) + group.to_bytes(4, "big")


def chain(number: int, length: int) -> list[bytes]:
    """The keys of one prompt."""
    return [key(number, depth) for depth in range(length)]


class Time:
    """Monotonic nanoseconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_ns = 10**9

    def __call__(self) -> int:
        """The time."""
        return self.now_ns


class Driver:
    """A manager and the calls that vLLM's connector makes."""

    def __init__(self, policy_file: Path | None = None, capacity: int = CAPACITY, **settings: Any) -> None:
        from autotune_policies.engines.live.settings import EngineSettings
        from autotune_policies.engines.vllm.facts import GroupFacts, PoolFacts
        from autotune_policies.engines.vllm.manager import AutotuneOffloadingManager

        self.time = Time()
        document = example_document()
        facts = PoolFacts(
            model=document.fingerprint.model,
            engine_version="0.32.0",
            n_chunks=capacity,
            chunk_bytes=4096,
            groups=(GroupFacts(0, CHUNK_TOKENS, full_attention=True),),
            rank_bytes_per_token=document.fingerprint.kv_bytes_per_token,
            kv_bytes_per_token=document.fingerprint.kv_bytes_per_token,
        )
        self.manager = AutotuneOffloadingManager(
            capacity, facts=facts, settings=EngineSettings(policy_file=policy_file, **settings), now_ns=self.time
        )
        self.n_requests = 0

    def context(self, keys: list[bytes]) -> Any:
        """A request that begins."""
        from autotune_policies.engines.vllm import compat

        self.n_requests += 1
        context = compat.new_req_context(f"request-{self.n_requests}")
        for depth, one in enumerate(keys):
            context.set_offload_key_position(one, (depth + 1) * CHUNK_TOKENS)
        self.manager.on_new_request(context)
        return context

    def serve(self, keys: list[bytes]) -> Any:
        """A whole request; returns what the offer was answered with."""
        context = self.context(keys)
        n_hits = self.hits(keys, context)
        if n_hits:
            self.manager.prepare_load(keys[:n_hits], context)
            self.manager.complete_load(keys[:n_hits], context)
        output = self.manager.prepare_store(keys[n_hits:], context) if keys[n_hits:] else None
        if output is not None:
            self.manager.complete_store(output.keys_to_store, context)
        self.step()
        self.manager.on_request_finished(context)
        return output

    def hits(self, keys: list[bytes], context: Any) -> int:
        """Chunks that can be loaded, from the first on."""
        found = 0
        while found < len(keys) and self.manager.lookup(keys[found], context).name == "HIT":
            found += 1
        return found

    def step(self, seconds: float = 1.0) -> None:
        """A scheduler step ends."""
        self.time.now_ns += int(seconds * 1e9)
        self.manager.on_schedule_end(None)

    def ghost_hits(self) -> int:
        """How often a ghost was asked for again."""
        index = self.manager.index
        return 0 if index is None else index.ghosts.hits

    def residents(self) -> set[bytes]:
        """What the host holds."""
        policy = self.manager._policy
        return set(policy._chunks)


def write(path: Path, document: PolicyDocument) -> Path:
    """Publish a document."""
    path.write_text(render(document), "utf-8")
    return path


def lru_document() -> PolicyDocument:
    """A document that leaves everything to LRU."""
    document = example_document()
    return LruDocument(
        fingerprint=document.fingerprint,
        budgets=document.budgets,
        tiers=Tiers(host=StoredTier()),
        costs=document.costs,
    )


def with_admission(admission: Admission) -> PolicyDocument:
    """The example document with another admission on the host."""
    document = example_document()
    host = StoredTier(policy="rank", admission=admission)
    return document.model_copy(update={"tiers": document.tiers.model_copy(update={"host": host})})


def test_file_is_obeyed_from_the_start(tmp_path: Path) -> None:
    """A policy file that is there at the start is in force before the first request."""
    driver = Driver(write(tmp_path / "policy.yaml", example_document()))
    assert driver.manager.rules.kind == "rank"
    assert driver.manager.rules.leaf_only


@pytest.mark.parametrize("content", [None, "kind: nonsense", b"\xff\xfe\x00"], ids=["missing", "invalid", "no text"])
def test_unusable_file_means_lru(tmp_path: Path, content: str | bytes | None) -> None:
    """Without a usable file the engine runs plain LRU and serves."""
    path = tmp_path / "policy.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    driver = Driver(path)
    assert driver.manager.rules.kind == "lru"
    assert driver.serve(chain(1, 4)).keys_to_store == chain(1, 4)
    assert driver.manager.counters.fallbacks == 0


@pytest.mark.parametrize("field", ["model", "kv_bytes_per_token"])
def test_policy_of_another_engine_means_lru(tmp_path: Path, field: str) -> None:
    """A policy for another model, or another number of bytes per token, is not used."""
    document = example_document()
    other = "other" if field == "model" else document.fingerprint.kv_bytes_per_token * 2
    update: dict[str, Any] = {"fingerprint": document.fingerprint.model_copy(update={field: other})}
    if field == "kv_bytes_per_token":
        update["costs"] = document.costs.model_copy(update={field: other})
    driver = Driver(write(tmp_path / "policy.yaml", document.model_copy(update=update)))
    assert driver.manager.rules.kind == "lru"


def test_replaced_file_is_obeyed_without_losing_residents(tmp_path: Path) -> None:
    """A replaced file is in force after the next steps; everything that was resident still is."""
    path = write(tmp_path / "policy.yaml", lru_document())
    driver = Driver(path)
    for number in range(5):
        driver.serve(chain(number, 4))
    before = driver.residents()
    write(path, example_document())
    driver.step()
    driver.step()
    assert driver.manager.rules.kind == "rank"
    assert driver.residents() == before
    assert driver.manager.counters.reloads == 2


def test_broken_file_keeps_the_old_policy(tmp_path: Path) -> None:
    """A file that turns bad is counted, and what was in force stays."""
    path = write(tmp_path / "policy.yaml", example_document())
    driver = Driver(path)
    in_force = driver.manager.rules
    path.write_text("kind: [broken", "utf-8")
    driver.step()
    assert driver.manager.rules is in_force
    assert driver.manager.counters.reload_errors == 1


def test_a_prefix_outlives_its_continuation(tmp_path: Path) -> None:
    """Under the rank rule no chunk leaves while a resident chunk continues it."""
    driver = Driver(write(tmp_path / "policy.yaml", with_admission(Admission.ALL)))
    for number in range(20):
        driver.serve(chain(number % 7, 3 + number % 5))
        residents = driver.residents()
        for one in residents:
            if one[31]:
                assert one[:31] + bytes([one[31] - 1]) + one[32:] in residents


def test_two_hit_admission_waits_for_the_second_request(tmp_path: Path) -> None:
    """Under two-hit admission a chunk comes in when it is asked for again, and refusals are counted once a request."""
    driver = Driver(write(tmp_path / "policy.yaml", with_admission(Admission.TWO_HIT)))
    assert driver.serve(chain(1, 3)).keys_to_store == []
    assert sum(driver.manager.counters.refusals.values()) == 3
    assert driver.serve(chain(1, 3)).keys_to_store == chain(1, 3)
    assert driver.ghost_hits() >= 3


def test_repeated_offer_is_refused_once(tmp_path: Path) -> None:
    """An offer that the scheduler repeats, because there was no room, teaches the policy nothing more."""
    driver = Driver(write(tmp_path / "policy.yaml", with_admission(Admission.TWO_HIT)))
    keys = chain(1, 3)
    context = driver.context(keys)
    for _ in range(3):
        assert driver.manager.prepare_store(keys, context).keys_to_store == []
    assert sum(driver.manager.counters.refusals.values()) == 3


def test_oversized_offer_fails_and_changes_nothing() -> None:
    """An offer for which there cannot be room is answered as vLLM's own manager does, and nothing leaves."""
    driver = Driver()
    driver.serve(chain(1, 10))
    before = driver.residents()
    keys = chain(2, CAPACITY + 1)
    assert driver.manager.prepare_store(keys, driver.context(keys)) is None
    assert driver.residents() == before


@pytest.mark.parametrize("method", ["insert", "evict", "refresh", "release", "hold", "admit", "remove", "clear"])
def test_fault_ends_in_lru_and_serves(tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever raises in the order of residents, requests are served, and it is counted once."""
    driver = Driver(write(tmp_path / "policy.yaml", with_admission(Admission.MARGINAL)))
    for number in range(6):
        driver.serve(chain(number, 4))

    def fail(*args: Any, **named: Any) -> Any:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(driver.manager.index, method, fail)
    if method == "remove":
        context = driver.context(chain(9, 2))
        output = driver.manager.prepare_store(chain(9, 2), context)
        driver.manager.complete_store(output.keys_to_store, context, success=False)
    if method == "clear":
        driver.manager.reset_cache()
    for number in range(8, 16):
        output = driver.serve(chain(number, 4))
        assert output.keys_to_store == chain(number, 4)
    driver.serve(chain(15, 4))
    driver.serve(chain(15, 8))
    assert driver.manager.counters.fallbacks == 1
    assert driver.manager.index is None
    assert len(driver.residents()) <= CAPACITY
    assert driver.manager._num_evictable_cache_chunks == len(driver.residents())


def test_fallback_is_lru(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fault the chunks leave in the order of their last use, the deepest first."""
    driver = Driver(capacity=6)
    driver.serve(chain(1, 3))
    driver.serve(chain(2, 3))
    driver.serve(chain(1, 3))
    driver.manager._ordered.fall_back("a test", ZeroDivisionError())
    assert driver.serve(chain(3, 2)).evicted_keys == [key(2, 2), key(2, 1)]
    driver.serve([key(2, 0)])
    assert driver.serve(chain(4, 2)).evicted_keys == [key(1, 2), key(1, 1)]


def test_reset_forgets_everything(tmp_path: Path) -> None:
    """After a reset the pool is empty, and it fills again."""
    driver = Driver(write(tmp_path / "policy.yaml", example_document()))
    for number in range(8):
        driver.serve(chain(number, 4))
    driver.manager.reset_cache()
    assert driver.residents() == set()
    assert driver.serve(chain(1, 4)).keys_to_store == chain(1, 4)


def test_failed_store_leaves_no_trace_among_residents(tmp_path: Path) -> None:
    """Chunks whose copy failed are not resident, and their places are free again."""
    driver = Driver(write(tmp_path / "policy.yaml", with_admission(Admission.ALL)))
    keys = chain(1, 5)
    context = driver.context(keys)
    output = driver.manager.prepare_store(keys, context)
    driver.manager.complete_store(output.keys_to_store, context, success=False)
    driver.manager.on_request_finished(context)
    assert driver.residents() == set()
    assert len(driver.serve(chain(2, CAPACITY)).keys_to_store) == CAPACITY


def test_series_are_drained_into_the_engines(tmp_path: Path) -> None:
    """What was counted stands in the engine's statistics, once."""
    driver = Driver(write(tmp_path / "policy.yaml", with_admission(Admission.ALL)))
    driver.serve(chain(1, 4))
    driver.serve(chain(1, 6))
    data = driver.manager.get_stats().data["data"]
    assert data["kv_autotune_admissions_total"][()] == 6
    assert data["kv_autotune_lookups_total"] == {("hit",): 1, ("miss",): 1}
    assert data["kv_autotune_lookup_chunks_total"] == {("hit",): 4, ("miss",): 6}
    assert data["kv_autotune_resident_chunks"][()] == 6
    assert driver.manager.get_stats().data["data"].get("kv_autotune_admissions_total", {}) == {}


def test_a_write_budget_is_kept_in_the_engines_time(tmp_path: Path) -> None:
    """One chunk per second is stored, with two on credit that others wait for; every offer that was cut is counted."""
    document = example_learned_document()
    budget = WriteBudget(bytes_per_s=4096.0, burst_s=60.0)
    document = document.model_copy(update={"budgets": document.budgets.model_copy(update={"host_write": budget})})
    driver = Driver(write(tmp_path / "policy.yaml", document))
    stored = [len(driver.serve(chain(number, 4)).keys_to_store) for number in range(8)]
    assert stored == [0, 3, 0, 0, 3, 0, 0, 3]
    driver.step(seconds=30.0)
    assert len(driver.serve(chain(20, 12)).keys_to_store) == 12
    refusals = driver.manager.get_stats().data["data"]["kv_autotune_refusals_total"]
    assert refusals["over_budget",] == 8
    assert driver.manager.counters.fallbacks == 0


def test_decisions_are_logged_with_their_reason(tmp_path: Path) -> None:
    """With the log on, every action is there with rank, value, price and reason."""
    log = tmp_path / "decisions.jsonl"
    driver = Driver(
        write(tmp_path / "policy.yaml", with_admission(Admission.MARGINAL)),
        decision_log=log,
        decision_log_sample_frac=1.0,
    )
    for number in range(10):
        driver.serve(chain(number % 4, 6))
    driver.serve(chain(11, 6))
    driver.step(seconds=1e6)
    driver.serve(chain(12, 6))
    driver.manager.shutdown()
    lines = [json.loads(line) for line in log.read_text("ascii").splitlines()]
    assert {"OFFLOAD", "EVICT", "LOAD", "REFUSE"} <= {line["action"] for line in lines}
    assert all(line["reason"] for line in lines)
    assert any(line.get("rank_ns") is not None for line in lines)


def test_requests_are_recorded(tmp_path: Path) -> None:
    """With telemetry on, a request's runs can be read back with what was known of them, and what its client told."""
    from autotune.core.telemetry.segments import read_segments
    from autotune.core.trace_hints import RequestHints
    from autotune.core.types import Tier
    from autotune.traces.rolling.feed import request_of
    from autotune_policies.engines.live.targets import TelemetryTarget
    from autotune_policies.engines.vllm.client_hints import ClientHints
    from autotune_policies.engines.vllm.features import FinishedRequest

    driver = Driver(telemetry=TelemetryTarget.parse(f"file:{tmp_path / 'records'}"))
    for length in (4, 6):
        keys = chain(1, length)
        context = driver.context(keys)
        n_hits = driver.hits(keys, context)
        if n_hits:
            driver.manager.prepare_load(keys[:n_hits], context)
            driver.manager.complete_load(keys[:n_hits], context)
        output = driver.manager.prepare_store(keys[n_hits:], context)
        driver.manager.complete_store(output.keys_to_store, context)
        told = ClientHints(session_end=1, expected_idle_s=9.5) if length == 6 else ClientHints()
        ended = FinishedRequest(keys, 0, n_hits, 100, 7, "stop", "session", hints=told)
        driver.manager.note_ended(context.req_id, ended)
        driver.manager.on_request_finished(context)
        driver.step()
    driver.manager.shutdown()
    records = list(read_segments(tmp_path / "records"))
    first, second = (request_of(runs) for runs in (records[:1], records[1:]))
    assert first is not None
    assert second is not None
    assert (first.hints, second.hints) == (RequestHints(), RequestHints(1, 9.5, -1))
    assert [(record.tier, len(record.block_ids)) for record in records] == [(None, 4), (Tier.HOST, 4), (None, 2)]
    assert records[1].features.frequency == 2.0
    assert records[1].features.turn == 1
    assert records[2].features.stop_reason == "stop"
    assert records[0].chain == records[1].chain


def test_siblings_of_a_lost_chunk_are_the_next_to_go(tmp_path: Path) -> None:
    """When a chunk of the full-attention group leaves, those of the other groups that end there leave next."""
    from autotune_policies.engines.vllm.groups import ChunkGroups

    driver = Driver(write(tmp_path / "policy.yaml", with_admission(Admission.ALL)), capacity=8)
    manager: Any = driver.manager
    groups = ChunkGroups({0: CHUNK_TOKENS, 1: CHUNK_TOKENS}, [0])
    manager.groups = manager._ordered._groups = manager._offers._groups = groups
    for number in range(2):
        driver.serve([key(number, depth, group) for group in (0, 1) for depth in range(2)])
    assert driver.serve([key(2, 0)]).evicted_keys == [key(0, 1)]
    assert driver.serve([key(3, 0)]).evicted_keys == [key(0, 1, group=1)]


class Gauges:
    """What is handed over to the engine's page, gauges only."""

    def __init__(self) -> None:
        self.shown: dict[tuple[str, tuple[str, ...]], float] = {}

    def increase_counter(self, counter_name: str, counter_increase_value: float, labelvalues: Any = ()) -> None:
        """Counters are not looked at."""

    def observe_histogram(self, histogram_name: str, histogram_value: float, labelvalues: Any = ()) -> None:
        """Nor are histograms."""

    def set_gauge(self, gauge_name: str, gauge_value: float, labelvalues: Any = ()) -> None:
        """Remember it."""
        self.shown[gauge_name, labelvalues] = gauge_value


def test_the_page_says_where_records_go(tmp_path: Path) -> None:
    """A sidecar finds them there without being told; without telemetry the page says none."""
    from autotune_policies.engines.live.targets import TelemetryTarget

    for target, place in ((TelemetryTarget.parse(f"file:{tmp_path}/r"), f"file://{tmp_path}/r"), (None, "none")):
        gauges, driver = Gauges(), Driver(telemetry=target)
        driver.manager.counters.drain(gauges)
        driver.manager.shutdown()
        assert gauges.shown["kv_autotune_telemetry_info", (place,)] == 1
