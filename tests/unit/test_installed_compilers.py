"""Which compiler builds where the user names none: zig where it is installed, else the system's for the board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sdk.boards import load_board
from sdk.errors import MissingToolError
from sdk.installs import install_command, pip_command
from sdk.toolchains import get_toolchain, installed, target_for, toolchain_for

ELSEWHERE = "wasm32", "aarch64-linux"


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that leaves these programs on PATH, each of which reads C as gcc does, and no zig; with ``libc`` they
    have a C library."""

    def leave(*programs: str, libc: bool = True) -> None:
        for name in programs:
            (tmp_path / name).write_text(f"#!/bin/sh\nexit {0 if libc else 1}\n", encoding="ascii")
            (tmp_path / name).chmod(0o755)
        installed.has_c_library.cache_clear()
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(installed, "find_spec", lambda name: None)

    return leave


def chosen(board: str) -> str:
    return toolchain_for(target_for(load_board(board))).name


@pytest.mark.parametrize("board", ["host", "microbit", "esp32c3_devkitm", *ELSEWHERE])
def test_zig_comes_first(board: str) -> None:
    assert chosen(board) == "zig"


@pytest.mark.parametrize(
    ("board", "programs", "compiler"),
    [
        ("host", ("gcc", "clang"), "gcc"),
        ("host", ("clang", "arm-none-eabi-gcc"), "clang"),
        ("microbit", ("gcc", "arm-none-eabi-gcc"), "arm-none-eabi-gcc"),
        ("nrf5340_dk", ("arm-none-eabi-gcc",), "arm-none-eabi-gcc"),
        ("esp32c3_devkitm", ("gcc", "riscv64-unknown-elf-gcc"), "riscv64-unknown-elf-gcc"),
    ],
)
def test_without_zig_the_systems(
    only: Callable[..., None], board: str, programs: tuple[str, ...], compiler: str
) -> None:
    only(*programs)
    assert chosen(board) == compiler


def test_firmware_wants_no_c_library_and_programs_do(only: Callable[..., None]) -> None:
    only("gcc", "arm-none-eabi-gcc", libc=False)
    assert chosen("microbit") == "arm-none-eabi-gcc"
    with pytest.raises(MissingToolError) as caught:
        chosen("host")
    assert caught.value.why == "looked for zig, gcc, clang with a C library"


@pytest.mark.parametrize(
    ("board", "program"), [("host", "gcc"), ("microbit", "arm-none-eabi-gcc"), *((b, None) for b in ELSEWHERE)]
)
def test_where_nothing_serves_the_commands_are_told(only: Callable[..., None], board: str, program: str | None) -> None:
    only("aarch64-linux-gnu-gcc", *(("riscv64-unknown-elf-gcc",) if program else ("gcc", "clang")))
    with pytest.raises(MissingToolError) as caught:
        chosen(board)
    commands = [pip_command("ziglang"), *([install_command(program)] if program else [])]
    assert caught.value.hint == ", or ".join(map(str, commands))
    assert str(caught.value.why).startswith("looked for zig")


def test_what_is_named_is_taken(only: Callable[..., None]) -> None:
    only("gcc")
    target = target_for(load_board("host"))
    assert toolchain_for(target, "zig").name == "zig"
    assert toolchain_for(target, "clang").name == get_toolchain("clang").name == "clang"
