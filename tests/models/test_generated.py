"""Generated C of the real models: freestanding, clean, sanitized, reproducible, and able to live side by side."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from real import NAMES, soaked

from sdk.boards import load_board
from sdk.driver import BuildOptions, build
from sdk.driver.artifact import build_sources
from sdk.resources import data_dir

WARNINGS = [
    "-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wundef", "-Wvla", "-Wdouble-promotion",
    "-Wstrict-prototypes", "-Wmissing-prototypes", "-pedantic", "-Werror",
]  # fmt: skip
X86 = ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx2", "-mfma"]
ALLOWED = {"stdint.h", "stddef.h", "stdbool.h"}
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"


def write(folder: Path, model: Path, board: str, name: str | None = None, isa: str | None = None) -> list[Path]:
    """The C files of a build; with no ``name`` it is the one that other tests make too."""
    sources = build_sources(model, load_board(board), BuildOptions(name=name, isa=isa)).sources.model
    for file, text in sources.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / f for f in sources if f.endswith(".c")]


def run(*argv: object) -> None:
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, argv))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"


def host_flags() -> list[str]:
    have = load_board("host").capabilities
    return [f for f in X86 if f.removeprefix("-m") in have]


@pytest.mark.some(4)
@pytest.mark.models
@pytest.mark.parametrize("name", [soaked(name, quick=name != "vww") for name in NAMES])
def test_includes_and_warnings(models: Path, tmp_path: Path, name: str) -> None:
    files = write(tmp_path, models / NAMES[name], "host")
    for file in (*files, *tmp_path.glob("*.h")):
        includes = set(re.findall(r"#include <([^>]+)>", file.read_text(encoding="utf-8")))
        assert includes <= ALLOWED, f"{file.name}: {includes}"
    for file in files:
        run("gcc", *WARNINGS, *host_flags(), "-O1", "-ffreestanding", "-c", file, "-o", tmp_path / "x.o")
        run("clang", *WARNINGS, *host_flags(), "-ffreestanding", "-fsyntax-only", file)  # before it optimises
    arm = tmp_path / "arm"
    arm.mkdir()
    for file in write(arm, models / NAMES[name], "nucleo_l4r5zi"):
        cpu = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
        run("arm-none-eabi-gcc", *WARNINGS, *cpu, "-O1", "-c", file, "-o", arm / "x.o")


HARNESS = """
#include <stdio.h>
#include <string.h>
#include "{name}.h"
static uint8_t arena[{NAME}_ARENA_BYTES + 1] __attribute__((aligned(64)));
static uint8_t state[{NAME}_STATE_BYTES + 1] __attribute__((aligned(64)));
int main(void) {{
    {name}_t self;
    if ({name}_init(&self, arena, {NAME}_ARENA_BYTES, state, {NAME}_STATE_BYTES) != 0) return 2;
    uint32_t seed = 1;
    for (int k = 0; k < 3; ++k) {{
        int8_t *in = (int8_t *){name}_in_{input}(&self);
        for (size_t i = 0; i < {bytes}u; ++i) {{ seed = seed * 1664525u + 1013904223u; in[i] = (int8_t)(seed >> 24); }}
        if ({name}_run(&self) != 0) return 3;
    }}
    return 0;
}}
"""


@pytest.mark.some(4)
@pytest.mark.models
@pytest.mark.parametrize("name", [soaked(name) for name in NAMES])
def test_sanitizers_are_silent(models: Path, tmp_path: Path, name: str) -> None:
    # the emulated board's build, whose inputs live in the arena, compiled for this machine without its intrinsics
    from sdk.driver.pipeline import import_model
    from sdk.driver.reference import entry_graph

    graph = entry_graph(import_model(models / NAMES[name], BuildOptions(), name))
    files = write(tmp_path, models / NAMES[name], "qemu-cortex-m3", name, isa="scalar")
    (value,) = graph.params
    text = HARNESS.format(name=name, NAME=name.upper(), input=value.name, bytes=value.type.max_bytes)
    (tmp_path / "main.c").write_text(text, encoding="utf-8")
    run("clang", "-std=gnu99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
        *files, tmp_path / "main.c", "-o", tmp_path / "sanitized")  # fmt: skip
    run(tmp_path / "sanitized")


@pytest.mark.some(4)
@pytest.mark.models
@pytest.mark.parametrize("name", [soaked(name, quick=name not in ("vww", "person")) for name in NAMES])
def test_sanitizers_are_silent_on_the_code_of_this_machine(models: Path, tmp_path: Path, name: str) -> None:
    from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

    board = load_board("host")
    built = build_sources(models / NAMES[name], board, BuildOptions())
    toolchain, target = get_toolchain("clang"), target_for(board)
    sources = {**built.sources.model, **built.sources.agent}
    headers = tuple(SourceText(n, t) for n, t in sources.items() if n.endswith(".h"))
    include = (data_dir("c_runtime") / "include",)
    main = SourceText("main.c", MAIN_OF_GLUE)
    jobs = [
        CompileJob(s, target, headers=headers, include_dirs=include, sanitize=("address", "undefined"))
        for s in (*(SourceText(n, t) for n, t in sources.items() if n.endswith(".c")), main)
    ]
    job = LinkJob("executable", tuple(toolchain.compile_all(jobs)), target, sanitize=("address", "undefined"))
    toolchain.link(job, tmp_path / "sanitized")
    run(tmp_path / "sanitized")


MAIN_OF_GLUE = """
#include "sdk_rt.h"
int main(void) {
    const sdk_rt_model_t *m = sdk_rt_models[0];
    if (m->init() != 0) return 2;
    for (int k = 0; k < 3; ++k) {
        int8_t *in = (int8_t *)m->data(0);
        for (uint32_t i = 0; i < m->tensors[0].bytes; ++i) in[i] = (int8_t)(i * 37u + (uint32_t)k);
        if (m->run((const int32_t *)0) != 0) return 3;
    }
    return 0;
}
"""


def test_a_build_is_the_same_bytes_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for place in ("one", "two/deeper"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / DIGITS.name).write_bytes(DIGITS.read_bytes())
        monkeypatch.setenv("CROSSLEVEL_CACHE", str(folder / "cache"))
        monkeypatch.chdir(folder)
        files = {}
        for board, emit in (("host", "lib"), ("nucleo_l4r5zi", "firmware")):
            report = build(Path(DIGITS.name), load_board(board), BuildOptions(), emit=emit, out=Path("out") / board)
            files |= {f: Path(f).read_bytes() for f in report.files}
        seen.append(files)
    assert seen[0].keys() == seen[1].keys()
    assert [f for f in seen[0] if seen[0][f] != seen[1][f]] == []


TWO = """
#include "aa.h"
#include "bb.h"
static uint8_t mem[4][{bytes}] __attribute__((aligned(64)));
static void fill(int8_t *in, size_t n, int seed) {{
    for (size_t i = 0; i < n; ++i) in[i] = (int8_t)(seed + (int)i);
}}
int main(void) {{
    aa_t one, two;
    bb_t other;
    if (aa_init(&one, mem[0], AA_ARENA_BYTES, NULL, 0) || aa_init(&two, mem[1], AA_ARENA_BYTES, NULL, 0)) return 2;
    if (bb_init(&other, mem[2], BB_ARENA_BYTES, NULL, 0)) return 3;
    fill((int8_t *)aa_in_{input}(&one), {size}, 3);
    fill((int8_t *)aa_in_{input}(&two), {size}, 90);
    fill((int8_t *)bb_in_{input}(&other), {size}, 3);
    if (aa_run(&one) || bb_run(&other) || aa_run(&two)) return 4;
    const int8_t *a = (const int8_t *)aa_out_{output}(&one);
    const int8_t *b = (const int8_t *)bb_out_{output}(&other);
    for (int i = 0; i < 10; ++i) if (a[i] != b[i]) return 5;
    return 0;
}}
"""


@pytest.mark.parametrize("board", ["host", "nucleo_l4r5zi"])
def test_two_models_and_two_instances_of_one_run_together(tmp_path: Path, board: str) -> None:
    from sdk.driver.pipeline import import_model
    from sdk.driver.reference import entry_graph

    graph = entry_graph(import_model(DIGITS, BuildOptions(), "aa"))
    (value,), (result,) = graph.params, graph.results
    place = "qemu-cortex-m3" if board == "host" else board
    isa = "scalar" if board == "host" else None
    files = [f for name in ("aa", "bb") for f in write(tmp_path, DIGITS, place, name, isa)]
    text = TWO.format(bytes=8192, input=value.name, output=result.name, size=value.type.max_bytes)
    (tmp_path / "main.c").write_text(text, encoding="utf-8")
    if board == "host":
        run("gcc", "-std=gnu99", "-O1", *files, tmp_path / "main.c", "-o", tmp_path / "two")
        run(tmp_path / "two")
        return
    (tmp_path / "two.ld").write_text(SCRIPT, encoding="utf-8")
    cpu = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]
    (tmp_path / "vectors.c").write_text(VECTORS, encoding="utf-8")
    sources = [tmp_path / "vectors.c", *files, tmp_path / "main.c"]
    link = ["-nostartfiles", "-T", tmp_path / "two.ld", "-o", tmp_path / "two.elf"]
    run("arm-none-eabi-gcc", "-std=gnu99", "-O1", *cpu, *sources, *link)
    machine = ["-M", "mps2-an386", "-nographic", "-semihosting", "-kernel", tmp_path / "two.elf"]
    run("timeout", "60", "qemu-system-arm", *machine)


SCRIPT = """
SECTIONS {
    .text 0 : { KEEP(*(.vectors)) *(.text*) *(.rodata*) }
    .bss 0x20000000 : { *(.data*) *(.bss*) *(COMMON) }
    __stack = 0x20040000;
}
"""
VECTORS = """
extern int main(void);
extern char __stack;
static void leave(int code) {
    int block[2] = {0x20026, code};
    register int op __asm__("r0") = 0x20;
    register void *arg __asm__("r1") = block;
    __asm__ volatile("bkpt 0xAB" : "+r"(op) : "r"(arg) : "memory");
}
void _start(void);
__attribute__((section(".vectors"), used))
static void *const vectors[2] = {&__stack, (void *)_start};
void _start(void) {
    *(volatile unsigned *)0xE000ED88u |= 0xFu << 20;
    leave(main());
    for (;;) {
    }
}
"""


def test_digits_outputs_differ_between_inputs() -> None:
    """Guards the two-instance test: outputs must depend on inputs."""
    from sdk import compile as compile_model

    with compile_model(DIGITS) as model:
        info = model._open()[0].models()[0].inputs[0]
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-128, 128, info.shape).astype(np.int8) for _ in range(2))
        one, two = (next(iter(model(**{info.name: v}).values())) for v in (a, b))
        assert (one != two).any()
