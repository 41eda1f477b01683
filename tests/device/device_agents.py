"""Builds agents with the hand-written models: for this machine with sanitizers, for every emulated board."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from sdk.boards import Board, load_board
from sdk.devices import EmulatorSpec, Session, open_device
from sdk.driver.agents import runtime_parts
from sdk.driver.backends import runtime_of
from sdk.driver.options import BuildOptions
from sdk.driver.session import emulator_spec
from sdk.driver.targets import target_of
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, Target, get_toolchain, target_for

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
        return not self.uri.startswith(("local:", "tcp:", "program:", "ssh:", "adb:"))

    def open(self, timeout_s: float = TIMEOUT_S) -> Session:
        return open_device(self.uri, artifact=self.artifact, emulator=self.emulator, timeout_s=timeout_s)


@dataclass(frozen=True)
class PushedAgent(Agent):
    """An agent's program under the agent of machines, ``sent``, which goes where a server of the test's own is;
    ``environment`` leads there."""

    sent: Path
    environment: dict[str, str]

    def open(self, timeout_s: float = TIMEOUT_S) -> Session:
        with mock.patch.dict(os.environ, self.environment):
            return open_device(
                self.uri, artifact=self.artifact, emulator=None, timeout_s=timeout_s, agent_for=lambda _: self.sent
            )


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


def firmware(
    board: Board, out: Path, *, toolchain: str = "zig", models: Path = HERE / "fake_models.c",
    watchdog: int | None = None, without: str = "",
) -> Path:  # fmt: skip
    """Build the agent's image for a board as its emulated target shows it, ``without`` a statement of the runtime."""
    texts, defines, script = runtime_parts(runtime_of("c99"), board, BuildOptions(watchdog=watchdog))
    assert not without or any(without in text for text in texts.values())
    texts = {name: text.replace(without, "") for name, text in texts.items()} if without else texts
    target, tools = target_of(board), get_toolchain(toolchain)
    sources = [SourceText(name, text) for name, text in texts.items()] + [SourceText.read(models)]
    flags = (*WARNINGS, *(f"-D{define}" for define in defines))
    units = [CompileJob(one, target, include_dirs=(runtime() / "include",), flags=flags, opt="s") for one in sources]
    return tools.link(LinkJob("firmware", tuple(tools.compile_all(units)), target, script=script), out)


def emulator_of(board: Board) -> EmulatorSpec:
    found = emulator_spec(board)
    assert found is not None
    return found
