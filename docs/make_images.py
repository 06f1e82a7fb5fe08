"""Take the pictures of the README from a report: ``python docs/make_images.py out/report.html``.

Needs Chromium (Debian: ``apt-get install chromium``). ``make demo`` writes such a report. Two pictures of its first
screen go to docs/images/: one as a light desktop shows it, one as a dark one does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCHEMES = {"light": 1, "dark": 0}  # numbers that Chromium gives to prefers-color-scheme
WIDTH, HEIGHT = 1280, 832  # up to the end of the table of policies
OPTIONS = (
    "--headless",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--run-all-compositor-stages-before-draw",  # no tile of the picture is left empty
    "--virtual-time-budget=10000",  # the plots are drawn by then
)


def main(arguments: list[str] | None = None) -> int:
    """Take both pictures; the exit status is 1 where something is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="the report, as 'kv-autotune tune' writes it")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "images", help="where the pictures go")
    options = parser.parse_args(arguments)
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print(f"pictures need a browser; got none of {', '.join(BROWSERS)}; install chromium", file=sys.stderr)
        return 1
    if not options.report.is_file():
        print(f"a report is a file; got {options.report}; run 'make demo' first", file=sys.stderr)
        return 1
    options.folder.mkdir(parents=True, exist_ok=True)
    for scheme in SCHEMES:
        picture = options.folder / f"report-{scheme}.png"
        take_picture(browser, options.report, picture, scheme)
        print(picture)
    return 0


def take_picture(browser: str, report: Path, picture: Path, scheme: str) -> None:
    """Open a report in a fresh profile and save its first screen.

    Raises:
        CalledProcessError: the browser failed.
    """
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            *OPTIONS,
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # root, as in a container, has no sandbox to use
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            f"--user-data-dir={profile}",
            f"--window-size={WIDTH},{HEIGHT}",
            f"--screenshot={picture.resolve()}",
            report.resolve().as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    sys.exit(main())
