"""What the demo prints."""

from __future__ import annotations

import io

from demo_table import Run, sentences, show
from metrics_page import EngineCounters
from prediction import HitFracs
from replay import Answer, Replay
from rich.console import Console

ANSWERS = tuple(Answer((1, 2, 3), ttft_s, ttft_s + 0.1, 0) for ttft_s in (0.1, 0.2, 0.3, 1.0))


def run_of(name: str, measured: HitFracs, predicted: HitFracs, **counted: float) -> Run:
    """A policy's run with these outcomes."""
    tokens = {"device_tokens": 18_976, "host_tokens": 10_016, "computed_tokens": 257_648}
    return Run(name, Replay(ANSWERS, EngineCounters(**{**tokens, **counted})), measured, predicted)


RUNS = [
    run_of("LRU", HitFracs(0.066, 0.035, 0.138), HitFracs(0.066, 0.032, 0.129), stored_bytes=487 * 2**20),
    run_of("ours", HitFracs(0.064, 0.131, 0.240), HitFracs(0.066, 0.139, 0.241), evictions=1545, loaded_bytes=2**20),
]


def printed(equal: bool) -> list[str]:
    """The lines on a terminal of 80 columns."""
    page = io.StringIO()
    show(Console(file=page, width=80), RUNS, equal)
    return page.getvalue().splitlines()


def test_output_fits_a_terminal() -> None:
    """No line is wider than 80 columns, and no heading or cell is cut off."""
    lines = printed(equal=True)
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)


def test_tables_have_what_was_counted_and_predicted() -> None:
    """Each policy has a row of counts and a row of pairs of measured and predicted shares."""
    rows = [" ".join(line.split()) for line in printed(equal=True)]
    assert "LRU 18,976 10,016 257,648 487 0 400 895" in rows
    assert "ours 6.4 | 6.6 13.1 | 13.9 19.5 | 20.5 24.0 | 24.1" in rows


def test_gain_is_told_as_measured_and_as_predicted() -> None:
    """The last policy's gain on the host over each other one, and the worst prediction with its policy."""
    told = list(sentences(RUNS, equal=True))
    assert "Host hits above LRU: +9.6 points of all prompt tokens measured, +10.7 predicted." in told
    assert "Largest error of a predicted hit rate: 1.0 points (ours)." in told
    assert "All 12 tokens of 4 requests are equal in every run." in told


def test_trouble_is_told() -> None:
    """Unequal tokens and a plug-in that fell back are said in so many words."""
    broken = run_of("ours", RUNS[1].measured, RUNS[1].predicted, fallbacks=1)
    told = list(sentences([RUNS[0], broken], equal=False))
    assert "NOT all 12 tokens of 4 requests are equal in every run." in told
    assert any(line.startswith("The plug-in fell back to LRU 1 times") for line in told)
