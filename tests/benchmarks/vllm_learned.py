"""What the learned rule costs inside vLLM's scheduler, beside LRU and the rank rule in the same run.

Run in the engine's environment: ``python tests/benchmarks/vllm_learned.py [--json FILE]``. In turns and in processor
time of the thread, as :mod:`vllm_manager` measures. Python's garbage collection, which looks at all residents under any
rule, is kept out of these times and measured by itself.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from vllm_manager import CHUNK_TOKENS, COSTS, RANK, VICTIMS, key_of, percentile_us

from autotune.core.learned import LearnedRules, RequestFacts, RunHistory
from autotune.core.policy import ClassHazardDocument, load
from autotune.core.reuse import pack
from autotune.core.types import Admission
from autotune.core.units import NS_PER_S
from autotune_policies.engines.live.changes import SLICE_NS
from autotune_policies.engines.live.index import HostIndex
from autotune_policies.engines.live.rules import HostRules

LEARNED_FILE = Path(__file__).parents[1] / "data" / "policies" / "learned_conversation.yaml"
STEP_NS = 25_000_000
TICK_S = 10.0


def learned_rules(path: Path, device_age_s: float = 10.0) -> HostRules:
    """The learned rule of a document."""
    document = load(path)
    if not isinstance(document, ClassHazardDocument):
        raise TypeError(f"{path} is no learned policy")
    learned = LearnedRules.of(pack(document.class_hazard.model(), device_age_s), TICK_S)
    return HostRules("class_hazard", costs=COSTS, admission=Admission.MARGINAL, learned=learned)


class Engine:
    """A host index, the past of its chunks, and what a scheduler asks of them.

    Args:
        rules: Rules in force.
        resident: Chunks to fill it with.
        prompt_chunks: Chunks of a prompt.
    """

    def __init__(self, rules: HostRules, resident: int, prompt_chunks: int) -> None:
        self.index = HostIndex(resident, CHUNK_TOKENS, HostRules.lru())
        self.rules = rules
        self.prompt_chunks = prompt_chunks
        self.now_ns = 10**12
        self.next_key = 0
        if rules.learned is not None:
            self.index.past = RunHistory(CHUNK_TOKENS, 2 * resident)
        self.index.begin_swap(rules, self.now_ns)
        self.index.finish_swap()
        while self.next_key < resident:
            self.store(min(prompt_chunks, resident - self.next_key))

    def store(self, n_chunks: int) -> list[bytes]:
        """A request brings chunks in and ends."""
        keys = [key_of(self.next_key + i) for i in range(n_chunks)]
        self.next_key += n_chunks
        for depth, key in enumerate(keys):
            self.index.insert(key, keys[depth - 1] if depth else None, depth, self.now_ns)
        for key in keys:
            self.index.release(key)
        self.finish(keys)
        return keys

    def finish(self, keys: list[bytes]) -> None:
        """A request that used these chunks ends: its features and classes, and its chunks' places."""
        past, learned = self.index.past, self.rules.learned
        if past is not None and learned is not None:
            facts = RequestFacts(len(keys) * CHUNK_TOKENS, 100, 0)
            for span in past.observe(keys, facts, self.now_ns - NS_PER_S, self.now_ns):
                learned.classifier.group_of(span.run)
        self.index.refresh(reversed(keys), (), self.now_ns)

    def use_again(self, first: int) -> list[bytes]:
        """Keys of a prompt that is used again."""
        first -= first % self.prompt_chunks
        return [key_of(first + i) for i in range(self.prompt_chunks)]

    def step(self) -> None:
        """What every scheduler step does for the order: a slice of what is being prepared, and the time."""
        self.now_ns += STEP_NS
        index = self.index
        index.advance_for(SLICE_NS, time.thread_time_ns)
        index.at(self.now_ns)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of some work, and what it gave."""
    began = time.thread_time()
    answer = work()
    return time.thread_time() - began, answer


def time_requests(resident: int, rounds: int, prompt_chunks: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of evictions, of finished requests and of steps, per rule, in turns."""
    rules = {"LRU": HostRules.lru(), "rank rule": RANK, "learned rule": learned_rules(LEARNED_FILE)}
    engines = {name: Engine(rule, resident, prompt_chunks) for name, rule in rules.items()}
    seconds: dict[str, dict[str, list[float]]] = {name: {"evict": [], "finish": [], "step": []} for name in rules}
    gc.collect()
    gc.disable()
    for i in range(rounds):
        for name, engine in engines.items():
            found = seconds[name]
            found["step"].append(timed(engine.step)[0])
            again = engine.use_again(engine.next_key - resident // 2 + i * prompt_chunks % (resident // 2))
            found["finish"].append(timed(partial(engine.finish, again))[0])
            taken, victims = timed(partial(engine.index.evict, VICTIMS, ()))
            found["evict"].append(taken)
            if victims is None or len(victims) != VICTIMS:
                raise RuntimeError(f"{name}: {VICTIMS} chunks had to leave")
            engine.store(VICTIMS)
    gc.enable()
    return seconds


def time_collections(resident: int) -> dict[str, float]:
    """Seconds of one full garbage collection with the objects of one rule, those of the process before it apart."""
    found = {}
    for name, rules in (("LRU", HostRules.lru()), ("learned rule", learned_rules(LEARNED_FILE))):
        gc.collect()
        gc.freeze()
        engine = Engine(rules, resident, 32)
        gc.collect()
        found[name] = min(timed(gc.collect)[0] for _ in range(5))
        gc.unfreeze()
        del engine
    return found


def time_pauses(resident: int, prompt_chunks: int) -> dict[str, list[float]]:
    """Seconds of single steps: over several ticks, after an idle time, and while another model comes into force."""
    engine = Engine(learned_rules(LEARNED_FILE), resident, prompt_chunks)
    gc.collect()
    gc.disable()
    pauses: dict[str, list[float]] = {}
    pauses["ticks"] = [timed(engine.step)[0] for _ in range(int(3 * TICK_S * NS_PER_S / STEP_NS))]
    engine.now_ns += 10 * round(TICK_S) * NS_PER_S
    pauses["after an idle time"] = [timed(engine.step)[0] for _ in range(600)]
    other = learned_rules(LEARNED_FILE, 100.0)
    begun = [timed(lambda: engine.index.begin_swap(other, engine.now_ns))[0]]
    while engine.index.rules is not other:
        begun.append(timed(engine.step)[0])
    pauses["another model"] = begun
    gc.enable()
    return pauses


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=3000)
    chosen = parser.parse_args()
    result: dict[str, Any] = {}
    for resident in (10_000, 100_000):
        for name, found in time_requests(resident, chosen.rounds, 32).items():
            for what, seconds in found.items():
                p50, p99, longest = (percentile_us(seconds, share) for share in (0.5, 0.99, 1.0))
                result[f"{what}, {resident}, {name}"] = p50, p99, longest
                print(
                    f"{what:<8} at {resident:>7,} resident  {name:<14} p50 {p50:7.1f} µs  p99 {p99:7.1f} µs"
                    f"  longest {longest:7.1f} µs"
                )
    for prompt_chunks in (32, 1):
        for what, seconds in time_pauses(100_000, prompt_chunks).items():
            p50, p99, longest = (percentile_us(seconds, share) for share in (0.5, 0.99, 1.0))
            result[f"pauses, {prompt_chunks} chunks a prompt, {what}"] = p50, p99, longest
            print(
                f"steps at 100,000 resident, {prompt_chunks:>2} chunks a prompt, {what:<20} {len(seconds):>6} steps"
                f"  p50 {p50:6.1f} µs  p99 {p99:6.1f} µs  longest {longest:6.1f} µs"
            )
    result["collection"] = time_collections(100_000)
    for name, seconds in result["collection"].items():
        print(f"full garbage collection at 100,000 resident, {name}: {1e3 * seconds:.1f} ms")
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
