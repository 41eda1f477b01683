"""Whoever has no key, the wrong one, or changes what others send: nothing runs, and the agent goes on serving."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_lab import Lab, read_all, until
from agent_proxy import Proxy

from sdk.agent import Server
from sdk.devices import keys, remote
from sdk.devices.channel import (
    MAX_BODY,
    Channel,
    ChannelError,
    Failure,
    Hello,
    Kind,
    RefusedError,
    answer_greeting,
    greet,
)
from sdk.devices.keys import Key
from sdk.devices.transports.tcp import parse_address
from sdk.errors import LinkError, UsageError

HELLO = Hello(bytes(range(16)), "a test")
OPEN = pytest.mark.parametrize("lab", ["open"], indirect=True)


def pair() -> tuple[Channel, Channel]:
    near, far = socket.socketpair()
    return Channel(near), Channel(far)


def both(tool: Callable[[], object], agent: Callable[[], object]) -> tuple[object, object]:
    """What both sides of a greeting return or raise."""
    found: list[object] = [None]

    def other() -> None:
        try:
            found[0] = agent()
        except (RefusedError, ChannelError) as error:
            found[0] = error

    thread = threading.Thread(target=other)
    thread.start()
    try:
        mine = tool()
    except (RefusedError, ChannelError) as error:
        mine = error
    thread.join(5)
    return mine, found[0]


def shaken(tool_keys: list[Key], agent_key: Key | None, *, may_be_open: bool = False) -> tuple[object, object]:
    near, far = pair()
    try:
        return both(
            lambda: greet(near, HELLO, tool_keys, may_be_open=may_be_open, timeout_s=1),
            lambda: answer_greeting(far, agent_key, 1),
        )
    finally:
        near.close()
        far.close()


def test_greetings() -> None:
    right, wrong = Key(keys.new_code()), Key(keys.new_code())
    assert shaken([wrong, right], right) == (None, HELLO)
    assert shaken([], None, may_be_open=True) == (None, HELLO)
    mine, theirs = shaken([wrong], right)
    assert (mine.failure, type(theirs)) == (Failure.KEY, ChannelError)  # it is not even tried
    mine, _ = shaken([right], None)
    assert (mine.failure, mine.text.split(",")[0]) == (Failure.KEY, "the agent uses no key")
    claims = Key(keys.new_code())
    claims.id = right.id  # names the key, but does not have it
    mine, theirs = shaken([right], claims)
    assert (mine.failure, theirs.failure) == (Failure.KEY, Failure.KEY)
    mine, theirs = shaken([claims], right)
    assert (mine.failure, theirs.failure) == (Failure.KEY, Failure.KEY)


def test_records_are_bound_to_key_order_and_direction() -> None:
    key = Key(keys.new_code())

    def channels() -> tuple[Channel, Channel]:
        near, far = pair()
        assert both(
            lambda: greet(near, HELLO, [key], may_be_open=False, timeout_s=1), lambda: answer_greeting(far, key, 1)
        ) == (None, HELLO)
        return near, far

    def sent(channel: Channel, kind: int, body: bytes) -> bytes:
        return b"".join(channel.encode(kind, body))

    def check(build: Callable[[Channel, Channel], bytes], good: bool) -> None:
        near, far = channels()
        near.sock.sendall(build(near, far))
        try:
            if good:
                assert far.receive(1) is not None
            else:
                with pytest.raises(ChannelError):
                    far.receive(1)
        finally:
            near.close()
            far.close()

    check(lambda near, _: sent(near, Kind.FACTS, b"abc"), True)
    for bit in range(8 * (8 + 3 + 16)):
        if 12 <= bit < 20:  # a greater length: there is nothing to be checked until that much has come
            continue

        def changed(near: Channel, _: Channel, bit: int = bit) -> bytes:
            data = bytearray(sent(near, Kind.FACTS, b"abc"))
            data[bit // 8] ^= 1 << bit % 8
            return bytes(data) + bytes(5000)

        check(changed, False)
    check(lambda near, far: sent(far, Kind.FACTS, b"abc"), False)  # sent back to whom it came from
    check(lambda near, _: (sent(near, Kind.FACTS, b""), sent(near, Kind.FACTS, b""))[1], False)  # one is missing
    other = channels()
    check(lambda *_: sent(other[0], Kind.FACTS, b"abc"), False)  # of another session with the same key
    for channel in other:
        channel.close()
    near, far = channels()  # the same one twice
    data = sent(near, Kind.FACTS, b"abc")
    near.sock.sendall(2 * data)
    assert far.receive(1) is not None
    with pytest.raises(ChannelError):
        far.receive(1)
    near.close()
    far.close()


def test_without_the_key_nothing_runs(lab: Lab, key_folder: Path) -> None:
    keys.known_keys_file().unlink()
    mark = lab.folder / "ran"
    program = lab.script(f"touch {mark}; cat")
    with pytest.raises(UsageError, match="no key of that agent is known") as caught:
        lab.open(program)
    assert "--trust" in caught.value.hint
    keys.add_code(keys.known_keys_file(), keys.new_code())
    with pytest.raises(UsageError, match="no key of that agent is known"):
        lab.open(program)
    channel = Channel(socket.create_connection(lab.server.address))
    with pytest.raises(RefusedError, match="the key is another one"):
        greet(channel, HELLO, [claimed(lab.server.key)], may_be_open=False, timeout_s=1)
    channel.close()
    channel = Channel(socket.create_connection(lab.server.address))  # a tool that does as if no key were needed
    channel.send(Kind.HELLO, struct.pack("<4sBBH16s16sB", b"XLAG", 1, 1, 0, bytes(16), bytes(16), 0))
    channel.expect(Kind.CHALLENGE, 1)
    channel.send(Kind.PUT, struct.pack("<32sQ", bytes(32), 5))
    with pytest.raises(ChannelError):
        channel.expect(Kind.HAVE, 1)
    channel.close()
    assert not mark.exists()
    assert not os.listdir(lab.server.store.root / "programs")


def claimed(key: Key | None) -> Key:
    assert key is not None
    other = Key(keys.new_code())
    other.id = key.id
    return other


def test_a_session_that_is_recorded_cannot_be_played_again(lab: Lab) -> None:
    mark = lab.folder / "ran"
    proxy = Proxy(lab.server.address[1])
    program = lab.open(lab.script(f"echo x >>{mark}; cat"), f"tcp://127.0.0.1:{proxy.port}")
    program.write(b"ping", 5)
    assert read_all(program, 4) == b"ping"
    program.close()
    until(lambda: not lab.server.runs)
    assert mark.read_text() == "x\n"
    said = b"".join(proxy.record)
    rng = random.Random(1)
    for case in range(40):
        copy = bytearray(said)
        if case:
            copy[rng.randrange(len(copy))] ^= 1 << rng.randrange(8)
        with socket.create_connection(lab.server.address) as sock:
            sock.sendall(copy)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
    proxy.close()
    assert mark.read_text() == "x\n"
    lab.serves()


def test_what_is_changed_on_the_way_is_not_done(lab: Lab) -> None:
    """A proxy that changes a bit now and then: what is done is right, or there is an error."""
    proxy = Proxy(lab.server.address[1], every=15_000, seed=5)
    body = random.Random(1).randbytes(100_000)
    program = lab.folder / "cat"
    program.write_bytes(b"#!/bin/sh\nexec cat\n# " + body.hex().encode())
    opened = None
    for _ in range(5):  # bits are changed where bytes arrive together: a try may end in an error
        with contextlib.suppress(LinkError):
            opened = lab.open(program, f"tcp://127.0.0.1:{proxy.port}")  # sent in pieces, resumed
            break
    assert opened is not None
    assert sum(proxy.faults.values()) > 5
    [name] = os.listdir(lab.server.store.root / "programs")
    assert (lab.server.store.root / "programs" / name).read_bytes() == program.read_bytes()
    opened.close()
    proxy.close()
    lab.serves()


@OPEN
def test_lengths_that_lie(lab: Lab) -> None:
    for size in (257, 1 << 20, 1 << 31, 0xFFFFFFFF):
        with socket.create_connection(lab.server.address) as sock:
            sock.sendall(struct.pack("<IB3x", size, Kind.HELLO) + bytes(100))
            assert not sock.recv(100)  # closed at once
    channel = Channel(socket.create_connection(lab.server.address))
    greet(channel, HELLO, [], may_be_open=True, timeout_s=2)
    for kind, body, words in [
        (Kind.PUT, bytes(39), "a request of 39 bytes"),
        (Kind.PUT, struct.pack("<32sQ", bytes(32), 0), "at least a byte"),
        (Kind.PUT, struct.pack("<32sQ", bytes(32), 1 << 63), "at least a byte"),
        (Kind.PUT, struct.pack("<32sQ", bytes(32), 1 << 39), "keeps at most"),
        (Kind.START, bytes(48), "not there"),
        (Kind.START, bytes(47), "a request of 47 bytes"),
        (Kind.ATTACH, bytes(16), "no such program"),
        (Kind.ATTACH, b"../../../../etc", "names no program"),
        (99, b"", "no request"),
    ]:
        channel.send(kind, body)
        with pytest.raises(RefusedError, match=words):
            channel.expect(Kind.HAVE, 2)
    channel.sock.sendall(struct.pack("<IB3x", MAX_BODY + 1, Kind.CHUNK) + bytes(100))
    with pytest.raises(ChannelError):
        channel.expect(Kind.HAVE, 2)
    channel.close()
    lab.serves()


@OPEN
@pytest.mark.slow
def test_who_asks_and_does_not_listen(lab: Lab) -> None:
    """Questions without end while a program runs, of which no answer is taken: the agent keeps a bounded number."""
    program = lab.open(lab.script("exec cat"))
    channel = program._channel
    assert channel is not None

    def ask() -> None:
        for _ in range(1_000_000):
            channel.send(Kind.FACTS, timeout_s=1.0)

    with pytest.raises(ChannelError):
        ask()
    program.close()
    lab.serves()


@OPEN
def test_uploads_that_lie(lab: Lab) -> None:
    digest = os.urandom(32)
    channel = Channel(socket.create_connection(lab.server.address))
    greet(channel, HELLO, [], may_be_open=True, timeout_s=2)
    for chunks, failure in [([b"ab", b"cd"], Failure.DAMAGED), ([b"abcde"], Failure.REQUEST)]:
        channel.send(Kind.PUT, struct.pack("<32sQ", digest, 4))
        assert channel.expect(Kind.HAVE, 2) == bytes(8)
        for chunk in chunks:
            channel.send(Kind.CHUNK, chunk)
        with pytest.raises(RefusedError) as caught:
            channel.expect(Kind.STORED, 2)
        assert caught.value.failure == failure
    programs = lab.server.store.root / "programs"
    victim = lab.folder / "victim"
    victim.write_text("precious")
    (programs / f"{digest.hex()}.part").unlink()
    (programs / f"{digest.hex()}.part").symlink_to(victim)
    channel.send(Kind.PUT, struct.pack("<32sQ", digest, 4))
    with pytest.raises(RefusedError):
        channel.expect(Kind.HAVE, 2)
    (programs / digest.hex()).symlink_to("/bin/sh")
    channel.send(Kind.START, struct.pack("<32sQQ", digest, 0, 0))
    with pytest.raises(RefusedError):
        channel.expect(Kind.STARTED, 2)
    channel.close()
    assert victim.read_text() == "precious"
    for name in os.listdir(programs):
        (programs / name).unlink()
    lab.serves()


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_strangers_in_thousands_and_strangers_that_are_slow(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("sdk.agent.connection._GREETING_S", 1.0)
    rng = random.Random(3)
    slow = [socket.create_connection(lab.server.address) for _ in range(100)]
    for sock in slow:
        sock.sendall(struct.pack("<IB3x", 41, Kind.HELLO)[: rng.randrange(8)])
    for _ in range(count):
        with socket.create_connection(lab.server.address) as sock:
            sock.sendall(rng.randbytes(rng.choice([0, 1, 8, 9, 60, 500])))
    dribble = threading.Event()

    def drip() -> None:
        while not dribble.wait(0.02):
            for sock in slow[-20:]:
                with contextlib.suppress(OSError):
                    sock.send(b"X")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        lab.serves()
        until(lambda: not lab.server._connections)  # none is waited for
    finally:
        dribble.set()
        thread.join()
        for sock in slow:
            sock.close()
    assert threading.active_count() < 20


def test_addresses_that_others_reach_need_a_key(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "somewhere.invalid"):
        with pytest.raises(UsageError, match="needs a key") as caught:
            Server(host, 0, tmp_path / "store")
        assert "--pair" in caught.value.hint
    with pytest.raises(UsageError, match="cannot listen"):
        Server("192.0.2.1", 0, tmp_path / "store", Key(keys.new_code()))


def test_the_folder_must_be_private(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("open", "link"):
        with pytest.raises(UsageError, match="not safe"):
            Server("127.0.0.1", 0, tmp_path / name)


def test_codes_survive_people(tmp_path: Path) -> None:
    code = keys.new_code()
    assert len(code) == 23
    typed = code.lower().replace("-", " ").replace("0", "o").replace("1", "l")
    assert Key(typed).id == Key(code).id
    rng, told = random.Random(1), 0
    for _ in range(200):
        at = rng.randrange(len(code))
        sign = rng.choice("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
        if code[at] in ("-", sign):
            continue
        try:
            assert Key(code[:at] + sign + code[at + 1 :]).id != Key(code).id
        except UsageError:
            told += 1
    assert told > 150
    for wrong in ("", "hello", code + "A", code[:-1] + "é", "U" * 20):
        with pytest.raises(UsageError, match="no code"):
            Key(wrong)
    path = tmp_path / "some" / "keys"
    assert keys.add_code(path, code)
    assert not keys.add_code(path, typed)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(UsageError, match="not safe"):
        keys.known_keys(path)


@pytest.mark.parametrize("twin", ["python"], indirect=True)
def test_facts_that_are_none(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> None:
    for body in (b"", b"[]", b"{}", b"[" * 100000, b'{"name":1,"system":"","machine":""}', b"\xff" * 50):
        monkeypatch.setattr("sdk.agent.connection.pack_facts", lambda _, body=body: body)
        with pytest.raises(LinkError, match="connection"):
            remote.ask_facts(parse_address(lab.uri), 2)
