"""``sdk build --also``: code for newer cores beside that for old ones, chosen by what the system tells of the core."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from sdk.boards import Board, load_board
from sdk.driver import BuildOptions, build, run
from sdk.driver.program import save_program
from sdk.errors import BuildError, UsageError
from sdk.graph import ModuleBuilder, f32, i8, i32
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "digits" / "digits_int8.tflite"
ALSO = ("dotprod", "dotprod+i8mm")
OLD, NEW = "cortex-a53", "max"
TABLE = np.arange(48 * 64).reshape(48, 64).astype(np.int8)
# feeds the model bytes 0, 1, 2, ... and prints what it gives; asked for its core it answers with DOTPROD's bit or none
MAIN = """
#include "digits.h"
#include <stdio.h>
unsigned long getauxval(unsigned long kind) { return kind == 16u ? (unsigned long)TOLD << 20 : 0u; }
static _Alignas(DIGITS_ARENA_ALIGN) unsigned char arena[DIGITS_ARENA_BYTES];
static digits_t self;
int main(void)
{
    int8_t in[DIGITS_IN_IMAGE_BYTES], out[DIGITS_OUT_DIGIT_BYTES];
    digits_in given = {in};
    digits_out made = {out};
    unsigned k;
    for (k = 0; k < sizeof in; ++k) in[k] = (int8_t)k;
    if (digits_init(&self, arena, sizeof arena, NULL, 0) != 0 || digits_run(&self, &given, &made) != 0) return 1;
    for (k = 0; k < sizeof out; ++k) printf("%d ", out[k]);
    return 0;
}
"""


def on(cpu: str) -> Board:
    """Old cores' Linux, on a core that the emulator has."""
    board = load_board("aarch64-linux-neon")
    assert board.emulator is not None
    return replace(board, emulator=structs.replace(board.emulator, argv=("qemu-aarch64", "-cpu", cpu, "{elf}")))


def net(folder: Path, name: str, integers: bool) -> Path:
    """A net with a dim and a state: products of n rows with TABLE, and their running sum."""
    g = ModuleBuilder(name)
    n = g.dim("n", 1, 40)
    kind = i32 if integers else f32
    total = g.state("total", kind, (1, 48))
    with g.entry("main") as e:
        if integers:
            bias = g.const("bias", np.zeros(48, np.int32))
            y = e.dense(e.input("x", i8, (n, 64)), g.const("table", TABLE), bias, x_offset=0, w_offset=0)
        else:
            y = e.input("x", f32, (n, 64)) @ g.const("table", TABLE.T.astype(np.float32))
        summed = e.read(total) + e.reshape(e.reduce_sum(y, axes=(0,)), shape=(1, 48))
        e.write(total, summed)
        e.output("y", y)
        e.output("sum", summed)
    path = folder / f"{name}.ir"
    save_program(g.module(), path)
    return path


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("variants") / "digits"
    build(MODEL, on(OLD), BuildOptions(name="digits"), emit="lib", out=out, also=ALSO)
    return out


@pytest.mark.some(1)
@pytest.mark.parametrize("cpu", [OLD, "cortex-a76", NEW])
def test_every_core_gives_the_same(digits: Path, cpu: str, need_tool: Callable[[str], str]) -> None:
    need_tool("qemu-aarch64")
    rng = np.random.default_rng(1)
    image = rng.integers(-128, 128, (1, 8, 8, 1), np.int8)
    (mine,) = run(digits, on(cpu), None, BuildOptions(), {}, {"image": image}).outputs.values()
    (plain,) = run(MODEL, load_board("host"), None, BuildOptions(), {}, {"image": image}).outputs.values()
    np.testing.assert_array_equal(mine, plain)


def test_the_system_decides(digits: Path, tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    """A core that is told of a feature that it lacks meets an instruction that it does not know."""
    qemu, board, toolchain = need_tool("qemu-aarch64"), on(OLD), get_toolchain("zig")
    library = digits / "libdigits.a"
    header = SourceText("digits.h", (digits / "digits.h").read_text())
    said = {}
    for told in (0, 1):
        job = CompileJob(SourceText("main.c", MAIN), target_for(board), headers=(header,), defines=(f"TOLD={told}",))
        unit = toolchain.compile(replace(job, flags=("-std=c11",)))
        program = tmp_path / f"told{told}"
        toolchain.link(LinkJob("executable", (unit,), target_for(board), flags=(str(library),)), program)
        said[told] = {
            cpu: subprocess.run([qemu, "-cpu", cpu, program], capture_output=True, text=True, check=False)
            for cpu in (OLD, NEW)
        }
    assert said[0][OLD].stdout == said[0][NEW].stdout == said[1][NEW].stdout != ""
    assert said[1][OLD].returncode == -signal.SIGILL


def test_dims_and_states(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    need_tool("qemu-aarch64")
    out, x = tmp_path / "moving", np.arange(7 * 64).reshape(7, 64).astype(np.int8)
    build(net(tmp_path, "moving", True), on(OLD), BuildOptions(threads=2), emit="c", out=out, also=ALSO[:1])
    assert (out / "moving_dispatch.c").is_file()
    wanted = x.astype(np.int32) @ TABLE.T.astype(np.int32)
    for cpu in (OLD, NEW):
        found = run(out, on(cpu), None, BuildOptions(), {}, {"x": x}).outputs
        np.testing.assert_array_equal(found["y"], wanted)
        np.testing.assert_array_equal(found["sum"], wanted.sum(0, keepdims=True))


def test_memory_is_enough_for_each(digits: Path) -> None:
    numbers = []
    for name in ("digits", "digits_dotprod", "digits_dotprod_i8mm"):
        sizes = rf"^#define {name.upper()}_(ARENA_BYTES|STACK_BYTES) (\d+)u"
        numbers.append(dict(re.findall(sizes, (digits / f"{name}.h").read_text(), re.MULTILINE)))
    for key in ("ARENA_BYTES", "STACK_BYTES"):
        whole, *others = (int(one[key]) for one in numbers)
        assert whole >= max(others)


def test_both_compilers_take_the_sources(digits: Path, tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    """With the flags of old cores, and no warning."""
    gcc = need_tool("aarch64-linux-gnu-gcc")
    for source in sorted(digits.glob("*.c")):
        flags = ["-march=armv8-a", "-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c"]
        subprocess.run([gcc, *flags, source, "-o", tmp_path / f"{source.stem}.o"], check=True, capture_output=True)


def test_what_cannot_be_chosen(tmp_path: Path) -> None:
    def also(board: str, *names: str, **options: str) -> None:
        choices = BuildOptions(weights=options.get("weights", "flash"))
        build(MODEL, load_board(board), choices, emit="c", out=tmp_path / "out", also=names)

    with pytest.raises(UsageError, match="--also has no part in a build for microbit"):
        also("microbit", "dotprod")
    with pytest.raises(UsageError, match="has no part in a build for ios-arm64"):
        also("ios-arm64", "dotprod")
    with pytest.raises(UsageError, match="names no capability"):
        also("android-arm64", "sve3")
    with pytest.raises(UsageError, match="has neon anyway"):
        also("android-arm64", "neon")
    with pytest.raises(UsageError, match="takes weights that are part of the program"):
        also("android-arm64", "dotprod", weights="file")
    with pytest.raises(BuildError, match="cannot be asked when the program runs"):
        also("android-arm64", "bf16")
    assert not (tmp_path / "out").exists()


def test_a_variant_with_the_same_code_is_left_out(tmp_path: Path) -> None:
    """Products of floats take nothing of what newer cores add."""
    model, board = net(tmp_path, "floats", False), load_board("android-arm64")
    report = build(model, board, BuildOptions(), emit="c", out=tmp_path / "out", also=ALSO)
    assert {Path(name).name for name in report.files if "dotprod" in name or "dispatch" in name} == set()
