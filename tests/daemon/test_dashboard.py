from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from showcase import NOON, bare_status, busy_status

from autotune.daemon.dashboard import Dashboard, Output, picture, summary
from autotune.daemon.figures import UNKNOWN, by_name, by_unit, figure, gauge, percent, plain, seconds, size, words
from autotune.daemon.status import ChangeKind, DaemonStatus, Mode


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def drawn(status: DaemonStatus, width: int) -> str:
    """The picture as text."""
    stream = io.StringIO()
    Console(file=stream, width=width).print(picture(status, width, "http://127.0.0.1:8765"))
    return stream.getvalue()


def shown(output: Output, *statuses: DaemonStatus) -> list[str]:
    """What a dashboard writes for these statuses."""
    stream = io.StringIO()
    with Dashboard(output, stream) as dashboard:
        for status in statuses:
            dashboard.show(status)
    return stream.getvalue().splitlines()


def test_output_fits_the_stream() -> None:
    """A terminal gets the picture, anything else lines, and JSON whoever asks for it."""
    assert Output.of(Terminal(), json_lines=False) is Output.LIVE
    assert Output.of(io.StringIO(), json_lines=False) is Output.LINES
    assert Output.of(Terminal(), json_lines=True) is Output.JSON_LINES


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("status", [bare_status(), busy_status()], ids=["bare", "busy"])
def test_picture_fits_any_width(width: int, status: DaemonStatus) -> None:
    """No line is longer than the terminal is wide."""
    assert max(len(line) for line in drawn(status, width).splitlines()) <= width


def test_picture_shows_what_the_status_has() -> None:
    """Verdict, tiers, seconds, promises, regret, changes with reasons, sources and estimates are all there."""
    text = " ".join(drawn(busy_status(), 140).split())
    for expected in (
        "auto canary chat-production http://127.0.0.1:8765",
        "A host tier of 192 GiB instead of 120",
        "38 GiB of 40 GiB",
        "Recompute ████████████ 412 ms",
        "TTFT p95 1.61 s 1.1 s to 1.52 s",
        "LRU −2.69 min saw 5 %",
        "rolled back TTFT p95 rose by 19 %",
        "telemetry 400 ms 1,532",
        "no cgroup is mounted",
        "Break even 412 tokens (350 tokens to 505 tokens)",
        "! http://10.0.0.12:8000 hashes blocks with another seed",
    ):
        assert expected in text


def test_nothing_known_is_said_so() -> None:
    """Before anything was collected there are dashes and words, and no zeros that look like measurements."""
    text = drawn(bare_status(), 100)
    assert "nothing known yet" in text
    assert "nothing was changed" in text
    assert "0 %" not in text


def test_terminal_is_renewed_in_place() -> None:
    """On a terminal each status takes the place of the one before."""
    stream = Terminal()
    with Dashboard(Output.LIVE, stream, width=100) as dashboard:
        dashboard.show(busy_status())
        dashboard.show(busy_status().model_copy(update={"mode": Mode.FREEZE}))
    assert "\x1b[" in stream.getvalue()
    assert stream.getvalue().count("chat-production") >= 2


def test_json_lines_are_the_status() -> None:
    """Each line is one status, whole."""
    lines = shown(Output.JSON_LINES, bare_status(), busy_status())
    assert [DaemonStatus.model_validate_json(line) for line in lines] == [bare_status(), busy_status()]
    assert json.loads(lines[0])["schema"] == "kv-autotune/status/v1"


def test_lines_tell_changes_once() -> None:
    """A change is told once with its reason and the way back; what happened before the start is not told again."""
    status = busy_status()
    fresh = status.history[-1].model_copy(update={"at": NOON, "kind": ChangeKind.CANARY_KEPT, "reason": "it held"})
    later = status.model_copy(update={"history": (*status.history, fresh), "started_at": NOON - timedelta(hours=1)})
    lines = shown(Output.LINES, later, later)
    assert [line.split()[1] for line in lines] == ["canary_started:", "canary_kept:", "auto"]
    assert lines[1].startswith("2026-01-31T12:00:00Z canary_kept: it held; undo: kv-autotune rollback")


def test_lines_repeat_once_a_minute() -> None:
    """The state is told when it changes and otherwise once a minute, so that a log does not fill."""
    quiet = [bare_status(NOON + timedelta(seconds=5 * step)) for step in range(25)]
    assert len(shown(Output.LINES, *quiet)) == 3
    changed = quiet[1].model_copy(update={"mode": Mode.FREEZE})
    assert len(shown(Output.LINES, quiet[0], changed)) == 2


class ClosedPipe(Terminal):
    """A terminal that is gone."""

    def write(self, _text: str) -> int:
        """Fail as the operating system does."""
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("output", list(Output))
def test_closed_pipe_does_not_end_the_loop(output: Output) -> None:
    """Where nobody reads any more nothing is shown, and nothing is raised."""
    dashboard = Dashboard(output, ClosedPipe(), width=100)
    for _ in range(2):
        dashboard.show(busy_status())


def test_summary_has_no_line_end() -> None:
    """The summary is one line."""
    assert "\n" not in summary(busy_status())


def test_hostile_words_do_not_reach_the_terminal() -> None:
    """Controls and marks of direction in texts from outside are shown, not obeyed."""
    hostile = "\x1b]0;owned\x07\x9b31m\u202e[bold]"
    status = busy_status()
    source = status.targets[0].sources[0].model_copy(update={"name": hostile, "error": hostile})
    target = status.targets[0].model_copy(update={"url": hostile, "sources": (source,)})
    change = status.history[0].model_copy(update={"reason": hostile, "at": NOON})
    verdict = status.verdict.model_copy(update={"text": hostile})
    hostile_status = status.model_copy(
        update={
            "targets": (target,),
            "history": (change,),
            "verdict": verdict,
            "group": hostile,
            "findings": (hostile,),
        }
    )
    for text in (drawn(hostile_status, 120), *shown(Output.LINES, hostile_status)):
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
        assert "[bold]" in text


def test_figures_by_hand() -> None:
    """Units are those that fit, and unknown is a dash."""
    assert [figure(v) for v in (0.0, 412.0, 0.0021, 1e-9, 12345.678, -2.5)] == [
        "0", "412", "0.0021", "1.00e-09".replace("-", "−"), "12,346", "−2.5",
    ]  # fmt: skip
    assert [percent(v) for v in (None, 0.0, 0.2615, 1.0)] == [UNKNOWN, "0 %", "26.2 %", "100 %"]
    assert [seconds(v) for v in (None, 0.0, 1.9e-9, 6.1e-5, 0.412, 61.0, 240.0, 9000.0, 200_000.0)] == [
        UNKNOWN, "0 ms", "1.9 ns", "61 µs", "412 ms", "61 s", "4 min", "2.5 h", "2.31 d",
    ]  # fmt: skip
    assert [size(v) for v in (None, 0, 1023, 1536, 5 * 1024**4)] == [UNKNOWN, "0 B", "1,023 B", "1.5 KiB", "5 TiB"]
    assert by_unit(2.0e9, "bytes/s") == "1.86 GiB/s"
    assert (by_unit(6.1e-5, "s/token"), by_unit(None, "s/token"), by_unit(0.5, "1")) == ("61 µs/token", UNKNOWN, "50 %")
    assert by_unit(None, "bytes/s") == by_unit(None, "tokens") == UNKNOWN
    assert (by_name("load_bytes_per_s", 1024.0), by_name("ttft_p95_s", 0.5), by_name("x", 3.0)) == (
        "1 KiB/s",
        "500 ms",
        "3",
    )
    assert words("prefill_s_per_token_squared") == "Prefill per token squared"


@given(st.floats(0.0, 1.0), st.integers(1, 40))
def test_gauge_has_its_width(frac: float, width: int) -> None:
    """A bar is as wide as asked for, and longer for a larger share."""
    assert len(gauge(frac, width)) == width
    assert gauge(0.0, width) == " " * width
    assert gauge(1.0, width) == "█" * width
    assert len(gauge(None, width).strip()) == width


@given(st.text())
def test_plain_text_is_printable(text: str) -> None:
    """Whatever comes in, what comes out can be printed and is as long."""
    assert plain(text).isprintable()
    assert len(plain(text)) == len(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_figure_has_words(value: float) -> None:
    """No finite figure breaks the words for it."""
    for words_of in (figure, percent, seconds, size):
        assert words_of(value)
