"""The command doctor."""

from __future__ import annotations

import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autotune.cli.app import app

RUNNER = CliRunner()
PAGES = Path(__file__).parents[1] / "data/metrics"
SLOW_LINK = PAGES / "vllm_0.32.0_offload_slow_link.prom"
CONCURRENT = PAGES / "vllm_0.32.0_offload_concurrent.prom"


def run(*arguments: str, exit_code: int = 0) -> str:
    """Output of a run with these arguments."""
    result = RUNNER.invoke(app, ["doctor", *arguments])
    assert result.exit_code == exit_code, result.output
    return " ".join(result.output.split())


def test_one_file_answers_from_sums_since_the_start() -> None:
    """The answer has bounds and the wrong setting, and says what the figures are; 0 = tuning may pay."""
    text = run(str(SLOW_LINK), "--interval", "20")
    assert "Would tuning pay here? It may: between 0.00 and 0.36 device-hours per day (1 device)" in text
    assert "sums since the engine's start" in text
    assert "loading 10,240" in text


def test_the_date_of_a_file_tells_how_long_the_engine_ran(tmp_path: Path) -> None:
    """Without --interval the time since the start is that between the process' start and the file's date."""
    copy = tmp_path / "page.prom"
    shutil.copy(SLOW_LINK, copy)
    os.utime(copy, (1796044123.79 + 500.0,) * 2)
    found: dict[str, Any] = json.loads(RUNNER.invoke(app, ["doctor", str(copy), "--json"]).output)
    assert found["diagnosis"]["seconds"] == pytest.approx(500.0)


def test_json_has_the_whole_diagnosis() -> None:
    """Everything is there, by the names of the code, and the exit code's meaning as a field."""
    result = RUNNER.invoke(app, ["doctor", str(SLOW_LINK), "--interval", "20", "--json"])
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.output)
    assert found["tuning_possible"] is True
    diagnosis = found["diagnosis"]
    assert diagnosis["machine"] is None  # a saved page may be of any machine
    assert diagnosis["worth"]["verdict"] == "may_pay"
    assert diagnosis["figures"]["computed_tokens"] == 4032.0
    assert "prefix_hit_tokens" in diagnosis["found"]
    assert {finding["kind"] for finding in diagnosis["findings"]} >= {"aliased", "misconfigured"}


def test_two_files_give_the_difference() -> None:
    """The older first; where the second is no continuation of it, that is a restart and said."""
    before, later = PAGES / "vllm_0.24_offload_before.prom", PAGES / "vllm_0.24_offload_after.prom"
    text = run(str(before), str(later), "--interval", "60")
    assert "in the last 60 s" in text
    assert "between 0.00 and 11.95 device-hours per day" in text  # 29.88 s to first tokens in 60 s
    text = run(str(later), str(before), "--interval", "60", exit_code=3)
    assert "began anew between the two looks" in text


def test_exit_codes_tell_the_answer() -> None:
    """1 = it would not pay, 2 = no such page, 3 = it cannot be told."""
    assert "No: between" in run(str(SLOW_LINK), "--interval", "86400", exit_code=1)
    assert "must come from an engine" in run(str(PAGES / "SOURCE.md"), exit_code=2)
    assert "cannot be told" in run(str(PAGES / "vllm_announced_only.prom"), "--interval", "60", exit_code=3)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["no-such.prom"], "no-such.prom must be a readable file or a URL"),
        ([str(SLOW_LINK), str(SLOW_LINK), str(SLOW_LINK)], "one URL, or one or two files"),
        ([str(SLOW_LINK), "http://127.0.0.1:1"], "one URL, or one or two files"),
        ([str(SLOW_LINK), "--interval", "-1"], "--interval is a time in seconds"),
        ([str(SLOW_LINK), "--devices", "0"], "at least as many devices"),
        (["http://u:p@127.0.0.1:1"], "no user or password"),
        (["http://127.0.0.1:1", "--api-key-file", "no-such-key"], "no-such-key must be a readable file"),
        (["http://127.0.0.1:1"], "no connection"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], line: str) -> None:
    """The rule and what came, with exit code 2."""
    assert line in run(*arguments, exit_code=2)


def test_stdin_is_a_file() -> None:
    """A page may come through a pipe."""
    result = RUNNER.invoke(app, ["doctor", "-", "--interval", "20"], input=SLOW_LINK.read_bytes())
    assert result.exit_code == 0, result.output
    assert "Would tuning pay" in result.output


def test_a_url_is_asked_twice() -> None:
    """The difference of two looks is an interval; the engine's own page is all that is asked for."""
    pages = [SLOW_LINK.read_bytes(), SLOW_LINK.read_bytes().replace(b"} 56.0", b"} 96.0")]
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = pages[min(asked.count("/metrics"), 2) - 1] if self.path == "/metrics" else b'{"version": "0.32.0"}'
            self.send_response(200)
            self.send_header("Content-Type", "text/plain" if self.path == "/metrics" else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        result = RUNNER.invoke(
            app, ["doctor", f"http://127.0.0.1:{server.server_address[1]}", "--interval", "0.05", "--json"]
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    found: dict[str, Any] = json.loads(result.output)
    assert found["diagnosis"]["basis"] == "interval"
    assert found["diagnosis"]["version"] == "0.32.0"
    assert found["diagnosis"]["machine"]["memory_bytes"] > 0  # the engine is on this machine, so it is looked at
    assert asked == ["/metrics", "/version", "/metrics"]
