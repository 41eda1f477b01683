"""A browser without a screen for tests: no network but this machine, a camera and a microphone that are made up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

LONG = 120  # seconds: the machine may be busy
DESK, PHONE = (1280, 900), (390, 844)
LOOKS = ((DESK, "light"), (PHONE, "dark"), (DESK, "dark"), (PHONE, "light"))
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-extensions", "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",
)  # fmt: skip
WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


@contextmanager
def started(profile: Path, webgpu: bool = False) -> Iterator[webdriver.Chrome]:
    """Chromium with a profile in a folder; it keeps what pages say on their consoles. With ``webgpu`` pages have an
    adapter, which is SwiftShader: a GPU on the processor."""
    options = webdriver.ChromeOptions()
    more = WEBGPU if webgpu else ("--disable-gpu",)
    for argument in (*_ARGUMENTS, *more, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    assert all(programs), "chromium or chromedriver is not installed; `make test` installs them or says how"
    options.binary_location = str(programs[0])
    running = webdriver.Chrome(options=options, service=Service(programs[1]))
    running.set_page_load_timeout(LONG)
    running.set_script_timeout(LONG)
    try:
        yield running
    finally:
        running.quit()


def look(browser: webdriver.Chrome, size: tuple[int, int], scheme: str) -> None:
    """Gives the page a size, and a scheme of colours: "light" or "dark"."""
    screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def said(browser: webdriver.Chrome) -> list[Any]:
    """What the page said on its console since this was asked last."""
    return [entry["message"] for entry in browser.get_log("browser")]
