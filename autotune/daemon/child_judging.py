"""Policies on the newest requests, which nothing was tuned on: each beside the one that holds now.

Whatever is compared is simulated by the same rules. They are the engine's own; where one of the two is a learned rule
or stores lazily, which those do not know, both are simulated by the canonical rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autotune.core.policy import ClassHazardDocument, PolicyDocument, load
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, StoreMode
from autotune.daemon.jobs import HostSize, Share, TuneJob
from autotune.search.bounds import bootstrap_gain
from autotune.search.problem import window_sums
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.from_policy import simulate_document
from autotune.sim.result import CacheResult, Seconds, Totals

_HOST_FACTORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
_BOOTSTRAP_DRAWS = 2000
_WINDOWS = 30


class Judge:
    """Simulates policies on everything that was recorded, and counts the newest requests.

    Args:
        job: What was asked.
        trace: The recorded requests.
        engine: The engine under LRU.

    Attributes:
        job: What was asked.
        newest: First request that judges.
        present: The policy that holds now; ``None`` = the engine's own LRU.

    Raises:
        AutotuneError: the present policy cannot be read.
    """

    def __init__(self, job: TuneJob, trace: Trace, engine: CacheConfig) -> None:
        self.job, self._trace, self._engine = job, trace, engine
        self.newest = trace.first_request_at(trace.arrival_s[0] + trace.span_s * (1.0 - job.newest_frac))
        self.present = load(Path(job.confirmed)) if job.confirmed else None
        self._known: dict[EngineSemantics, CacheResult] = {}

    @property
    def past(self) -> Trace:
        """The requests before the newest."""
        return self._trace.slice(0, self.newest)

    def judge(self, document: PolicyDocument, path: Path) -> Judged:
        """A policy beside the present one.

        Args:
            document: The policy.
            path: Where it was written.

        Raises:
            AutotuneError: the engine cannot be simulated under it.
        """
        engine = self._rules_for(document)
        if engine.semantics not in self._known:
            self._known[engine.semantics] = self.run(self.present, engine)
        return Judged(self, document, path, engine, self._known[engine.semantics], self.run(document, engine))

    def run(self, document: PolicyDocument | None, engine: CacheConfig) -> CacheResult:
        """The recorded requests under a policy, or under the engine's own LRU."""
        costs = self.job.costs.profile()
        if document is None:
            return simulate_cache(self._trace, engine, costs)
        return simulate_document(self._trace, document, engine, costs, store=self._stores(document, engine))

    def _rules_for(self, document: PolicyDocument) -> CacheConfig:
        """The engine by the rules that can simulate both policies."""
        engine, both = self._engine, (self.present, document)
        if all(each is None or self._vllm_knows(each) for each in both):
            return engine
        return replace(engine, semantics=EngineSemantics.CANONICAL)

    def _vllm_knows(self, document: PolicyDocument) -> bool:
        return not isinstance(document, ClassHazardDocument) and not self._is_lazy(document)

    def _is_lazy(self, document: PolicyDocument) -> bool:
        """Whether the engine would store lazily under a policy."""
        host = document.tiers.host
        return self.job.unfit is None and host is not None and host.store_mode is not StoreMode.EAGER

    def _stores(self, document: PolicyDocument, engine: CacheConfig) -> StoreMode | None:
        """When the engine would store under a policy; ``None`` = as the policy says.

        vLLM offers blocks to the host as they are computed unless the plug-in can store lazily, and a loaded block
        stays there.
        """
        if self._engine.semantics is not EngineSemantics.VLLM_0_32:
            return None
        knows_lazy = engine.semantics is EngineSemantics.CANONICAL
        return StoreMode.LAZY if knows_lazy and self._is_lazy(document) else StoreMode.EAGER


@dataclass(frozen=True, slots=True)
class Judged:
    """A policy and the present one on the same requests.

    Attributes:
        judge: What was asked, and on which requests.
        document: The policy; ``None`` = the engine's own LRU.
        path: Where it was written.
        engine: The simulated engine under LRU.
        present: Under the policy that holds now.
        result: Under this one.
    """

    judge: Judge
    document: PolicyDocument | None
    path: Path
    engine: CacheConfig
    present: CacheResult
    result: CacheResult

    def gain(self) -> Share:
        """Share of the present policy's cost that it saves."""
        job, newest = self.judge.job, self.judge.newest
        baseline, candidate = (
            window_sums(result.cost_s()[newest:], _WINDOWS) for result in (self.present, self.result)
        )
        found = bootstrap_gain(baseline, candidate, job.confidence, _BOOTSTRAP_DRAWS, job.seed)
        return Share(value=found.value, low=found.low, high=found.high)

    def as_present(self) -> Judged:
        """The present policy in its place: what is predicted where nothing changes."""
        return replace(self, document=self.judge.present, result=self.present)

    def totals(self) -> tuple[Totals, Totals]:
        """Sums over the newest requests: under the present policy, and under this one."""
        return self.present.totals(self.judge.newest), self.result.totals(self.judge.newest)

    def device_hits(self) -> Share:
        """Share of prompt tokens that the device has."""
        return self._share(lambda result: result.device_hit)

    def host_hits(self) -> Share:
        """Share of prompt tokens that come from below the device."""
        return self._share(lambda result: result.host_hit + result.disk_hit)

    def saved_s(self) -> Share:
        """Seconds that the mean request is spared."""
        saved_s = self.present.cost_s() - self.result.cost_s()
        return self._ratio(saved_s, np.ones(len(saved_s)))

    def sizes(self) -> tuple[HostSize, ...]:
        """What is obeyed after the search with other sizes of the host tier."""
        config = self.result.config
        sizes = sorted({round(config.host_blocks * factor) for factor in _HOST_FACTORS})
        return tuple(self._size(size) for size in sizes if size == 0 or size >= config.chunk_blocks)

    def _size(self, blocks: int) -> HostSize:
        cost_s = self._with_host(blocks).cost_s()[self.judge.newest :]
        return HostSize(host_bytes=blocks * self.result.block_bytes, cost_s=float(cost_s.sum()))

    def _with_host(self, blocks: int) -> CacheResult:
        if blocks == 0:
            return simulate_cache(self.result.trace, _without_host(self.result.config), self.result.costs)
        return self.judge.run(self.document, replace(self.engine, host_blocks=blocks))

    def _share(self, blocks_of: Callable[[CacheResult], np.ndarray]) -> Share:
        """Share of prompt tokens, with bounds from how much it varies between windows."""
        trace = self.result.trace
        tokens = np.minimum(blocks_of(self.result).astype(float) * trace.block_tokens, trace.input_tokens)
        return self._ratio(tokens, trace.input_tokens.astype(float))

    def _ratio(self, parts: Seconds, wholes: Seconds) -> Share:
        """One sum over another, of the newest requests, with bounds from a bootstrap over windows."""
        job, newest = self.judge.job, self.judge.newest
        part, whole = (window_sums(each[newest:], _WINDOWS) for each in (parts, wholes))
        drawn = np.random.default_rng(job.seed).integers(0, len(part), (_BOOTSTRAP_DRAWS, len(part)))
        ratios = part[drawn].sum(axis=1) / np.maximum(whole[drawn].sum(axis=1), 1.0)
        tail = (1.0 - job.confidence) / 2.0
        low, high = np.quantile(ratios, (tail, 1.0 - tail))
        return Share(value=float(part.sum() / max(1.0, whole.sum())), low=float(low), high=float(high))


def _without_host(config: CacheConfig) -> CacheConfig:
    return CacheConfig(
        config.device_blocks,
        device_policy=config.device_policy,
        timing=config.timing,
        itl_s=config.itl_s,
        full_blocks=True,
    )
