"""The page in a real browser; left out where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autotune.report.page import save_report
from autotune.search.result import TuneResult

BROWSERS = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))][:1]
SCHEMES = {"dark": 0, "light": 1}
OPTIONS = (
    "--headless",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--virtual-time-budget=10000",
    "--enable-logging=stderr",
    "--dump-dom",
)


def open_page(browser: str, page: Path, profile: Path, scheme: str) -> tuple[str, list[str]]:
    """The document after its scripts have run, and what they wrote to the console."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    theme = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    command = [browser, *OPTIONS, *sandbox, theme, f"--user-data-dir={profile}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("browser", BROWSERS)
def test_every_plot_is_drawn_without_complaint(browser: str, scheme: str, result: TuneResult, tmp_path: Path) -> None:
    """All plots are drawn, no colour stays a name, and neither a script nor the security policy complains."""
    page = tmp_path / "report.html"
    save_report(result, page)
    n_plots = page.read_text(encoding="utf-8").count("data-plot=")
    document, complaints = open_page(browser, page, tmp_path / "profile", scheme)
    assert complaints == []
    assert f'data-plots-drawn="{n_plots}"' in document[:1000]
    drawn = document[document.rindex("<main>") :]
    assert len(re.findall(r'class="main-svg"[^>]*><defs', drawn)) >= n_plots
    assert "var(--" not in "".join(re.findall(r'style="[^"]*"', drawn))


@pytest.mark.parametrize("browser", BROWSERS)
def test_colours_follow_the_scheme(browser: str, result: TuneResult, tmp_path: Path) -> None:
    """The words of a plot are dark on light and light on dark."""
    page = tmp_path / "report.html"
    save_report(result, page)
    fills = {}
    for scheme in SCHEMES:
        document, _ = open_page(browser, page, tmp_path / f"profile-{scheme}", scheme)
        found = re.search(r'class="xtitle"[^>]*fill: rgb\((\d+), (\d+), (\d+)\)', document)
        assert found
        fills[scheme] = sum(map(int, found.groups()))
    assert fills["light"] < 3 * 80
    assert fills["dark"] > 3 * 170


@pytest.mark.parametrize("browser", BROWSERS)
def test_bare_page_opens_without_complaint(browser: str, bare_result: TuneResult, tmp_path: Path) -> None:
    """A page without plots has nothing to complain about either."""
    page = tmp_path / "report.html"
    save_report(bare_result, page)
    document, complaints = open_page(browser, page, tmp_path / "profile", "light")
    assert complaints == []
    assert 'data-plots-drawn="0"' in document[:1000]
