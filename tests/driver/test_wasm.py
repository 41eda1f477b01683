"""WebAssembly as a target: modules without imports, memory as planned, vectors where the board has them, real times."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sdk.boards import Board, load_board
from sdk.driver import BuildOptions, build, profile
from sdk.driver.agents import link_agent
from sdk.driver.artifact import build_libraries, build_sources
from sdk.driver.execute import connect, verify
from sdk.driver.measuring import bench
from sdk.driver.sources import compile_sources
from sdk.driver.targets import target_of
from sdk.errors import BuildError, MissingToolError, UsageError
from sdk.toolchains import CompileJob, ObjectFile, SourceText, get_toolchain
from sdk.toolchains.size import section_sizes
from sdk.toolchains.stack import worst_case_stack
from sdk.toolchains.wasm import WasmObject

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
BOARD = load_board("wasm32")
PAGE = 65536
DESCRIBED = """
const m = new WebAssembly.Module(require('node:fs').readFileSync(process.argv[1]));
const names = (list) => list.map((one) => one.name);
console.log(JSON.stringify([names(WebAssembly.Module.imports(m)), names(WebAssembly.Module.exports(m))]));
"""


def described(module: Path) -> tuple[list[str], list[str]]:
    """What a module imports and exports, as an engine reads it."""
    done = subprocess.run(["node", "-e", DESCRIBED, str(module)], capture_output=True, text=True, check=True)
    imports, exports = json.loads(done.stdout)
    return imports, exports


def memory_of(module: Path) -> tuple[int, int]:
    """Bytes of a program's memory at first and at most; its section of memories holds one with both limits."""
    data = module.read_bytes()
    at = 8
    while data[at] != 5:
        size, at = number(data, at + 1)
        at += size
    size, at = number(data, at + 1)
    assert (data[at], data[at + 1]) == (1, 1)
    first, at = number(data, at + 2)
    return first * PAGE, number(data, at)[0] * PAGE


def number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    """The board without vectors of docs/wasm.md."""
    text = (ROOT / "docs" / "wasm.md").read_text(encoding="utf-8")
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found
    (tmp_path / "plain.toml").write_text(found[1], encoding="utf-8")
    monkeypatch.setenv("CROSSLEVEL_BOARDS", str(tmp_path))
    return load_board("plain")


def objects_of(board: Board) -> list[ObjectFile]:
    sources = build_sources(DIGITS, board, BuildOptions(name="digits")).sources.model
    return list(compile_sources(sources, get_toolchain("zig"), target_of(board), pic=True))


def test_a_library_is_a_module_without_imports(tmp_path: Path, need_tool) -> None:
    need_tool("node")
    report = build(DIGITS, BOARD, BuildOptions(name="digits"), emit="lib", out=tmp_path / "out")
    assert {Path(name).name for name in report.files} >= {"digits.wasm", "libdigits.a", "digits.h"}
    imports, exports = described(tmp_path / "out" / "digits.wasm")
    header = (tmp_path / "out" / "digits.h").read_text(encoding="utf-8")
    functions = set(re.findall(r"^(?:int|size_t) (\w+)\(", header, re.MULTILINE))
    assert imports == []
    assert functions == {"digits_init", "digits_reset", "digits_run", "digits_arena_bytes"}
    assert set(exports) == {*functions, "memory", "_initialize", "__heap_base"}


def test_an_agent_has_the_memory_that_it_needs_and_no_files(need_tool) -> None:
    need_tool("node")
    agent = link_agent(build_sources(DIGITS, BOARD, BuildOptions()).sources, BOARD, BuildOptions())
    first, maximum = memory_of(agent)
    assert first == maximum
    assert BOARD.runtime.stack_bytes < maximum <= BOARD.runtime.stack_bytes + 8 * PAGE
    imports, _ = described(agent)
    assert set(imports) == {
        *("clock_time_get", "fd_read", "fd_write", "fd_fdstat_get", "fd_fdstat_set_flags"),
        *("poll_oneoff", "proc_exit", "sched_yield"),
    }


@pytest.mark.parametrize("toolchain", ["gcc", "clang"])
def test_no_other_compiler_builds_for_it(toolchain: str) -> None:
    with pytest.raises(UsageError, match=f"{toolchain} does not build for wasm32-wasi") as caught:
        build_sources(DIGITS, BOARD, BuildOptions(toolchain=toolchain))
    assert caught.value.hint == "use --toolchain zig"


def test_vectors_are_where_the_board_has_them(plain: Board, need_tool) -> None:
    need_tool("node")
    for board, vectors in ((BOARD, True), (plain, False)):
        assert all((b"+\x07simd128" in unit.path.read_bytes()) == vectors for unit in objects_of(board))
        text = build_sources(DIGITS, board, BuildOptions(name="digits")).sources.model["digits.c"]
        assert ("__builtin_wasm_dot" in text) == vectors
        assert verify(DIGITS, board, None, BuildOptions(), "auto", 5).passed
    scalar = build_sources(DIGITS, BOARD, BuildOptions(name="digits", isa="scalar")).sources.model["digits.c"]
    assert "vector_size" not in scalar
    assert verify(DIGITS, BOARD, None, BuildOptions(isa="scalar"), "auto", 5).passed


def test_relaxed_vectors_add_products_in_one_instruction(need_tool) -> None:
    need_tool("node")
    model, options = DIGITS.with_name("digits.onnx"), BuildOptions(dims={"batch": (2, 2)})
    for name, relaxed in (("wasm32_relaxed", True), ("wasm32", False)):
        module = build_libraries(model, load_board(name), options)["digits.wasm"].read_bytes()
        assert (b"\xfd\x85\x02" in module) == relaxed  # f32x4.relaxed_madd
    assert verify(model, load_board("wasm32_relaxed"), None, options, "auto", 5).passed


def test_times_are_measured_and_nothing_is_counted(need_tool) -> None:
    need_tool("node")
    report = bench(DIGITS, BOARD, None, BuildOptions(), {}, 3, 1)
    assert (report.counter, report.emulated) == ("time", False)
    assert report.instructions is None
    found = profile(DIGITS, BOARD, None, BuildOptions(), {}, repeat=3)
    assert (found.unit, found.emulated) == ("median_us", False)
    assert [op.calls for op in found.ops] == [1] * 4
    assert sum(op.median_us or 0 for op in found.ops) > 0


def test_node_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built = build_sources(DIGITS, BOARD, BuildOptions())
    link_agent(built.sources, BOARD, BuildOptions())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="node is not installed") as caught:
        connect(DIGITS, BOARD, None, BuildOptions())
    assert caught.value.why == "the board's emulated target runs in it"
    assert caught.value.hint == "apt-get install nodejs"


CALLS = """
int outside(int *p);
static __attribute__((noinline)) int inner(int *p) { int own[50]; own[0] = p[0]; return outside(own); }
int outer(int *p) { int own[20]; own[1] = p[1]; return outside(own) + inner(p); }
int leaf(int x) { return x + 1; }
int table[4] = {1};
int zeros[8];
const int fixed[2] = {1, 2};
"""
GROWING = "int outside(int *p);\nint grow(int n) { int own[n]; own[0] = n; return outside(own); }\n"


def compiled(text: str) -> ObjectFile:
    return get_toolchain("zig").compile(CompileJob(SourceText("unit.c", text), target_of(BOARD), opt="1"))


def test_stack_and_sections_are_read_from_objects() -> None:
    unit = compiled(CALLS)
    report = worst_case_stack([unit], "outer")
    assert (report.bytes, report.chain, report.unmeasured) == (80 + 208, ("outer", "inner"), ("outside",))
    assert worst_case_stack([unit], "leaf").bytes == 0
    sizes = section_sizes([unit.path])
    assert (sizes.data, sizes.bss, sizes.rodata) == (16, 32, 8)
    assert sizes.text == WasmObject(unit.path).code_bytes > 50


def test_frames_of_no_fixed_size_are_refused() -> None:
    with pytest.raises(BuildError, match="a frame has no fixed size"):
        worst_case_stack([compiled(GROWING)], "grow")


def test_damaged_objects_are_refused(tmp_path: Path) -> None:
    whole = compiled(CALLS).path.read_bytes()
    for size in range(8, len(whole) - 1, 7):
        (tmp_path / "cut.o").write_bytes(whole[:size])
        unit = replace(compiled(CALLS), path=tmp_path / "cut.o")
        with pytest.raises(BuildError, match=r"damaged WebAssembly object|no function 'outer'"):
            worst_case_stack([unit], "outer")
