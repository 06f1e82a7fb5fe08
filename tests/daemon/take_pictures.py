"""Take pictures of the sidecar's page for the docs: ``python tests/daemon/take_pictures.py docs/images``.

Needs what 'make test-browser' installs.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx
from chromium import chromium
from showcase import NOON, ScriptedController, busy_past, busy_status

from autotune.core.sidecar_settings import CollectSettings, HttpSettings, SidecarSettings
from autotune.daemon.http.server import HttpServer

WIDTH, HEIGHT = 1280, 1205  # up to the end of the caches


def main(folder: Path) -> None:
    """Save the head of the page, as a light and as a dark desktop shows it."""
    past = busy_past(NOON)
    controller = ScriptedController(past[0])
    settings = SidecarSettings(collect=CollectSettings(interval_s=3600.0), http=HttpSettings(port=0))
    with (
        HttpServer(controller, settings, {}) as server,
        httpx.Client(base_url=server.url) as client,
        chromium() as browser,
    ):
        for status in (*past[1:], busy_status(NOON)):
            controller.shown = status
            client.get("/v1/status")
        for scheme in ("light", "dark"):
            browser.show(scheme, WIDTH, HEIGHT)
            browser.open(server.url)
            time.sleep(0.5)  # the last frame is on the screen by then
            browser.picture(folder / f"sidecar-{scheme}.png")
            print(folder / f"sidecar-{scheme}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
