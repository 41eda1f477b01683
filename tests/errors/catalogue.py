"""Every error that the package can raise, read from its source: docs/error-messages.md is made of it.

Run as a program it writes that page again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "error-messages.md"
HOLE = "…"  # stands in a message for what the run fills in
# Where errors come from, by the beginning of the module's path: the heading, and what an error from there means. The
# longest beginning counts.
FAMILIES: dict[str, tuple[str, str]] = {
    "sdk/cli": ("The command line", "Its options, names and files; `sdk COMMAND --help` has examples."),
    "sdk/driver": ("Builds and runs", "A choice of a build or a run, for the model and the board that it is for."),
    "sdk/frontends": ("Files that are no models", "The hint says how to make a model of the file."),
    "sdk/frontends/tflite": (".tflite files", "The file is damaged, or has what cannot be imported."),
    "sdk/frontends/onnx": (".onnx files", "The file is damaged, or has what cannot be imported."),
    "sdk/onnx_backend": ("The ONNX backend interface", "What ONNX's own test suite calls."),
    "sdk/frontends/program": (".ir files", "The text is no program; the message points at the place."),
    "sdk/source": (".ir files", "The text is no program; the message points at the place."),
    "sdk/compiler/ir/text": (".ir files", "The text is no program; the message points at the place."),
    "sdk/graph": ("Models written in Python", "A call of `sdk.graph` with values that do not go together."),
    "sdk/budget": ("Limits", "The model asks for more than any model of use; `sdk/budget.py` has the numbers and why."),
    "sdk/boards": ("Board files", "A TOML file of a board is wrong; `sdk boards show NAME` prints what was read."),
    "sdk/agent": ("Agents", "`sdk agent` cannot serve so; docs/devices.md says what it needs."),
    "sdk/farm": ("Racks", "`sdk farm` and `sdk bench --farm`; docs/devices.md says who may reach a farm."),
    "sdk/devices": ("Devices", "The device is not there, does not answer, or answers wrongly."),
    "sdk/projects": ("Projects", "`sdk new` cannot make it of this model, board or file: docs/projects.md."),
    "sdk/flash": ("Flashing", "No tool could write the board, or it did not; `sdk help flash` says what each needs."),
    "sdk/toolchains": ("Compilers and the cache", "A program is missing or refuses, or a folder takes nothing."),
    "sdk/llm": ("Language models", "The checkpoint, or a choice of its build; docs/llm.md says what is read."),
    "sdk/quantizer": ("Quantising", "The samples, an option, or the float model; docs/quantize.md has examples."),
    "sdk/resources": ("The installation", "Files of the package are missing."),
    "sdk/cores": ("Counting", "The machine code of a board could not be counted."),
    "sdk": ("Checks inside", ""),
}  # fmt: skip
# What stands behind these kinds inside the compiler is a check of its own, listed by their number only.
CHECKS = {"BuildError", "ScheduleError", "SdkError"}
INSIDE = ("sdk/compiler", "sdk/codegen_c")


@dataclass(frozen=True)
class Raised:
    """A place that makes an error."""

    path: str
    line: int
    kind: str
    message: str
    hint: str

    @property
    def family(self) -> str:
        """The beginning of the path that says where it belongs."""
        return max((start for start in FAMILIES if self.path.startswith(start)), key=len)

    @property
    def internal(self) -> bool:
        """Whether it is a check inside the compiler: of a program that the importers, passes or schedules made."""
        if self.kind not in CHECKS:
            return False
        return self.path.startswith(INSIDE) and not self.path.startswith("sdk/compiler/ir/text")

    @property
    def pieces(self) -> list[str]:
        """The words of the message between what the run fills in."""
        return [piece for part in self.message.split(HOLE) if len(piece := part.strip(" ,:;.'\"()[]@%`")) > 3]


@cache
def classes() -> dict[str, int]:
    """The exit code of every error class, by name."""
    bases = {n.name: ast.unparse(n.bases[0]) for _, n in nodes() if isinstance(n, ast.ClassDef) and n.bases}
    codes = {"SdkError": "1", **attribute("exit_code")}
    found = {"SdkError": 1}
    for name in bases:
        chain = [name]
        while chain[-1] in bases:
            chain.append(bases[chain[-1]])
        if "SdkError" in chain:
            found[name] = int(next(codes[kind] for kind in chain if kind in codes))
    return found


def attribute(name: str) -> dict[str, str]:
    """What the classes that set the attribute ``name`` set it to, as text."""
    return {
        node.name: str(ast.literal_eval(item.value))
        for _, node in nodes()
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == name
    }


@cache
def nodes() -> list[tuple[str, ast.ClassDef | ast.Call]]:
    """The classes and the calls by name of every source file."""
    found: list[tuple[str, ast.ClassDef | ast.Call]] = []
    for path in sorted((ROOT / "sdk").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Error" not in text and "Fault" not in text:
            continue
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                found.append((name, node))
    return found


@cache
def raised() -> list[Raised]:
    """Every place that makes an error, in the order of files and lines."""
    found = []
    for path, node in nodes():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in classes():
            continue
        hints = [text_of(keyword.value) for keyword in node.keywords if keyword.arg == "hint"]
        message = text_of(node.args[0]) if node.args else HOLE
        found.append(Raised(path, node.lineno, node.func.id, message, hints[0] if hints else ""))
    return sorted(found, key=lambda error: (error.path, error.line))


def text_of(node: ast.expr) -> str:
    """A text as far as it is known, with holes."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(value) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    if isinstance(node, ast.BoolOp):
        return " or ".join(dict.fromkeys(text_of(value) for value in node.values))
    if isinstance(node, ast.IfExp):
        return " or ".join(filter(None, (text_of(node.body), text_of(node.orelse))))
    return HOLE


def cell(text: str) -> str:
    """A text as a cell of a table: holes run together, on one line."""
    plain = re.sub(rf"{HOLE}+( or {HOLE})*", HOLE, re.sub(r"\s+", " ", text))
    return plain.replace("|", "\\|").replace("<", "\\<").replace("`", "'").strip()


def page(errors: Sequence[Raised]) -> str:
    """The text of docs/error-messages.md."""
    kinds = classes()
    listed = [error for error in errors if not error.internal and error.pieces]
    parts = [
        "# All error messages\n",
        "Made from the source by `python tests/errors/catalogue.py`; a test compares, and wants a test for each. "
        f"`{HOLE}` is what the run fills in. [errors.md](errors.md) explains the exit codes and the common causes. "
        "Where the last column is empty, the command prints the advice of the class:\n",
        "| class | exit | advice |\n|---|---|---|",
        *(f"| `{name}` | {kinds[name]} | {cell(text)} |" for name, text in sorted(attribute("advice").items())),
        "",
    ]
    titles = dict.fromkeys(title for title, _ in FAMILIES.values())
    for title in titles:
        starts = [start for start, (name, _) in FAMILIES.items() if name == title]
        found = [error for error in listed if error.family in starts]
        if found:
            parts.append(f"## {title}\n\n{FAMILIES[starts[0]][1]}\n\n{table(found, kinds)}".replace("\n\n\n", "\n\n"))
    parts.append(
        "## Checks of the compiler\n\n"
        "Many more places check programs between the steps of the compiler. A program written by hand (an `.ir` file, "
        "`sdk.graph`, a schedule) can fail them, and the message names op, buffer or line; after an import such an "
        "error is a fault of the compiler: report it with the model.\n"
    )
    return "\n".join(parts)


def table(errors: Iterable[Raised], kinds: dict[str, int]) -> str:
    """Rows of messages, each once."""
    rows = {f"| {cell(e.message)} | {kinds[e.kind]} `{e.kind}` | {cell(e.hint)} |": None for e in errors}
    return "\n".join(["| message | exit | what to do |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page(raised()), encoding="utf-8")
