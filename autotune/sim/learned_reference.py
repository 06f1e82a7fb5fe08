"""The tiered cache under a learned rule in plain Python: what :class:`autotune.sim.learned.LearnedCache` must equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autotune.core.costs import CostProfile
from autotune.core.decide.features import UNKNOWN, stop_code
from autotune.core.eviction import PolicySpec
from autotune.core.learned import HazardPolicy, LearnedRules, RequestFacts, RunHistory, WriteBucket
from autotune.core.learned.history import FORGET_S
from autotune.core.policy import WriteBudget
from autotune.core.trace import Trace
from autotune.core.types import StoreMode, Tier
from autotune.sim import tiers
from autotune.sim.columns import EVICTED_DEVICE, EVICTED_HOST, STORED, STORED_DISK
from autotune.sim.config import CacheConfig
from autotune.sim.learned_rules import HazardRules, Hints
from autotune.sim.reference import ReferenceCache

_LRU = PolicySpec("lru")


class LearnedReference(ReferenceCache):
    """Device and host under one learned rule, from the first request on.

    Args:
        trace: The trace, already without partial blocks if the engine drops them.
        config: The simulated engine; its policies of device and host are not looked at.
        costs: The cost model.
        rules: The rule.
        forget_s: How long an unused block is remembered.
        hints: What clients told.
        write: What may be stored to the host; ``None`` = as much as comes.
    """

    def __init__(
        self,
        trace: Trace,
        config: CacheConfig,
        costs: CostProfile,
        rules: HazardRules,
        forget_s: float = FORGET_S,
        hints: Hints | None = None,
        *,
        write: WriteBudget | None = None,
    ) -> None:
        super().__init__(trace, replace(config, device_policy=_LRU, host_policy=_LRU), costs)
        self._marginal = rules.marginal
        rules = rules.for_stores(config.store_mode)
        self._facts = facts_of(trace, hints or Hints())
        self._start_ns: dict[int, int] = {}
        self.past: RunHistory[int] = RunHistory(trace.block_tokens, max(1, trace.n_blocks), forget_s)
        buckets: dict[Tier, WriteBucket] = {}
        if write is not None:
            began_ns = int(self._stream.arrival_ns[0]) if trace.n_requests else 0
            block_bytes = trace.block_tokens * costs.kv_bytes_per_token
            buckets[Tier.HOST] = WriteBucket(write.bytes_per_s, write.burst_s, block_bytes, began_ns)
        self._order: dict[Tier, HazardPolicy] = {}
        for tier, learned in _by_tier(rules).items():
            found = self._tiers[tier]
            if found is not None:
                context = tiers.tier_context(found.capacity_blocks, Tier.HOST, trace, costs)
                self._order[tier] = found.policy = HazardPolicy(context, learned, self.past, bucket=buckets.get(tier))

    def obey(self, rules: HazardRules, now_ns: int) -> None:
        """Another rule is in force from now on."""
        self._marginal = rules.marginal
        learned = _by_tier(rules.for_stores(self._config.store_mode))
        for tier, order in self._order.items():
            order.obey(learned[tier], now_ns)

    def _start(self, r: int, now_ns: int) -> None:
        self._start_ns[r] = now_ns
        super()._start(r, now_ns)
        self._advance(now_ns)

    def _become_idle(self, r: int, now_ns: int, reserved: int = 0) -> None:
        self.past.observe(self._blocks(r), self._facts(r), self._start_ns.pop(r), now_ns)
        self._advance(now_ns)
        super()._become_idle(r, now_ns, reserved)

    def _advance(self, now_ns: int) -> None:
        for order in self._order.values():
            order.advance(now_ns)

    def _shrink_device(self, now_ns: int, r: int, reserved: int) -> None:
        order, host = self._order[Tier.DEVICE], self._order.get(Tier.HOST)
        while len(order) + reserved > self._device.capacity_blocks:
            block = order.evict(lambda b: self._pins[b] > 0)
            if block < 0:
                break
            self.out[r, EVICTED_DEVICE] += 1
            if self._config.store_mode is not StoreMode.EAGER:
                self._hand_down(self._host, block, now_ns, r, STORED)
            if host is not None:
                host.lose_copy(block)

    def _shrink_lower(self, now_ns: int, r: int) -> None:
        if self._host is None:
            return
        while len(self._host.policy) > self._host.capacity_blocks:
            block = self._host.policy.evict()
            if self._marginal and self._host.inserted_in.get(block) == self._round:
                self.out[r, STORED] -= 1
                self._order[Tier.HOST].take_back_write()
                continue
            self.out[r, EVICTED_HOST] += 1
            self._hand_down(self._disk, block, now_ns, r, STORED_DISK)
        while self._disk and len(self._disk.policy) > self._disk.capacity_blocks:
            self._disk.policy.evict()


def facts_of(trace: Trace, hints: Hints) -> Callable[[int], RequestFacts]:
    """What is known of each request of a trace when it has finished."""
    codes = [*(stop_code(name) for name in trace.stop_reasons), stop_code(None)]  # -1, unknown, takes the last one

    def facts(r: int) -> RequestFacts:
        return RequestFacts(
            input_tokens=int(trace.input_tokens[r]),
            output_tokens=int(trace.output_tokens[r]),
            stop=codes[int(trace.stop_reason[r])],
            session_end=-1 if hints.session_end is None else int(hints.session_end[r]),
            expected_idle_s=UNKNOWN if hints.expected_idle_s is None else float(hints.expected_idle_s[r]),
            priority=-1 if hints.priority is None else int(hints.priority[r]),
        )

    return facts


def _by_tier(rules: HazardRules) -> dict[Tier, LearnedRules]:
    host = LearnedRules.of(rules.packed, rules.tick_s, rules.copy_factor, form=rules.form)
    device = LearnedRules.of(rules.packed, rules.tick_s, 1.0, rules.device_gains, host.classifier, rules.form)
    return {Tier.DEVICE: device, Tier.HOST: host}
