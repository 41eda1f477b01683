"""Builds agents with the hand-written models: for this machine with sanitizers, for every emulated board."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sdk.boards import Board, load_board
from sdk.devices import EmulatorSpec, Session, open_device
from sdk.driver.session import emulator_spec
from sdk.driver.targets import target_of
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, Target, get_toolchain, target_for
from sdk.toolchains.linker import Region, render_linker_script

HERE = Path(__file__).resolve().parent
EMULATED = (
    "qemu-cortex-m3",
    "qemu-cortex-m4",
    "qemu-cortex-m7",
    "qemu-cortex-m33",
    "qemu-cortex-m55",
    "microbit",
    "qemu-riscv32",
)
UNICORN = "unicorn:"  # before the names of boards that run under Unicorn, as they are
UNDER_UNICORN = tuple(UNICORN + name for name in EMULATED if name != "qemu-cortex-m55")
PROGRAMS = ("wasm32",)  # boards whose agents are programs that another one runs
WARNINGS = (
    *("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wundef", "-Wvla", "-Wdouble-promotion"),
    *("-Wstrict-prototypes", "-Wmissing-prototypes", "-pedantic", "-Werror"),
)
SANITIZE = ("address", "undefined")
SMALL_RAM = 32 << 10
TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Agent:
    """Where a built agent is and how to reach it."""

    uri: str
    artifact: Path
    emulator: EmulatorSpec | None

    @property
    def restarts(self) -> bool:
        """Whether it is a board, which starts anew after a fault."""
        return not self.uri.startswith(("local:", "tcp:", "program:"))

    def open(self, timeout_s: float = TIMEOUT_S) -> Session:
        return open_device(self.uri, artifact=self.artifact, emulator=self.emulator, timeout_s=timeout_s)


def runtime() -> Path:
    return data_dir("c_runtime")


def core_sources() -> list[Path]:
    return sorted((runtime() / "src").glob("*.c"))


def jobs(sources: list[Path], target: Target, flags: tuple[str, ...] = ()) -> list[CompileJob]:
    includes = (runtime() / "include",)
    return [
        CompileJob(SourceText.read(path), target, include_dirs=includes, flags=(*WARNINGS, *flags))
        for path in sources
    ]


def build_host(
    sources: list[Path], out: Path, *, defines: tuple[str, ...] = (), compiler: str = "gcc"
) -> Path:
    """Build a program with address and undefined-behaviour sanitizers, each finding fatal."""
    target = target_for(load_board("host"))
    toolchain = get_toolchain(compiler)
    flags = ("-fno-sanitize-recover=all", *[f"-D{define}" for define in defines])
    units = [replace(job, sanitize=SANITIZE) for job in jobs(sources, target, flags)]
    objects = toolchain.compile_all(units)
    return toolchain.link(
        LinkJob("executable", tuple(objects), target, sanitize=SANITIZE, libs=("pthread",)), out
    )


def host_agent(out: Path, *, defines: tuple[str, ...] = ("SDK_RT_FRAME_MAX=65536u",)) -> Path:
    port = runtime() / "port" / "posix"
    sources = [*core_sources(), port / "main.c", port / "pool.c", HERE / "fake_models.c"]
    return build_host(sources, out, defines=defines)


def program(board: Board, out: Path) -> Agent:
    """Build the agent of a board without memory regions of its own, to be run by its emulator."""
    port = runtime() / "port" / board.runtime.port
    target, tools = target_of(board), get_toolchain()
    sources = [*core_sources(), port / "main.c", port / "pool.c", HERE / "fake_models.c"]
    objects = tools.compile_all(jobs(sources, target, ("-DSDK_RT_FRAME_MAX=65536u",)))
    tools.link(LinkJob("executable", tuple(objects), target, libs=("pthread",)), out)
    return Agent("program://", out, emulator_spec(board))


def script_of(board: Board) -> str:
    regions = [Region(region.name, region.kind, region.base, region.size) for region in board.memory]
    return render_linker_script(regions, board.runtime.stack_bytes)


def firmware(
    board: Board, out: Path, *, toolchain: str = "zig", models: Path = HERE / "fake_models.c"
) -> Path:
    """Build the agent's image for a board as its emulated target shows it."""
    uart, timer = board.runtime.uart, board.runtime.timer
    assert uart is not None
    assert timer is not None
    port = runtime() / "port" / board.runtime.port
    drivers = [port / f"uart_{uart.kind}.c", port / f"timer_{timer.kind}.c"]
    parts = [path for path in port.glob("*.c") if not path.name.startswith(("uart_", "timer_"))]
    sources = [*core_sources(), *(runtime() / "port" / "bare").glob("*.c"), *parts, *drivers, models]
    defines = (
        f"SDK_RT_UART_BASE=0x{uart.base:x}u",
        f"SDK_RT_UART_HZ={uart.hz}u",
        f"SDK_RT_TIMER_BASE=0x{timer.base:x}u",
        f"SDK_RT_TIMER_HZ={timer.hz}u",
        f'SDK_RT_DEVICE_NAME="{board.name}"',
        f"SDK_RT_FRAME_MAX={256 if (board.ram_bytes or 0) <= SMALL_RAM else 512}u",
    )
    target = target_of(board)
    tools = get_toolchain(toolchain)
    units = jobs(sources, target, tuple(f"-D{define}" for define in defines))
    objects = tools.compile_all([replace(job, opt="s") for job in units])
    return tools.link(LinkJob("firmware", tuple(objects), target, script=script_of(board)), out)


def emulator_of(board: Board) -> EmulatorSpec:
    found = emulator_spec(board)
    assert found is not None
    return found
