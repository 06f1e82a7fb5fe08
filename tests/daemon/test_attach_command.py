"""The commands of the sidecar as a user runs them, beside a stand-in that serves recorded pages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from page_server import EnginePage, serving, wait_until
from sidecar_parts import candidate, environment, stock_of
from typer.testing import CliRunner

from autotune.cli.app import app
from autotune.core.policy import load
from autotune.core.telemetry.wire import StreamFacts
from autotune.core.types import Tier
from autotune.export import save
from autotune.testing.clocks import ManualClock
from autotune_policies.engines.live.record_stream import RecordStream
from autotune_policies.engines.live.records import RequestAccess, Run
from autotune_policies.engines.live.segments import SegmentWriter

KEY = "sk-very-secret-4711"
COMMAND = (sys.executable, "-c", "from autotune.cli import main; main()")
FAST = "sidecar:\n  collect: {interval_s: 0.2, timeout_s: 2.0}\n"


@pytest.fixture
def page() -> EnginePage:
    """What the engine serves."""
    return EnginePage()


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """One command, to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(folder) | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@contextmanager
def attached(folder: Path, url: str, *arguments: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A sidecar that runs; yields its own address. It must end well when it is asked to."""
    state = folder / "sidecar"
    (folder / "fast.yaml").write_text(FAST)
    command = ("attach", url, "--state", str(state), "--settings", str(folder / "fast.yaml"), "--http-port", "0")
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [*COMMAND, *command, *arguments], env=environment(folder) | variables, stdout=said, stderr=said, text=True
        )
    try:
        wait_until(lambda: (state / "checkpoint.json").exists() or process.poll() is not None)
        assert process.poll() is None, (folder / "said.txt").read_text()
        yield (state / "address").read_text().strip(), process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (folder / "said.txt").read_text()
    finally:
        process.kill()
        process.wait()


def test_once_says_what_it_sees(tmp_path: Path, page: EnginePage) -> None:
    """Two looks, then the state as JSON: the engine, its version, and that evidence is missing."""
    with serving(page) as url:
        done = run(tmp_path, "attach", url, "--once", "--json")
    status = json.loads(done.stdout)
    assert done.returncode == 0
    target = status["targets"][0]
    assert (target["engine"], target["alive"], target["grade"]) == ("vllm", True, "counters_only")
    assert status["mode"] == "observe" and status["live_hash"] is None


@pytest.mark.parametrize("flags", [(), ("--telemetry", "off")])
def test_records_are_found_where_the_page_says(tmp_path: Path, page: EnginePage, flags: tuple[str, ...]) -> None:
    """Without a flag the records of the page's folder are read in the next round; off leaves them alone."""
    stream = RecordStream(
        StreamFacts("vllm 0.32.0", "tiny", 32, 2048),
        SegmentWriter(tmp_path / "records", 2**25, ManualClock()),
        ManualClock(),
    )
    stream.write(RequestAccess(0, 1, -1, (Run((bytes(36),), 0, 32, Tier.DEVICE),)), 0)
    page.further = f'kv_autotune_telemetry_info{{engine="0",telemetry="file://{tmp_path}/records"}} 1.0\n'
    with serving(page) as url:
        done = run(tmp_path, "attach", url, "--once", "--json", *flags)
    assert done.returncode == 0, done.stderr
    target = json.loads(done.stdout)["targets"][0]
    assert target["grade"] == ("counters_only" if flags else "telemetry")
    assert [source["ok"] for source in target["sources"] if source["name"] == "telemetry"] == ([] if flags else [True])


def test_the_machine_is_in_the_status_of_a_sidecar(tmp_path: Path, page: EnginePage) -> None:
    """A sidecar beside its engine says what the machine has, in JSON and in words."""
    with serving(page) as url:
        status = json.loads(run(tmp_path, "attach", url, "--once", "--json").stdout)
        words = run(tmp_path, "attach", url, "--once").stdout
    assert status["host"]["memory_bytes"] > status["host"]["available_bytes"] > 0
    assert status["host"]["error"] is None
    assert "This machine: " in words


def test_a_sidecar_from_start_to_end(tmp_path: Path, page: EnginePage) -> None:
    """Attach, read and change the mode, freeze; a second sidecar is refused; SIGTERM ends it well; detach follows."""
    policy = tmp_path / "live.yaml"
    save(candidate(), policy)
    with serving(page) as url:
        port = url.rpartition(":")[2]
        with attached(tmp_path, url, "--policy", str(policy), "--mode", "observe") as (own, process):
            again = run(tmp_path, "attach", f"http://localhost:{port}", "--once")
            assert again.returncode == 2 and f"process {process.pid} is attached" in again.stderr
            state = ("--state", str(tmp_path / "sidecar"))
            assert run(tmp_path, "mode", own, *state).stdout.strip() == "observe"
            assert run(tmp_path, "mode", own, "auto", *state).stdout.strip() == "auto"
            nothing = run(tmp_path, "rollback", own, *state)
            assert nothing.returncode == 2 and "a policy to go back to" in nothing.stderr
            frozen = run(tmp_path, "freeze", own, "--json", *state)
            assert json.loads(frozen.stdout)["mode"] == "freeze"
            no_token = run(tmp_path, "freeze", own, KV_AUTOTUNE_HTTP_TOKEN="x" * 43)
            assert no_token.returncode == 2
        kinds = [json.loads(line)["kind"] for line in (tmp_path / "sidecar" / "audit.jsonl").read_text().splitlines()]
        assert kinds == ["mode_changed", "mode_changed"]
        assert load(policy) == candidate()
        gone = run(
            tmp_path, "detach", url, "--policy", str(policy), "--state", str(tmp_path / "sidecar"), "--wait-s", "0"
        )
    # The stand-in never says that it took the engine's own rule up, so the file stays, with that rule in it.
    assert gone.returncode == 1 and "engine's own rule" in gone.stdout
    assert load(policy) == stock_of(candidate())


def test_no_secret_is_written_or_shown(tmp_path: Path, page: EnginePage) -> None:
    """The engine's API key reaches the engine and nothing else: no file, no output, no answer, no command line."""
    page.key = KEY
    with serving(page) as url, attached(tmp_path, url, KV_AUTOTUNE_API_KEY=KEY) as (own, process):
        wait_until(lambda: f"Bearer {KEY}" in page.asked)
        shown = run(tmp_path, "mode", own, "--json").stdout
        shown += Path(f"/proc/{process.pid}/cmdline").read_text()
        status = run(tmp_path, "attach", url, "--once", "--json", KV_AUTOTUNE_API_KEY="wrong-" + KEY)
        shown += status.stdout + status.stderr
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(written) > 4
        for path in written:
            assert KEY not in path.read_text(errors="replace"), path
    assert KEY not in shown


def test_a_key_that_is_missing_is_told(tmp_path: Path, page: EnginePage) -> None:
    """An engine that wants a key answers nothing else, and the remedy names where to give one."""
    page.key = KEY
    with serving(page) as url:
        done = run(tmp_path, "attach", url, "--once")
    assert "status 401" in done.stdout and "API key" in done.stdout and KEY not in done.stdout


def test_several_replicas_are_one_group(tmp_path: Path, page: EnginePage) -> None:
    """Two engines have one status, each with its own health."""
    with serving(page) as url:
        done = run(tmp_path, "attach", url, "http://127.0.0.1:18399", "--once", "--json")
    status = json.loads(done.stdout)
    assert [target["alive"] for target in status["targets"]] == [True, False]
    assert "18399" in status["group"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("attach", "ftp://somewhere"), "http or https"),
        (("attach", "http://user:secret@127.0.0.1:1"), "no user or password"),
        (("attach", "http://127.0.0.1:1", "--mode", "wild"), "must be one of 'observe'"),
        (("attach", "http://127.0.0.1:1", "--mode", "auto"), "--policy FILE"),
        (("attach", "http://127.0.0.1:1", "http://localhost:1"), "each once"),
        (("attach", "http://127.0.0.1:1", "--telemetry", "file:/a", "--telemetry", "file:/b"), "once per target"),
        (("attach", "http://127.0.0.1:1", "--model", "llama-3.1-8b"), "--hardware"),
        (("mode", "http://127.0.0.1:1"), "must answer"),
        (("freeze", "https://127.0.0.1:1"), "by its own address"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    """Bad input gets one line with rule, what came and remedy, and the exit code for it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2 and words in done.stderr
    assert done.stderr.count("\n") == 1 and "secret" not in done.stderr.replace("a secret", "")


def test_the_sidecar_process_is_light(tmp_path: Path, page: EnginePage) -> None:
    """A sidecar that runs with everything on has loaded neither Numba, scikit-learn, Optuna nor pyarrow."""
    heavy = ("numba", "sklearn", "optuna", "pyarrow", "llvmlite", "scipy", "torch")
    with serving(page) as url, attached(tmp_path, url, "--telemetry", f"file:{tmp_path}") as (_, process):
        wait_until(lambda: len(page.asked) > 5)
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        status = Path(f"/proc/{process.pid}/status").read_text()
    loaded = {name for name in heavy if f"/site-packages/{name}" in maps}
    assert not loaded
    resident_mib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
    assert resident_mib < 150


def test_importing_it_is_light() -> None:
    """Every module of the sidecar but those of the search imports without the packages that a search needs."""
    code = (
        "import pkgutil, sys, importlib, autotune.daemon as d\n"
        "for m in pkgutil.walk_packages(d.__path__, 'autotune.daemon.'):\n"
        "    if m.name.rpartition('.')[2].partition('_')[0] != 'child':\n"
        "        importlib.import_module(m.name)\n"
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'numba','sklearn','optuna','pyarrow','torch'}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"
