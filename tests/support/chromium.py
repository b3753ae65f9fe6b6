"""A headless Chromium that tells what a page did: its console, its requests, its elements."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "headless",
    "no-sandbox",
    "disable-gpu",
    "disable-quic",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-sync",
)


def require_chromium() -> tuple[str, str]:
    """The browser and its driver; skips where either is missing."""
    browser = next((found for name in NAMES if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no Chromium with chromedriver is installed")
    return browser, driver


class Browser:
    """One window, of a given size and theme."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def resize(self, width: int, height: int = 900) -> None:
        metrics = {
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": width < 600,
        }
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def set_theme(self, theme: str) -> None:
        """`light` or `dark`, as the operating system would ask for; without animations."""
        wishes = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, path: Path) -> None:
        """Open a file; what was logged before is forgotten."""
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(path.as_uri())

    def console(self) -> list[str]:
        """Everything in the console since the page was opened."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened."""
        events = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script that ends in `return`; fails if an alert is open."""
        return self.driver.execute_script(script, *arguments)

    def settle(self) -> None:
        """Wait until what was asked for is drawn: two frames."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        )

    def wait_until(self, script: str, *arguments: Any) -> None:
        """Wait until a script returns something true; fails after ten seconds."""
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.driver, 10, 0.05).until(lambda _: self.run(script, *arguments), script)

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page."""
        size = self.run("const e = document.documentElement; return [innerWidth, e.scrollHeight];")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        options = {"captureBeyondViewport": True, "clip": clip}
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)
        path.write_bytes(base64.b64decode(picture["data"]))

    def print_pdf(self) -> bytes:
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with a fresh profile in an empty folder."""
    executable, driver = require_chromium()
    webdriver = pytest.importorskip("selenium.webdriver", reason="the browser needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = executable
    for option in (*QUIET, f"user-data-dir={profile}"):
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    window = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(window)
    finally:
        window.quit()
