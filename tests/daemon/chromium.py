"""A real browser for tests: headless Chromium that obeys and tells what its console and its network saw."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--headless=new",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
)
_WAIT_S = 20.0
_IS_DRAWN = "return document.documentElement.dataset.drawn"
_ROUND = "document.dispatchEvent(new Event('visibilitychange'))"


class Browser:
    """One window.

    Args:
        driver: Selenium's driver.
    """

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def show(self, scheme: str = "light", width: int = 1280, height: int = 900) -> None:
        """Set the colour scheme and the size of the window."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def open(self, url: str) -> None:
        """Load the page and wait until it has drawn what it was told."""
        self.driver.get(url)
        self.wait(_IS_DRAWN)

    def ask_again(self) -> None:
        """Let the page ask for the status now instead of at its next beat."""
        self.run(_ROUND)

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script)

    def wait(self, script: str) -> Any:
        """What a script returns, as soon as that is true."""
        return WebDriverWait(self.driver, _WAIT_S, poll_frequency=0.05).until(lambda _: self.run(script))

    def text(self) -> str:
        """All words of the page."""
        return str(self.run("return document.body.innerText"))

    def complaints(self) -> list[str]:
        """What the console said since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Addresses that were asked for since this was last asked."""
        entries = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def picture(self, path: Path) -> None:
        """Save what the window shows."""
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that is closed at the end.

    Raises:
        FileNotFoundError: Chromium or its driver is not installed.
    """
    binary = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    driver_path = shutil.which("chromedriver")
    if binary is None or driver_path is None:
        raise FileNotFoundError(
            "these tests need chromium and chromedriver: run 'make test-browser', which installs them"
        )
    options = ChromeOptions()
    options.binary_location = binary
    for option in (*_OPTIONS, *(["--no-sandbox"] if os.geteuid() == 0 else [])):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(driver_path))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
