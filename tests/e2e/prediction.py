"""What the simulator says about a replay, and what the engine counted, in the same units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from metrics_page import EngineCounters
from replay import Answer, Replay

from autotune.core.costs import CostProfile
from autotune.core.eviction import PolicySpec
from autotune.core.policy import PolicyDocument
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, Timing
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_plainly
from autotune.sim.from_policy import engine_of
from autotune.sim.result import CacheResult


@dataclass(frozen=True, slots=True)
class Pools:
    """Room for KV.

    Attributes:
        device_blocks: Blocks on the device.
        host_blocks: Blocks on the host.
    """

    device_blocks: int
    host_blocks: int


@dataclass(frozen=True, slots=True)
class HitFracs:
    """Shares of the prompt tokens.

    Attributes:
        device_frac: Found on the device.
        host_frac: Loaded from the host.
        later_frac: Found on either, among the requests of the later part only.
    """

    device_frac: float
    host_frac: float
    later_frac: float

    @property
    def hit_frac(self) -> float:
        """Found on either."""
        return self.device_frac + self.host_frac


def predicted(
    trace: Trace, policy: PolicyDocument | str, pools: Pools, costs: CostProfile, itl_s: float, later: int
) -> HitFracs:
    """Hits by vLLM's rules in the simulator.

    Args:
        trace: The trace that is replayed.
        policy: A policy document, or the name of a policy that the stock engine has.
        pools: Room for KV.
        costs: What prefill and transfers take.
        itl_s: Seconds per output token.
        later: First request of the later part.
    """
    engine = CacheConfig(
        pools.device_blocks,
        pools.host_blocks,
        semantics=EngineSemantics.VLLM_0_32,
        timing=Timing.SERVICE,
        itl_s=itl_s,
        host_policy=PolicySpec(policy if isinstance(policy, str) else "lru"),
        check_break_even=not isinstance(policy, str),  # the stock engine loads whatever there is
    )
    if isinstance(policy, PolicyDocument):
        engine = engine_of(policy, engine, trace.block_tokens)
    # A few hundred requests are run sooner in plain Python than the compiled loop, which counts the same, is compiled.
    return _of_simulation(simulate_plainly(trace, engine, costs), trace, later)


def measured(trace: Trace, replay: Replay, later: int) -> HitFracs:
    """Hits as the engine counted them."""
    counters: EngineCounters = replay.counters
    tokens = int(trace.input_tokens.sum())
    cached = np.array([answer.cached_tokens for answer in replay.answers], np.int64)
    return HitFracs(
        counters.device_tokens / tokens, counters.host_tokens / tokens, _share(cached, trace.input_tokens, later)
    )


def same_tokens(replays: list[Replay]) -> bool:
    """Whether every request got the very same tokens in every replay."""
    answers: list[tuple[Answer, ...]] = [replay.answers for replay in replays]
    return all([a.token_ids for a in answers[0]] == [a.token_ids for a in others] for others in answers[1:])


def _of_simulation(cache: CacheResult, trace: Trace, later: int) -> HitFracs:
    tokens, block = int(trace.input_tokens.sum()), trace.block_tokens
    hits = (cache.device_hit + cache.host_hit).astype(np.int64) * block
    return HitFracs(
        int(cache.device_hit.sum()) * block / tokens,
        int(cache.host_hit.sum()) * block / tokens,
        _share(hits, trace.input_tokens, later),
    )


def _share(found: npt.NDArray[np.int64], asked: npt.NDArray[np.int32], later: int) -> float:
    return float(found[later:].sum() / max(1, asked[later:].sum()))
