from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.errors import ConfigError
from autotune.core.policy import PolicyDocument
from autotune.report.page import render_report, save_report
from autotune.search.result import TuneResult
from autotune.testing.documents import policy_documents

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}&\"'\x1b[31m\u202e\udcff"
VOID = {"meta", "br", "img", "link", "input", "hr"}
HEADINGS = (
    "Policies on the held-out part",
    "What memory is worth",
    "How blocks are reused",
    "Decisions over time",
    "How the setting was found",
    "The policy",
    "Publish it, take it back",
    "What was assumed",
    "Where this came from",
)
ALL_PLOTS = {
    *(f"plot-{what}-{tier}" for what in ("hits", "seconds") for tier in ("device", "host")),
    "plot-marginal",
    "plot-reuse-gaps",
    "plot-found",
    "plot-moved",
    "plot-cost",
    "plot-history",
    "plot-importance",
}


class Outline(HTMLParser):
    """A page taken apart: text outside scripts and styles, attributes, scripts, and tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.mismatches: list[str] = []
        self.tags: Counter[str] = Counter()
        self.cells: list[list[str]] = []
        self.headings: list[str] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.mismatches += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element and its attributes."""
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append(({name: value or "" for name, value in attrs}, ""))
        if tag == "tr":
            self.cells.append([])
        if tag in {"td", "th"}:
            self.cells[-1].append("")
        if tag == "h2":
            self.headings.append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note an end that is not that of the last element."""
        if not self._open or self._open.pop() != tag:
            self.mismatches.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        """Sort text by where it stands."""
        if "script" in self._open:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif "style" not in self._open:
            self.words += data
            if {"td", "th"} & set(self._open):
                self.cells[-1][-1] += data
            if "h2" in self._open:
                self.headings[-1] += data

    @property
    def ids(self) -> list[str]:
        """Every ``id`` in order."""
        return [value for _, name, value in self.attributes if name == "id"]

    @property
    def executed(self) -> list[str]:
        """Scripts that a browser runs."""
        return [text for attributes, text in self.scripts if attributes.get("type") != "application/json"]

    @property
    def plots(self) -> dict[str, object]:
        """The figure of each plot by the ``id`` of its element."""
        return {
            attributes["data-plot"]: json.loads(text) for attributes, text in self.scripts if "data-plot" in attributes
        }

    @property
    def security(self) -> str:
        """The content security policy."""
        return next(value for _, name, value in self.attributes if name == "content" and "script-src" in value)


@pytest.fixture(scope="module")
def outline(result: TuneResult) -> Outline:
    """The page of the full result."""
    return Outline(render_report(result))


def test_elements_are_balanced_and_ids_unique(outline: Outline) -> None:
    """Every element is closed where it must be, and no identifier occurs twice."""
    assert outline.mismatches == []
    assert len(set(outline.ids)) == len(outline.ids)


def test_references_between_elements_resolve(outline: Outline) -> None:
    """Whatever labels or describes an element exists."""
    named = [value for _, name, value in outline.attributes if name in {"aria-labelledby", "aria-describedby"}]
    assert named
    assert set(named) <= set(outline.ids)


def test_nothing_is_loaded_from_anywhere(outline: Outline) -> None:
    """No element refers to another file, and the security policy forbids all requests and all other scripts."""
    assert [found for found in outline.attributes if found[1] in {"src", "href", "srcset", "action", "data"}] == []
    assert outline.tags["link"] == outline.tags["img"] == outline.tags["iframe"] == 0
    assert outline.security.startswith("default-src 'none'; ")
    assert "http" not in outline.security
    assert "unsafe-eval" not in outline.security


def test_style_loads_nothing(result: TuneResult) -> None:
    """The style sheet has neither imports nor addresses."""
    style = re.search(r"<style>(.*?)</style>", render_report(result), re.DOTALL)
    assert style
    assert not re.search(r"@import|url\(|https?:", style[1])


def test_scripts_are_exactly_those_allowed(outline: Outline) -> None:
    """The two scripts are those whose hashes the security policy names."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in outline.executed]
    assert re.findall(r"'sha256-([^']+)'", outline.security) == digests
    assert len(digests) == 2


def test_plotly_is_embedded_once(outline: Outline) -> None:
    """The plotting library is there once, whole."""
    assert [len(text) > 1_000_000 for text in outline.executed] == [True, False]


def test_every_section_is_there_in_order(outline: Outline) -> None:
    """All parts of the report follow one another under their headings."""
    assert [heading for heading in outline.headings if heading in HEADINGS] == list(HEADINGS)


def test_every_plot_has_its_place_and_words(outline: Outline) -> None:
    """Each plot has an element to be drawn into, a title and an explanation, and every group has its plots."""
    assert set(outline.plots) == ALL_PLOTS
    for plot in ALL_PLOTS:
        assert {plot, f"{plot}-title", f"{plot}-text"} <= set(outline.ids)


def test_every_axis_with_numbers_has_a_title(outline: Outline) -> None:
    """Axes say what they show; only those whose ticks are words may go without."""
    for name, figure in outline.plots.items():
        layout = figure["layout"]  # type: ignore[index]
        assert layout["xaxis"]["title"]["text"], name
        assert layout["yaxis"]["title"]["text"] or name in {"plot-marginal", "plot-importance"}, name


def test_every_colour_of_a_plot_is_defined_for_light_and_dark(result: TuneResult) -> None:
    """Colours that plots name are in the style sheet, and in its dark part too."""
    page = render_report(result)
    style = page[page.index("<style>") : page.index("</style>")]
    light, dark = style.split("prefers-color-scheme: dark", 1)
    used = set(re.findall(r"var\((--[a-z-]+)\)", json.dumps(Outline(page).plots)))
    assert used
    assert used <= set(re.findall(r"(--[a-z-]+):", light))
    assert used <= set(re.findall(r"(--[a-z-]+):", dark))


def test_verdict_is_the_one_main_heading(result: TuneResult) -> None:
    """The page opens with the verdict as a sentence."""
    page = render_report(result)
    assert re.findall(r"<h1>(.*?)</h1>", page) == ["The tuned policy saves 6.1\N{NO-BREAK SPACE}% of LRU&#39;s cost."]


def test_key_figures_are_shown(outline: Outline) -> None:
    """Gain with bounds, gap closed, stored ÷ loaded beside LRU's, and the setting stand below the verdict."""
    words = outline.words.replace("\N{NO-BREAK SPACE}", " ")
    for figure in ("4.9 % to 7.2 % at 95 % confidence", "31.0 %", "4.00", "10.00 under LRU", "λ = 0.25"):
        assert figure in words


def test_table_has_a_row_per_policy_and_marks_the_chosen_one(outline: Outline) -> None:
    """Rows follow the result; the chosen one says so, and the clairvoyant is called a bound."""
    heading, *rows = outline.cells
    assert [row[0] for row in rows] == ["LRU", "S3-FIFO", "tuned chosen", "clairvoyant (bound)"]
    assert all(len(row) == len(heading) for row in rows)
    tuned = dict(zip(heading, rows[2], strict=True))
    assert tuned["host hits (%)"] == "10.0"
    assert tuned["net seconds saved (s)"] == "362"
    assert tuned["stored ÷ loaded"] == "4.00"
    assert tuned["TTFT p95 (ms)"] == "700"
    assert dict(zip(heading, rows[1], strict=True))["cost gap closed (%)"] == "−10.0"


def test_policy_is_shown_as_it_is_written(result: TuneResult, outline: Outline) -> None:
    """The YAML in the page is that of the policy file."""
    assert "schema: kv-autotune/policy/v1" in outline.words
    assert result.document.rollback in outline.words


def test_provenance_names_content_seed_and_sampler(outline: Outline) -> None:
    """Whoever reads the page can tell what was run."""
    for fact in ("ab" * 32, "tpe, seed 7", "instant timing", "0.1.0"):
        assert fact in outline.words


def test_same_result_gives_the_same_bytes(result: TuneResult) -> None:
    """Nothing in the page depends on chance or on the time of day."""
    assert render_report(result) == render_report(replace(result))


def test_hostile_names_stay_text(result: TuneResult) -> None:
    """Markup in the name of a trace, a study, a knob or in an assumption is shown as text and runs nothing."""
    hostile = replace(
        result,
        trace=replace(result.trace, name=HOSTILE),
        verdict=HOSTILE,
        reason=HOSTILE,
        ttft_note=HOSTILE,
        assumptions=(HOSTILE, HOSTILE),
        importance=((HOSTILE, 1.0),),
        trials=tuple(replace(trial, study=HOSTILE) for trial in result.trials),
        costs=replace(result.costs, source=HOSTILE),
    )
    page = render_report(hostile)
    outline, plain = Outline(page), Outline(render_report(result))
    assert outline.mismatches == []
    assert outline.tags == plain.tags
    assert outline.executed == plain.executed
    assert "{{ 7*7 }}" in outline.words
    assert "\x1b" not in page
    page.encode("utf-8")


def test_plots_take_names_as_text(result: TuneResult) -> None:
    """Plotly reads some markup in names, so it gets them escaped."""
    hostile = replace(result, importance=(("<b>knob</b>", 1.0),))
    figure = json.dumps(Outline(render_report(hostile)).plots["plot-importance"])
    assert "&lt;b&gt;knob&lt;/b&gt;" in figure
    assert "<b>" not in figure


def test_lru_chosen_says_to_stay(lru_result: TuneResult) -> None:
    """Where LRU stays, the page says so and marks LRU's row, though there is no tuned one."""
    outline = Outline(render_report(lru_result))
    assert outline.mismatches == []
    assert "Stay with LRU" in outline.words
    assert "LRU chosen" in [row[0] for row in outline.cells]
    assert "LRU was chosen, so there is no difference to see" in outline.words


def test_lru_chosen_says_what_is_left(lru_result: TuneResult, bare_result: TuneResult) -> None:
    """Where LRU stays, the page says what knowing the future would save; without a bound it claims no gap."""
    words = Outline(render_report(replace(lru_result, gap_closed_frac=None))).words
    costs_s = {row.name: row.cost_s for row in lru_result.rows}
    saves = 100 * (1 - costs_s["clairvoyant"] / costs_s["lru"])
    assert f"a policy that knows the future would save {saves:.1f}\N{NO-BREAK SPACE}% of LRU's cost" in words
    assert "would save" not in Outline(render_report(bare_result)).words


def test_commands_can_be_pasted(result: TuneResult) -> None:
    """The page's command verifies on all traces of the run, each with an option of its own."""
    several = replace(result, trace=replace(result.trace, name="mooncake:a.jsonl + mooncake:b.jsonl"))
    command = "kv-autotune verify policy.yaml --trace mooncake:a.jsonl --trace mooncake:b.jsonl"
    assert command in Outline(render_report(several)).words


def test_bare_result_makes_a_whole_page(bare_result: TuneResult) -> None:
    """Without a host, curves, windows, trials, gap or provenance, every section is there and says what is missing."""
    outline = Outline(render_report(bare_result))
    assert outline.mismatches == []
    assert outline.plots == {}
    for heading in HEADINGS:
        assert heading in outline.words
    for reason in ("No other capacities were simulated", "No block of this trace was asked for twice", "no host tier"):
        assert reason in outline.words
    assert "host hits (%)" not in outline.cells[0]
    assert "None" not in outline.words


@pytest.mark.parametrize("field", ["ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "goodput_frac"])
def test_missing_figure_has_no_column(result: TuneResult, field: str) -> None:
    """A figure that no policy has takes no column; one that some have not shows a dash."""
    heading = {"ttft_p50_s": "TTFT p50 (ms)", "ttft_p95_s": "TTFT p95 (ms)", "ttft_p99_s": "TTFT p99 (ms)"}.get(
        field, "goodput (%)"
    )
    nothing: dict[str, Any] = {field: None}
    without = tuple(replace(row, **nothing) for row in result.rows)
    assert heading not in Outline(render_report(replace(result, rows=without))).cells[0]
    some = Outline(render_report(replace(result, rows=(*without[:1], *result.rows[1:])))).cells
    assert [row[some[0].index(heading)] == "–" for row in some[1:]] == [True, False, False, False]


@settings(max_examples=6)
@given(document=policy_documents(), name=st.text(max_size=40))
def test_any_document_and_name_make_a_whole_page(result: TuneResult, document: PolicyDocument, name: str) -> None:
    """Whatever a policy document or a trace's name holds, the page stays whole and runs its own scripts only."""
    page = render_report(replace(result, document=document, trace=replace(result.trace, name=name)))
    outline = Outline(page)
    assert outline.mismatches == []
    assert len(outline.executed) == 2
    assert set(outline.plots) == ALL_PLOTS


def test_saved_file_is_the_page(result: TuneResult, tmp_path: Path) -> None:
    """The file holds the page, byte for byte, and replaces an older one."""
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    save_report(result, path)
    assert path.read_bytes() == render_report(result).encode("utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folder_is_said_in_one_line(result: TuneResult, tmp_path: Path) -> None:
    """Where the file cannot be written, the error names it."""
    with pytest.raises(ConfigError, match=r"nowhere/report\.html must be writable"):
        save_report(result, tmp_path / "nowhere" / "report.html")
