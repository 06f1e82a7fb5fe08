"""The learned rule as what a search finds: learned on the recorded past, judged on the newest requests, published."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sidecar_parts import SETTINGS, Bench, Engine, better_under
from test_search_process import BLOCK_BYTES, job, record

from autotune.core.learning_settings import LearningSettings
from autotune.core.policy import Budgets, ClassHazardDocument, PolicyDocument, WriteBudget, load
from autotune.core.settings import Settings, parse_settings
from autotune.core.sidecar_settings import RetuneSettings
from autotune.core.signals import Signal
from autotune.core.telemetry.wire import StreamFacts
from autotune.core.types import RankForm, StoreMode
from autotune.daemon.child_work import tune_and_validate
from autotune.daemon.engine_facts import why_unfit
from autotune.daemon.jobs import OutcomeKind, TuneJob, TuneOutcome
from autotune.daemon.sources import Source
from autotune.daemon.status_view import daemon_status, explain
from autotune.daemon.target_view import TargetView
from autotune.daemon.trial import identity
from autotune.export import save
from autotune.testing.clocks import ManualClock
from autotune_policies.engines.live.source import EngineFacts, PolicyOutcome, PolicySource

REQUESTS = 6000
ROOMY = Budgets(device_bytes=2000 * BLOCK_BYTES, host_bytes=4000 * BLOCK_BYTES)
FACTS = EngineFacts("vllm", "0.32.0", ("llama-3.1-8b",), 131_072)
STREAM = StreamFacts("vllm 0.32.0", "llama-3.1-8b", 16, 131_072, n_groups=1)
BY_TICK = LearningSettings(form=RankForm.HAZARD)
ONLINE = parse_settings(
    """
online:
  {form: fixed_key, store_mode: exclusive, copy_factor: 0.25, write_bytes_per_s: 1.0e+9, write_burst_s: 60.0}
"""
).online


def search(folder: Path, **changes: object) -> TuneOutcome:
    """What a job on the bundled conversations finds, in this process."""
    record(folder, REQUESTS)
    (folder / "work").mkdir(exist_ok=True)
    return tune_and_validate(job(folder, **{"budgets": ROOMY, "online": BY_TICK, **changes}))


@cache
def found() -> tuple[TuneOutcome, PolicyDocument]:
    """The outcome of the usual job, and the document that it wrote."""
    with TemporaryDirectory() as folder:
        outcome = search(Path(folder))
        return outcome, load(Path(outcome.policy or "there is none"))


def missing(outcome: TuneOutcome) -> str | None:
    """Why there was no learned rule."""
    return next(each.missing for each in outcome.candidates if each.kind == "class_hazard")


def test_the_learned_rule_is_found_where_it_does_better() -> None:
    """It is written for this engine with a promise on the newest requests, and the text has what either would save."""
    outcome, document = found()
    assert outcome.kind is OutcomeKind.POLICY and outcome.chosen == "class_hazard"
    learned, tuned = outcome.candidates
    assert learned.gain is not None and tuned.gain is not None and learned.gain.value > tuned.gain.value > 0.0
    assert outcome.gain == learned.gain and Path(outcome.policy or "").name == "learned.yaml"
    assert "the learned rule saves +" in outcome.text and "the rank rule saves +" in outcome.text
    assert isinstance(document, ClassHazardDocument) and document.fingerprint.engines == ("vllm",)
    assert document.tiers.host is not None and document.tiers.host.store_mode is StoreMode.LAZY
    promise = document.expectation
    assert promise is not None and promise.gain_frac.value == pytest.approx(learned.gain.value)
    assert outcome.sizes[0].cost_s > outcome.sizes[-1].cost_s


def test_the_loop_obeys_the_settings_of_the_user(tmp_path: Path) -> None:
    """Form, stores and write budget are those of section online, as far as the engine has them."""
    outcome = search(tmp_path, online=ONLINE)
    assert missing(outcome) is None
    document = load(tmp_path / "work" / "learned.yaml")
    assert isinstance(document, ClassHazardDocument) and document.tiers.host is not None
    assert document.class_hazard.form is RankForm.FIXED_KEY and document.class_hazard.copy_factor == 0.5
    assert document.budgets.host_write == WriteBudget(bytes_per_s=1e9, burst_s=60.0)
    assert document.tiers.host.store_mode is StoreMode.LAZY  # in vLLM a loaded block stays on the host


def test_the_same_recording_gives_the_same_policy(tmp_path: Path) -> None:
    """Nothing is drawn but by the job's seed."""
    again = search(tmp_path)
    outcome, document = found()
    assert again.text == outcome.text and again.sizes == outcome.sizes
    assert load(tmp_path / "work" / "learned.yaml") == document


def test_a_learned_policy_that_holds_is_what_the_next_one_must_beat(tmp_path: Path) -> None:
    """It is simulated like any other, and what was learned from the same past saves nothing beside it."""
    save(found()[1], tmp_path / "confirmed.yaml")
    outcome = search(tmp_path, confirmed=str(tmp_path / "confirmed.yaml"))
    assert outcome.kind is OutcomeKind.NO_GAIN and outcome.policy is None
    learned, tuned = outcome.candidates
    assert learned.kind == "class_hazard" and learned.gain is not None and learned.gain.value == 0.0
    assert tuned.gain is not None and tuned.gain.value < 0.0
    before, host_hits = found()[0], outcome.host_hit_frac
    assert host_hits == before.host_hit_frac and outcome.sizes == before.sizes
    assert outcome.stored_bytes == outcome.stored_bytes_before == before.stored_bytes


def test_what_was_tuned_is_known_before_anything_is_learned(tmp_path: Path) -> None:
    """It is handed over first, so that a search that is stopped later has an outcome."""
    record(tmp_path, 2500)
    (tmp_path / "work").mkdir()
    kept: list[TuneOutcome] = []
    outcome = tune_and_validate(job(tmp_path), kept.append)
    (first,) = kept
    assert first.chosen == "rank" and missing(first) == "the search ended before it was fitted"
    assert Path(first.policy or "").exists() and missing(outcome) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"learned": False}, "it is switched off (sidecar.retune.learned)"),
        ({"unfit": "only vLLM obeys one"}, "only vLLM obeys one"),
        (
            {"online": LearningSettings(first_fit_requests=REQUESTS, refit_max_requests=REQUESTS)},
            "the trace ended before the first fit",
        ),
        (
            {"budgets": Budgets(device_bytes=2000 * BLOCK_BYTES, host_bytes=10**6 * BLOCK_BYTES)},
            "the host is not full yet, so nothing has to be decided",
        ),
    ],
    ids=["switched-off", "unfit", "late-first-fit", "no-pressure"],
)
def test_why_nothing_was_learned_is_told(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    """The search goes on with what was tuned, and its text has the reason."""
    outcome = search(tmp_path, **changes)
    assert missing(outcome) == why and f"no learned rule: {why}" in outcome.text
    assert outcome.chosen != "class_hazard" and not (tmp_path / "work" / "learned.yaml").exists()


def engine(clock: ManualClock, policy: Path | None = None) -> Engine:
    """An engine whose page says the size of its blocks."""
    return Engine(clock, policy, gauges={Signal.BLOCK_TOKENS: 16.0})


@pytest.mark.parametrize(
    ("facts", "host_bytes", "shown", "why"),
    [
        (STREAM, 1, {}, None),
        (replace(STREAM, n_groups=0), 1, {}, None),
        (None, 1, {}, "the plug-in's connector and telemetry"),
        (STREAM, 0, {}, "no host tier"),
        (replace(STREAM, chunk_tokens=64), 1, {}, "chunks of 64 tokens in blocks of 16"),
        (replace(STREAM, n_groups=2), 1, {}, "full attention"),
        (STREAM, 1, {"sliding_window": "4096"}, "full attention"),
    ],
    ids=["fit", "earlier-plug-in", "no-telemetry", "no-host", "chunks", "groups", "window"],
)
def test_which_engine_could_obey(
    facts: StreamFacts | None, host_bytes: int, shown: dict[str, str], why: str | None
) -> None:
    """VLLM with the plug-in, a host tier, chunks of one block and layers of one kind; a reason where that is not so."""
    source = engine(ManualClock())
    source.facts.update(shown)
    view = TargetView("http://127.0.0.1:8000", [Source(source)])
    assert why_unfit(view, facts, host_bytes) is not None  # nothing has answered yet
    view.update([source.collect(0.0)])
    answer = why_unfit(view, facts, host_bytes)
    assert answer is None if why is None else why in (answer or "")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A sidecar in mode auto beside an engine that could obey a learned rule, with nothing published yet."""
    clock = ManualClock()
    return Bench(tmp_path, clock=clock, engine=engine(clock, tmp_path / "live.yaml"))


def asked(bench: Bench) -> TuneJob:
    """What the sidecar asks for once it has seen enough.

    Raises:
        AssertionError: it asks for nothing.
    """
    for _ in range(40):
        bench.rounds(1)
        if bench.tuner.jobs:
            return bench.tuner.jobs[-1]
    raise AssertionError(f"no search began: {bench.loop.memory.findings}")


def test_what_was_learned_goes_through_a_trial(bench: Bench, tmp_path: Path) -> None:
    """It is published on a lease, the plug-in obeys it, it is kept because it saves, and an order takes it back."""
    wanted = asked(bench).model_copy(
        update={"trace": f"recording:{tmp_path / 'recorded.parquet'}", "newest_requests": None, "trials": 4}
    )
    record(tmp_path, REQUESTS)
    bench.state.work.mkdir(exist_ok=True)
    outcome = tune_and_validate(wanted.model_copy(update={"budgets": ROOMY}))
    document = load(Path(outcome.policy or "there is none"))
    bench.tuner.found.append((None, outcome))
    bench.rounds(2)
    live = bench.live_document()
    assert isinstance(live, ClassHazardDocument) and live.lease is not None and live.lease.fallback.kind == "lru"
    change = PolicySource(bench.live, FACTS, bench.clock).poll(0)
    assert change is not None and change.outcome is PolicyOutcome.NEW_POLICY, change
    assert change.policy_hash == identity(document)
    assert change.rules.learned is not None and change.rules.store_mode is StoreMode.LAZY
    bench.react = better_under(document)
    bench.rounds(80)
    assert bench.kinds()[-1] == "canary_kept", bench.state.audit.entries[-1].reason
    assert load(bench.state.confirmed_path) == document == bench.live_document()
    recommended = next(entry for entry in bench.state.audit.entries if entry.kind.value == "recommended")
    assert "the learned rule saves +" in recommended.reason and "the rank rule saves +" in recommended.reason
    bench.loop.trials.roll_back("an order", "tester")
    after = bench.live_document()
    assert after is not None and after.kind == "lru"


def test_one_learned_policy_follows_another(bench: Bench) -> None:
    """The second falls back to the first; the note is short, the status says what was found, and no shadow fails."""
    first = found()[1]
    assert isinstance(first, ClassHazardDocument)
    halved = tuple(tuple(0.5 * hazard for hazard in row) for row in first.class_hazard.hazard_per_s)
    second = first.model_copy(
        update={"class_hazard": first.class_hazard.model_copy(update={"rerank_s": 1.0, "hazard_per_s": halved})}
    )
    for document in (first, second):
        bench.react = better_under(document)
        bench.rounds(70)
        bench.into_trial(document)
        bench.rounds(80)
        assert bench.kinds()[-1] == "canary_kept", bench.state.audit.entries[-1].reason
    assert bench.tuner.jobs[-1].confirmed == str(bench.state.confirmed_path)
    note = (bench.state.path / "recommended.txt").read_text()
    assert "class_hazard.rerank_s: " in note and "values of the model's tables" in note and len(note) < 1000
    status = daemon_status(bench.loop, datetime.now(UTC), stopped=False, group="engine")
    assert status.retune.found == "it saves 30 %" and "came to: it saves 30 %" in explain(status, ())
    assert status.shadows == () and "shadows" not in bench.loop.memory.findings


def test_a_sidecar_that_may_not_learn_says_so_to_its_search(tmp_path: Path) -> None:
    """The setting and the engine's facts are in the job."""
    bench = Bench(tmp_path, settings=SETTINGS.model_copy(update={"retune": RetuneSettings(learned=False)}))
    bench.rounds(105)
    wanted = asked(bench)
    assert not wanted.learned and "chunks of one block" in (wanted.unfit or "")


def test_a_search_gets_the_settings_that_hold_when_it_begins(tmp_path: Path) -> None:
    """Section online of the settings file is in the job, and after a reload the new one."""
    bench = Bench(tmp_path, settings=SETTINGS, online=ONLINE)
    bench.tuner.finds_nothing()
    wanted = asked(bench)
    assert wanted.online == ONLINE and TuneJob.model_validate_json(wanted.model_dump_json()) == wanted
    sooner = SETTINGS.model_copy(update={"retune": SETTINGS.retune.model_copy(update={"interval_s": 200.0})})
    bench.loop.reload(Settings(sidecar=sooner))
    bench.rounds(60)
    assert [job.online for job in bench.tuner.jobs] == [ONLINE, LearningSettings()]
