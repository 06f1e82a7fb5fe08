"""What a search does: tune on the past, then judge the result on the newest requests, which it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autotune.core.policy import PolicyDocument, load
from autotune.core.settings import SearchSettings, Settings, SimulationSettings, ValidationSettings
from autotune.core.shapes import ModelShape
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, StoreMode
from autotune.daemon.jobs import HostSize, OutcomeKind, Share, TuneJob, TuneOutcome
from autotune.export import save
from autotune.search import evidence
from autotune.search.bounds import bootstrap_gain
from autotune.search.choice import Goal, choose, split_in_time
from autotune.search.problem import Problem, ranked_tier, window_sums
from autotune.search.publishing import make_document
from autotune.search.setting import LRU_SETTING
from autotune.search.space import load_space
from autotune.search.study import StudyPlan, best_of, run_study
from autotune.search.tune import load_objective
from autotune.sim.config import CacheConfig
from autotune.sim.engine import simulate_cache
from autotune.sim.from_policy import simulate_document
from autotune.sim.result import CacheResult
from autotune.traces.rolling.folder import is_rolling

_HOST_FACTORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
_BOOTSTRAP_DRAWS = 2000
_WINDOWS = 30


def tune_and_validate(job: TuneJob) -> TuneOutcome:
    """Run a job.

    Raises:
        AutotuneError: the recording, the costs or the budgets cannot be used.
    """
    trace = _open(job)
    if not trace.has_blocks or trace.n_requests < job.min_requests:
        text = f"{trace.n_requests:,} requests are recorded; tuning needs {job.min_requests:,}"
        return TuneOutcome(kind=OutcomeKind.NOT_ENOUGH, text=text, requests=trace.n_requests)
    engine = _engine(job, trace.block_tokens)
    newest = trace.first_request_at(trace.arrival_s[0] + trace.span_s * (1.0 - job.newest_frac))
    found = _tune(job, trace.slice(0, newest), engine)
    present = load(Path(job.confirmed)) if job.confirmed else None
    judged = _Judged(
        job,
        newest,
        present=_under(present, engine, trace, job),
        candidate=_under(found, engine, trace, job),
    )
    return judged.outcome(found)


@dataclass(frozen=True, slots=True)
class _Judged:
    """The present policy and the candidate on the same requests.

    Attributes:
        job: What was asked.
        newest: First request that judges.
        present: Under the policy that holds now.
        candidate: Under the one that was found.
    """

    job: TuneJob
    newest: int
    present: CacheResult
    candidate: CacheResult

    def outcome(self, found: PolicyDocument) -> TuneOutcome:
        gain = self._gain()
        worth = gain.low > 0.0 and gain.low >= self.job.min_gain_frac
        path = Path(self.job.out) / "policy.yaml"
        save(found, path)
        span = f"{100 * gain.value:+.1f} % ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
        better = self.candidate if worth else self.present
        totals, before = (result.totals(self.newest) for result in (better, self.present))
        return TuneOutcome(
            kind=OutcomeKind.POLICY if worth else OutcomeKind.NO_GAIN,
            text=f"on the newest {totals.requests:,} requests it saves {span} of the present policy's cost",
            policy=str(path) if worth else None,
            gain=gain,
            device_hit_frac=self._share(better, lambda result: result.device_hit),
            host_hit_frac=self._share(better, lambda result: result.host_hit + result.disk_hit),
            saved_s_per_request=self._saved_s(better),
            sizes=self._sizes(better),
            stored_bytes=totals.stored_bytes,
            stored_bytes_before=before.stored_bytes,
            loaded_bytes=totals.loaded_bytes,
            requests=better.trace.n_requests,
        )

    def _gain(self) -> Share:
        baseline, candidate = (
            window_sums(result.cost_s()[self.newest :], _WINDOWS) for result in (self.present, self.candidate)
        )
        found = bootstrap_gain(baseline, candidate, self.job.confidence, _BOOTSTRAP_DRAWS, self.job.seed)
        return Share(value=found.value, low=found.low, high=found.high)

    def _share(self, result: CacheResult, blocks_of: Callable[[CacheResult], np.ndarray]) -> Share:
        """Share of prompt tokens, with bounds from how much it varies between windows."""
        tokens = np.minimum(blocks_of(result).astype(float) * result.trace.block_tokens, result.trace.input_tokens)
        return self._ratio(tokens, result.trace.input_tokens.astype(float))

    def _saved_s(self, result: CacheResult) -> Share:
        """Seconds that the mean request is spared, with such bounds."""
        saved_s = self.present.cost_s() - result.cost_s()
        return self._ratio(saved_s, np.ones(len(saved_s)))

    def _ratio(self, parts: np.ndarray, wholes: np.ndarray) -> Share:
        """One sum over another, of the newest requests, with bounds from a bootstrap over windows."""
        part, whole = (window_sums(each[self.newest :], _WINDOWS) for each in (parts, wholes))
        drawn = np.random.default_rng(self.job.seed).integers(0, len(part), (_BOOTSTRAP_DRAWS, len(part)))
        ratios = part[drawn].sum(axis=1) / np.maximum(whole[drawn].sum(axis=1), 1.0)
        tail = (1.0 - self.job.confidence) / 2.0
        low, high = np.quantile(ratios, (tail, 1.0 - tail))
        return Share(value=float(part.sum() / max(1.0, whole.sum())), low=float(low), high=float(high))

    def _sizes(self, result: CacheResult) -> tuple[HostSize, ...]:
        """The same policy with other sizes of the host tier."""
        blocks = result.config.host_blocks
        sizes = sorted({round(blocks * factor) for factor in _HOST_FACTORS})
        return tuple(self._size(result, size) for size in sizes if size == 0 or size >= result.config.chunk_blocks)

    def _size(self, result: CacheResult, blocks: int) -> HostSize:
        config = _without_host(result.config) if blocks == 0 else replace(result.config, host_blocks=blocks)
        again = simulate_cache(result.trace, config, result.costs)
        return HostSize(host_bytes=blocks * result.block_bytes, cost_s=float(again.cost_s()[self.newest :].sum()))


def _open(job: TuneJob) -> Trace:
    """The recorded requests; of a rolling recording, the newest epoch that has enough of them."""
    is_folder = is_rolling(Path(job.trace.partition(":")[2]))
    trace = Trace.open(job.trace, min_requests=job.min_requests) if is_folder else Trace.open(job.trace)
    older = 0 if job.newest_requests is None else max(0, trace.n_requests - job.newest_requests)
    return trace.slice(older, trace.n_requests) if older else trace


def _tune(job: TuneJob, past: Trace, engine: CacheConfig) -> PolicyDocument:
    """The best setting that lasts within the past, or LRU; without the comparisons that a report would show."""
    settings = _settings(job)
    split = split_in_time(Problem(past, engine, job.costs.profile(), ranked_tier(engine)), settings.search.train_frac)
    objective, space = load_objective("net_seconds"), load_space()
    plan = StudyPlan(
        sampler=settings.search.sampler,
        trials=job.trials,
        seed=job.seed,
        workers=1,
        storage=None,
        study_name="sidecar",
        first=(),
    )
    rows = run_study(split.past, space, objective, plan, (), lambda row, best: None)
    lru = split.judge(LRU_SETTING)
    goal = Goal(objective, (), job.min_gain_frac)
    judged, _ = choose(split, split.judge(best_of(rows).setting), lru, goal, settings.validation, job.seed)
    horizon_s = split.past.turnover_s()
    reuse = evidence.reuse_steps(split.past.trace, horizon_s)
    prices = evidence.prices(evidence.marginal_values(split, judged), reuse, horizon_s)
    document = make_document(split, judged, lru.evaluation, None, prices, _model(job), settings, len(rows))
    fingerprint = document.fingerprint.model_copy(update={"engines": job.engines})
    return document.model_copy(update={"fingerprint": fingerprint})


def _engine(job: TuneJob, block_tokens: int) -> CacheConfig:
    """The engine under LRU, in blocks of the recording, which are the engine's own."""
    block_bytes = block_tokens * job.costs.kv_bytes_per_token
    device, host, disk = (
        size // block_bytes for size in (job.budgets.device_bytes, job.budgets.host_bytes, job.budgets.disk_bytes)
    )
    semantics = job.semantics if host else EngineSemantics.CANONICAL
    disk = 0 if semantics is EngineSemantics.VLLM_0_32 else disk
    return CacheConfig(max(1, device), host, disk if host else 0, full_blocks=True, semantics=semantics)


def _under(document: PolicyDocument | None, engine: CacheConfig, trace: Trace, job: TuneJob) -> CacheResult:
    """The recorded requests under a policy, or under the engine's own LRU."""
    if document is None:
        return simulate_cache(trace, engine, job.costs.profile())
    # vLLM's rules offer blocks to the host as they are computed, whatever the document's store mode.
    store = StoreMode.EAGER if engine.semantics is EngineSemantics.VLLM_0_32 else None
    return simulate_document(trace, document, engine, job.costs.profile(), store=store)


def _without_host(config: CacheConfig) -> CacheConfig:
    return CacheConfig(
        config.device_blocks,
        device_policy=config.device_policy,
        timing=config.timing,
        itl_s=config.itl_s,
        full_blocks=True,
    )


def _settings(job: TuneJob) -> Settings:
    return Settings(
        search=SearchSettings(trials=job.trials, seed=job.seed, random_search=False),
        simulation=SimulationSettings(full_blocks=True, engine=job.semantics),
        validation=ValidationSettings(confidence=job.confidence),
    )


def _model(job: TuneJob) -> ModelShape:
    """Name and type for the policy's fingerprint; its dimensions are in the costs, so those here are not used."""
    return ModelShape(job.model, 0, 1, 1, 1, 1, job.kv_dtype, 1)
