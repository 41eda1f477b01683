"""The agent written in C alone: its own hash, its command, several of them in one folder, random bytes."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
import json
import os
import random
import signal
import socket
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_lab import Lab, TwinServer, end_of, read_all, running, until
from guided_fuzzing import fuzz

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.devices import keys, remote
from sdk.devices.channel import Channel, Hello, Kind, RefusedError, greet
from sdk.devices.machine import foreign_machine, machine_name
from sdk.devices.remote import ask_facts
from sdk.devices.transports.tcp import parse_address
from sdk.driver.agent_programs import AGENT_MACHINES, agent_program
from sdk.driver.host_c import load_c
from sdk.errors import BusyError, DeviceFault, NoDeviceError, UsageError
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite"
FUZZ = ("fuzz_channel.c", "random_bytes.c")
PARTS = ("channel", "conn", "facts", "keys", "sha256", "sha256_fast", "store")
TWIN = pytest.mark.parametrize("twin", ["c"], indirect=True)


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])
def test_hashes_are_those_of_the_standard(tmp_path: Path, plain: bool) -> None:
    whole = "".join(f'#include "{data_dir("c_runtime") / "agent" / name}"\n' for name in ("sha256.c", "sha256_fast.c"))
    (tmp_path / "hashes.c").write_text(("#define AG_PLAIN_SHA256\n" if plain else "") + whole)
    lib, rng = load_c(tmp_path / "hashes.c"), random.Random(1)
    lib.ag_crc32.restype = ctypes.c_uint32
    for size in [*range(130), 1000, 100_001]:
        data, key = rng.randbytes(size), rng.randbytes(rng.choice([0, 1, 32, 64, 65, 200]))
        cut, out = rng.randrange(size + 1), ctypes.create_string_buffer(32)
        for name, args, wanted in [
            ("sha256", (), hashlib.sha256(data).digest()),
            ("hmac", (key, ctypes.c_size_t(len(key))), hmac.digest(key, data, "sha256")),
        ]:
            state = ctypes.create_string_buffer(512)
            getattr(lib, f"ag_{name}_init")(state, *args)
            for piece in (data[:cut], data[cut:]):
                getattr(lib, f"ag_{name}_update")(state, piece, ctypes.c_size_t(len(piece)))
            getattr(lib, f"ag_{name}_final")(state, out)
            assert out.raw == wanted, (name, size)
        first = lib.ag_crc32(0, data[:cut], ctypes.c_size_t(cut))
        assert lib.ag_crc32(first, data[cut:], ctypes.c_size_t(size - cut)) == zlib.crc32(data)


def fuzz_sources() -> list[Path]:
    runtime = data_dir("c_runtime")
    return [*[runtime / "fuzz" / name for name in FUZZ], *[runtime / "agent" / f"{name}.c" for name in PARTS]]


def test_random_records_harm_nothing(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    need_tool("clang")
    target, tools = target_for(load_board("host")), get_toolchain("clang")
    sanitize = ("address", "undefined")
    flags = ("-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Wshadow", "-Werror")
    how = {"include_dirs": (data_dir("c_runtime") / "agent",), "flags": flags, "sanitize": sanitize, "opt": "1"}
    objects = tools.compile_all([CompileJob(SourceText.read(path), target, **how) for path in fuzz_sources()])
    program = tools.link(LinkJob("executable", tuple(objects), target, sanitize=sanitize), tmp_path / "fuzz")
    done = subprocess.run([program, "3000", "7"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_a_guided_fuzzer_finds_nothing_in_the_channel(tmp_path: Path, need_tool: Callable[[str], str]) -> None:
    sources = [path for path in fuzz_sources() if path.name != "random_bytes.c"]
    fuzz(need_tool("clang"), "channel", sources, data_dir("c_runtime") / "agent", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("board", ["armv7-linux", "riscv64-linux"])
def test_boards_of_its_machines(board: str, need_tool: Callable[[str], str]) -> None:
    emulator = load_board(board).emulator
    assert emulator is not None
    need_tool(emulator.program)
    assert run_command(["verify", str(DIGITS), "--board", board, "--against", "interp", "--cases", "3"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("machine", AGENT_MACHINES)
def test_it_is_built_for_every_machine(machine: str, need_tool: Callable[[str], str], tmp_path: Path) -> None:
    emulator = need_tool({"armv7l": "qemu-arm"}.get(machine, f"qemu-{machine}"))
    where = ["--folder", str(tmp_path / "x"), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([emulator, agent_program(machine), *where], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().split()[2].rstrip(";")
    facts = ask_facts(parse_address(address), 30)
    assert facts.machine == machine_name(machine)
    assert facts.memory_bytes
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    process.stdout.close()


def test_the_command_builds_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "agent"
    assert run_command(["agent", "--build", "aarch64", "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": 1, "file": str(out), "bytes": out.stat().st_size
    }
    assert out.stat().st_mode & 0o111
    assert foreign_machine(out.read_bytes()[:20], "aarch64") is None
    for line, words in [
        (["aarch64"], "--build says no file"),
        (["aarch64", "-o", str(tmp_path / "no" / "x")], "cannot write"),
        (["mips", "-o", str(out)], "there is no agent for machines of the kind"),
    ]:
        assert run_command(["agent", "--build", *line]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert "hint: " in said


def test_machines_without_an_agent() -> None:
    with pytest.raises(UsageError, match="no agent for machines of the kind 'mips'"):
        agent_program("mips")


def run(program: Path, folder: Path, *options: str) -> tuple[int, str]:
    argv = [str(program), *options]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


def test_the_command_of_the_twin_refuses(twin_agent: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "words").write_text("no code")
    (tmp_path / "words").chmod(0o600)
    (tmp_path / "read").write_text(keys.new_code())
    (tmp_path / "read").chmod(0o644)
    (tmp_path / "file").write_text("")
    for line, words in [
        ("", "no command of the agent"),
        ("--folder s --quota much", "no command of the agent"),
        ("--folder s --disk 99999999999999T", "no command of the agent"),
        ("--folder s --what", "no command of the agent"),
        ("--folder open", "is not safe"),
        ("--folder link", "cannot make|is not safe"),
        ("--folder file/inside", "cannot make"),
        ("--folder s --listen 0.0.0.0:0", "needs a key"),
        ("--folder s --listen [::]:0", "needs a key"),
        ("--folder s --listen 192.0.2.1:0", "needs a key"),
        ("--folder s --listen :0", "no address"),
        ("--folder s --listen 127.0.0.1:99999", "no address"),
        ("--folder s --key missing", "no key for the agent"),
        ("--folder s --key words", "no code of an agent"),
        ("--folder s --key read", "is not safe"),
        ("--folder s --key link", "no key for the agent|not safe"),
        ("--folder s --via no-such-program", "no such program"),
    ]:
        status, said = run(twin_agent, tmp_path, *line.split())
        assert status == 2, line
        assert any(word in said for word in words.split("|")), (line, said)
        assert "hint: " in said


def test_pairing_with_the_twin(twin_agent: Path, tmp_path: Path) -> None:
    """It makes a key of its own once, which is one that the tool takes."""
    codes = []
    for _ in range(2):
        server = TwinServer(twin_agent, tmp_path, None, ("--pair",))
        assert server.process.stdout is not None
        codes.append(server.process.stdout.readline().split()[1])
        keys.add_code(keys.known_keys_file(), codes[-1])
        lab = Lab(server, tmp_path)
        lab.serves()
        server.close()
    assert codes[0] == codes[1]
    server = TwinServer(twin_agent, tmp_path, None, ("--key", "store/agent.key"))  # then it is not shown
    server.process.terminate()
    assert server.process.stdout is not None
    assert server.process.stdout.read() == ""
    server.close()
    assert (tmp_path / "store" / "agent.key").stat().st_mode & 0o777 == 0o600


def test_facts_of_both_are_alike(lab: Lab) -> None:
    facts = ask_facts(parse_address(lab.uri), 10)
    assert facts.machine == machine_name(os.uname().machine)
    assert facts.system.startswith("Linux ")
    assert {core.number for core in facts.cores} == os.sched_getaffinity(0)
    assert facts.memory_bytes is not None
    assert facts.free_bytes is not None
    assert 0 < facts.free_bytes <= facts.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert facts.load is not None


@pytest.mark.parametrize("lab", ["open"], indirect=True)
@TWIN
def test_a_quota_holds(lab: Lab, twin_agent: Path) -> None:
    small = lab.folder / "small"
    small.mkdir()
    server = TwinServer(twin_agent, small, None, ("--quota", "1000"))
    other = Lab(server, small)
    with pytest.raises(NoDeviceError, match="has no room"):
        other.open(other.script("#" * 2000))
    for number in range(6):  # the oldest make room
        other.open(other.script(f"exec cat # {'x' * 300} {number}")).close()
    assert 1 <= len(os.listdir(small / "store" / "programs")) <= 3
    kept = other.open(other.script(f"exec cat # {'x' * 600}"))  # what runs stays
    with pytest.raises(NoDeviceError, match="has no room"):
        other.open(other.script(f"exec cat # {'y' * 600}"))
    kept.close()
    (small / "store" / "programs" / "somebody's").write_text("")
    with pytest.raises(Exception, match="refuses") as caught:
        other.open(other.script("exec cat # more"))
    assert "not the agent's" in (caught.value.why or "")  # type: ignore[attr-defined]
    server.close()


@pytest.mark.parametrize("twin", ["c", pytest.param("python", marks=pytest.mark.slow)], indirect=True)
def test_a_program_of_very_many_processes_is_ended(lab: Lab) -> None:
    (lab.folder / "many.c").write_text(
        "#include <unistd.h>\nint main(void) { for (int i = 0; i < 600; ++i) if (fork() == 0) for (;;) pause();\n"
        "for (;;) pause(); }\n"
    )
    subprocess.run(["gcc", "-static", lab.folder / "many.c", "-o", lab.folder / "many"], check=True)
    program = lab.open(lab.folder / "many")
    error = end_of(program)
    assert isinstance(error, DeviceFault)
    assert "started too many processes" in error.message
    lab.serves()
    assert not running(str(lab.folder / "store" / "programs"))


def talk(program: Path, folder: Path) -> tuple[Channel, subprocess.Popen[bytes]]:
    """A channel to an agent over its standard input and output."""
    near, far = socket.socketpair()
    argv = [program, "--folder", "store", "--stdio"]
    process = subprocess.Popen(argv, cwd=folder, stdin=far, stdout=far, stderr=subprocess.DEVNULL)
    far.close()
    return Channel(near), process


def test_agents_of_one_folder_keep_others_out(twin_agent: Path, tmp_path: Path) -> None:
    """Each `ssh` starts an agent of its own: one tool at a time all the same, and none deletes what is another's."""
    program = b"#!/bin/sh\nexec cat\n"
    digest = hashlib.sha256(program).digest()
    one, first = talk(twin_agent, tmp_path)
    greet(one, Hello(b"1" * 16, "Ada"), [], may_be_open=True, timeout_s=10)
    one.send(Kind.PUT, struct.pack("<32sQ", digest, len(program)))
    assert one.expect(Kind.HAVE, 10) == bytes(8)
    same, second = talk(twin_agent, tmp_path)  # the same tool, which sends the same program
    greet(same, Hello(b"1" * 16, "Ada"), [], may_be_open=True, timeout_s=10)
    same.send(Kind.PUT, struct.pack("<32sQ", digest, len(program)))
    with pytest.raises(RefusedError, match="somebody else is sending"):
        same.expect(Kind.HAVE, 10)
    one.send(Kind.CHUNK, program)
    one.expect(Kind.STORED, 10)
    for channel in (one, same):
        channel.send(Kind.START, struct.pack("<32sQQ", digest, 0, 0))
        channel.expect(Kind.STARTED, 10)
    other, third = talk(twin_agent, tmp_path)
    greet(other, Hello(b"2" * 16, "Bob"), [], may_be_open=True, timeout_s=10)
    other.send(Kind.START, struct.pack("<32sQQ", digest, 0, 0))
    with pytest.raises(RefusedError, match="Ada uses it"):
        other.expect(Kind.STARTED, 10)
    assert len(os.listdir(tmp_path / "store" / "runs")) == 2
    for channel, process in ((one, first), (same, second)):
        channel.send(Kind.DATA, b"ping")
        assert channel.expect(Kind.DATA, 10) == b"ping"
        channel.close()
        assert process.wait(20) == 0
    other.send(Kind.START, struct.pack("<32sQQ", digest, 0, 0))
    other.expect(Kind.STARTED, 10)
    third.kill()
    third.wait()
    other.close()
    until(lambda: not os.listdir(tmp_path / "store" / "runs"))


@TWIN
def test_a_twin_that_is_killed_takes_its_programs_along(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(lab.server, TwinServer)
    program = lab.open(lab.script("echo up; while :; do :; done"))
    assert read_all(program, 3) == b"up\n"
    lab.server.process.kill()
    until(lambda: not lab.server.runs and not running(str(lab.folder / "store" / "programs")))
    monkeypatch.setattr(remote, "_LOST_S", 0.1)
    program.close()


@TWIN
def test_a_connection_that_comes_back_finds_its_program(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    program = lab.open(lab.script("exec cat"))
    program.write(b"ping", 5)
    assert read_all(program, 4) == b"ping"
    assert program._channel is not None
    program._channel.sock.shutdown(socket.SHUT_RDWR)
    until(lambda: program.read(0.5) == b"\0\1\0")
    program.write(b"pong", 5)
    assert read_all(program, 4) == b"pong"
    monkeypatch.setattr(remote, "_CLIENT", os.urandom(16))
    with pytest.raises(BusyError):
        lab.open(lab.script("exec cat"))
    program.close()
    lab.serves()
