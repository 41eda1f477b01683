"""Toolchains: same content gives same bytes anywhere, failures name file and line, measurements are true."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from sdk.boards import load_board
from sdk.driver.options import BuildOptions
from sdk.driver.targets import target_of
from sdk.errors import BuildError, MissingToolError, UsageError
from sdk.toolchains import BuildCache, CompileJob, LinkJob, SourceText, Target, get_toolchain, target_for
from sdk.toolchains.cache import digest
from sdk.toolchains.elf import ElfFile
from sdk.toolchains.size import Sections, section_sizes
from sdk.toolchains.stack import worst_case_stack

HEADER = SourceText("part.h", "#include <stdint.h>\nint32_t twice(int32_t value);\n#define OFFSET 5\n")
UNIT = SourceText(
    "unit.c",
    """#include "part.h"
static const int32_t table[32] = {7, 8, 9};
int32_t counter;
int32_t level = 3;
static __attribute__((noinline)) int32_t leaf(int32_t value) {
    volatile int32_t scratch[40];
    scratch[value & 31] = table[value & 31];
    return scratch[3] + scratch[value & 31];
}
int32_t twice(int32_t value) { return leaf(value) + OFFSET + leaf(value + level); }
""",
)
BOTH = [
    ("host", "zig"),
    ("host", "gcc"),
    ("host", "clang"),
    ("l4r5zi", "zig"),
    ("l4r5zi", "arm-none-eabi-gcc"),
]


def target(name: str) -> Target:
    return target_for(load_board(name))


def job(board: str = "host", source: SourceText = UNIT, **more: object) -> CompileJob:
    plain = CompileJob(source, target(board), headers=(HEADER,), pic=board == "host")
    return dataclasses.replace(plain, **more)


@pytest.mark.parametrize(("board", "name"), BOTH)
def test_same_content_same_bytes(board: str, name: str, tmp_path: Path) -> None:
    built = []
    for folder in (tmp_path / "one", tmp_path / "a much longer name for two"):
        toolchain = get_toolchain(name, BuildCache(folder))
        unit = toolchain.compile(job(board))
        kind = "shared" if board == "host" else "static"
        linked = toolchain.link(LinkJob(kind, (unit,), target(board)), folder / "out")
        assert unit.warnings == ""
        assert str(tmp_path).encode() not in unit.path.read_bytes() + linked.read_bytes()
        built.append((unit.key, unit.path.read_bytes(), linked.read_bytes()))
    assert built[0] == built[1]


@pytest.mark.parametrize(("board", "name"), BOTH)
def test_sizes_and_stack(board: str, name: str) -> None:
    unit = get_toolchain(name).compile(job(board))
    sizes = section_sizes([unit.path])
    assert sizes.rodata == 128
    assert (sizes.data, sizes.bss) == (4, 4)
    assert 20 < sizes.text < 400
    assert sizes.to_json() == {"text": sizes.text, "rodata": 128, "data": 4, "bss": 4}
    assert sizes + Sections(1, 0, 0, 0) == dataclasses.replace(sizes, text=sizes.text + 1)
    report = worst_case_stack([unit], "twice")
    assert report.chain == ("twice", "leaf")
    assert 160 <= report.bytes < 400  # leaf's forty words, and what both save
    assert report.unmeasured == ()


def test_shared_library_runs(tmp_path: Path) -> None:
    text = (
        "void *memcpy(void *, const void *, __SIZE_TYPE__);\nint first(char *a, const char *b, unsigned n);\n"
    )
    text += "int first(char *a, const char *b, unsigned n) { memcpy(a, b, n); return a[0]; }\n"
    for name in ("zig", "gcc", "clang"):
        toolchain = get_toolchain(name)
        unit = toolchain.compile(job(source=SourceText("first.c", text)))
        path = toolchain.link(LinkJob("shared", (unit,), target("host")), tmp_path / f"{name}.so")
        assert ctypes.CDLL(str(path)).first(ctypes.create_string_buffer(4), b"abc", 3) == ord("a")


def test_executable_runs(tmp_path: Path) -> None:
    main = SourceText(
        "main.c", '#include <stdio.h>\n#include "part.h"\nint main(void) { return twice(0) == 0; }\n'
    )
    toolchain = get_toolchain("gcc")
    units = toolchain.compile_all([job(), job(source=main)])
    assert [unit.name for unit in units] == ["unit.c", "main.c"]
    path = toolchain.link(LinkJob("executable", tuple(units), target("host")), tmp_path / "program")
    assert subprocess.run([path], check=False).returncode == 0


@pytest.mark.parametrize("name", ["zig", "arm-none-eabi-gcc"])
def test_firmware_goes_where_the_script_says(name: str, tmp_path: Path) -> None:
    script = """ENTRY(twice)
MEMORY { flash (rx) : ORIGIN = 0x08000000, LENGTH = 4K
         ram (rwx) : ORIGIN = 0x20000000, LENGTH = 1K }
SECTIONS { .text : { KEEP(*(.text.twice)) *(.text*) *(.rodata*) } > flash
           .data : { *(.data*) } > ram
           .bss : { *(.bss*) } > ram
           /DISCARD/ : { *(.ARM.exidx*) } }
"""
    toolchain = get_toolchain(name)
    unit = toolchain.compile(job("l4r5zi"))
    path = toolchain.link(
        LinkJob("firmware", (unit,), target("l4r5zi"), script=script), tmp_path / "image.elf"
    )
    assert path.stat().st_size < 20_000
    places = {symbol.name: symbol.value for symbol in ElfFile(path).symbols}
    assert places["twice"] & ~1 == 0x0800_0000
    assert places["level"] >= 0x2000_0000
    tiny = script.replace("4K", "64")
    with pytest.raises(BuildError, match="linker"):
        toolchain.link(LinkJob("firmware", (unit,), target("l4r5zi"), script=tiny), tmp_path / "image.elf")
    with pytest.raises(UsageError, match="linker script"):
        toolchain.link(LinkJob("firmware", (unit,), target("l4r5zi")), tmp_path / "image.elf")


def test_cache_is_used_and_keyed_by_content(tmp_path: Path) -> None:
    toolchain = get_toolchain("zig", BuildCache(tmp_path))
    first = toolchain.compile(job())
    stamp = first.path.stat().st_mtime_ns
    assert toolchain.compile(job()).path.stat().st_mtime_ns == stamp
    other_header = dataclasses.replace(HEADER, text=HEADER.text.replace("5", "6"))
    keys = {
        first.key,
        toolchain.compile(job(headers=(other_header,))).key,
        toolchain.compile(job(defines=("N=1",))).key,
        toolchain.compile(job(opt="1")).key,
        toolchain.compile(job(flags=("-Wall",))).key,
        toolchain.compile(job("l4r5zi")).key,
    }
    assert len(keys) == 6


def test_headers_come_from_folders_too(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "part.h").write_text(HEADER.text)
    source = dataclasses.replace(UNIT, text=UNIT.text.replace("part.h", "inner/part.h"))
    unit = get_toolchain("zig").compile(job(source=source, headers=(), include_dirs=(tmp_path,)))
    assert unit.path.is_file()


def test_cache_prunes_the_unused_first(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    for index in range(4):
        folder = cache.entry(digest(index), lambda path: (path / "data").write_bytes(bytes(1000)) and None)
        os.utime(folder, (index, index))
    cache.prune(2500)
    assert sorted(int(path.stat().st_mtime) for path in cache.root.glob("??/*")) == [2, 3]


def test_an_entry_larger_than_the_cache_makes_room_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the weights of a language model are; what was used within the hour may be read by others, and stays too."""
    monkeypatch.setattr("sdk.toolchains.cache._LIMIT_BYTES", 1500)
    monkeypatch.setattr("sdk.toolchains.cache._LARGE_BYTES", 1000)
    cache = BuildCache(tmp_path)

    def made(name: str, size: int) -> Path:
        return cache.entry(digest(name), lambda path: (path / "data").write_bytes(bytes(size)) and None)

    first = made("first", 2000)  # the day's first entry prunes
    assert (first / "data").is_file()
    old, recent = made("old", 500), made("recent", 500)
    os.utime(old, (0, 0))
    assert old.is_dir()
    assert (made("large", 2000) / "data").is_file()
    assert [folder.is_dir() for folder in (first, old, recent)] == [True, False, True]


def test_a_failed_build_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path)
    with pytest.raises(BuildError):
        get_toolchain("zig", cache).compile(
            job(source=SourceText("bad.c", "int;;\nint f(void) { return }\n"))
        )
    assert [path for path in cache.root.rglob("*") if path.is_file() and path.name != ".pruned"] == []


def test_zig_is_spared_where_its_clang_can_be_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same object either way: what zig adds is its own cache, and a link of one object. A folder with a space in
    its name is told so that it cannot be read."""
    one, made = job("l4r5zi", defines=("N=1",)), []
    for name in ("plain", "with a space"):
        folder = tmp_path / name
        monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(folder))
        made.append(get_toolchain("zig", BuildCache(tmp_path / f"builds of {name}")).compile(one))
        told = [path.read_text() for path in folder.glob(".clang-*.txt")]
        assert len(told) == (name == "plain")
        assert all(" clang unit.c " in text and "-DN=1" not in text for text in told)
    assert any((tmp_path / "with a space").rglob("*.o"))
    direct, whole = made
    assert section_sizes([direct.path]) == section_sizes([whole.path])
    code = [{s.name: s.data for s in ElfFile(u.path).sections if s.name.startswith(".text")} for u in (direct, whole)]
    assert code[0] == code[1]


@pytest.mark.parametrize(("board", "name"), BOTH)
def test_errors_name_file_and_line(board: str, name: str) -> None:
    bad = SourceText("deep/bad.c", "int f(void);\nint f(void) { return missing; }\n")
    with pytest.raises(BuildError) as caught:
        get_toolchain(name).compile(job(board, bad))
    assert (caught.value.where or "").startswith("deep/bad.c:2:")
    assert "missing" in (caught.value.why or "")


def test_recursion_has_no_bound() -> None:
    source = SourceText(
        "unit.c",
        "int odd(int n);\nint even(int n) { volatile int k = n; return k == 0 ? 1 : odd(k - 1) + 1; }\n"
        "int odd(int n) { volatile int k = n; return k == 0 ? 0 : even(k - 1) + 2; }\n",
    )
    for name in ("zig", "gcc"):
        with pytest.raises(BuildError, match="recursion"):
            worst_case_stack([get_toolchain(name).compile(job(source=source))], "even")


def test_stack_across_objects_and_tables() -> None:
    caller = SourceText(
        "a.c", "int deep(int); int other(int); extern int k[]; int top(int n) { return deep(n) + other(n) + k[n]; }\n"
    )
    callee = SourceText(
        "b.c",
        "int k[9] = {1}; int deep(int n) { volatile int a[100]; a[n] = n; return a[n]; }\n"
        "int listed(int n) { volatile int a[1000]; a[n] = n; return a[n]; }\n",
    )
    toolchain = get_toolchain("zig")
    units = toolchain.compile_all([job("l4r5zi", caller), job("l4r5zi", callee)])
    report = worst_case_stack(units, "top")
    assert report.chain == ("top", "deep")
    assert report.unmeasured == ("other",)
    wider = worst_case_stack(units, "top", {"deep": ["listed"]})
    assert wider.bytes > report.bytes + 4000 - 16
    with pytest.raises(BuildError, match="no function 'nothing'"):
        worst_case_stack(units, "nothing")


def test_gcc_reports_a_frame_without_bound() -> None:
    source = SourceText("u.c", "int use(int *); int f(int n) { int a[n]; return use(a); }\n")
    with pytest.raises(BuildError, match="no fixed size"):
        worst_case_stack([get_toolchain("gcc").compile(job(source=source))], "f")


def test_sanitizers(tmp_path: Path) -> None:
    broken = SourceText("main.c", "int main(int n, char **v) { int a[2] = {0}; (void)v; return a[n + 1]; }\n")
    toolchain = get_toolchain("gcc")
    checks = ("address", "undefined")
    unit = toolchain.compile(job(source=broken, sanitize=checks))
    program = toolchain.link(LinkJob("executable", (unit,), target("host"), sanitize=checks), tmp_path / "p")
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert "out of bounds" in done.stderr or "overflow" in done.stderr
    with pytest.raises(UsageError, match="address sanitizer"):
        get_toolchain("zig").compile(job(source=broken, sanitize=checks))


def test_names_and_missing_tools() -> None:
    with pytest.raises(UsageError) as caught:
        get_toolchain("gc")
    assert "gcc" in (caught.value.hint or "")
    with pytest.raises(MissingToolError) as missing:
        get_toolchain("riscv128-none-gcc").compile(job())
    assert missing.value.exit_code == 10
    assert "--toolchain zig" in (missing.value.hint or "")
    with pytest.raises(UsageError, match="does not build for"):
        get_toolchain("gcc").compile(job("l4r5zi"))


def test_not_elf(tmp_path: Path) -> None:
    path = tmp_path / "x.o"
    for content in (b"", b"\x7fELF\x01\x01", b"!<arch>\n" + bytes(200), b"\x7fELF\x02\x01" + b"\xff" * 200):
        path.write_bytes(content)
        with pytest.raises(BuildError):
            section_sizes([path])


@pytest.mark.parametrize("board", ["l4r5zi", "qemu-cortex-m7", "qemu-cortex-m33", "qemu-cortex-m55"])
def test_zig_knows_the_fpu_and_dsp_that_boards_declare(board: str) -> None:
    lines = []
    declared = load_board(board).capabilities
    for capability, macro in [
        ("dsp", "__ARM_FEATURE_DSP"),
        ("mve", "__ARM_FEATURE_MVE"),
        ("fpu-sp", "__ARM_FP"),
    ]:
        lines.append(
            f"#if {'!' if capability in declared else ''}defined({macro})\n#error {capability}\n#endif"
        )
    for name in ("zig", "arm-none-eabi-gcc"):
        get_toolchain(name).compile(
            job(board, SourceText("u.c", "\n".join([*lines, "extern int unused;\n"])))
        )


def test_host_features_reach_the_compiler() -> None:
    host = load_board("host")
    core = msgspec.structs.replace(host.core, capabilities=host.capabilities & {"avx2", "fma", "dotprod"})
    board = dataclasses.replace(host, cores=(core,))
    macro = "__AVX2__" if board.core.arch == "x86_64" else "__ARM_FEATURE_DOTPROD"
    text = f"#ifndef {macro}\n#error no\n#endif\n#ifdef __AVX512F__\n#error 2\n#endif\nextern int unused;\n"
    if not board.capabilities:
        text = text.replace("#ifndef", "#ifdef")
    for name in ("zig", "gcc", "clang"):
        get_toolchain(name).compile(CompileJob(SourceText("u.c", text), target_for(board)))


@pytest.mark.parametrize(("board", "gathers"), [("qemu-cortex-m55", True), ("qemu-cortex-m33", False), ("host", False)])
def test_zig_makes_no_gathers_of_m_profile_vectors(board: str, gathers: bool) -> None:
    flags = get_toolchain("zig").compile_flags(CompileJob(UNIT, target_of(load_board(board), BuildOptions())))
    assert ("-enable-arm-maskedgatscat=false" in flags) == gathers
