"""`sdk devices`: every place with every state, the fix of each, and places that hang, lie or fail."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sdk.agent.announce import announced
from sdk.boards import board_names, load_board
from sdk.cli import run_command
from sdk.devices import keys
from sdk.devices.sources import Found, Trouble, base, look, phones, serial_ports, ssh_hosts
from sdk.devices.sources import announced as network
from sdk.driver import finding as driver
from sdk.errors import LinkError, MissingToolError

verb = importlib.import_module("sdk.cli.devices")  # the package has a command of that name


def port(device: Path, vid: int | None = None, pid: int = 0, product: str = "", **more: object) -> SimpleNamespace:
    facts = {"description": "n/a", "serial_number": None, "location": None, **more}
    return SimpleNamespace(device=str(device), vid=vid, pid=pid, product=product, **facts)


def test_serial_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / f"tty{number}" for number in range(5)]
    for file in files:
        file.touch()
    nucleo, unknown, loader, held, locked = files
    ports = [
        port(nucleo, 0x0483, 0x374B, "STM32 STLink", serial_number="066A", location="1-2:1.2"),
        port(unknown, description="16550A"),
        port(loader, 0x2341, 0x005A, "Arduino Nano 33 BLE"),
        port(held, 0x1366, 0x1051, "J-Link"),
        port(locked, 0x10C4, 0xEA60, "CP2102N"),
    ]
    monkeypatch.setattr(serial_ports.list_ports, "comports", lambda: ports)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked and access(path, mode))
    usb = tmp_path / "usb"
    for name, vid, pid, product in (("1-2", "0483", "374b", "STM32 STLink"), ("1-3", "2e8a", "0003", "RP2 Boot"),
                                    ("1-4", "2e8a", "zz", ""), ("1-4:1.0", "", "", "")):  # fmt: skip
        (usb / name).mkdir(parents=True)
        for file, text in (("idVendor", vid), ("idProduct", pid), ("product", product), ("serial", "E66")):
            if text:
                (usb / name / file).write_text(f"{text}\n", encoding="ascii")
    monkeypatch.setattr(serial_ports, "_USB", usb)
    with held.open() as file, subprocess.Popen(["sleep", "60"], stdin=file) as other:
        found = list(serial_ports.find_ports())
        other.kill()
    by_name = {one.address.removeprefix(f"serial:{tmp_path}/"): one for one in found}
    assert (by_name["tty0"].state, by_name["tty0"].serial) == ("free", "066A")
    assert {"nucleo_l4r5zi", "nucleo_f746zg"} <= set(by_name["tty0"].boards)
    assert (by_name["tty1"].name, by_name["tty1"].boards, by_name["tty1"].state) == ("16550A", (), "free")
    assert (by_name["tty2"].state, "arduino_nano_33_ble" in by_name["tty2"].boards) == ("in bootloader", True)
    assert (by_name["tty3"].state, {"nrf52840_dk"} <= set(by_name["tty3"].boards)) == ("busy", True)
    assert re.match(rf"process {other.pid} \(sleep\) of ", by_name["tty3"].why or "")
    assert by_name["tty4"].state == "no permission"
    assert by_name["tty4"].fix
    waiting = by_name[""]
    assert (waiting.state, waiting.name, "rpi_pico" in waiting.boards) == ("in bootloader", "RP2 Boot", True)
    assert len(found) == 6


def test_usb_numbers_of_boards_stand_in_their_files() -> None:
    boards = [load_board(name) for name in board_names()]
    assert sum(bool(board.usb) for board in boards) >= 12
    assert [board.name for board in boards if board.usb and (board.hosted or board.emulated_only)] == []


@contextlib.contextmanager
def adb_server(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """An adb server that says ``answer`` to whatever it is asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    with sock:
                        asked.append(sock.recv(100))
                        sock.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setenv("ADB_SERVER_SOCKET", f"tcp:127.0.0.1:{listener.getsockname()[1]}")
        yield asked
        listener.shutdown(socket.SHUT_RDWR)


def test_phones(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        b"R5CT device usb:1-1 product:oriole model:Pixel_6 device:oriole transport_id:1\n"
        b"X1 unauthorized usb:1-2 transport_id:2\nX2 no permissions (user x is not in plugdev); see [url] usb:1-3\n"
        b"X3 offline\nX4 recovery product:p\nX5 strange\n\n"
    )
    with adb_server(b"OKAY%04x%s" % (len(text), text), monkeypatch) as asked:
        found = {one.serial: one for one in phones.find_phones()}
    assert asked == [b"000ehost:devices-l"]
    states = {serial: one.state for serial, one in found.items()}
    assert states == {"R5CT": "free", "X1": "unauthorised", "X2": "no permission", "X3": "offline",
                      "X4": "in bootloader", "X5": "offline"}  # fmt: skip
    assert (found["R5CT"].address, found["R5CT"].name, found["R5CT"].fix) == ("adb://R5CT", "Pixel 6", None)
    assert all(one.fix for serial, one in found.items() if serial != "R5CT")
    lies = {b"OKAYffff": "the adb server hung up", b"OKAYzzzz": "what answers is no adb server",
            b"OK": "the adb server hung up", b"": "hung up", b"FAIL0003not": "the adb server refuses"}  # fmt: skip
    for lie, words in lies.items():
        with adb_server(lie, monkeypatch), pytest.raises(LinkError, match=words):
            list(phones.find_phones())
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"tcp:127.0.0.1:{nobody.getsockname()[1]}"
    monkeypatch.setenv("ADB_SERVER_SOCKET", address)
    monkeypatch.setattr(phones.shutil, "which", lambda _: None)
    assert list(phones.find_phones()) == []
    monkeypatch.setattr(phones.shutil, "which", lambda _: "/usr/bin/adb")
    with pytest.raises(MissingToolError, match="no adb server runs"):
        list(phones.find_phones())


def test_machines_of_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert list(ssh_hosts.find_hosts()) == []
    (tmp_path / ".ssh" / "more").mkdir(parents=True)
    (tmp_path / ".ssh" / "config").write_text(
        "Include more/*\nHost pi pi-* !no\n  User pi\nhost=\"odd name\"\nHost 'open\nMatch all\nHost pi lab\n",
        encoding="utf-8",
    )
    (tmp_path / ".ssh" / "more" / "a").write_text("Include more/a\nHost rack\n", encoding="utf-8")  # of itself
    assert [one.address for one in ssh_hosts.find_hosts()] == [
        "ssh://rack", "ssh://pi", "ssh://odd name", "ssh://lab",
    ]  # fmt: skip


def test_agents_on_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLEVEL_KEYS", str(tmp_path))
    key, code = keys.own_key(keys.agent_key_file(), create=True)
    here = ["127.0.0.1"]

    def heard() -> list[Found]:
        """Of this agent: a question in the second after another may get no answer (RFC 6762, section 6)."""
        for _ in range(5):
            if mine := [one for one in network.listen(here) if one.address == "tcp://127.0.0.1:17747"]:
                return mine
        return []

    with announced(("127.0.0.1", 17747), key) as done:  # nobody else reaches it
        assert not done
    with announced(("127.0.0.1", 17747), key, here) as done:
        assert done
        assert [(one.state, one.why) for one in heard()] == [("unauthorised", "its key is not known here")]
        keys.add_code(keys.known_keys_file(), code)
        assert [(one.state, one.fix) for one in heard()] == [("not asked", None)]
    assert set(network._boards_of("aarch64")) >= {"aarch64-linux", "aarch64-linux-neon"}
    monkeypatch.setattr(network, "find_spec", lambda _: None)
    with pytest.raises(MissingToolError, match="the package zeroconf is not installed"):
        network.find_agents()


def test_no_place_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[Found]:
        raise OSError(5, "Input/output error")
        yield

    one = Found("quick", "x:", "x", "free")
    hangs = threading.Event()
    places = {"quick": lambda: [one], "slow": lambda: [one] * hangs.wait(60), "broken": broken}
    monkeypatch.setattr(base, "_SOURCES", places)
    began = time.monotonic()
    found, troubles = look(0.3)
    hangs.set()
    assert time.monotonic() - began < 10
    assert found == [one]
    assert [(t.place, bool(t.why)) for t in troubles] == [("broken", True), ("slow", True)]


def test_the_verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = [Found("serial", "serial:/dev/ttyACM0", "ST-LINK", "busy", ("a", "b", "c", "d"), "process 7", "wait", "9"),
              Found("adb", "adb://X", "Pixel", "unauthorised", (), None, "adb reconnect")]  # fmt: skip
    after = [Found("serial", "serial:/dev/ttyACM0", "ST-LINK", "free", ("a",), None, None, "9"),
             Found("serial", "serial:/dev/ttyUSB3\x1b[2J", "new", "free")]  # fmt: skip
    seen = iter([(before, []), (after, [Trouble("ssh", "late")]), (after, [])])
    monkeypatch.setattr(driver, "look", lambda: next(seen))
    monkeypatch.setattr(verb.time, "sleep", lambda _: None)
    with pytest.raises(StopIteration):
        verb.devices.callback(watch=True, as_json=False)  # type: ignore[misc]
    said = capsys.readouterr().out
    for words in ("a, b, c and 1 more", "busy: process 7", "  $ adb reconnect", "- adb://X", "/dev/ttyACM0: free",
                  "+ serial:/dev/ttyUSB3\\x1b[2J (free) new"):  # fmt: skip
        assert words in said
    seen = iter([(before, [Trouble("ssh", "late", "try")])])
    assert run_command(["devices", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["not_seen"] == [{"place": "ssh", "why": "late", "fix": "try"}]
    assert {"place", "address", "name", "boards", "state", "why", "fix", "serial"} == set(told["devices"][0])
    assert "host" in next(one for one in told["devices"] if one["address"] == "local:")["boards"]
    assert run_command(["devices", "--json", "--watch"]) == 2
    assert "--watch goes on, and JSON is one object" in capsys.readouterr().err


def test_a_real_look_ends_in_time() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "sdk", "devices"], capture_output=True, text=True, check=True)
    assert "local:" in done.stdout
    assert time.monotonic() - began < 60
