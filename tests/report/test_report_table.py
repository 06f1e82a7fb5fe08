from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from autotune.report.table import policy_table, summary_lines
from autotune.search.result import TuneResult

MAX_COLUMNS = 80


def printed(result: TuneResult, width: int = 100) -> str:
    """The table as a terminal of that width shows it, without colours."""
    console = Console(width=width, file=StringIO(), color_system=None)
    console.print(policy_table(result))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def figures(result: TuneResult, policy: str) -> list[str]:
    """The figures in the row of a policy."""
    line = next(line for line in printed(result).splitlines() if line.strip().startswith(policy))
    return line.strip().removeprefix(policy).split()


def test_rows_show_the_figures_in_their_units(result: TuneResult) -> None:
    """Shares are percent, seconds are seconds, TTFT is milliseconds, in the order of the headings."""
    assert figures(result, "tuned") == ["12.5", "10.0", "362", "31.0", "31.0", "4.00", "700"]


def test_negative_gap_is_shown(result: TuneResult) -> None:
    """A policy that is worse than LRU shows a negative share of the gap."""
    assert figures(result, "S3-FIFO")[3] == "−10.0"


def test_clairvoyant_is_called_a_bound(result: TuneResult) -> None:
    """The yardstick cannot be taken for a policy to choose."""
    assert "clairvoyant (bound)" in printed(result)


def test_headings_have_units(result: TuneResult) -> None:
    """The last line of the headings has a unit for every figure but the ratio."""
    lines = printed(result).splitlines()
    units = next(line for line in lines if line.startswith("policy"))
    assert units.split() == ["policy", "%", "%", "s", "%", "%", "ms"]


def test_figures_are_aligned(result: TuneResult) -> None:
    """The decimal points of a column stand below one another."""
    rows = [line for line in printed(result).splitlines() if line.startswith(("LRU", "S3-FIFO", "tuned"))]
    assert len({line.index(".") for line in rows}) == 1
    assert len({len(line.rstrip()) for line in rows}) == 1


def test_table_fits_a_narrow_terminal(result: TuneResult) -> None:
    """In 80 columns no line is longer and no figure is cut."""
    text = printed(result, MAX_COLUMNS)
    assert max(map(len, text.splitlines())) <= MAX_COLUMNS
    assert "…" not in text
    for figure in figures(result, "tuned"):
        assert figure in text


def test_tiers_that_do_not_exist_have_no_column(bare_result: TuneResult) -> None:
    """A device alone shows neither host nor disk, nor what is stored; missing shares are dashes."""
    text = printed(bare_result)
    assert "host" not in text
    assert "stored" not in text
    assert figures(bare_result, "LRU") == ["0.0", "0.00", "–", "–"]


def test_disk_has_a_column(result: TuneResult) -> None:
    """A disk tier shows its hits."""
    assert "disk" in printed(replace(result, sizes=replace(result.sizes, disk_blocks=10)))


def test_names_are_not_markup(result: TuneResult) -> None:
    """Square brackets and terminal codes in a name are shown, not obeyed."""
    rows = (replace(result.rows[0], name="[red]name[/red]"), *result.rows[1:])
    text = printed(replace(result, rows=rows, trace=replace(result.trace, name="a\x1b[2J[/b]")), width=140)
    assert "[red]name[/red]" in text
    assert "a\\x1b[2J[/b]" in text


def test_summary_opens_with_the_verdict_and_says_how_sure(result: TuneResult) -> None:
    """Verdict first, then why, what was chosen at which confidence, when a load pays, and about TTFT."""
    assert summary_lines(result) == (
        "The tuned policy saves 6.1 % of LRU's cost.",
        "It beat LRU on the past and on the held-out part by more than the noise.",
        "Chosen: λ = 0.25, τ = 2 turnovers; bounds at 95 % confidence.",
        "Loading from the host pays for runs of 96 tokens or more.",
        "TTFT is that of 4 servers at ρ = 0.7.",
    )


def test_summary_of_lru_says_everything_once(lru_result: TuneResult) -> None:
    """Where LRU stays, its reason is part of the verdict and not repeated, and no setting is listed."""
    stays = replace(lru_result, verdict=f"Stay with LRU: {lru_result.reason}")
    lines = summary_lines(stays)
    assert len(lines) == 3
    assert lines[0].startswith("Stay with LRU: ")


def test_loads_that_never_pay_are_said(result: TuneResult, bare_result: TuneResult) -> None:
    """No break-even length and no host tier are different things."""
    assert "never pays" in summary_lines(replace(result, break_even_tokens=None))[-2]
    assert "no host tier" in summary_lines(bare_result)[-2]
