"""Makes the images of docs/images again, of the bundled model alone: ``python docs/screenshots.py``.

With a FOLDER every page is written there instead, wide and at 390 px, in light and dark, to be looked at.

It needs chromium with its driver, selenium (the extra ``test``) and an emulator for the profile.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from sdk import driver
from sdk.boards import load_board
from sdk.driver.options import BuildOptions

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent / "examples" / "digits" / "digits_int8.tflite"
BOARD = "nucleo_l4r5zi"
DESK, PHONE = (1000, 820), (390, 760)
QUALITY = 82


def pages() -> dict[str, str]:
    """Pages by name."""
    board, minimum = load_board(BOARD), BuildOptions(memory="min")
    return {
        "memory": driver.memory_page(driver.memory(MODEL, board, minimum), board),
        "graph": driver.graph_page(driver.draw(MODEL, BuildOptions())[0]),
        "profile": driver.profile_page(driver.profile(MODEL, board, None, BuildOptions(), {})),
    }


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """A browser that shows nothing on this screen."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or ""
    running = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield running
    finally:
        running.quit()


def shoot(running: webdriver.Chrome, page: Path, size: tuple[int, int], scheme: str, out: Path) -> None:
    """Writes what a page shows at a size, in a scheme of colours."""
    width, height = size
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
    running.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    running.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    running.get(page.as_uri())
    shot = running.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    out.write_bytes(base64.b64decode(shot["data"]))
    print(f"wrote {out}, {out.stat().st_size:,} bytes")


def main() -> None:
    """Writes each page at the size of a desk, and in the dark at that of a phone; into a given folder all four."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    given: Path | None = parser.parse_args().folder
    images = given or HERE / "images"
    images.mkdir(exist_ok=True, parents=True)
    with tempfile.TemporaryDirectory() as folder, browser() as running:
        for name, text in pages().items():
            page = Path(folder) / f"{name}.html"
            page.write_text(text, encoding="utf-8")
            if given:
                for size in (DESK, PHONE):
                    for scheme in ("light", "dark"):
                        shoot(running, page, size, scheme, images / f"{name}-{size[0]}-{scheme}.webp")
                continue
            shoot(running, page, DESK, "light", images / f"{name}.webp")
            shoot(running, page, PHONE, "dark", images / f"{name}-phone.webp")
    if not given:
        (images / "graph.svg").write_text(driver.graph_svg(driver.draw(MODEL, BuildOptions())[0]), encoding="utf-8")


if __name__ == "__main__":
    main()
