"""Every page as a browser shows it, without a network: on a desk and on a phone nothing is cut off or unreadable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from plots.reports import profile_report
from plots.test_drawing import strange
from sdk import driver
from sdk.boards import load_board
from sdk.driver.options import BuildOptions
from sdk.report import MemoryReport

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
BOARD = load_board("nucleo_l4r5zi")
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-extensions", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
DESK, PHONE = (1280, 900), (390, 844)
# Plots that are shown: how large, how many things are drawn in it, texts that are wider than their boxes.
PLOTS = """
return [...document.querySelectorAll("svg[viewBox]")].filter(s => s.checkVisibility()).map(s => {
  const box = s.getBoundingClientRect();
  const over = [...s.querySelectorAll("g.node")].flatMap(g => [...g.querySelectorAll("text")]
    .filter(t => t.getComputedTextLength() > g.querySelector("rect").width.baseVal.value - 4).map(t => t.textContent));
  return [box.width, box.height, s.querySelectorAll("rect, path, line").length, over];
});
"""
OVERFLOW = "return [document.scrollingElement.scrollWidth, innerWidth, document.scrollingElement.scrollHeight]"
FOREIGN = "return performance.getEntriesByType('resource').map(e => e.name)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    assert all(programs), "chromium or chromedriver is not installed; `make test` installs them or says how"
    options.binary_location = str(programs[0])
    running = webdriver.Chrome(options=options, service=Service(programs[1]))
    yield running
    running.quit()


@pytest.fixture
def show(browser: webdriver.Chrome, tmp_path: Path) -> Callable[..., None]:
    """Opens a page at a size, without a network, in a scheme of colours."""

    def open_page(text: str, size: tuple[int, int], scheme: str = "light", name: str = "page.html") -> None:
        (tmp_path / name).write_text(text, encoding="utf-8")
        size_of = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size_of)
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        browser.get((tmp_path / name).as_uri())

    return open_page


@cache
def memory_report() -> MemoryReport:
    return driver.memory(DIGITS, BOARD, BuildOptions())


def memory_page(folder: Path) -> str:
    return driver.memory_page(memory_report(), BOARD)


def graph_page(folder: Path) -> str:
    return driver.graph_page(driver.draw(DIGITS, BuildOptions())[0])


def refused_page(folder: Path) -> str:
    return driver.graph_page(driver.draw(strange(folder / "m.onnx", "batch"), BuildOptions(dims={"batch": (1, 4)}))[0])


def profile_page(folder: Path) -> str:
    return driver.profile_page(profile_report())


@pytest.mark.parametrize("page", [memory_page, graph_page, refused_page, profile_page])
def test_page(
    browser: webdriver.Chrome, show: Callable[..., None], tmp_path: Path, page: Callable[[Path], str]
) -> None:
    text = page(tmp_path)
    for size, scheme in ((DESK, "light"), (PHONE, "dark"), (DESK, "dark"), (PHONE, "light")):
        show(text, size, scheme)
        width, inner, height = browser.execute_script(OVERFLOW)
        assert (inner, width <= inner) == (size[0], True), f"{width} wide"
        assert height > 500
        assert browser.execute_script(FOREIGN) == []
        plots = browser.execute_script(PLOTS)
        assert plots
        for wide, high, things, over in plots:
            assert wide > 80
            assert high > 80
            assert things >= 6
            assert over == []
        background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
        assert [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]] == []


def test_a_table_sorts(browser: webdriver.Chrome, show: Callable[..., None]) -> None:
    show(driver.profile_page(profile_report()), DESK)
    column = "return [...document.querySelectorAll('tbody tr')].map(r => r.cells[0].textContent)"
    press = "document.querySelectorAll('th button')[arguments[0]].click()"
    browser.execute_script(press, 2)
    assert browser.execute_script(column) == ["3", "1", "2", "4"]
    browser.execute_script(press, 2)
    assert browser.execute_script(column) == ["4", "2", "1", "3"]
    browser.execute_script(press, 1)
    assert browser.execute_script(column)[0] == "4"  # by name, backwards: SOFTMAX
    assert browser.get_log("browser") == []


def test_what_belongs_together_lights_up(browser: webdriver.Chrome, show: Callable[..., None]) -> None:
    show(graph_page(Path()), DESK)
    over = "document.querySelector(\"g[data-t='g0-1']\").dispatchEvent(new MouseEvent('mouseenter'))"
    browser.execute_script(over)
    lit = browser.execute_script("return [...document.querySelectorAll('.hot')].map(e => e.tagName.toLowerCase())")
    assert sorted(lit) == ["g", "path", "path", "tr"]


@pytest.mark.parametrize("plot", ["graph", "memory"])
def test_plots_alone(browser: webdriver.Chrome, show: Callable[..., None], plot: str) -> None:
    if plot == "graph":
        text = driver.graph_svg(driver.draw(DIGITS, BuildOptions())[0])
    else:
        text = driver.memory_svg(memory_report())
    show(text, DESK, name="plot.svg")
    assert browser.execute_script("return document.querySelectorAll('rect, path').length") > 6
    assert browser.execute_script("return document.querySelector('parsererror')") is None
    assert browser.get_log("browser") == []
