"""The process of a search: what it finds, what it may take, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from page_server import wait_until

from autotune.core.access import AccessRecord
from autotune.core.clock import SystemClock
from autotune.core.errors import ConfigError
from autotune.core.policy import Budgets, Costs, load
from autotune.core.sidecar_settings import RecordingSettings
from autotune.core.telemetry.wire import EpochCause, EpochStart, StreamFacts
from autotune.core.trace import Trace
from autotune.core.types import EngineSemantics
from autotune.daemon.jobs import OutcomeKind, TuneJob, TuneOutcome
from autotune.daemon.recording import RollingRecording
from autotune.daemon.tuner import Tuner
from autotune.testing.clocks import ManualClock
from autotune.testing.documents import example_document
from autotune.traces.recording import write_recording

BLOCK_BYTES = 512 * 131_072
SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")


def job(folder: Path, **changes: object) -> TuneJob:
    """A small search on what lies in a folder."""
    values: dict[str, object] = {
        "trace": f"recording:{folder / 'recorded.parquet'}",
        "out": str(folder / "work"),
        "model": "llama-3.1-8b",
        "kv_dtype": "bfloat16",
        "engines": ("vllm",),
        "costs": example_document().costs,
        "budgets": Budgets(device_bytes=500 * BLOCK_BYTES, host_bytes=2000 * BLOCK_BYTES),
        "semantics": EngineSemantics.VLLM_0_32,
        "trials": 4,
        "newest_frac": 0.2,
        "confidence": 0.9,
        "min_requests": 100,
        "min_gain_frac": 0.0,
        "timeout_s": 300.0,
        "cpu_s": 300.0,
        "cores": 1,
        "max_bytes": 8 << 30,
    }
    return TuneJob.model_validate(values | changes)


def record(folder: Path, n_requests: int) -> None:
    """A cut of the bundled trace as a recording."""
    write_recording(Trace.open("sample:conversation").slice(0, n_requests), folder / "recorded.parquet")


def told(n_requests: int) -> list[object]:
    """A cut of the bundled trace as the plug-in's telemetry would tell it."""
    trace = Trace.open("sample:conversation").slice(0, n_requests)
    facts = StreamFacts("vllm 0.32.0", "llama-3.1-8b", 512, 131_072)
    records: list[object] = [EpochStart(0, EpochCause.ATTACHED, "ab" * 8, "2026-01-31T12:00:00.000Z", facts)]
    for number in range(trace.n_requests):
        blocks = trace.block_ids[trace.block_offsets[number] : trace.block_offsets[number + 1]]
        records.append(
            AccessRecord(
                time_s=float(trace.arrival_s[number]),
                epoch=0,
                request=number,
                chain=-1,
                block_ids=tuple(blocks.tolist()),
                first_depth_blocks=0,
                tokens=int(trace.input_tokens[number]),
                tier=None,
                moved_bytes=0,
                seconds=0.05,
            )
        )
    return records


def found_by(tuner: Tuner) -> TuneOutcome:
    """What a search found, once it ended."""
    found: list[TuneOutcome] = []

    def ended() -> bool:
        outcome = tuner.poll()
        if outcome is not None:
            found.append(outcome)
        return bool(found)

    wait_until(ended, 300.0)
    return found[0]


def test_a_search_judges_on_requests_that_it_had_not_seen(tmp_path: Path) -> None:
    """It writes a policy for the engine, with gain, hit rates and other host sizes on the newest requests."""
    record(tmp_path, 2500)
    tuner = Tuner(tmp_path / "work", SystemClock())
    tuner.start(job(tmp_path))
    with pytest.raises(ConfigError, match="one search runs at a time"):
        tuner.start(job(tmp_path))
    outcome = found_by(tuner)
    assert outcome.kind in {OutcomeKind.POLICY, OutcomeKind.NO_GAIN}, outcome.text
    assert outcome.gain is not None and outcome.gain.low <= outcome.gain.value <= outcome.gain.high
    assert outcome.host_hit_frac is not None and 0.0 <= outcome.host_hit_frac.value <= 1.0
    costs = [size.cost_s for size in outcome.sizes]
    assert outcome.sizes[0].host_bytes == 0 and costs[0] >= costs[-1]
    document = load(tmp_path / "work" / "tuned.yaml")
    assert document.fingerprint.engines == ("vllm",) and document.costs == Costs.model_validate(job(tmp_path).costs)
    assert not tuner.running and tuner.poll() is None


def test_what_the_loop_recorded_can_be_tuned_on(tmp_path: Path) -> None:
    """Records go into the rolling recording as they come, and a search reads it while it is written."""
    recording = RollingRecording(tmp_path / "recording", SystemClock(), RecordingSettings())
    records = told(1500)
    for start in range(0, len(records), 100):
        assert recording.take(records[start : start + 100]) is None
    recording.flush()
    assert recording.requests == 1500
    tuner = Tuner(tmp_path / "work", SystemClock())
    tuner.start(job(tmp_path, trace=recording.source))
    outcome = found_by(tuner)
    recording.close()
    assert outcome.kind in {OutcomeKind.POLICY, OutcomeKind.NO_GAIN}, outcome.text
    assert outcome.requests == 1500


def test_too_few_requests_are_told(tmp_path: Path) -> None:
    """A recording that is too short is no fault."""
    record(tmp_path, 50)
    tuner = Tuner(tmp_path / "work", SystemClock())
    tuner.start(job(tmp_path))
    outcome = found_by(tuner)
    assert outcome.kind is OutcomeKind.NOT_ENOUGH and "tuning needs 100" in outcome.text


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A recording that is not there ends in an outcome with the reason, not in a traceback."""
    tuner = Tuner(tmp_path / "work", SystemClock())
    tuner.start(job(tmp_path))
    outcome = found_by(tuner)
    assert outcome.kind is OutcomeKind.FAILED and "recorded.parquet" in outcome.text


def test_a_search_without_the_memory_that_it_needs_fails_alone(tmp_path: Path) -> None:
    """The cap on its memory ends the search, with a reason, and nothing else."""
    record(tmp_path, 2500)
    tuner = Tuner(tmp_path / "work", SystemClock())
    tuner.start(job(tmp_path, max_bytes=150 << 20))
    assert found_by(tuner).kind is OutcomeKind.FAILED


def test_a_search_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    """After its time it is killed, and the outcome says so."""
    clock = ManualClock()
    tuner = Tuner(tmp_path / "work", clock, SLEEPS)
    tuner.start(job(tmp_path, timeout_s=60.0))
    assert tuner.poll() is None
    clock.advance(61.0)
    outcome = tuner.poll()
    assert outcome is not None and outcome.kind is OutcomeKind.FAILED and "after its 60 s" in outcome.text
    assert not tuner.running


def test_what_was_written_before_the_end_counts(tmp_path: Path) -> None:
    """A search that is stopped in its last step leaves what it knew before that."""
    written = TuneOutcome(kind=OutcomeKind.NO_GAIN, text="what was tuned is not worth it", requests=1000)
    code = f"import pathlib, sys, time; pathlib.Path(sys.argv[2]).write_text({written.model_dump_json()!r}); "
    clock = ManualClock()
    tuner = Tuner(tmp_path / "work", clock, (sys.executable, "-c", f"{code}time.sleep(600)"))
    tuner.start(job(tmp_path, timeout_s=60.0))
    wait_until((tmp_path / "work" / "outcome.json").exists, 60.0)
    assert tuner.poll() is None
    clock.advance(61.0)
    assert tuner.poll() == written and not tuner.running


def test_a_search_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    """Exit code and last line of what it wrote are in the outcome."""
    tuner = Tuner(tmp_path / "work", SystemClock(), (sys.executable, "-c", "raise SystemExit('out of luck')"))
    tuner.start(job(tmp_path))
    outcome = found_by(tuner)
    assert "exit code 1" in outcome.text and "out of luck" in outcome.text


def test_a_search_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A sidecar that is killed leaves no search behind: the end of its standard input is the end of it."""
    (tmp_path / "job.json").write_text(job(tmp_path).model_dump_json())
    code = (
        "import sys, time; from autotune.daemon import child, jobs;"
        "child._outcome = lambda job, keep: (print('begun', flush=True), time.sleep(600))[0];"
        "sys.exit(child.main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "job.json"), str(tmp_path / "outcome.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == b"begun\n"
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    assert str(8 << 30) in next(line for line in limits.splitlines() if line.startswith("Max address space"))
    process.stdin.close()
    assert process.wait(60) == 3
    process.stdout.close()


def test_a_job_is_checked(tmp_path: Path) -> None:
    """Two files of JSON, each a model that refuses what it does not know."""
    tree = json.loads(job(tmp_path).model_dump_json())
    assert TuneJob.model_validate_json(json.dumps(tree)) == job(tmp_path)
    done = subprocess.run([sys.executable, "-m", "autotune.daemon.child"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "JOB.json OUTCOME.json" in done.stderr
