"""The site: it builds without a warning, has a page for everything, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from sdk.boards import board_names
from sdk.cli import VERBS
from sdk.compiler.ops.registry import OPS

ROOT = Path(__file__).resolve().parent.parent
RESOURCE = re.compile(r"<(?:script|img|link)[^>]*?(?:src|href)=\"(https?:[^\"]*)\"")


def test_the_site_is_whole(tmp_path: Path) -> None:
    no_torch = "import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; "
    run = no_torch + "runpy.run_path(sys.argv[0], run_name='__main__')"  # as `make docs` has it: without torch
    command = [sys.executable, "-c", run, str(ROOT / "docs" / "site.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html")}
    documents = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {"index", "README", "DESIGN", "SPEC", "api", "changes", *documents} <= set(pages)
    listings = {"boards": board_names(), "ops": sorted(OPS), "commands": [f"sdk {v}" for v in VERBS]}
    for page, names in listings.items():
        assert [name for name in names if name not in pages[page]] == []
    assert "Compiles a model for a board" in pages["api"]
    for told in ("The results are exact", "make demo", "memory.webp"):  # a pitch, a quick start, a picture
        assert told in pages["index"]
    listed = set(re.findall(r"href=\"([\w-]+)\.html\"", pages["index"]))
    assert documents | {"README", "DESIGN", "SPEC"} <= listed  # every document is in a chapter
    assert [url for text in pages.values() for url in RESOURCE.findall(text) if "github" not in url] == []
