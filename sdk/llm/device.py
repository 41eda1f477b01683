"""A built language model on another machine: its program and its weights are sent there once, tokens go and logits
come."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.boards import load_board
from sdk.devices import transports  # noqa: F401 - importing it registers the schemes
from sdk.devices.base import Transport, open_transport
from sdk.driver.agent_programs import agent_program
from sdk.driver.options import BuildOptions
from sdk.driver.sources import compile_sources
from sdk.driver.targets import target_of
from sdk.errors import LinkError, UsageError
from sdk.files import read_regular
from sdk.llm.layer import layer_files, pool_files
from sdk.llm.model import LanguageModel, Snapshot, read_info
from sdk.steps import step
from sdk.templates import render
from sdk.toolchains import LinkJob, toolchain_for
from sdk.toolchains.cache import digest

__all__ = ["DeviceModel"]

_REQUEST: Final = struct.Struct("<IIiI")  # what, how many ids, a value, whether no logits are wanted
_ANSWER: Final = struct.Struct("<iIQQ")  # status, how many logits, ns, a value
_CONNECT_S: Final = 60.0
_ANSWER_S: Final = 600.0  # for a run of a prompt on a slow machine
_SENT_TO: Final = ("tcp:", "ssh:", "adb:")
_SIZES: Final = {"state": 2, "arena": 1, "weights": 3, "context": 6, "vocabulary": 7, "verify": 8, "threads": 12}


class _Op(IntEnum):
    SIZE = 1
    FEED = 2
    VERIFY = 3
    TRUNCATE = 4
    RESET = 5
    PEAK = 6
    OPEN = 7


class DeviceModel(LanguageModel):
    """A conversation on another machine, which has an agent or is given one. Where the connection is lost, so is the
    conversation."""

    def __init__(self, folder: Path, device: str, threads: int | None = None) -> None:
        """Builds the program of ``folder`` for its board, sends it and the weights to the machine at ``device``, where
        they are not there yet, and starts it.

        Raises:
            UsageError: the folder holds no build for such machines, or it is no address of one.
            SdkError: what the connection raises.
        """
        self.folder, self._device = folder, device
        if not device.startswith(_SENT_TO):
            raise UsageError(
                f"language models are not sent to {device}",
                hint="tcp://HOST, ssh://HOST or adb://; without --device it runs on this machine",
            )
        if threads is not None and threads < 1:
            raise UsageError(f"{threads} threads", hint="give 1 or more, or None for as many as there are processors")
        self._info, found = read_info(folder)
        if found.board is None or found.max_threads is None or found.weights != f"{found.name}_weights.bin":
            raise UsageError(
                f"{folder} has no program for other machines",
                hint="build it again, for the board that the machine is: sdk llm build MODEL --board BOARD",
            )
        if found.gpu is not None:
            raise UsageError(
                f"{folder} is built for a GPU", why="programs for other machines have the processor run the model",
                hint="build it without --gpu; without --device this machine's GPU runs it",
            )  # fmt: skip
        weights = folder / found.weights
        program = _program(folder, found.name, found.board, found.max_threads, self._info, weights)
        self._transport: Transport | None = None
        self._held = b""
        with step(f"sending the model to {device}"):
            self._transport = open_transport(
                device, program, None, _CONNECT_S, agent_program, beside=(weights,), is_whole=True
            )
        try:
            _, self.loaded_there_ns, self.threads = self._ask(_Op.OPEN, value=threads or 0)
            self._known = {name: self._ask(_Op.SIZE, value=k)[2] for name, k in _SIZES.items()}
        except BaseException:
            self.close()
            raise
        self._length = 0

    @property
    def sizes(self) -> dict[str, int]:
        """As of a model on this machine."""
        known = self._known
        return {"weights": known["weights"], "caches": known["state"], "arena": known["arena"]}

    @property
    def info(self) -> dict[str, Any]:
        """model.json."""
        return self._info

    @property
    def context(self) -> int:
        """Positions that there is room for."""
        return self._known["context"]

    @property
    def vocabulary_size(self) -> int:
        """Tokens; ids are 0 up to that."""
        return self._known["vocabulary"]

    @property
    def max_verified(self) -> int:
        """Tokens that ``verify`` takes at most."""
        return self._known["verify"]

    @property
    def length(self) -> int:
        """Positions in the caches."""
        return self._length

    def peak_bytes(self) -> int | None:
        """The largest memory of the program so far."""
        return self._ask(_Op.PEAK)[2] or None

    def feed(self, ids: Sequence[int] | NDArray[Any]) -> NDArray[np.float32]:
        """As on this machine."""
        logits, _, _ = self._ask(_Op.FEED, self._tokens(ids))
        self._length += len(ids)
        return logits

    def timed_feed(self, ids: Sequence[int] | NDArray[Any]) -> float:
        """Takes tokens; the seconds that they took there."""
        _, took, _ = self._ask(_Op.FEED, self._tokens(ids), is_silent=True)
        self._length += len(ids)
        return took / 1e9

    def verify(self, ids: Sequence[int] | NDArray[Any]) -> NDArray[np.float32]:
        """As on this machine."""
        tokens = self._tokens(ids)
        self._check_verified(tokens)
        logits, _, _ = self._ask(_Op.VERIFY, tokens)
        self._length += len(ids)
        return logits.reshape(len(tokens), -1)

    def reset(self) -> None:
        """Forgets all tokens."""
        self._ask(_Op.RESET)
        self._length = 0

    def save(self) -> Snapshot:
        """Not there on another machine. Raises UsageError."""
        raise UsageError("a conversation on another machine cannot be kept", hint="leave out --session, or --device")

    def restore(self, saved: Snapshot) -> None:
        """Not there on another machine. Raises UsageError."""
        self.save()

    def another(self) -> LanguageModel:
        """A second conversation needs the machine, which this one has. Raises UsageError."""
        raise UsageError(f"there is one conversation at {self._device}", hint="close it first")

    def close(self) -> None:
        """Ends the program there."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def _call(self, name: str, *arguments: int) -> int:
        """What the base class asks by name: to go back."""
        assert name == "truncate"
        self._send(_Op.TRUNCATE, np.empty(0, np.int32), arguments[0], is_silent=False)
        status = self._answer()[0]
        self._length = arguments[0] if status == 0 else self._length
        return status

    def _ask(
        self, op: _Op, ids: NDArray[np.int32] | None = None, value: int = 0, *, is_silent: bool = False
    ) -> tuple[NDArray[np.float32], int, int]:
        """Logits, nanoseconds and a value. Raises what the status stands for."""
        self._send(op, np.empty(0, np.int32) if ids is None else ids, value, is_silent=is_silent)
        status, logits, took, found = self._answer()
        self._raise(status, op.name.lower())
        return logits, took, found

    def _send(self, op: _Op, ids: NDArray[np.int32], value: int, *, is_silent: bool) -> None:
        if self._transport is None:
            raise UsageError("the conversation was closed", hint="make another")
        if op in (_Op.FEED, _Op.VERIFY) and ids.size > self.context:
            self._raise_context()
        self._transport.write(_REQUEST.pack(op, ids.size, value, is_silent) + ids.astype("<i4").tobytes(), _ANSWER_S)

    def _answer(self) -> tuple[int, NDArray[np.float32], int, int]:
        status, floats, took, value = _ANSWER.unpack(self._read(_ANSWER.size))
        return status, np.frombuffer(self._read(4 * floats), "<f4").astype(np.float32), took, value

    def _read(self, size: int) -> bytes:
        assert self._transport is not None
        deadline = time.monotonic() + _ANSWER_S
        parts, have = [self._held], len(self._held)
        while have < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LinkError(f"{self._device} has not answered", why=f"within {_ANSWER_S:g} s")
            part = self._transport.read(left)
            parts.append(part)
            have += len(part)
        data = b"".join(parts)
        self._held = data[size:]
        return data[:size]


def _program(folder: Path, name: str, board: str, threads: int, info: dict[str, Any], weights: Path) -> Path:
    """The program of a build for its board, which finds its weights beside it; from the cache or built."""
    place = load_board(board)
    options = BuildOptions(name=name, threads=threads, io="caller", weights="file")
    try:
        with weights.open("rb") as stream:
            known = hashlib.file_digest(stream, "sha256").hexdigest()
        own = (f"{name}.h", f"{name}.c", f"{name}_weights.c")
        files = {one: read_regular(folder / one).decode() for one in own}
        files |= layer_files(info, name) | pool_files(name, threads)
    except (OSError, UnicodeDecodeError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{folder} holds no whole build", why=why, hint="build it again: sdk llm build") from None
    values = {"m": name, "M": name.upper(), "weights": known, "pool": threads > 1}
    files[f"{name}_device.c"] = render("llm/device.c", **values)
    target = target_of(place, options)
    tool = toolchain_for(target, options.toolchain)

    def make(entry: Path) -> None:
        objects = compile_sources(files, tool, target, pic=True)
        tool.link(LinkJob("executable", objects, target, libs=("pthread",)), entry / "program")

    key = digest("llm program", tool.version(), repr(target), sorted(files.items()))
    with step(f"building the program that runs it on {board}"):
        return tool.cache.entry(key, make) / "program"
