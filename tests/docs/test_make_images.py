"""The pictures of the README; taken only where a browser is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs/make_images.py"
BROWSERS = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))][:1]
PAGE = (
    """<style>body { background: white } @media (prefers-color-scheme: dark) { body { background: black } }</style>"""
)


def take(*arguments: str | Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script, with another ``PATH`` if given."""
    environment = os.environ | ({} if path is None else {"PATH": path})
    command = [sys.executable, SCRIPT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("browser", BROWSERS)
def test_light_and_dark_picture_differ(browser: str, tmp_path: Path) -> None:
    """Two PNG files are written and named, one per colour scheme."""
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    done = take(tmp_path / "page.html", "--folder", tmp_path / "images", path=f"{Path(browser).parent}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    light, dark = (Path(line).read_bytes() for line in done.stdout.split())
    assert light.startswith(b"\x89PNG")
    assert light != dark


def test_missing_browser_is_said(tmp_path: Path) -> None:
    """Without a browser one line says what to install."""
    done = take(tmp_path / "page.html", path=str(tmp_path))
    assert done.returncode == 1
    assert "install chromium" in done.stderr


@pytest.mark.parametrize("_browser", BROWSERS)
def test_missing_report_is_said(_browser: str, tmp_path: Path) -> None:
    """Without a report one line says how to get one."""
    done = take(tmp_path / "page.html")
    assert done.returncode == 1
    assert "make demo" in done.stderr
