"""The whole loop, round by round, with an engine that says what a test wants."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from sidecar_parts import SETTINGS, Bench, Engine, better_under, candidate, with_guard

from autotune.core.errors import ConfigError
from autotune.core.policy import load
from autotune.core.settings import Settings
from autotune.daemon.status import Mode, Phase, VerdictKind
from autotune.daemon.status_view import daemon_status, phase_of
from autotune.daemon.trial import identity
from autotune.export import save
from autotune.testing.documents import example_document

TRIAL_ROUNDS = 62  # the time box of the settings, and a bit


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A sidecar in mode auto whose engine obeys the example policy."""
    save(example_document(), tmp_path / "live.yaml")
    return Bench(tmp_path)


def test_observe_changes_nothing_outside_its_own_folder(tmp_path: Path) -> None:
    """In mode observe a better policy is found, and neither the live file nor a recommendation is written."""
    save(example_document(), tmp_path / "live.yaml")
    before = (tmp_path / "live.yaml").read_bytes()
    bench = Bench(tmp_path, Mode.OBSERVE)
    bench.tuner.finds(candidate())
    bench.rounds(60)
    assert bench.tuner.jobs and not bench.tuner.found
    assert (tmp_path / "live.yaml").read_bytes() == before
    assert not bench.state.recommended.exists() and not bench.kinds()


def test_recommend_writes_the_policy_with_a_diff_and_the_reason(tmp_path: Path) -> None:
    """In mode recommend the policy lies beside the state, with what it changes and why, and the live file stays."""
    save(example_document(), tmp_path / "live.yaml")
    bench = Bench(tmp_path, Mode.RECOMMEND)
    bench.tuner.finds(candidate())
    bench.rounds(60)
    assert identity(load(bench.state.recommended)) == identity(candidate())
    note = (bench.state.path / "recommended.txt").read_text()
    assert "it saves 30 %" in note and "rank.host.lambda_recency: 0.25 -> 0.125" in note
    assert identity(load(bench.live)) == identity(example_document())
    assert bench.kinds() == ["recommended"]


def test_a_trial_that_keeps_its_promise_becomes_the_confirmed_policy(bench: Bench) -> None:
    """A candidate that saves what was promised is published with a lease, and for good after its time box."""
    bench.react = better_under(candidate())
    bench.into_trial(candidate())
    live = bench.live_document()
    assert live is not None and live.lease is not None
    assert identity(live.lease.fallback) == identity(example_document())
    bench.rounds(TRIAL_ROUNDS)
    assert bench.kinds() == ["recommended", "canary_started", "canary_kept"]
    kept = bench.live_document()
    assert kept is not None and kept.lease is None
    assert identity(kept) == identity(candidate()) == identity(load(bench.state.confirmed_path))


def test_a_trial_that_gains_nothing_is_taken_back(bench: Bench) -> None:
    """A candidate under which everything stays as it was is not kept, although nothing got worse."""
    bench.into_trial(candidate())
    bench.rounds(TRIAL_ROUNDS)
    assert bench.kinds()[-1] == "rolled_back"
    assert "may be chance" in bench.state.audit.entries[-1].reason
    assert bench.loop.memory.checkpoint.trips == 0
    live = bench.live_document()
    assert live is not None and live.lease is None and identity(live) == identity(example_document())


def _slow(engine: Engine) -> None:
    engine.slow_frac = 0.5


def _preempting(engine: Engine) -> None:
    engine.preemptions = 30.0


def _failing(engine: Engine) -> None:
    engine.failed = 15.0


def _colder(engine: Engine) -> None:
    engine.hit_frac = 0.0


@pytest.mark.parametrize(
    ("harm", "words"),
    [(_slow, "first token"), (_preempting, "preemptions"), (_failing, "failed"), (_colder, "seconds per prompt token")],
)
def test_a_regression_is_taken_back_before_the_time_box_ends(bench: Bench, harm: object, words: str) -> None:
    """Whatever gets worse beyond chance and tolerance ends the trial, and the reason names it."""
    assert callable(harm)
    bench.engine.hit_frac = 0.3
    bench.into_trial(candidate())
    harm(bench.engine)
    bench.rounds(45)
    assert bench.kinds()[-1] == "rolled_back"
    assert words in bench.state.audit.entries[-1].reason
    assert bench.loop.memory.checkpoint.trips == 1


def test_a_dead_engine_ends_the_trial_within_one_round(bench: Bench) -> None:
    """The round after the engine died, the confirmed policy is in the file."""
    bench.into_trial(candidate())
    bench.engine.up = False
    bench.rounds(1, requests=0)
    live = bench.live_document()
    assert live is not None and live.lease is None and identity(live) == identity(example_document())
    assert "does not answer" in bench.state.audit.entries[-1].reason


def test_an_engine_that_began_anew_ends_the_trial(bench: Bench) -> None:
    """A restart in the middle leaves nothing to compare, so the confirmed policy returns and an epoch begins."""
    bench.into_trial(candidate())
    bench.rounds(5)
    bench.engine.restart()
    bench.rounds(1)
    assert bench.kinds()[-1] == "rolled_back" and bench.parts.targets[0].epoch == 1


def test_telemetry_that_falls_silent_ends_the_trial(bench: Bench) -> None:
    """A source that no longer answers is a reason by itself."""
    bench.into_trial(candidate())
    bench.telemetry.ok = False
    bench.rounds(1)
    assert "figures of telemetry are old" in bench.state.audit.entries[-1].reason


def test_telemetry_without_records_ends_the_trial(bench: Bench) -> None:
    """An engine that finishes requests and tells about none of them for half a minute has lost its telemetry."""
    bench.into_trial(candidate())
    bench.rounds(6, requests=0)
    assert bench.loop.trials.watch is not None
    bench.rounds(2, requests=0)
    assert bench.kinds()[-1] == "rolled_back" and "telemetry are old" in bench.state.audit.entries[-1].reason


def test_a_fault_of_the_plug_in_ends_the_trial(bench: Bench) -> None:
    """A failed integrity check, as the plug-in counts it, rolls back within one round."""
    bench.into_trial(candidate())
    bench.engine.fallbacks = 1.0
    bench.rounds(1)
    assert bench.kinds()[-1] == "rolled_back" and "fault" in bench.state.audit.entries[-1].reason


def test_a_fault_after_the_trial_puts_the_engines_own_rule_in_force(bench: Bench) -> None:
    """A kept policy under which the plug-in breaks is replaced by LRU, without a trial being under way."""
    bench.react = better_under(candidate())
    bench.into_trial(candidate())
    bench.rounds(TRIAL_ROUNDS)
    bench.engine.fallbacks = 1.0
    bench.rounds(1)
    live = bench.live_document()
    assert live is not None and live.kind == "lru" and bench.kinds()[-1] == "rolled_back"


def test_an_engine_that_does_not_take_the_policy_up_ends_the_trial(bench: Bench) -> None:
    """An engine that works and still says another policy is in force has refused this one."""
    bench.engine.hash_said = "0123456789ab"
    bench.into_trial(candidate())
    bench.rounds(10)
    assert bench.kinds()[-1] == "rolled_back" and "0123456789ab" in bench.state.audit.entries[-1].reason


def test_a_lease_is_renewed_while_the_trial_goes_on(bench: Bench) -> None:
    """The lease always ends in the future, and never further than its length."""
    bench.into_trial(candidate())
    for _ in range(40):
        bench.rounds(1)
        live = bench.live_document()
        assert live is not None and live.lease is not None
        left_s = (live.lease.expires_at - bench.clock.utc_now()).total_seconds()
        assert 30.0 < left_s <= 60.0


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_a_wall_clock_that_jumps_neither_ends_nor_prolongs_a_trial(bench: Bench, jump_s: float) -> None:
    """After a jump of a day the lease is written anew for the usual length, and the trial ends after its time box."""
    bench.react = better_under(candidate())
    bench.into_trial(candidate())
    bench.clock.set_wall_clock(jump_s)
    bench.loop.trials.guard()
    live = bench.live_document()
    assert live is not None and live.lease is not None
    assert 0.0 < (live.lease.expires_at - bench.clock.utc_now()).total_seconds() <= 60.0
    bench.rounds(TRIAL_ROUNDS)
    assert bench.kinds()[-1] == "canary_kept"


def test_an_administrators_change_is_left_alone_from_then_on(bench: Bench) -> None:
    """A live file with other content than ours is never written again, whatever is found later."""
    bench.into_trial(candidate())
    theirs = candidate(0.75)
    save(theirs, bench.live)
    bench.tuner.finds(candidate(0.0625))
    bench.rounds(200)
    assert identity(load(bench.live)) == identity(theirs)
    assert bench.kinds().count("let_go") == 1 and bench.loop.trials.watch is None
    again = bench.restarted()
    again.rounds(3)
    assert again.parts.transitions.hands_off is not None and identity(load(bench.live)) == identity(theirs)


def test_an_administrator_may_let_it_publish_again(bench: Bench) -> None:
    """Setting a mode that publishes takes what is in the file as confirmed, and trials begin again."""
    bench.rounds(3)
    save(candidate(0.75), bench.live)
    bench.rounds(1)
    assert bench.parts.transitions.hands_off is not None
    bench.loop.set_mode(Mode.AUTO, "admin")
    bench.into_trial(candidate())
    live = bench.live_document()
    assert live is not None and live.lease is not None
    assert identity(live.lease.fallback) == identity(candidate(0.75))


def test_canary_tries_once_and_then_recommends(tmp_path: Path) -> None:
    """Mode canary ends with its trial; what comes later is only recommended."""
    save(example_document(), tmp_path / "live.yaml")
    bench = Bench(tmp_path, Mode.CANARY)
    bench.react = better_under(candidate())
    bench.into_trial(candidate())
    bench.rounds(TRIAL_ROUNDS)
    assert bench.loop.memory.mode is Mode.RECOMMEND
    bench.tuner.finds(candidate(0.0625))
    bench.rounds(150)
    assert bench.kinds().count("canary_started") == 1 and bench.kinds()[-1] == "recommended"


def test_freeze_takes_a_trial_back_and_searches_no_more(bench: Bench) -> None:
    """Frozen, the confirmed policy is in force and neither time nor drift starts a search."""
    bench.into_trial(candidate())
    bench.loop.set_mode(Mode.FREEZE, "admin")
    jobs = len(bench.tuner.jobs)
    bench.rounds(200)
    assert len(bench.tuner.jobs) == jobs
    assert identity(load(bench.live)) == identity(example_document())
    assert bench.kinds()[-2:] == ["mode_changed", "rolled_back"]
    assert bench.restarted(mode=None).loop.memory.mode is Mode.FREEZE


def test_a_rollback_by_hand_returns_to_the_policy_before(bench: Bench) -> None:
    """After a kept trial, a rollback puts the earlier confirmed policy back; a second one has nothing to go back to."""
    bench.react = better_under(candidate())
    bench.into_trial(candidate())
    bench.rounds(TRIAL_ROUNDS)
    bench.loop.trials.roll_back("I say so", "admin")
    assert identity(load(bench.live)) == identity(example_document())
    with pytest.raises(ConfigError, match="a policy to go back to"):
        bench.loop.trials.roll_back("again", "admin")


def test_modes_that_publish_need_a_file_to_publish_to(tmp_path: Path) -> None:
    """Without the engine's policy file neither the start nor an order gets into such a mode."""
    with pytest.raises(ConfigError, match="--policy FILE"):
        Bench(tmp_path / "a", Mode.AUTO, with_policy=False)
    bench = Bench(tmp_path / "b", Mode.OBSERVE, with_policy=False)
    with pytest.raises(ConfigError, match="--policy FILE"):
        bench.loop.set_mode(Mode.CANARY, "admin")


def test_failed_trials_make_searches_rarer(bench: Bench) -> None:
    """However often a search finds something that does not hold, trials come ever more slowly, at most 16 times so."""
    for step in range(200):
        bench.tuner.finds(candidate(0.5 + step / 1000))
    begun: list[float] = []
    for _ in range(500):
        bench.rounds(1)
        if len(bench.tuner.jobs) > len(begun):
            begun.append(bench.clock.monotonic_s())
    assert bench.kinds().count("canary_started") <= 4
    assert bench.kinds().count("canary_kept") == 0
    gaps_s = [later - earlier for earlier, later in pairwise(begun)]
    assert all(gap_s >= 120.0 for gap_s in gaps_s)


def test_one_search_at_a_time_and_none_during_a_trial(bench: Bench) -> None:
    """While a search runs or a policy is on trial, no other search begins."""
    bench.rounds(150)  # the scripted search never ends
    assert len(bench.tuner.jobs) == 1
    bench.into_trial(candidate())
    bench.rounds(30)
    assert len(bench.tuner.jobs) == 1


def test_a_changed_load_is_noticed_before_the_time(bench: Bench) -> None:
    """Reuse gaps that move start a search with that reason, once the cool-down is over."""
    bench.tuner.finds_nothing()
    bench.rounds(60, requests=20)
    assert len(bench.tuner.jobs) == 1
    for _ in range(40):
        bench.clock.advance(5.0)
        bench.telemetry.add(20, gap_s=600.0)
        bench.loop.step()
    assert len(bench.tuner.jobs) == 2
    assert "reuse gaps moved" in (bench.loop.memory.tune_reason or "")


def test_a_steady_load_is_no_drift(bench: Bench) -> None:
    """The same load for most of the interval starts no search."""
    bench.tuner.finds_nothing()
    bench.rounds(110, requests=20)
    assert len(bench.tuner.jobs) == 1


def test_what_an_operator_puts_into_the_state_folder_is_tried(bench: Bench) -> None:
    """A policy of an operator's own goes through a trial like any other, and a bad one is taken back."""
    bench.engine.hit_frac = 0.4
    bench.rounds(20)
    bad = candidate(1.0)
    save(bad, bench.state.candidate_path)
    bench.react = lambda engine, in_force: setattr(engine, "hit_frac", 0.0 if in_force == identity(bad) else 0.4)
    bench.rounds(45)
    assert bench.kinds() == ["canary_started", "rolled_back"]
    assert not bench.state.candidate_path.exists()


def test_status_says_what_it_is_at(bench: Bench) -> None:
    """Phases follow each other: starting, learning, tuning, a trial, steady; and blind when the engine is gone."""
    assert phase_of(bench.loop) is Phase.STARTING
    bench.rounds(2)
    assert phase_of(bench.loop) is Phase.LEARNING
    bench.rounds(10)
    assert phase_of(bench.loop) is Phase.TUNING
    bench.into_trial(candidate())
    assert phase_of(bench.loop) is Phase.CANARY
    bench.rounds(TRIAL_ROUNDS)
    assert phase_of(bench.loop) is Phase.STEADY
    bench.engine.up = False
    bench.rounds(8)
    assert phase_of(bench.loop) is Phase.BLIND


def test_status_shows_predictions_beside_what_came(bench: Bench) -> None:
    """Hit rates that were predicted for the policy in force stand beside those of the engine's counters."""
    bench.react = better_under(candidate())
    bench.into_trial(candidate())
    bench.rounds(20)
    status = daemon_status(bench.loop, bench.clock.utc_now(), False, "group")
    by_name = {each.signal: each for each in status.predictions}
    host = by_name["host_hit_frac"]
    assert host.predicted == 0.4 and host.observed == pytest.approx(0.4, abs=0.02)
    assert status.live_hash == identity(candidate())[:12] and status.confirmed_hash == identity(example_document())[:12]


def test_without_telemetry_nothing_is_tuned_and_it_says_so(tmp_path: Path) -> None:
    """Counters alone give a verdict, or the lack of evidence, and no search."""
    bench = Bench(tmp_path, Mode.OBSERVE)
    bench.telemetry.waiting.clear()
    bench.rounds(50, requests=0)
    status = daemon_status(bench.loop, bench.clock.utc_now(), False, "group")
    assert not bench.tuner.jobs
    assert status.verdict.kind in {VerdictKind.NOT_ENOUGH_EVIDENCE, VerdictKind.STORE_LESS}


def test_new_settings_hold_from_the_next_round(bench: Bench) -> None:
    """A reload changes when searches are due without a restart."""
    bench.tuner.finds_nothing()
    bench.rounds(30)
    faster = SETTINGS.model_copy(update={"retune": SETTINGS.retune.model_copy(update={"interval_s": 200.0})})
    bench.loop.reload(Settings(sidecar=faster))
    bench.rounds(30)
    assert len(bench.tuner.jobs) == 2


def test_a_tolerant_guard_lets_small_harm_pass(tmp_path: Path) -> None:
    """A rise of the time to the first token within the tolerance ends no trial."""
    save(example_document(), tmp_path / "live.yaml")
    bench = Bench(tmp_path, settings=with_guard(max_ttft_loss_frac=10.0))
    bench.react = better_under(candidate())
    bench.into_trial(candidate())
    bench.engine.slow_frac = 0.2
    bench.rounds(TRIAL_ROUNDS)
    assert bench.kinds()[-1] == "canary_kept"


def test_lru_and_candidates_run_in_the_shadow(bench: Bench) -> None:
    """Once the engine is known, the live policy, LRU and what is recommended are priced on the same requests."""
    bench.tuner.finds(candidate())
    bench.rounds(40)
    status = daemon_status(bench.loop, bench.clock.utc_now(), False, "group")
    shadows = {each.name: each for each in status.shadows}
    assert set(shadows) == {"live", "lru", "candidate"}
    assert shadows["live"].regret_s == 0.0 and "shadows" not in bench.loop.memory.findings
