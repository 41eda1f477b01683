"""One tool's connection: its requests, and the bytes between it and the program that it has started."""

from __future__ import annotations

import contextlib
import platform
import select
import socket
import struct
import sys
import threading
from typing import Any, Protocol

from sdk.agent.facts import machine_facts
from sdk.agent.run import Run
from sdk.agent.store import Store
from sdk.devices.channel import (
    Channel,
    ChannelError,
    Failure,
    Hello,
    Kind,
    Record,
    RefusedError,
    answer_greeting,
    refused_body,
)
from sdk.devices.keys import Key
from sdk.devices.machine import HEAD_BYTES, foreign_machine, machine_name, pack_facts

__all__ = ["Connection", "Desk"]

_GREETING_S = 5.0
_CHUNK_S = 10.0  # between two pieces of an upload
_IDLE_S = 3600.0
_BACKLOG = 1 << 20  # bytes kept for a side that does not take them; then the other one waits
_PUT = struct.Struct("<32sQ")
_START = struct.Struct("<32sQQ")
_MAX_PROGRAM = 1 << 40
_STARTED_BYTES = 16


class Desk(Protocol):
    """What a connection asks of the agent that it is one of; all of it may raise RefusedError."""

    key: Key | None
    store: Store

    def hold(self, hello: Hello) -> None:
        """Have the machine for a tool alone."""

    def holder(self) -> str | None:
        """Who has the machine."""

    def start(self, hello: Hello, digest: bytes, memory: int, cores: int) -> Run:
        """Start a program."""

    def attach(self, connection: Connection, hello: Hello, number: bytes) -> Run:
        """Take over a program whose connection was lost."""

    def lose(self, run: Run) -> None:
        """The connection to a program is lost."""

    def drop(self, run: Run) -> None:
        """A program is over."""

    def leave(self, connection: Connection) -> None:
        """A connection is over."""


class Connection:
    """A thread that serves one connection; ``run`` is the program at its other side, ``holds`` who has the machine."""

    def __init__(self, server: Desk, sock: socket.socket) -> None:
        self.proven = False
        self.holds: bytes | None = None
        self.run: Run | None = None
        self._server = server
        self._channel = Channel(sock)
        self._thread = threading.Thread(target=self._main, daemon=True)

    def start(self) -> None:
        """Serve it."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for its end."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def abort(self) -> None:
        """End it from another thread."""
        with contextlib.suppress(OSError):
            self._channel.sock.shutdown(socket.SHUT_RDWR)

    def _main(self) -> None:
        try:
            hello = answer_greeting(self._channel, self._server.key, _GREETING_S)
            self.proven = True
            while (record := self._channel.receive(_IDLE_S)) is not None:
                self._answer(hello, record)
        except (ChannelError, RefusedError):
            pass  # nobody is left to be told, or it has been told
        finally:
            self._channel.close()
            self._server.leave(self)

    def _answer(self, hello: Hello, record: Record) -> None:
        """Do what a request asks for; a refusal ends nothing but the request."""
        try:
            match record.kind:
                case Kind.FACTS:
                    self._channel.send(Kind.FACTS, pack_facts(machine_facts(self._server.holder())))
                case Kind.PUT:
                    self._put(hello, record.body)
                case Kind.START:
                    self._start(hello, record.body)
                case Kind.ATTACH:
                    self._attach(hello, record.body)
                case Kind.STOP | Kind.DATA | Kind.CHUNK:
                    pass  # for a program that has ended, or an upload that was refused, meanwhile
                case _:
                    raise RefusedError(Failure.REQUEST, f"record {record.kind} is no request")
        except RefusedError as error:
            self._channel.send(Kind.REFUSED, refused_body(Failure(error.failure), error.text))

    def _hold(self, hello: Hello) -> None:
        self._server.hold(hello)
        self.holds = hello.client

    def _put(self, hello: Hello, body: bytes) -> None:
        digest, size = _unpacked(_PUT, body)
        if not 0 < size <= _MAX_PROGRAM:
            raise RefusedError(Failure.REQUEST, "a program has at least a byte")
        self._hold(hello)
        with self._server.store.upload(digest, size) as upload:
            offset = size if upload is None else upload.offset
            self._channel.send(Kind.HAVE, offset.to_bytes(8, "little"))
            if upload is None:
                return
            while upload.offset < size:
                upload.add(self._channel.expect(Kind.CHUNK, _CHUNK_S))
            upload.finish()
        self._channel.send(Kind.STORED)

    def _start(self, hello: Hello, body: bytes) -> None:
        digest, memory, cores = _unpacked(_START, body)
        self._hold(hello)
        with self._server.store.used(digest) as program, program.open("rb") as file:
            this = machine_name(platform.machine()) if sys.platform == "linux" else ""  # else not ELF
            other = foreign_machine(file.read(HEAD_BYTES), this)
        if other is not None:
            raise RefusedError(Failure.FOREIGN, f"the program is for {other}, this machine is {this}")
        self._serve(self._server.start(hello, digest, memory, cores))

    def _attach(self, hello: Hello, body: bytes) -> None:
        if len(body) != _STARTED_BYTES:
            raise RefusedError(Failure.REQUEST, "that names no program")
        self._hold(hello)
        self._serve(self._server.attach(self, hello, body))

    def _serve(self, run: Run) -> None:
        """Carry bytes until the program ends; where the connection breaks first, the tool may come back for it."""
        self.run = run
        try:
            self._channel.send(Kind.STARTED, run.id)
            self._carry(run)
        except ChannelError:
            self._server.lose(run)
            raise
        except BaseException:
            self._server.drop(run)
            raise
        finally:
            self.run = None
        assert run.outcome is not None
        self._server.drop(run)
        self._channel.send(Kind.ENDED, run.outcome.body(run.words))

    def _carry(self, run: Run) -> None:
        sock = self._channel.sock
        out = bytearray()  # what the tool has not taken yet
        while True:
            if run.report < 0 and run.stdout < 0 and run.stderr < 0:
                while out:
                    del out[: self._channel.send_some(out, _CHUNK_S) or _broken()]
                return
            poll = select.poll()
            wants = (select.POLLIN if len(run.pending) < _BACKLOG else 0) | (select.POLLOUT if out else 0)
            poll.register(sock, wants)
            if len(out) < _BACKLOG and run.stdout >= 0:
                poll.register(run.stdout, select.POLLIN)
            for fd in (run.stderr, run.report):
                if fd >= 0:
                    poll.register(fd, select.POLLIN)
            if run.pending and run.stdin >= 0:
                poll.register(run.stdin, select.POLLOUT)
            for fd, event in poll.poll():
                if fd == sock.fileno():
                    self._from_tool(run, event, out)
                    if out and event & select.POLLOUT:
                        del out[: self._channel.send_some(out, 0.0)]
                elif fd == run.stdout:
                    self._to_tool(Kind.DATA, run.take(), out)
                elif fd == run.stdin:
                    run.feed()
                elif fd == run.stderr:
                    run.listen()
                elif fd == run.report:
                    run.conclude()

    def _from_tool(self, run: Run, event: int, out: bytearray) -> None:
        if not event & ~select.POLLOUT:
            return
        self._channel.fill(0.0)
        while (record := self._channel.buffered()) is not None:
            if record.kind == Kind.DATA:
                run.give(record.body)
            elif record.kind == Kind.STOP:
                run.stop()
            elif record.kind == Kind.FACTS:
                if len(out) > _BACKLOG:
                    raise ChannelError("the tool asks for more than it takes")
                self._to_tool(Kind.FACTS, pack_facts(machine_facts(self._server.holder())), out)
            else:
                raise ChannelError("a request came while a program runs")

    def _to_tool(self, kind: Kind, data: bytes, out: bytearray) -> None:
        """Send what the tool takes at once of a record, after what it has not taken yet."""
        if not data:
            return
        pieces = self._channel.encode(kind, data)
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        done = 0 if out else self._channel.send_some(whole, 0.0)
        out += memoryview(whole)[done:]


def _unpacked(layout: struct.Struct, body: bytes) -> tuple[Any, ...]:
    if len(body) != layout.size:
        raise RefusedError(Failure.REQUEST, f"a request of {len(body)} bytes, not {layout.size}")
    return layout.unpack(body)


def _broken() -> int:
    raise ChannelError("the tool takes nothing")
