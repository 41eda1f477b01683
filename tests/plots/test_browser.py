"""Every page as a browser shows it, without a network: on a desk and on a phone nothing is cut off or unreadable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx
import pytest
from browsers import DESK, LOOKS, PHONE, look
from onnx import TensorProto, helper
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from plots.reports import profile_report
from plots.test_drawing import strange
from sdk import driver
from sdk.boards import load_board
from sdk.driver.options import BuildOptions
from sdk.report import MemoryReport

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
BOARD = load_board("nucleo_l4r5zi")
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


@pytest.fixture
def show(browser: webdriver.Chrome, tmp_path: Path) -> Callable[..., None]:
    """Opens a page at a size, without a network, in a scheme of colours."""

    def open_page(text: str, size: tuple[int, int], scheme: str = "light", name: str = "page.html") -> None:
        (tmp_path / name).write_text(text, encoding="utf-8")
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        look(browser, size, scheme)
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
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
    for size, scheme in LOOKS:
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


# --- zoom, pins, search ------------------------------------------------------------------------------------

VIEW = "return document.querySelector('.wide svg').getAttribute('viewBox').split(' ').map(Number)"
PINNED = "return [...document.querySelectorAll('.pin')].map(e => e.tagName.toLowerCase()).sort()"
CARD = "const c = document.querySelector('aside.pinned'); return c.hidden ? null : c.querySelector('pre').textContent"
SEEN = """
const box = arguments[0].getBoundingClientRect();
return box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;
"""


def press(browser: webdriver.Chrome, text: str) -> None:
    """A button by its words or label."""
    script = "[...document.querySelectorAll('button')].find(b => b.textContent.includes(arguments[0]) || b.title === "
    browser.execute_script(script + "arguments[0]).click()", text)


def test_a_plot_zooms_and_is_dragged(browser: webdriver.Chrome, show: Callable[..., None]) -> None:
    show(driver.profile_page(profile_report()), DESK)
    plot = browser.find_element("css selector", ".wide svg")
    full = browser.execute_script(VIEW)
    wheel = "arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -300, ctrlKey: arguments[1], bubbles: true,"
    wheel += " cancelable: true, clientX: arguments[2], clientY: arguments[3]}))"
    box = plot.rect
    at = (box["x"] + box["width"] * 0.75, box["y"] - browser.execute_script("return scrollY") + box["height"] / 2)
    browser.execute_script(wheel, plot, False, *at)
    assert browser.execute_script(VIEW) == full  # the page's own
    browser.execute_script(wheel, plot, True, *at)
    x, _, width, height = browser.execute_script(VIEW)
    assert width == pytest.approx(full[2] / 2.718, rel=1e-3)
    assert height / width == pytest.approx(full[3] / full[2])
    assert x + 0.75 * width == pytest.approx(0.75 * full[2], rel=1e-3)  # what is under the pointer stays there
    ActionChains(browser).move_to_element(plot).click_and_hold().move_by_offset(-60, 0).release().perform()
    moved = browser.execute_script(VIEW)
    assert moved[0] == pytest.approx(x + 60 * width / box["width"], rel=0.02)
    assert browser.execute_script(PINNED) == []  # a drag is no click
    press(browser, "all of it")
    assert browser.execute_script(VIEW) == full
    press(browser, "larger")
    plot.send_keys("+")
    assert browser.execute_script(VIEW)[2] == pytest.approx(full[2] / 2.25)
    plot.send_keys(Keys.ARROW_RIGHT)
    assert browser.execute_script(VIEW)[0] > full[2] / 4
    plot.send_keys("-0")
    assert browser.execute_script(VIEW) == full
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_pins_lead_from_picture_to_table_and_back(
    browser: webdriver.Chrome, show: Callable[..., None], size: tuple[int, int]
) -> None:
    show(graph_page(Path()), size)
    browser.execute_script("document.querySelector(\"g[data-t='g0-1'] rect\").dispatchEvent(new MouseEvent('click', "
                           "{bubbles: true}))")  # fmt: skip
    assert browser.execute_script(PINNED) == ["g", "path", "path", "tr"]
    assert browser.execute_script(CARD).startswith("CONV_2D conv1")
    assert "#pin=g0-1" in browser.current_url
    row = browser.find_element("css selector", "tr[data-t='g0-1']")
    press(browser, "in the table")
    assert browser.execute_script(SEEN, row)
    press(browser, "→ CONV_2D conv2")  # along an edge, as one reads a graph
    assert browser.execute_script(CARD).startswith("CONV_2D conv2")
    box = browser.find_element("css selector", "g[data-t='g0-2']")
    assert browser.execute_script(SEEN, box)
    last = browser.find_element("css selector", "tr[data-t='g0-5']")
    browser.execute_script("arguments[0].cells[0].click()", last)
    assert browser.execute_script(CARD).startswith("SOFTMAX")
    assert browser.execute_script(SEEN, browser.find_element("css selector", "g[data-t='g0-5']"))
    address = browser.current_url
    browser.refresh()
    assert browser.current_url == address
    assert browser.execute_script(CARD).startswith("SOFTMAX")  # a link to a place
    browser.find_element("css selector", "body").send_keys(Keys.ESCAPE)
    assert browser.execute_script(CARD) is None
    width, inner, _ = browser.execute_script(OVERFLOW)
    assert width <= inner == size[0]
    assert browser.get_log("browser") == []


@pytest.mark.parametrize(
    ("page", "words", "names"),
    [(graph_page, "conv_2d 2", ["conv2"]), (profile_page, "conv_2d", ["conv1", "conv2", "conv3"])],
)
def test_a_search(
    browser: webdriver.Chrome, show: Callable[..., None], page: Callable[[Path], str], words: str, names: list[str]
) -> None:
    show(page(Path()), DESK)
    body = browser.find_element("css selector", "body")
    body.send_keys("/")
    field = browser.switch_to.active_element
    field.send_keys(words)
    rows = [row for row in browser.find_elements("css selector", "tr[data-t]") if row.is_displayed()]
    found = "return document.querySelector('.tools output').value"
    assert browser.execute_script(found) == f"{len(rows)} found"
    assert all(any(name in row.text for row in rows) for name in names)
    assert len(rows) < len(browser.find_elements("css selector", "tr[data-t]"))
    field.send_keys(Keys.ENTER)
    assert browser.execute_script(found) == f"1 of {len(rows)}"
    assert names[0] in browser.execute_script(CARD)
    field.send_keys(Keys.ESCAPE)
    assert len([r for r in browser.find_elements("css selector", "tr[data-t]") if r.is_displayed()]) > len(rows)
    assert browser.get_log("browser") == []


def test_another_tab_opens_for_what_is_in_it(browser: webdriver.Chrome, show: Callable[..., None]) -> None:
    show(memory_page(Path()), DESK)
    pane = "const [p] = [...document.querySelectorAll('.pane')].slice(-1); const i = p.querySelector('path[data-t]');"
    show_it = pane + "location.hash = '#pin=' + i.dataset.t; location.reload()"
    browser.execute_script(show_it)
    shown = pane + "return [p.checkVisibility(), i.classList.contains('pin'), p.id !== 'pane-time']"
    assert browser.execute_script(shown) == [True, True, True]


def test_profiles_share_an_axis(browser: webdriver.Chrome, show: Callable[..., None]) -> None:
    """Another model that takes half as long is half as wide."""
    one = profile_report()
    half = replace(one, model="half.tflite", ops=one.ops[:2], total={one.unit: round(one.whole / 2)})
    show(driver.profile_page(one, half), DESK)
    widths = "return [...document.querySelectorAll(\"rect[data-t='op-0'], rect[data-t='m1-op-0']\")].map("
    assert len(set(browser.execute_script(widths + "r => r.getAttribute('width'))"))) == 1
    ends = "return [...document.querySelectorAll('.wide svg')].map(s => [...s.querySelectorAll('rect[fill^=url]')]"
    ends += ".map(r => Number(r.getAttribute('x')) + Number(r.getAttribute('width')))[0])"
    full, short = browser.execute_script(ends)
    assert (short - 66) / (full - 66) == pytest.approx(0.5, abs=0.01)
    browser.execute_script("document.querySelector(\"tr[data-t='m1-op-1']\").cells[0].click()")
    assert len(browser.execute_script(PINNED)) == 4  # its row and its three bars, and none of the other model
    assert browser.get_log("browser") == []


def test_profiles_share_their_heights(browser: webdriver.Chrome, show: Callable[..., None]) -> None:
    """Half as much memory in use is half as high, though each model has a plot of its own; the board's RAM is named."""
    one = replace(profile_report(), board_ram_bytes=64_000)
    half = replace(one, model="half.tflite", ops=tuple(replace(op, live_bytes=op.live_bytes // 2) for op in one.ops))
    show(driver.profile_page(one, half), DESK)
    heights = "return [...document.querySelectorAll('.wide svg')].map(s => Math.max(...[...s.querySelectorAll("
    heights += "'rect.soft')].map(r => Number(r.getAttribute('height')))))"
    full, less = browser.execute_script(heights)
    assert less / full == pytest.approx(0.5, abs=0.01)
    part = 100 * max(op.live_bytes for op in one.ops) / 64_000
    assert f"at most {part:.1f} % of the board's RAM" in browser.execute_script("return document.body.textContent")


# --- large graphs ------------------------------------------------------------------------------------------

FRAME = """
const f = document.querySelector('.frame'), s = f.querySelector('svg').getBoundingClientRect();
return [f.clientWidth, f.clientHeight, s.width, s.height, f.scrollLeft, f.scrollTop];
"""
INSIDE = """
const a = arguments[0].getBoundingClientRect(), f = document.querySelector('.frame').getBoundingClientRect();
return a.top >= f.top && a.left >= f.left && a.bottom <= f.bottom && a.right <= f.right && a.bottom <= innerHeight;
"""


def large_graph(folder: Path) -> str:
    """A graph of 301 operators with branches."""
    nodes, x = [], "x"
    for k in range(75):
        a, b, c, y = (f"{name}{k}" for name in "abcy")
        nodes += [helper.make_node("Relu", [x], [a], name=f"/stage{k // 25}/block{k}/left/relu"),
                  helper.make_node("LeakyRelu", [x], [b], name=f"/stage{k // 25}/block{k}/right/leaky", alpha=0.25),
                  helper.make_node("Sigmoid", [b], [c], name=f"/stage{k // 25}/block{k}/right/sigmoid"),
                  helper.make_node("Add", [a, c], [y], name=f"/stage{k // 25}/block{k}/add")]  # fmt: skip
        x = y
    nodes.append(helper.make_node("Tanh", [x], ["y"], name="/head/tanh"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "l.onnx")
    return driver.graph_page(driver.draw(folder / "l.onnx", BuildOptions())[0])


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_a_large_graph_is_searched_and_walked(
    browser: webdriver.Chrome, show: Callable[..., None], tmp_path: Path, size: tuple[int, int]
) -> None:
    show(large_graph(tmp_path), size)
    first = browser.find_element("css selector", "g[data-t='g0-0']")
    browser.execute_script("document.querySelector('.frame').scrollIntoView()")
    assert browser.execute_script(INSIDE, first)  # it begins where reading does
    _, high, *_ = browser.execute_script(FRAME)
    assert high <= 0.83 * size[1]
    press(browser, "all of it")
    assert browser.execute_script(FRAME)[3] <= high + 1
    field = browser.find_element("css selector", ".tools input")
    field.send_keys("block60 leaky", Keys.ENTER)
    node = browser.execute_script("return document.querySelector('g.pin')")
    assert browser.execute_script(INSIDE, node)
    assert browser.execute_script("return arguments[0].getBoundingClientRect().height", node) > 35  # it can be read
    told = browser.execute_script(CARD)
    assert told.startswith("LeakyRelu /stage2/block60/right/leaky\nin y59")
    assert "f32[1, 8]" in told
    assert "0.25" in told  # what the operator was given
    browser.execute_script("document.activeElement.blur()")
    body = browser.find_element("css selector", "body")
    body.send_keys("j")
    assert browser.execute_script(CARD).startswith("Sigmoid /stage2/block60")
    body.send_keys("j", "k", "k")
    assert browser.execute_script(CARD).split()[0] in ("LeakyRelu", "Relu", "Sigmoid")
    width, inner, _ = browser.execute_script(OVERFLOW)
    assert width <= inner == size[0]
    assert browser.get_log("browser") == []


def test_a_large_graph_is_zoomed_and_dragged(
    browser: webdriver.Chrome, show: Callable[..., None], tmp_path: Path
) -> None:
    show(large_graph(tmp_path), DESK)
    browser.execute_script("document.querySelector('.frame').scrollIntoView()")
    plot = browser.find_element("css selector", ".frame svg")
    before = browser.execute_script(FRAME)
    plot.send_keys("+")
    zoomed = browser.execute_script(FRAME)
    assert zoomed[2] / before[2] == pytest.approx(1.5, rel=0.01)
    frame = browser.find_element("css selector", ".frame")
    ActionChains(browser).move_to_element(frame).click_and_hold().move_by_offset(0, -80).release().perform()
    assert browser.execute_script(FRAME)[5] == pytest.approx(zoomed[5] + 80, abs=2)
    assert browser.execute_script(PINNED) == []  # a drag is no click
    plot.send_keys("-")
    assert browser.execute_script(FRAME)[2] == pytest.approx(before[2], rel=0.01)
    plot.send_keys("0")
    wide, high, width, height, *_ = browser.execute_script(FRAME)
    assert (width <= wide + 1, height <= high + 1) == (True, True)
    plot.send_keys("+", Keys.ARROW_DOWN)
    assert browser.get_log("browser") == []
