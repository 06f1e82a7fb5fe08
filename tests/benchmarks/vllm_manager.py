"""What the policy costs inside vLLM's scheduler, beside vLLM's own LRU and ARC in the same run.

Run in the engine's environment: ``python tests/benchmarks/vllm_manager.py [--json FILE]``. Everything is measured in
turns (ours, LRU, ARC, ours, ...) and in processor time of the thread, so that a busy machine slows all alike and an
interruption counts for nobody; what counts are the ratios.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.core.costs import CostProfile
from autotune.core.decide.rank import NS_PER_S, rank_weight_s
from autotune.core.eviction import PolicySpec
from autotune.core.trace import Trace
from autotune.core.types import Admission, EngineSemantics
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules

CHUNK_TOKENS = 16
COSTS = CostProfile(4e-5, 1.3e-9, 131072, 5e10, 2e-5, 5e10, 2e-5, 5e9, 1e-4, 0.0, "an 8B model on a datacentre GPU")
RANK = HostRules(
    "rank",
    weight_ns=rank_weight_s(0.1, 60.0) * NS_PER_S,
    half_life_s=1200.0,
    cost_weight=0.2,
    ghost_ratio=1.0,
    admission=Admission.MARGINAL,
    costs=COSTS,
)
PROMPT_CHUNKS = 32
VICTIMS = 16


def key_of(number: int) -> bytes:
    """A key of vLLM's length."""
    return number.to_bytes(32, "big") + bytes(4)


def our_policy(capacity: int, rules: HostRules) -> Any:
    """Our cache policy under some rules."""
    from autotune_policies.engines.vllm.groups import ChunkGroups
    from autotune_policies.engines.vllm.policy import RankCachePolicy

    def fail(during: str, fault: Exception) -> None:
        raise RuntimeError(during) from fault

    return RankCachePolicy(
        capacity, HostIndex(capacity, CHUNK_TOKENS, rules), ChunkGroups({0: CHUNK_TOKENS}, [0]), fail
    )


def policies(capacity: int) -> dict[str, Any]:
    """The competitors, empty."""
    from vllm.v1.kv_offload.cpu.policies.arc import ARCCachePolicy
    from vllm.v1.kv_offload.cpu.policies.lru import LRUCachePolicy

    return {
        "ours, rank rule": our_policy(capacity, RANK),
        "ours, LRU": our_policy(capacity, HostRules.lru()),
        "vLLM LRU": LRUCachePolicy(capacity),
        "vLLM ARC": ARCCachePolicy(capacity),
    }


class Filled:
    """A policy that holds prompts of several chunks, and the calls that a request makes of it.

    Args:
        policy: The policy, empty.
        resident: Chunks to fill it with.
    """

    def __init__(self, policy: Any, resident: int) -> None:
        from vllm.v1.kv_offload.base import ReqContext

        self.policy = policy
        self.next_key = 0
        self._context = ReqContext
        while self.next_key < resident:
            self.store(min(PROMPT_CHUNKS, resident - self.next_key))

    def store(self, n_chunks: int) -> None:
        """A request of new chunks: inserted, copied, refreshed at its end."""
        from vllm.v1.kv_offload.cpu.policies.base import ChunkStatus

        keys = [key_of(self.next_key + i) for i in range(n_chunks)]
        self.next_key += n_chunks
        context = self._context(req_id="request")
        parent = None
        for depth, key in enumerate(keys):
            context.set_offload_key_position(key, (depth + 1) * CHUNK_TOKENS)
            if hasattr(self.policy, "lineage"):
                self.policy.lineage[key] = parent, depth
            chunk = ChunkStatus(0)
            self.policy.insert(key, chunk)
            parent = key
        for key in keys:
            chunk = self.policy.get(key)
            chunk.ref_cnt = 0
            self.policy.mark_evictable(key)
        self.policy.on_request_finished((tuple(keys),), set(keys), set(), context)

    def use_again(self, first: int, n_chunks: int) -> None:
        """A request that finds its chunks."""
        keys = [key_of(first + i) for i in range(n_chunks)]
        keys = [key for key in keys if self.policy.get(key) is not None]
        if keys:
            context = self._context(req_id="again")
            for depth, key in enumerate(keys):
                context.set_offload_key_position(key, (depth + 1) * CHUNK_TOKENS)
            self.policy.on_request_finished((tuple(keys),), set(), set(keys), context)


def time_evictions(resident: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of ``evict(16)``, each after half a prompt came in new and another was used again, per policy."""
    filled = {name: Filled(policy, resident) for name, policy in policies(resident).items()}
    seconds: dict[str, list[float]] = {name: [] for name in filled}
    for i in range(rounds):
        for name, pool in filled.items():
            pool.use_again(pool.next_key - resident // 2 + i * PROMPT_CHUNKS % (resident // 2), PROMPT_CHUNKS)
            began = time.thread_time()
            victims = pool.policy.evict(VICTIMS, set())
            seconds[name].append(time.thread_time() - began)
            if victims is None or len(victims) != VICTIMS:
                raise RuntimeError(f"{name}: {VICTIMS} chunks had to leave")
            pool.store(VICTIMS)
    return seconds


def replay_script(host_blocks: int, device_blocks: int) -> tuple[Any, int]:
    """The call script of the bundled trace."""
    from autotune.sim.config import CacheConfig
    from autotune.sim.vllm_decisions import vllm_decisions

    trace = Trace.open("sample:conversation")
    config = CacheConfig(
        device_blocks,
        host_blocks,
        host_policy=PolicySpec("lru"),
        check_break_even=False,
        semantics=EngineSemantics.VLLM_0_32,
    )
    return vllm_decisions(trace, config, COSTS), trace.block_tokens


def managers(capacity: int, block_tokens: int) -> dict[str, Callable[[], Any]]:
    """Makers of empty managers."""
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    def ours(rules: HostRules) -> Any:
        from autotune_policies.engines.live.settings import EngineSettings
        from autotune_policies.engines.vllm.facts import GroupFacts, PoolFacts
        from autotune_policies.engines.vllm.manager import AutotuneOffloadingManager

        groups = (GroupFacts(0, block_tokens, full_attention=True),)
        facts = PoolFacts("llama-3.1-8b", "0.32.0", capacity, 1 << 26, groups, 131072, 131072)
        manager = AutotuneOffloadingManager(capacity, facts=facts, settings=EngineSettings())
        index: Any = manager.index
        index.begin_swap(rules)
        while index.advance_swap(1000):
            pass
        return manager

    return {
        "ours, rank rule": lambda: ours(RANK),
        "ours, LRU": lambda: ours(HostRules.lru()),
        "vLLM LRU": lambda: CPUOffloadingManager(capacity, "lru"),
        "vLLM ARC": lambda: CPUOffloadingManager(capacity, "arc"),
    }


def time_replays(host_blocks: int, device_blocks: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of all manager calls of the bundled trace, per manager, in turns."""
    import call_script

    script, block_tokens = replay_script(host_blocks, device_blocks)
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, make in managers(host_blocks, block_tokens).items():
            manager, clock = make(), call_script.Stopwatch()
            gc.collect()
            call_script.lead_through(clock.around(manager), script, block_tokens, call_script.ManualTime())
            seconds.setdefault(name, []).append(clock.seconds)
    return seconds


def bytes_per_entry(n: int) -> dict[str, float]:
    """Bytes that one resident chunk takes in each policy, its key and status apart, and one ghost entry in ours."""
    found = {}
    for name, policy in policies(n).items():
        gc.collect()
        tracemalloc.start()
        Filled(policy, n)
        found[name] = tracemalloc.get_traced_memory()[0] / n
        tracemalloc.stop()
    index = HostIndex(n, CHUNK_TOKENS, RANK)
    keys = [key_of(i) for i in range(n)]
    gc.collect()
    tracemalloc.start()
    index.refuse(keys, 1)
    found["ghost entry, key apart"] = tracemalloc.get_traced_memory()[0] / n
    tracemalloc.stop()
    return found


def time_swap(resident: int) -> dict[str, float]:
    """Longest pause in milliseconds of processor time while new rules come into force, and the steps that it takes."""
    from autotune_policies.engines.live.changes import SLICE_NS

    pool = Filled(our_policy(resident, HostRules.lru()), resident)
    index = pool.policy.index
    gc.collect()
    pauses = []
    began = time.thread_time()
    index.begin_swap(RANK)
    pauses.append(time.thread_time() - began)
    while index.is_changing:
        began = time.thread_time()
        index.advance_for(SLICE_NS, time.thread_time_ns)
        pauses.append(time.thread_time() - began)
    return {"longest_ms": 1e3 * max(pauses), "median_ms": 1e3 * statistics.median(pauses), "steps": len(pauses) - 1}


def percentile_us(seconds: list[float], share: float) -> float:
    """Percentile in microseconds."""
    return 1e6 * sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--replays", type=int, default=5)
    chosen = parser.parse_args()
    logging.getLogger("vllm.kv_autotune").setLevel(logging.ERROR)
    result: dict[str, Any] = {"evict_us": {}, "replay_ratio": {}}
    for resident in (10_000, 100_000):
        for name, seconds in time_evictions(resident, chosen.rounds).items():
            p50, p99 = percentile_us(seconds, 0.5), percentile_us(seconds, 0.99)
            result["evict_us"][f"{resident}, {name}"] = p50, p99
            print(f"evict({VICTIMS}) at {resident:>7,} resident  {name:<16} p50 {p50:7.1f} µs  p99 {p99:7.1f} µs")
    for host_blocks, device_blocks in ((4_000, 1_000), (16_000, 4_000)):
        seconds_by_name = time_replays(host_blocks, device_blocks, chosen.replays)
        for name, seconds in seconds_by_name.items():
            ratios = [ours / stock for ours, stock in zip(seconds, seconds_by_name["vLLM LRU"], strict=True)]
            result["replay_ratio"][f"{host_blocks}, {name}"] = statistics.median(ratios)
            print(
                f"manager work, host {host_blocks:>6,}  {name:<16} {statistics.median(seconds):6.3f} s"
                f"  {statistics.median(ratios):.2f} x vLLM LRU ({min(ratios):.2f} to {max(ratios):.2f})"
            )
    result["bytes_per_entry"] = bytes_per_entry(20_000)
    for name, n_bytes in result["bytes_per_entry"].items():
        print(f"memory  {name:<24} {n_bytes:6.0f} bytes")
    result["swap"] = time_swap(100_000)
    print("new rules at 100,000 resident:", ", ".join(f"{k} {v:.2f}" for k, v in result["swap"].items()))
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
