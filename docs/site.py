"""Builds the documentation as a site: the tree's documents, and references made from the code itself.

    python docs/site.py [OUT]       # wants pip install -e '.[docs]'; OUT is out/site by default

Warnings are errors: a link that leads nowhere, a heading that is missing. Works without a network.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from sphinx.cmd.build import build_main

from sdk.boards import board_names, load_board
from sdk.cli import cli
from sdk.compiler.ops.registry import OPS, OpDef
from sdk.compiler.passes.pipeline import all_passes
from sdk.cores import timing_for
from sdk.version import VERSION

ROOT: Final = Path(__file__).resolve().parent.parent
TOP: Final = ("README.md", "DESIGN.md", "SPEC.md", "CONTRIBUTING.md")
CHAPTERS: Final = {
    "For users": (
        *("README", "first-hour", "tflite", "onnx", "torch", "operators", "graph", "llm", "python"),
        *("quantize", "memory", "profile", "fit", "speed", "reports", "web", "wasm", "android", "ios", "gpu"),
        *("devices", "flash", "projects"),
    ),
    "Reference": ("commands", "boards", "ops", "cores", "json", "errors", "error-messages", "api", "wire", "math"),
    "For engineers": ("DESIGN", "SPEC", "passes", "adding", "CONTRIBUTING", "changes"),
}
CONF: Final = f"""
project = "crosslevel"
release = version = "{VERSION}"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "crosslevel {VERSION}"
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
html_theme_options = {{"top_of_page_buttons": []}}
"""


def main() -> int:
    """Assembles the sources in a folder of their own and builds; returns the exit code."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out" / "site")
    with tempfile.TemporaryDirectory() as name:
        source = Path(name)
        assemble(source)
        quiet = ["-q"] if not sys.stdout.isatty() else []
        return build_main(["-W", "--keep-going", *quiet, "-b", "html", str(source), str(out)])


def assemble(source: Path) -> None:
    """Puts all pages into one flat folder, with their links bent to it."""
    documents = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").glob("*.md"))]
    pages = {path.name for path in documents}
    for path in documents:
        (source / path.name).write_text(flat(path.read_text(encoding="utf-8"), pages), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", source / "images")
    for image in (ROOT / "docs").glob("*.svg"):
        shutil.copy(image, source)
    made = {
        "commands": commands(),
        "boards": boards(),
        "ops": ops(),
        "cores": cores(),
        "api": API,
        "changes": changes(),
    }
    for name, text in made.items():
        (source / f"{name}.md").write_text(text, encoding="utf-8")
    (source / "index.md").write_text(index(), encoding="utf-8")
    (source / "conf.py").write_text(CONF, encoding="utf-8")


def flat(text: str, pages: set[str]) -> str:
    """The text with links to other documents by their names, and without those to files that are not pages."""

    def link(match: re.Match[str]) -> str:
        title, target, anchor = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", target) or not target:
            return match[0]
        name = target.rsplit("/", 1)[-1]
        if name in pages or target.endswith((".svg", ".png", ".webp")):
            kept = name if name in pages else target.removeprefix("docs/")
            return f"[{title}]({kept}{anchor})"
        return title

    return re.sub(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)", link, text)


def index() -> str:
    """The front page: what it is and how to try it, by the README's words, a picture, and the chapters."""
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | {*TOP}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pitch = readme.split("\n", 1)[1].split("\n## How it works", 1)[0]
    picture = "![Every byte of a model's memory, step by step](images/memory.webp)"
    intro, quick_start = flat(pitch, pages).split("\n## Try it\n", 1)
    lines = [f"# crosslevel {VERSION}", intro, picture, "", "## Try it", quick_start, ""]
    for chapter, names in CHAPTERS.items():
        lines += ["```{toctree}", f":caption: {chapter}", ":maxdepth: 1", "", *names, "```", ""]
    return "\n".join(lines)


def commands() -> str:
    """Every verb with its help."""
    lines = ["# Commands", "", "`sdk --help` and `sdk VERB --help` print this.", ""]
    for name, command in _verbs():
        context = click.Context(command, info_name=name)
        context.formatter_class = _Wide
        lines += [f"## {name}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(lines)


class _Wide(click.HelpFormatter):
    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(width=100)


def _verbs() -> Iterator[tuple[str, click.Command]]:
    for name, command in cli.commands.items():
        yield f"sdk {name}", command
        if isinstance(command, click.Group):
            yield from ((f"sdk {name} {sub}", c) for sub, c in command.commands.items())


def boards() -> str:
    """Every board of the tree."""
    lines = [
        "# Boards",
        "",
        "Made from the files in `boards`; `sdk boards show NAME` prints all of one, `sdk fit MODEL` which of them hold "
        "a model.",
        "",
        "| board | | core | clock | flash | RAM | runs here in |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for name in board_names():
        board = load_board(name)
        clock = "" if board.core.clock_hz is None else f"{board.core.clock_hz / 1e6:g} MHz"
        flash, ram = (("" if size is None else f"{size:,}") for size in (board.flash_bytes, board.ram_bytes))
        program = board.emulator.program if board.emulator else "itself" if board.hosted else ""
        lines.append(f"| `{name}` | {board.title} | {board.core.cpu} | {clock} | {flash} | {ram} | {program} |")
    lines += ["", "## Sources", ""]
    for name in board_names():
        sources = load_board(name).sources
        if sources:
            lines.append(f"- `{name}`: {'; '.join(sources)}")
    return "\n".join(lines) + "\n"


def cores() -> str:
    """The tables of cycles."""
    lines = [
        "# Cores",
        "",
        "Estimated cycles follow these tables of `boards/cpu` ([profiles](profile.md#under-emulation)).",
        "",
        "| core | MACs a cycle | bytes a cycle | a branch taken | from | what it leaves out |",
        "|---|---:|---:|---:|---|---|",
    ]
    for path in sorted((ROOT / "boards" / "cpu").glob("*.toml")):
        timing = timing_for(path.stem)
        if timing is not None:
            numbers = f"{timing.peak_macs:g} | {timing.peak_bytes:g} | {timing.taken:g}"
            lines.append(f"| `{path.stem}` | {numbers} | {timing.source} | {timing.leaves_out} |")
    return "\n".join(lines) + "\n"


def ops() -> str:
    """Every op of the graph level, and every pass."""
    lines = [
        "# Ops and passes",
        "",
        f"The {len(OPS)} ops of graphs, made from their declarations in `sdk/compiler/ops`. Attributes are keywords "
        "of the builder's methods ([models written in Python](graph.md)).",
        "",
        "| op | kind | inputs | attributes | where |",
        "|---|---|---|---|---|",
    ]
    for name, op in sorted(OPS.items()):
        inputs = ", ".join(op.inputs) + (" ..." if op.variadic else "")
        module = inspect.getmodule(op.infer)
        where = module.__name__.removeprefix("sdk.compiler.") if module else ""
        attributes = ", ".join(f"`{a}`" for a in _attributes(op))
        lines.append(f"| `{name}` | {type(op.kind).__name__} | {inputs} | {attributes} | {where} |")
    lines += ["", "## Passes", "", "| pass | options | |", "|---|---|---|"]
    for name, kind in sorted(all_passes().items()):
        options = ", ".join(f"`{option}`" for option in kind.__dataclass_fields__)
        summary = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        lines.append(f"| `{name}` | {options} | {summary} |")
    return "\n".join(lines) + "\n"


def _attributes(op: OpDef) -> list[str]:
    """The keywords that its samples give: what a call may say."""
    return sorted({name for sample in op.samples for name, _ in sample.attrs})


def changes() -> str:
    """The fragments of the changelog."""
    lines = ["# Changes", ""]
    for kind in ("added", "changed", "fixed", "removed"):
        texts = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "changelog.d").glob(f"*.{kind}.md"))]
        if texts:
            lines += [f"## {kind.capitalize()}", "", *(f"- {' '.join(flat(t, set()).split())}" for t in texts), ""]
    return "\n".join(lines)


API: Final = """# Python API

[The guide](python.md) has examples of all of this.

```{eval-rst}
.. autofunction:: sdk.driver.model.compile

.. autoclass:: sdk.driver.model.Model
   :members:
   :special-members: __call__

.. autoclass:: sdk.driver.options.BuildOptions

.. automodule:: sdk.report
   :members:

.. automodule:: sdk.profile
   :members:

.. automodule:: sdk.errors
   :members:
```
"""


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    sys.exit(main())
