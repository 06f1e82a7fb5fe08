"""What a search does: tune and learn on the past, then judge both on the newest requests, which they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.core.policy import PolicyDocument
from autotune.core.settings import SearchSettings, Settings, SimulationSettings, ValidationSettings
from autotune.core.shapes import ModelShape
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics, StoreMode
from autotune.daemon.child_judging import Judge, Judged
from autotune.daemon.child_learning import learn
from autotune.daemon.jobs import Candidate, OutcomeKind, Share, TuneJob, TuneOutcome
from autotune.export import save
from autotune.search import evidence
from autotune.search.choice import Goal, choose, split_in_time
from autotune.search.problem import Problem, ranked_tier
from autotune.search.publishing import make_document
from autotune.search.setting import LRU_SETTING
from autotune.search.space import load_space
from autotune.search.study import StudyPlan, best_of, run_study
from autotune.search.tune import load_objective
from autotune.sim.config import CacheConfig
from autotune.traces.rolling.folder import is_rolling

_NAMES = {"lru": "LRU", "rank": "the rank rule", "class_hazard": "the learned rule"}
_TUNED, _LEARNED = "tuned.yaml", "learned.yaml"


def tune_and_validate(job: TuneJob, keep: Callable[[TuneOutcome], None] = lambda outcome: None) -> TuneOutcome:
    """Run a job.

    Args:
        job: What is asked.
        keep: Takes what is known before the learned rule is fitted, for the case that this process does not live on.

    Raises:
        AutotuneError: the recording, the costs or the budgets cannot be used.
    """
    trace = _open(job)
    if not trace.has_blocks or trace.n_requests < job.min_requests:
        text = f"{trace.n_requests:,} requests are recorded; tuning needs {job.min_requests:,}"
        return TuneOutcome(kind=OutcomeKind.NOT_ENOUGH, text=text, requests=trace.n_requests)
    engine = _engine(job, trace.block_tokens)
    judge = Judge(job, trace, engine)
    tuned = _judged(judge, _tune(job, judge.past, engine), _TUNED)
    keep(_outcome(judge, [tuned], "the search ended before it was fitted"))
    found = learn(job, trace, judge.newest, engine, _model(job))
    if isinstance(found, str):
        return _outcome(judge, [tuned], found)
    return _outcome(judge, [tuned, _judged(judge, found, _LEARNED)])


def _judged(judge: Judge, document: PolicyDocument, name: str) -> Judged:
    path = Path(judge.job.out) / name
    save(document, path)
    return judge.judge(document, path)


def _outcome(judge: Judge, found: list[Judged], no_learned: str | None = None) -> TuneOutcome:
    """Of all candidates the one that saves most, if it is worth it; with what all of them save.

    Args:
        judge: What was asked, and on which requests.
        found: The candidates.
        no_learned: Why what was learned is not among them; ``None`` = it is.
    """
    job = judge.job
    judged = [(each, each.gain()) for each in found]
    # What is worth it comes first, then what saves most.
    judged.sort(key=lambda pair: (not _is_worth_it(pair[1], job), -pair[1].value))
    best, gain = judged[0]
    worth = _is_worth_it(gain, job)
    obeyed = best if worth else best.as_present()
    before, after = obeyed.totals()
    candidates = tuple(_candidate(each, gain) for each, gain in judged)
    if no_learned is not None:
        candidates = (*candidates, Candidate(kind="class_hazard", name=_NAMES["class_hazard"], missing=no_learned))
    return TuneOutcome(
        kind=OutcomeKind.POLICY if worth else OutcomeKind.NO_GAIN,
        text=_in_words(after.requests, candidates),
        policy=str(best.path) if worth else None,
        chosen=candidates[0].kind if worth else None,
        candidates=candidates,
        gain=gain,
        device_hit_frac=obeyed.device_hits(),
        host_hit_frac=obeyed.host_hits(),
        saved_s_per_request=obeyed.saved_s(),
        sizes=obeyed.sizes(),
        stored_bytes=after.stored_bytes,
        stored_bytes_before=before.stored_bytes,
        loaded_bytes=after.loaded_bytes,
        requests=obeyed.result.trace.n_requests,
    )


def _is_worth_it(gain: Share, job: TuneJob) -> bool:
    return gain.low > 0.0 and gain.low >= job.min_gain_frac


def _candidate(judged: Judged, gain: Share) -> Candidate:
    document = judged.document
    kind = "lru" if document is None else document.kind
    host = None if document is None else document.tiers.host
    lazily = kind == "lru" and host is not None and host.store_mode is not StoreMode.EAGER
    name = f"{_NAMES[kind]} with lazy stores" if lazily else _NAMES[kind]
    return Candidate(kind=kind, name=name, gain=gain, policy=str(judged.path))


def _in_words(n_requests: int, candidates: Sequence[Candidate]) -> str:
    """What the candidates save, the first in a whole sentence; and why there is no other."""
    saved = [f"{each.name} saves {_span(each.gain)}" for each in candidates if each.gain is not None]
    missing = [f"; no learned rule: {each.missing}" for each in candidates if each.missing is not None]
    first, *others = saved
    also = "".join(f", {other}" for other in others)
    return f"on the newest {n_requests:,} requests {first} of the present policy's cost{also}{''.join(missing)}"


def _span(gain: Share) -> str:
    return f"{100 * gain.value:+.1f} % ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


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


def _settings(job: TuneJob) -> Settings:
    return Settings(
        search=SearchSettings(trials=job.trials, seed=job.seed, random_search=False),
        simulation=SimulationSettings(full_blocks=True, engine=job.semantics),
        validation=ValidationSettings(confidence=job.confidence),
    )


def _model(job: TuneJob) -> ModelShape:
    """Name and type for the policy's fingerprint; its dimensions are in the costs, so those here are not used."""
    return ModelShape(job.model, 0, 1, 1, 1, 1, job.kv_dtype, 1)
