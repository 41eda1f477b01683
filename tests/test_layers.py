"""The shape of the source tree: imports go one way, no cycles, small files, no board's name in code."""

from __future__ import annotations

import ast
import graphlib
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "sdk"
MAX_LINES = 500

# A package or module imports only from lower layers, or from its own.
LAYERS = {
    "sdk.amounts": 0,
    "sdk.errors": 0,
    "sdk.files": 0,
    "sdk.installs": 0,
    "sdk.measures": 0,
    "sdk.budget": 0,
    "sdk.resources": 0,
    "sdk.source": 0,
    "sdk.steps": 0,
    "sdk.text": 0,
    "sdk.version": 0,
    "sdk.boards": 1,
    "sdk.cores": 1,
    "sdk.templates": 1,
    "sdk.compiler.sym": 1,
    "sdk.compiler.ir": 2,
    "sdk.compiler.analysis": 3,
    "sdk.compiler.ops": 4,
    "sdk.compiler.interp": 5,
    "sdk.compiler.memory": 5,
    "sdk.compiler.verify": 6,
    "sdk.compiler.passes": 7,
    "sdk.graph": 7,
    "sdk.compiler.schedules": 7,
    "sdk.compiler.machines": 7,
    "sdk.codegen_c": 8,
    "sdk.devices": 8,
    "sdk.frontends": 8,
    "sdk.toolchains": 8,
    "sdk.agent": 9,
    "sdk.differences": 9,
    "sdk.driver": 9,
    "sdk.farm": 9,
    "sdk.flash": 9,
    "sdk.projects": 9,
    "sdk.notebook": 0,
    "sdk.profile": 9,
    "sdk.report": 9,
    "sdk.cli": 10,
    "sdk.llm": 10,
    "sdk.onnx_backend": 10,
    "sdk.quantizer": 10,
    "sdk.__main__": 11,
    "sdk": 11,
    "sdk.compiler": 11,
}
# Sides of one layer that must not know each other.
BLIND = {8}
# Where an import may stand inside a function: these are read at every start of the command, as is what frontends and
# backends are registered by.
LAZY = ("sdk.cli", "sdk")


def python_files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "_data" not in path.parts)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in python_files()}
FRONTENDS = {name for name, path in MODULES.items() if path.match("sdk/frontends/*/__init__.py")}
PRINTERS = {name for name, path in MODULES.items() if path.match("sdk/codegen_c/*/__init__.py")}
BACKENDS = {name for name in PRINTERS if "\nBACKEND = " in MODULES[name].read_text(encoding="utf-8")}
# Backends whose kernels are part of what others print, and those others.
KERNELS_OF = {"opencl": ("gpu",), "spirv": ("gpu", "wgsl"), "wgsl": ("gpu",)}


def group_of(module: str) -> str:
    if module in ("sdk", "sdk.compiler"):
        return module
    groups = [name for name in LAYERS if module == name or module.startswith(f"{name}.")]
    named = [name for name in groups if name not in ("sdk", "sdk.compiler")]
    assert named, f"{module} has no layer: say in LAYERS where it belongs"
    return max(named, key=len)


def imports_in(text: str, module: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield each import, a statement or a call of ``import_module``, with each module of ours that it names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                target = full if full in MODULES else node.module
                if target in MODULES:
                    yield node, target
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES:
                    yield node, alias.name
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            yield from ((node, target) for target in loaded_by(node, module))


def loaded_by(call: ast.Call, module: str) -> list[str]:
    """The modules of ours that a call of ``import_module`` may load: the one whose name it spells; all below a package
    where it spells no more than that and fills in the rest, as registries do that look into their folder."""
    begin, whole = spelled(call.args[0], module)
    where = f"{module}:{call.lineno}"
    assert begin, f"{where}: nobody can tell what {ast.unparse(call)} imports; spell the module or its package"
    if begin.split(".")[0] != "sdk":
        return []
    found = [begin] * (begin in MODULES) if whole else all_below(begin)
    assert found, f"{where}: there is no module {begin}"
    return found


def all_below(begin: str) -> list[str]:
    """The modules whose names begin so."""
    return [name for name in MODULES if name.startswith(begin)]


def naming(package: str) -> set[str]:
    """The modules outside of a package that import something of it."""
    inside = set(all_below(f"{package}.")) | {package}
    return {module for module, targets in graph().items() if module not in inside and targets & inside}


def spelled(name: ast.expr, module: str) -> tuple[str, bool]:
    """The text that a name of a module begins with, and whether that is all of it."""
    begin = ""
    for piece in name.values if isinstance(name, ast.JoinedStr) else [name]:
        if isinstance(piece, ast.Constant):
            begin += str(piece.value)
        elif isinstance(piece, ast.FormattedValue) and ast.unparse(piece.value) == "__name__":
            begin += module
        else:
            return begin, False
    return begin, True


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports."""
    return {
        module: {target for _, target in imports_in(path.read_text(encoding="utf-8"), module)}
        for module, path in MODULES.items()
    }


def test_imports_go_one_way() -> None:
    assert all(map(group_of, MODULES))
    for module, target in ((module, target) for module, targets in graph().items() for target in sorted(targets)):
        group = group_of(module)
        below = group_of(target)
        if below == group:
            continue
        assert LAYERS[below] <= LAYERS[group], f"{module} imports {target} of a higher layer"
        if LAYERS[below] == LAYERS[group]:
            assert LAYERS[group] not in BLIND, f"{module} imports {target}: the two must not know each other"


@pytest.mark.parametrize("package", sorted(FRONTENDS))
def test_nothing_names_a_frontend(package: str) -> None:
    """But those who look for frontends in their folder, ONNX's own interface to backends, and what writes ONNX."""
    able = {"sdk", "sdk.frontends", "sdk.onnx_backend", *(["sdk.quantizer"] if package == "sdk.frontends.onnx" else [])}
    assert {module if group_of(module) == "sdk" else group_of(module) for module in naming(package)} <= able


@pytest.mark.parametrize("package", sorted(BACKENDS))
def test_nothing_names_a_backend(package: str) -> None:
    """But those who look for backends in their folder, and backends with the kernels of another in what they print."""
    able = tuple(f"sdk.codegen_c.{name}." for name in KERNELS_OF.get(package.split(".")[-1], ()))
    assert {user for user in naming(package) if not user.startswith(able)} <= {"sdk", "sdk.codegen_c"}


def test_functions_know_nothing_of_the_program_around_them() -> None:
    assert {"sdk.codegen_c.functions", "sdk.codegen_c.program"} == PRINTERS - BACKENDS
    assert not naming("sdk.codegen_c.program") & set(all_below("sdk.codegen_c.functions"))


def test_no_cycle() -> None:
    # Raises CycleError, whose text names the modules of the cycle.
    graphlib.TopologicalSorter({module: targets - {module} for module, targets in graph().items()}).prepare()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import_module('sdk.errors')", {"sdk.errors"}),
        ("importlib.import_module(f'sdk.devices.transports.{name}').x", set(all_below("sdk.devices.transports."))),
        ("import_module(f'{__name__}.{name}')", set(all_below("sdk.cores."))),
        ("import_module('onnx')", set()),
    ],
)
def test_imports_by_name_are_seen(line: str, found: set[str]) -> None:
    assert {target for _, target in imports_in(line, "sdk.cores")} == found


@pytest.mark.parametrize("line", ["import_module(name)", "import_module('sdk.' + name)", "import_module('sdk.none')"])
def test_imports_by_a_name_that_nothing_tells(line: str) -> None:
    with pytest.raises(AssertionError, match=r"sdk\.cores"):
        list(imports_in(line, "sdk.cores"))


@pytest.mark.parametrize("package", ["sdk", "sdk.driver"])
def test_lazy_attributes_are_declared(package: str) -> None:
    """What a package loads when it is asked for stands under TYPE_CHECKING too: there the tests above see it."""
    tree = ast.parse(MODULES[package].read_text(encoding="utf-8"))
    [checked] = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    declared = {(alias.name, node.module) for node in imports for alias in node.names if node.module in MODULES}
    modules = importlib.import_module(package)._MODULES
    assert declared == {(name, f"{package}.{module}") for name, module in modules.items()}


@pytest.mark.parametrize("module", MODULES)
def test_imports_stand_at_the_top(module: str) -> None:
    if group_of(module) in LAZY or module in FRONTENDS | BACKENDS:
        return
    text = MODULES[module].read_text(encoding="utf-8")
    if not re.search(r"^(?!import |from ).*\bimport\b", text, re.MULTILINE):
        return  # every line with the word is a statement at the top, which takes no parser
    for node in ast.walk(ast.parse(text)):
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
    files = [path for path in (ROOT / "boards").rglob("*.toml") if path.parent.name != "runners"]
    names = {path.stem for path in files} - {"host"}
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
