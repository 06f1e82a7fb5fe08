"""The vllm mode under a learned rule, in plain Python: what the engine's own manager must decide, call by call.

A host that stores before a request finishes knows nothing of the rest of its blocks: they come in above all others, and
have their rank when the request has finished. Then every block of it that the host holds is ranked anew.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.learned import HazardPolicy, LearnedRules, RunHistory
from autotune.core.trace import Trace
from autotune.core.types import Tier
from autotune.sim import tiers
from autotune.sim.client_hints import hints_of
from autotune.sim.config import CacheConfig
from autotune.sim.learned_reference import facts_of
from autotune.sim.learned_rules import HazardRules, Hints
from autotune.sim.prepare import make_result
from autotune.sim.stream import make_stream, without_partial_blocks
from autotune.sim.vllm_decisions import VllmDecisions, decisions_of
from autotune.sim.vllm_engine import VllmRun
from autotune.sim.vllm_reference import VllmReferenceCache

_LRU = PolicySpec("lru")


class VllmLearnedCache(VllmReferenceCache):
    """State of one simulation; the device is as the configuration says, the host under the learned rule.

    Chunks of several blocks are counted as such: their depth, their value and their past.

    Args:
        trace: The trace without partial blocks.
        config: An engine with vLLM's semantics; its host's policy is not looked at.
        costs: The cost model.
        rules: The rule.
        hints: What clients told; ``None`` = what the trace says of it.
    """

    def __init__(
        self, trace: Trace, config: CacheConfig, costs: CostProfile, rules: HazardRules, hints: Hints | None = None
    ) -> None:
        super().__init__(trace, replace(config, host_policy=_LRU), costs)
        self._facts = facts_of(trace, hints or hints_of(trace) or Hints())
        self._start_ns: dict[int, int] = {}
        unit = config.chunk_blocks
        past: RunHistory[int] = RunHistory(unit * trace.block_tokens, max(1, trace.n_blocks))
        context = tiers.tier_context(self._store.capacity_blocks, Tier.HOST, trace, costs, unit)
        learned = LearnedRules.of(rules.packed, rules.tick_s, form=rules.form)
        self._past = past
        self._order = HazardPolicy(context, learned, past, marginal=rules.marginal, stores_early=True)
        self._store.policy = self._order

    def _start(self, r: int, now_ns: int) -> None:
        self._start_ns[r] = now_ns
        self._order.advance(now_ns)
        super()._start(r, now_ns)

    def _become_idle(self, r: int, now_ns: int, reserved: int = 0) -> None:
        chunks = self._chunks(r)
        self._past.observe(chunks, self._facts(r), self._start_ns.pop(r), now_ns)
        self._order.advance(now_ns)
        for chunk in reversed(chunks):
            if chunk in self._order:
                self._order.touch(self._access(r, chunk, now_ns))
        super()._become_idle(r, now_ns, reserved)


def learned_vllm_decisions(
    trace: Trace, config: CacheConfig, costs: CostProfile, rules: HazardRules, hints: Hints | None = None
) -> VllmDecisions:
    """Decisions of an engine with vLLM's semantics whose host obeys a learned rule from the start.

    Args:
        trace: The requests.
        config: The engine.
        costs: The cost model.
        rules: The rule; no chunk counts as a copy here.
        hints: What clients told; ``None`` = what the trace says of it.
    """
    trace = without_partial_blocks(trace)
    cache = VllmLearnedCache(trace, config, costs, rules, hints)
    cache.run()
    run = VllmRun(
        result=make_result(trace, replace(config, host_policy=_LRU), costs, cache.out, cache.wait_ns),
        fates=cache.fates,
        evicted=np.array(cache.evicted, np.int32),
        calls=np.array(cache.calls, np.int64),
        start_ns=make_stream(trace, config).arrival_ns + cache.wait_ns,
        end_ns=cache.end_ns,
    )
    return decisions_of(run)
