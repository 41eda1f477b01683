"""The C runtime: clean under every compiler, safe under random frames, small, laid out as the board says."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import device_agents as agents
import pytest
from guided_fuzzing import fuzz
from msgspec import structs

from sdk.boards import load_board
from sdk.errors import BuildError
from sdk.resources import data_dir
from sdk.toolchains import LinkJob, get_toolchain, target_for
from sdk.toolchains.linker import Region, region_overflows, render_linker_script
from sdk.toolchains.size import section_sizes

FLASH = Region("flash", "flash", 0x0800_0000, 64 << 10)
RAM = Region("ram", "ram", 0x2000_0000, 16 << 10)
FUZZ = ["fuzz_agent.c", "random_main.c"]


def fuzz_sources() -> list[Path]:
    fuzz = data_dir("c_runtime") / "fuzz"
    return [*agents.core_sources(), *[fuzz / name for name in FUZZ], agents.HERE / "fake_models.c"]


@pytest.mark.parametrize(
    "sizes", [("SDK_RT_BAUDS=1",), ("SDK_RT_FRAME_MAX=256u", "SDK_RT_PROFILE_OPS=60u")], ids=["usual", "small"]
)
def test_random_frames_harm_nothing(sizes: tuple[str, ...], tmp_path: Path, need_tool) -> None:
    need_tool("clang")
    defines = ("FAKE_TAME", *sizes)
    program = agents.build_host(fuzz_sources(), tmp_path / "fuzz", defines=defines, compiler="clang")
    done = subprocess.run([program, "80000", "7"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_guided_fuzzer_finds_nothing(tmp_path: Path, need_tool) -> None:
    sources = [path for path in fuzz_sources() if path.name != "random_main.c"]
    flags = ("-DFAKE_TAME", "-DSDK_RT_BAUDS=1")
    fuzz(need_tool("clang"), "agent", sources, agents.runtime() / "include", tmp_path, *flags)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_host_sources_compile_without_warnings(compiler: str, need_tool) -> None:
    need_tool(compiler)
    port = agents.runtime() / "port"
    sources = [*fuzz_sources(), port / "posix" / "main.c", port / "bare" / "mem.c"]
    for unit in get_toolchain(compiler).compile_all(agents.jobs(sources, target_for(load_board("host")))):
        assert unit.warnings == ""


@pytest.mark.some(4)
@pytest.mark.parametrize("name", [*agents.EMULATED, "nucleo_l4r5zi"])
def test_firmware_builds_with_gcc_too(name: str, tmp_path: Path, need_tool) -> None:
    board = load_board(name).as_emulated()
    need_tool(board.compilers.gcc.command)
    image = agents.firmware(board, tmp_path / "agent.elf", toolchain=board.compilers.gcc.command)
    assert image.stat().st_size > 0


@pytest.mark.parametrize("kind", ["systick", "cmsdk", "dwt"])
def test_every_timer_driver_builds(kind: str, tmp_path: Path) -> None:
    board = load_board("qemu-cortex-m4").as_emulated()
    assert board.runtime.timer is not None
    runtime = structs.replace(board.runtime, timer=structs.replace(board.runtime.timer, kind=kind))
    agents.firmware(replace(board, runtime=runtime), tmp_path / "agent.elf")


@pytest.mark.emulator
def test_systick_counts_the_same_instructions(tmp_path: Path, need_tool) -> None:
    need_tool("qemu-system-arm")
    board = load_board("qemu-cortex-m4").as_emulated()
    assert board.runtime.timer is not None
    runtime = structs.replace(board.runtime, timer=structs.replace(board.runtime.timer, kind="systick"))
    counts = []
    for index, variant in enumerate((board, replace(board, runtime=runtime))):
        image = agents.firmware(variant, tmp_path / f"{index}.elf")
        with agents.Agent("qemu://", image, agents.emulator_of(board)).open() as session:
            counts.append(session.run(1, dims=[15]).samples[0])
    cmsdk, systick = counts
    assert 0 <= systick - cmsdk < 0.0005 * cmsdk  # its interrupt, once per 2^24 ticks


def test_the_agent_is_small(tmp_path: Path) -> None:
    empty = tmp_path / "none.c"
    empty.write_text(
        '#include "sdk_rt.h"\n'
        "const sdk_rt_model_t *const sdk_rt_models[] = {0};\n"
        "const uint16_t sdk_rt_model_count = 0;\n"
        'const char sdk_rt_build_id[] = "00";\n',
        encoding="utf-8",
    )
    board = load_board("qemu-cortex-m4").as_emulated()
    sizes = section_sizes([agents.firmware(board, tmp_path / "agent.elf", models=empty)])
    assert sizes.flash_bytes <= 4800
    assert sizes.ram_bytes - board.runtime.stack_bytes <= 1400


@pytest.mark.parametrize("compiler", ["zig", "arm-none-eabi-gcc"])
@pytest.mark.parametrize("more", [(), ("-DSDK_RT_BAUDS=1",)], ids=["one rate", "rates"])
def test_the_wire_is_small_on_a_cortex_m0(compiler: str, more: tuple[str, ...], tmp_path: Path, need_tool) -> None:
    """Codec, sessions, requests; and the largest record that it keeps."""
    if compiler != "zig":
        need_tool(compiler)
    kept = tmp_path / "kept.c"
    kept.write_text('#include "sdk_rt_agent.h"\nsdk_rt_agent_t agent;\n', encoding="utf-8")
    sources, target = [*agents.core_sources(), kept], target_for(load_board("rpi_pico"))
    units = [replace(job, opt="s") for job in agents.jobs(sources, target, more)]
    sizes = section_sizes([unit.path for unit in get_toolchain(compiler).compile_all(units)])
    assert sizes.text + sizes.rodata <= 4096
    assert sizes.data + sizes.bss <= 1536


def test_the_script_keeps_the_boards_sizes() -> None:
    script = render_linker_script([FLASH, RAM, Region("dtcm", "ram", 0x2100_0000, 1024)], 2048)
    assert re.search(r"flash \(rx\) : ORIGIN = 0x08000000, LENGTH = 65536$", script, re.MULTILINE)
    assert re.search(r"ram \(rwx\) : ORIGIN = 0x20000000, LENGTH = 16384$", script, re.MULTILINE)
    assert ".sdk_region.dtcm" in script
    with pytest.raises(BuildError, match="only the first flash region may have a data_base"):
        render_linker_script([FLASH, RAM, Region("more", "flash", 0x9000_0000, 1024, 0x8000_0000)], 2048)


@pytest.mark.parametrize(
    ("regions", "stack"),
    [([FLASH], 2048), ([RAM], 2048), ([FLASH, RAM], 0), ([FLASH, RAM], 2047), ([FLASH, RAM], 16384)],
)
def test_impossible_layouts_are_refused(regions: list[Region], stack: int) -> None:
    with pytest.raises(BuildError):
        render_linker_script(regions, stack)


@pytest.mark.parametrize("toolchain", ["zig", "arm-none-eabi-gcc"])
@pytest.mark.parametrize(
    ("region", "definition", "excess"),
    [
        ("ram", "volatile char big[20000];", 5664),
        ("flash", "extern const char big[70000]; const char big[70000] = {1};", 4464),
    ],
)
def test_what_does_not_fit_fails_the_link_and_says_by_how_much(
    toolchain: str, region: str, definition: str, excess: int, tmp_path: Path
) -> None:
    tools, target = get_toolchain(toolchain), target_for(load_board("qemu-cortex-m4"))
    source = tmp_path / "big.c"
    source.write_text(
        f"{definition}\nvolatile char out;\nvoid sdk_rt_reset_handler(void);\n"
        "void sdk_rt_reset_handler(void) { for (int i = 0; i < 20000; ++i) out = big[i]; }\n"
        '__attribute__((section(".vectors"), used)) void (*const v[16])(void) = {sdk_rt_reset_handler};\n'
        '__attribute__((section(".stack"), used)) static unsigned floor_[2];\n',
        encoding="utf-8",
    )
    units = tuple(tools.compile_all([replace(job, flags=()) for job in agents.jobs([source], target)]))
    job = LinkJob("firmware", units, target, script=render_linker_script([FLASH, RAM], 2048))
    with pytest.raises(BuildError) as caught:
        tools.link(job, tmp_path / "big.elf")
    lacking = region_overflows(caught.value.why or "")
    assert set(lacking) == {region}
    assert excess <= lacking[region] <= excess + 1024
