"""The shape of the source tree: imports go one way, no cycles, small files, no board's name in code."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "sdk"
MAX_LINES = 500

# A package or module imports only from lower layers, or from its own.
LAYERS = {
    "sdk.errors": 0,
    "sdk.files": 0,
    "sdk.budget": 0,
    "sdk.resources": 0,
    "sdk.source": 0,
    "sdk.steps": 0,
    "sdk.text": 0,
    "sdk.version": 0,
    "sdk.boards": 1,
    "sdk.cores": 1,
    "sdk.compiler.sym": 1,
    "sdk.compiler.ir": 2,
    "sdk.compiler.ops": 3,
    "sdk.compiler.interp": 4,
    "sdk.compiler.memory": 4,
    "sdk.compiler.passes": 5,
    "sdk.graph": 5,
    "sdk.compiler.schedules": 5,
    "sdk.codegen_c": 6,
    "sdk.devices": 6,
    "sdk.frontends": 6,
    "sdk.toolchains": 6,
    "sdk.driver": 7,
    "sdk.notebook": 0,
    "sdk.profile": 7,
    "sdk.report": 7,
    "sdk.cli": 8,
    "sdk.onnx_backend": 8,
    "sdk.__main__": 9,
    "sdk": 9,
    "sdk.compiler": 9,
}
# Sides of one layer that must not know each other.
BLIND = {6}
# Where an import may stand inside a function: these are read at every start of the command.
LAZY = ("sdk.cli", "sdk")


def python_files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "_data" not in path.parts)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in python_files()}


def group_of(module: str) -> str:
    if module in ("sdk", "sdk.compiler"):
        return module
    groups = [name for name in LAYERS if module == name or module.startswith(f"{name}.")]
    named = [name for name in groups if name not in ("sdk", "sdk.compiler")]
    assert named, f"{module} has no layer: say in LAYERS where it belongs"
    return max(named, key=len)


def imports_of(path: Path) -> Iterator[tuple[ast.AST, str]]:
    """Yield each import with the module of ours that it names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                target = full if full in MODULES else node.module
                if target in MODULES:
                    yield node, target
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES:
                    yield node, alias.name
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "importlib.import_module"):
            yield from ((node, target) for target in _loaded(node.args[0], module_name(path)))


def _loaded(argument: ast.expr, module: str) -> list[str]:
    """The modules of ours that ``import_module`` may load for an argument: the one that it spells; where a name is
    filled in behind a package, every one that lies directly in that."""
    pieces = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    spelled = ""
    for piece in pieces:
        if isinstance(piece, ast.Constant):
            spelled += str(piece.value)
        elif isinstance(piece, ast.FormattedValue) and ast.unparse(piece.value) == "__name__":
            spelled += module
        else:
            package = spelled.removesuffix(".")
            return [name for name in MODULES if name.rpartition(".")[0] == package]
    return [spelled] if spelled in MODULES else []


GRAPH = {module: {target for _, target in imports_of(path)} for module, path in MODULES.items()}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    group = group_of(module)
    for target in GRAPH[module]:
        below = group_of(target)
        if below == group:
            continue
        assert LAYERS[below] <= LAYERS[group], f"{module} imports {target} of a higher layer"
        if LAYERS[below] == LAYERS[group]:
            assert LAYERS[group] not in BLIND, f"{module} imports {target}: the two must not know each other"


def test_no_cycle() -> None:
    # Raises CycleError, whose text names the modules of the cycle.
    graphlib.TopologicalSorter({module: targets - {module} for module, targets in GRAPH.items()}).prepare()


@pytest.mark.parametrize("module", MODULES)
def test_imports_stand_at_the_top(module: str) -> None:
    if group_of(module) in LAZY:
        return
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = [child for child in ast.walk(node) if isinstance(child, ast.Import | ast.ImportFrom)]
            assert not inner, f"{module}:{inner[0].lineno}: an import inside {node.name}"


def test_files_are_small() -> None:
    files = [*python_files(), *(ROOT / "c_runtime").rglob("*.[ch]")]
    long = {
        str(path.relative_to(ROOT)): n for path in files if (n := path.read_text().count("\n")) > MAX_LINES
    }
    assert not long


def test_no_code_knows_a_board() -> None:
    names = {path.stem for path in (ROOT / "boards").rglob("*.toml")} - {"host"}
    assert len(names) >= 8
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    found = {
        f"{path.relative_to(ROOT)}:{number}": match[0]
        for path in python_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line))
    }
    assert not found


def test_every_module_says_what_it_owns() -> None:
    for module, path in MODULES.items():
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, f"{module} has no docstring"
        assert docstring.split("\n\n")[0].rstrip().endswith((".", "…")), f"{module}: not a sentence"
