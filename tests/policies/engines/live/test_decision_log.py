from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.testing.clocks import ManualClock
from autotune_policies.engines.live.decision_log import Action, DecisionLog, short_key

KEYS = [os.urandom(32) + bytes(4) for _ in range(2_000)]
BIG = 2**24


def lines_of(*paths: Path) -> list[dict[str, Any]]:
    """The objects in these files, one a line."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_a_line_says_what_was_decided_and_why(tmp_path: Path) -> None:
    """Each decision is one JSON object with its time in UTC, key, action, value, price and reason."""
    log = DecisionLog(tmp_path / "new" / "decisions.jsonl", 1.0, BIG, clock=ManualClock())
    key = bytes(range(32)) + b"\0\0\0\1"
    log.log(key, Action.EVICT, "smallest rank", rank_ns=-5, value_s=0.25, price_s_per_byte=1e-10)
    log.log(b"\x01\x02", Action.KEEP, "all of it")
    log.close()
    first, second = lines_of(tmp_path / "new" / "decisions.jsonl")
    assert first == {
        "time_utc": "2026-01-31T12:00:00.000Z",
        "key": "0001020304050607..00000001",
        "action": "EVICT",
        "rank_ns": -5,
        "value_s": 0.25,
        "price_s_per_byte": 1e-10,
        "reason": "smallest rank",
    }
    assert (second["key"], second["value_s"], "rank_ns" in second) == ("0102", None, False)


def test_a_sampled_key_is_logged_wholly(tmp_path: Path) -> None:
    """About the given share of the keys is logged, and each of them at every one of its decisions."""
    log = DecisionLog(tmp_path / "log", 0.25, BIG, seed=7)
    for action in (Action.OFFLOAD, Action.LOAD, Action.EVICT):
        for key in KEYS:
            log.log(key, action, "")
    log.close()
    logged: dict[str, list[str]] = {}
    for line in lines_of(tmp_path / "log"):
        logged.setdefault(line["key"], []).append(line["action"])
    assert set(logged) == {short_key(key) for key in KEYS if log.wants(key)}
    assert 380 < len(logged) < 620  # 500 expected; six standard deviations are 116
    assert set(map(tuple, logged.values())) == {("OFFLOAD", "LOAD", "EVICT")}


def test_another_seed_chooses_other_keys(tmp_path: Path) -> None:
    """Two seeds do not agree on which keys are logged; the same one does."""
    logs = [DecisionLog(tmp_path / str(seed), 0.5, BIG, seed=seed) for seed in (1, 2, 1)]
    chosen = [{key for key in KEYS if log.wants(key)} for log in logs]
    for log in logs:
        log.close()
    assert chosen[0] == chosen[2]
    assert 0.3 < len(chosen[0] & chosen[1]) / len(chosen[0]) < 0.7


@given(st.binary(max_size=40))
def test_the_whole_and_nothing_are_shares_too(key: bytes) -> None:
    """Every key is within a share of one, and none within a share that rounds to nothing."""
    log = DecisionLog(Path("/nowhere"), 1.0, BIG)
    none = DecisionLog(Path("/nowhere"), 1e-12, BIG)
    assert log.wants(key)
    assert not none.wants(key)
    log.close()
    none.close()


def test_two_generations_never_exceed_the_bound(tmp_path: Path) -> None:
    """The file gives way to a second generation, the sum stays within the bound, and the newest lines are there."""
    path, max_bytes = tmp_path / "log", 64 * 1024
    log = DecisionLog(path, 1.0, max_bytes)
    for number in range(2_000):
        log.log(KEYS[number], Action.REFUSE, f"number {number}")
    log.close()
    older = tmp_path / "log.1"
    assert sorted(tmp_path.iterdir()) == [path, older]
    assert max_bytes // 2 < path.stat().st_size + older.stat().st_size <= max_bytes
    numbers = [int(line["reason"].split()[1]) for line in lines_of(older, path)]
    assert numbers == list(range(numbers[0], 2_000))


def test_a_restart_goes_on_in_the_same_file(tmp_path: Path) -> None:
    """What an earlier run logged is kept and counts towards the bound."""
    for run in range(2):
        log = DecisionLog(tmp_path / "log", 1.0, BIG)
        log.log(KEYS[run], Action.KEEP, str(run))
        log.close()
    assert [line["reason"] for line in lines_of(tmp_path / "log")] == ["0", "1"]


@pytest.mark.parametrize("path", ["/dev/full", "/proc/no/such/log"])
def test_a_full_disk_is_counted_and_never_raised(path: str) -> None:
    """Where nothing can be written, the caller sees no exception and the losses are counted."""
    log = DecisionLog(Path(path), 1.0, BIG)
    for key in KEYS[:10]:
        log.log(key, Action.KEEP, "")
    log.close()
    assert (log.take_lost(), log.take_lost(), log.lost) == (10, 0, 10)
