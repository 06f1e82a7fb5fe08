"""Small rules of the sidecar: the log, locks, when to search, what counts as drift, what to advise."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sidecar_parts import Bench, Engine, Telemetry

from autotune.core.errors import ConfigError
from autotune.core.sidecar_settings import RetuneSettings
from autotune.core.signals import Collected
from autotune.core.signals.target import Secret, Target
from autotune.core.units import GIB
from autotune.daemon.audit import AuditEntry, AuditLog
from autotune.daemon.client import find_client, note_address
from autotune.daemon.detaching import Detaching
from autotune.daemon.drift import GAP_EDGES_S, DriftWatch, binned, differ
from autotune.daemon.engine_facts import EngineProfile
from autotune.daemon.guard import SecondsPerToken
from autotune.daemon.jobs import HostSize, OutcomeKind, Share, TuneOutcome
from autotune.daemon.locks import Locks
from autotune.daemon.schedule import Schedule
from autotune.daemon.sources import Round, Source
from autotune.daemon.state import Checkpoint, StateFolder, default_state_folder
from autotune.daemon.status import ChangeKind, Mode, VerdictKind
from autotune.daemon.verdict import verdict_of
from autotune.daemon.windows import Interval, Window
from autotune.daemon.wiring import Wanted, identity_of
from autotune.export import save
from autotune.testing.clocks import ManualClock
from autotune.testing.documents import example_document


def entry(reason: str = "why") -> AuditEntry:
    """Something that happened."""
    return AuditEntry(at=datetime(2026, 1, 31, tzinfo=UTC), kind=ChangeKind.RECOMMENDED, reason=reason, undo="no need")


def test_the_log_survives_a_torn_line(tmp_path: Path) -> None:
    """A line that a crash cut off is counted, and neither it nor what follows takes another entry along."""
    log = AuditLog(tmp_path / "audit.jsonl")
    log.append(entry("first"))
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"at":"2026-01-')
    again = AuditLog(tmp_path / "audit.jsonl")
    assert again.torn == 1
    again.append(entry("second"))
    last = AuditLog(tmp_path / "audit.jsonl")
    assert [each.reason for each in last.entries] == ["first", "second"] and last.torn == 1


def test_the_log_is_for_its_owner_alone(tmp_path: Path) -> None:
    """State folder, log and token can be read by their owner only."""
    state = StateFolder(tmp_path / "state")
    state.audit.append(entry())
    assert len(state.token()) > 40 and state.token() == StateFolder(tmp_path / "state").token()
    for path in (state.path, state.audit.path, state.path / "token"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_damaged_checkpoint_is_no_checkpoint(tmp_path: Path) -> None:
    """What another version wrote, or a disk damaged, is begun anew; what is whole is read back as it was."""
    state = StateFolder(tmp_path)
    kept = Checkpoint(mode=Mode.AUTO, trips=3, rejected=("a",), last_tuned_at=datetime(2026, 1, 31, tzinfo=UTC))
    state.save_checkpoint(kept)
    assert state.load_checkpoint() == kept
    (tmp_path / "checkpoint.json").write_text('{"version": 99}')
    assert state.load_checkpoint() is None


def test_one_process_holds_a_name(tmp_path: Path) -> None:
    """A second taker is refused and told who has it; after the first one let go it gets it."""
    first, second = Locks(tmp_path), Locks(tmp_path)
    first.take("target 127.0.0.1:8000", "the engine")
    first.take("target 127.0.0.1:8000", "the engine")
    with pytest.raises(ConfigError, match=f"process {os.getpid()} is attached"):
        second.take("target 127.0.0.1:8000", "the engine")
    first.release()
    second.take("target 127.0.0.1:8000", "the engine")
    second.release()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://localhost:8000", "http://127.0.0.1:8000/metrics"),
        ("http://Host:80", "http://host/"),
        ("https://host", "https://host:443"),
    ],
)
def test_one_engine_has_one_name(one: str, other: str) -> None:
    """Different ways to write an address are one target, with one state folder."""
    assert identity_of(one) == identity_of(other)
    assert default_state_folder([identity_of(one)]) == default_state_folder([identity_of(other)])


def test_targets_are_named_once() -> None:
    """The same engine under two names is refused."""
    with pytest.raises(ConfigError, match="each once"):
        Wanted((Target("http://localhost:1"), Target("http://127.0.0.1:1")), Path("state"))


def test_searches_rest_after_changes() -> None:
    """By time, by drift, never within the cool-down, which doubles with each trial that was not kept."""
    plan = Schedule(RetuneSettings(interval_s=1000.0, cooldown_s=100.0, min_requests=10))
    assert plan.reason(0.0, 9, "drift") is None
    assert "10 requests" in (plan.reason(0.0, 10, None) or "")
    plan.searched(0.0)
    assert plan.reason(99.0, 10, "drift") is None and plan.reason(101.0, 10, "drift") == "drift"
    assert plan.reason(999.0, 10, None) is None and plan.reason(1000.0, 10, None) is not None
    plan.changed(50.0)
    plan.judged(kept=False)
    assert plan.reason(249.0, 10, "drift") is None and plan.reason(250.0, 10, "drift") == "drift"
    for _ in range(10):
        plan.judged(kept=False)
    assert plan.cooldown_s == 1600.0
    plan.judged(kept=True)
    assert plan.cooldown_s == 100.0


def test_distributions_differ_or_not() -> None:
    """Two draws of one distribution hardly ever differ; gaps ten times as long do; few observations never do."""
    draw = np.random.default_rng(0)
    bins = [binned(draw.lognormal(3.0, 1.0, 1000), GAP_EDGES_S) for _ in range(200)]
    assert sum(differ(one, other, 0.99) is not None for one, other in pairwise(bins)) == 0
    longer = binned(10.0 * draw.lognormal(3.0, 1.0, 1000), GAP_EDGES_S)
    assert (differ(bins[0], longer, 0.99) or 0.0) > 0.5
    assert differ(bins[0], binned([1e6] * 100, GAP_EDGES_S), 0.99) is None


def test_a_hit_rate_must_miss_its_prediction_for_a_while() -> None:
    """Two looks outside the bounds are chance, three are drift; a return begins the count anew."""
    watch = DriftWatch(0.99)
    predicted = Share(value=0.4, low=0.35, high=0.45)
    assert [watch.reason(rate, predicted) is None for rate in (0.2, 0.2, 0.4, 0.2, 0.2)] == [True] * 5
    assert "the hit rate" in (watch.reason(0.2, predicted) or "")
    assert DriftWatch(0.99).reason(0.34, predicted) is None


def outcome(kind: OutcomeKind = OutcomeKind.NO_GAIN, **changes: object) -> TuneOutcome:
    """What a search may find, with the costs of four host sizes."""
    sizes = tuple(
        HostSize(host_bytes=n * GIB, cost_s=cost) for n, cost in ((0, 100.0), (5, 80.0), (10, 70.0), (20, 68.0))
    )
    return TuneOutcome.model_validate({"kind": kind, "text": "it saves 0.1 %", "sizes": sizes} | changes)


def _sizes(*costs: float) -> tuple[HostSize, ...]:
    return tuple(HostSize(host_bytes=n * GIB, cost_s=cost) for n, cost in zip((0, 5, 10, 20), costs, strict=True))


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        (None, VerdictKind.NOT_ENOUGH_EVIDENCE, "nothing was tuned"),
        (outcome(OutcomeKind.NOT_ENOUGH), VerdictKind.NOT_ENOUGH_EVIDENCE, "it saves"),
        (outcome(), VerdictKind.KEEP_AS_IT_IS, "Leave it"),
        (outcome(OutcomeKind.POLICY), VerdictKind.NEW_POLICY, "worth it"),
        (outcome(sizes=_sizes(70.2, 70.0, 70.0, 70.0)), VerdictKind.OFFLOAD_DOES_NOT_PAY, "does not pay here"),
        (outcome(sizes=_sizes(100.0, 80.0, 70.0, 60.0)), VerdictKind.GROW_HOST, "to 20 GiB"),
        (outcome(sizes=_sizes(100.0, 70.3, 70.0, 69.5)), VerdictKind.SHRINK_HOST, "to 5 GiB"),
        (
            outcome(OutcomeKind.POLICY, stored_bytes=10 * GIB, stored_bytes_before=90 * GIB, loaded_bytes=GIB),
            VerdictKind.STORE_LESS,
            "10 GiB instead of 90 GiB",
        ),
    ],
)
def test_advice_in_words(found: TuneOutcome | None, kind: VerdictKind, words: str) -> None:
    """Each verdict has its case, and its figures are in the text."""
    verdict = verdict_of(found, Window(()), None, 10 * GIB)
    assert verdict.kind is kind and words in verdict.text


@pytest.mark.parametrize(
    ("hits", "loaded", "kind"),
    [(10.0, 1e9, VerdictKind.OFFLOAD_DOES_NOT_PAY), (5e5, 1e9, VerdictKind.STORE_LESS), (5e5, 1e11, None)],
)
def test_counters_alone_can_tell_some_things(hits: float, loaded: float, kind: VerdictKind | None) -> None:
    """Without a search: loads that do not repay, stores that nobody loads; else there is not enough evidence."""
    interval = Interval(
        5.0, prompt_tokens=1e6, host_hit_tokens=hits, load_s=1.0, store_s=1.0, load_bytes=loaded, store_bytes=1e11
    )
    verdict = verdict_of(None, Window((interval,)), SecondsPerToken(1e-4), 0)
    assert verdict.kind is (kind or VerdictKind.NOT_ENOUGH_EVIDENCE)


class Broken:
    """A collector that breaks its promise."""

    name = "broken"

    def collect(self, now_s: float) -> Collected[object]:
        """Raise."""
        raise ValueError("this should not be")


def test_one_broken_source_stops_no_other() -> None:
    """A collector that raises is told as its own fault, and the others are heard."""
    rounds, sources = Round(), [Source(Broken()), Source(Telemetry())]
    answers = rounds.collect(sources, 0.0, 5.0)
    assert answers[0] is None and answers[1] is not None
    assert sources[0].health(0.0).error == "ValueError: this should not be" and sources[1].health(0.0).ok
    rounds.close()


def test_a_window_knows_what_all_its_intervals_know() -> None:
    """A sum over an interval that lacks the figure is unknown, and two engines add up side by side."""
    known, unknown = Interval(5.0, prompt_tokens=10.0), Interval(5.0)
    assert Window((known, known)).total("prompt_tokens") == 20.0
    assert Window((known, unknown)).total("prompt_tokens") is None and Window(()).total("prompt_tokens") is None
    assert known.beside(known).prompt_tokens == 20.0 and known.beside(unknown).prompt_tokens is None


def test_the_token_of_a_sidecar_is_found_by_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client finds the state folder that noted the address, and otherwise has no token."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("KV_AUTOTUNE_HTTP_TOKEN", raising=False)
    state = StateFolder(tmp_path / "kv-autotune" / "abc")
    token = Secret(state.token())
    note_address(state.path, "http://127.0.0.1:18301")
    assert find_client("http://127.0.0.1:18301/", None, None).token == token
    assert find_client("http://127.0.0.1:18302", None, None).token is None


def test_detach_waits_for_the_engine_and_then_removes_the_file(tmp_path: Path) -> None:
    """The engine takes its own rule up, says so, and nothing of ours is left where it looks."""
    save(example_document(), tmp_path / "live.yaml")
    bench = Bench(tmp_path, Mode.OBSERVE)
    bench.rounds(2)
    detaching = Detaching(bench.loop)
    assert detaching.begin() is None
    bench.clock.advance(1.0)
    result = detaching.confirm()
    assert result is not None and result.done and not bench.live.exists()
    assert bench.kinds()[-1] == "detached"


def test_detach_leaves_an_administrators_file_alone(tmp_path: Path) -> None:
    """What is not ours is neither replaced nor removed."""
    (tmp_path / "live.yaml").write_text("theirs\n")
    bench = Bench(tmp_path, Mode.OBSERVE)
    result = Detaching(bench.loop).begin()
    assert result is not None and not result.done and (tmp_path / "live.yaml").read_text() == "theirs\n"


def test_an_engine_that_is_idle_is_not_asked_to_hurry(tmp_path: Path) -> None:
    """An idle engine does not look at its file, so a trial waits for it instead of being taken back."""
    save(example_document(), tmp_path / "live.yaml")
    clock = ManualClock()
    bench = Bench(tmp_path, clock=clock, engine=Engine(clock, tmp_path / "live.yaml"))
    bench.into_trial(example_document().model_copy(update={"rollback": "another text makes another policy"}))
    bench.engine.idle = True
    bench.rounds(20)
    assert bench.loop.trials.watch is not None


@pytest.mark.parametrize(
    ("told", "wanted"), [("/models/tiny-llama", "tiny-llama"), ("org/Model-8B", "org/Model-8B"), ("", "llama-3.1-8b")]
)
def test_a_policy_names_the_model_as_the_plug_in_does(tmp_path: Path, told: str, wanted: str) -> None:
    """The plug-in's own name counts, as it holds policies against that; else the one on the page."""
    bench = Bench(tmp_path, Mode.OBSERVE)
    start = bench.telemetry.waiting[0]
    bench.telemetry.waiting[0] = replace(start, facts=replace(start.facts, model=told))
    bench.rounds(2)
    profile = bench.parts.engine_profile()
    assert isinstance(profile, EngineProfile)
    assert (profile.model, profile.kv_bytes_per_token, profile.budgets.host_bytes) == (wanted, 131_072, 160 * GIB)


def test_the_status_is_json_that_reads_back(tmp_path: Path) -> None:
    """What the surface shows is one strict model, whatever is unknown."""
    from autotune.daemon.controller import LoopController
    from autotune.daemon.status import DaemonStatus

    bench = Bench(tmp_path, Mode.OBSERVE, with_policy=False)
    controller = LoopController(bench.loop, "group")
    bench.rounds(12)
    controller.step()
    text = controller.status().model_dump_json(by_alias=True)
    assert DaemonStatus.model_validate_json(text) == controller.status()
    assert json.loads(text)["targets"][0]["grade"] == "telemetry"
    assert "Mode observe" in controller.explain() and controller.ready()
    controller.close()
    assert controller.status().phase.value == "stopped" and not controller.ready()
