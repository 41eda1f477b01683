"""A built language model on this machine: tokens in, logits out."""

from __future__ import annotations

import ctypes
import json
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from sdk.errors import DeviceFault, UsageError
from sdk.files import read_regular
from sdk.llm.gguf import map_file
from sdk.llm.gpu import TOLD, Device

__all__ = ["Info", "LanguageModel", "Snapshot", "load", "processors", "read_info"]

_JSON: Final = 1 << 24
_SIZES: Final = ("instance", "arena", "state", "weights", "arena_align", "state_align", "context", "vocabulary",
                 "verify", "kept", "abi", "instance_written", "threads")  # fmt: skip
_ABI: Final = 1
_WEIGHTS, _CONTEXT, _LENGTH = -6, -100, -102


SCHEMA: Final = 2  # of model.json: 1 had most_threads


class Info(msgspec.Struct, frozen=True):
    """What is read of model.json."""

    schema: int
    name: str
    library: str | None = None
    weights: str | None = None
    board: str | None = None
    gpu: str | None = None
    max_threads: int | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """The caches of a conversation: ``length`` positions, and their bytes."""

    length: int
    written: int
    state: bytes


def load(folder: str | Path, threads: int | None = None) -> LanguageModel:
    """The model that ``sdk llm build`` wrote to ``folder``.

    Args:
        folder: of the build.
        threads: that share a run, at most those that it was built for; None for as many as there are processors.

    Raises:
        UsageError: the folder holds no such build, or one that does not run on this machine.
    """
    return LanguageModel(Path(folder), threads)


class LanguageModel:
    """A conversation with a built model: its caches, and the tokens that are in them. Not to be used by two threads at
    the same time; ``another`` makes a second conversation over the same weights, which may run beside it.

    Stable for callers: ``context``, ``vocabulary_size``, ``length``, ``info``, ``folder``, ``threads``, ``sizes``,
    ``feed``, ``timed_feed``, ``verify``, ``peak_bytes``, ``max_verified``, ``reset``, ``truncate``, ``save``,
    ``restore``, ``another``, ``notes``, ``recorded``, ``close``.
    """

    loaded_there_ns: int | None = None  # what another machine took to load it
    _gpu: Device | None = None

    def __init__(self, folder: Path, threads: int | None = None, _shared: _Library | None = None) -> None:
        self._library = _shared or _Library(folder)
        self.folder = folder
        if threads is not None and threads < 1:
            raise UsageError(f"{threads} threads", hint="give 1 or more, or None for as many as there are processors")
        self._asked = threads
        sizes = self._library.sizes
        self._instance = _aligned(sizes["instance"], 16)
        self._arena = _aligned(sizes["arena"], sizes["arena_align"])
        self._state = _aligned(sizes["state"], sizes["state_align"])
        self._check("init", *(n for b in (self._arena, self._state) for n in (b.ctypes.data, b.nbytes)),
                    *self._library.weights)  # fmt: skip
        self._gpu = None if self._library.gpu is None else Device(self._library, self._instance)
        wanted = processors() if threads is None else threads
        self.threads, self._stop = self._share(min(wanted, max(sizes["threads"], 1)))

    def _share(self, threads: int) -> tuple[int, Callable[[], object]]:
        """Starts threads; how many there are then, and what ends them."""
        if threads == 1:
            return 1, lambda: None
        functions = self._library.functions
        pool = _aligned(int(functions["pool_bytes"]()), 64)
        found = int(functions["pool_start"](self._instance.ctypes.data, pool.ctypes.data, threads))
        return found, weakref.finalize(self, _stopped, functions["pool_stop"], pool)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of the file of ``weights``, and of the ``caches`` and the ``arena`` of each conversation."""
        found = self._library.sizes
        return {"weights": found["weights"], "caches": found["state"], "arena": found["arena"]}

    @property
    def notes(self) -> Sequence[str]:
        """What a GPU does not run, a line each."""
        return () if self._gpu is None else self._gpu.notes

    @property
    def recorded(self) -> int:
        """Recordings that were made of work for a GPU."""
        return 0 if self._gpu is None else self._call("gpu_recorded")

    @property
    def info(self) -> Mapping[str, Any]:
        """model.json: names of files, special tokens, chat template and the rest."""
        return self._library.info

    @property
    def context(self) -> int:
        """Positions that there is room for."""
        return self._library.sizes["context"]

    @property
    def vocabulary_size(self) -> int:
        """Tokens; ids are 0 up to that."""
        return self._library.sizes["vocabulary"]

    @property
    def max_verified(self) -> int:
        """Tokens that ``verify`` takes at most."""
        return self._library.sizes["verify"]

    @property
    def length(self) -> int:
        """Positions in the caches."""
        return int(self._library.functions["length"](self._instance.ctypes.data))

    def feed(self, ids: Sequence[int] | NDArray[Any]) -> NDArray[np.float32]:
        """Takes tokens that follow those before; f32 [vocabulary] logits of the one that follows the last.

        Raises:
            UsageError: there are none, one is no id, or there is no room for them; nothing was done then.
        """
        tokens = self._tokens(ids)
        logits = np.empty(self.vocabulary_size, np.float32)
        self._check("feed", tokens.ctypes.data, tokens.size, logits.ctypes.data)
        return logits

    def verify(self, ids: Sequence[int] | NDArray[Any]) -> NDArray[np.float32]:
        """Takes up to ``max_verified`` tokens; f32 [tokens, vocabulary] logits of those that follow each.

        Raises:
            UsageError: there are none or too many, one is no id, or there is no room; nothing was done then.
        """
        tokens = self._tokens(ids)
        self._check_verified(tokens)
        logits = np.empty((tokens.size, self.vocabulary_size), np.float32)
        self._check("verify", tokens.ctypes.data, tokens.size, logits.ctypes.data)
        return logits

    def timed_feed(self, ids: Sequence[int] | NDArray[Any]) -> float:
        """Takes tokens as ``feed`` does; the seconds that they took."""
        begin = time.perf_counter()
        self.feed(ids)
        return time.perf_counter() - begin

    def peak_bytes(self) -> int | None:
        """The largest memory of the process so far; None where that is not known."""
        status = Path("/proc/self/status")
        lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
        found = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(found[0]) * 1024 if found else None

    def reset(self) -> None:
        """Forgets all tokens."""
        self._check("reset")

    def truncate(self, length: int) -> bool:
        """Goes back to the first ``length`` positions. False where the caches cannot go back so far, since layers with
        a window have overwritten what is needed then: nothing was done, ``reset`` and feed the tokens again.

        Raises:
            UsageError: there are not so many positions.
        """
        if not 0 <= length <= self.length:
            raise UsageError(f"{length} of {self.length} positions", hint="truncate to 0 up to model.length")
        status = self._call("truncate", length)
        if status == _LENGTH:
            return False
        self._raise(status, "truncate")
        return True

    def save(self) -> Snapshot:
        """The caches as they are, for ``restore`` of any conversation with this build."""
        if self._gpu is not None:
            self._check("gpu_fetch")
        written = ctypes.c_int32.from_address(self._instance.ctypes.data + self._library.sizes["instance_written"])
        return Snapshot(self.length, written.value, self._state.tobytes())

    def restore(self, saved: Snapshot) -> None:
        """Puts back what ``save`` gave.

        Raises:
            UsageError: it is of another build.
        """
        if len(saved.state) != self._state.nbytes:
            raise UsageError("the saved conversation is of another build", why=f"it has {len(saved.state)} bytes")
        self._check("restore", saved.length, saved.written)
        self._state[:] = np.frombuffer(saved.state, np.uint8)
        if self._gpu is not None:
            self._check("gpu_changed")

    def another(self) -> LanguageModel:
        """A second conversation, empty, over the same weights; it has as many threads, of its own."""
        return LanguageModel(self.folder, self._asked, self._library)

    def close(self) -> None:
        """Gives the memory back; the conversation cannot be used any more."""
        self._stop()
        if self._gpu is not None:
            self._gpu.close()
        self._instance = self._arena = self._state = _aligned(0, 16)

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_verified(self, tokens: NDArray[np.int32]) -> None:
        if tokens.size > self.max_verified:
            raise UsageError(f"{tokens.size} tokens to verify", hint=f"at most {self.max_verified} at once")

    def _tokens(self, ids: Sequence[int] | NDArray[Any]) -> NDArray[np.int32]:
        given = np.asarray(ids)
        if given.ndim != 1 or not given.size or given.dtype.kind not in "iu":
            raise UsageError(
                "no tokens to take", why=f"it is {given.dtype}{list(given.shape)}", hint="give a list of ids"
            )
        if given.min() < 0 or given.max() >= self.vocabulary_size:
            raise UsageError(
                f"the token {int(given.min() if given.min() < 0 else given.max())} is not in the vocabulary",
                hint=f"ids are 0 to {self.vocabulary_size - 1}",
            )
        return np.ascontiguousarray(given, np.int32)

    def _call(self, name: str, *arguments: int) -> int:
        if not self._instance.size:
            raise UsageError("the conversation was closed", hint="make another: model.another(), or sdk.llm.load")
        return int(self._library.functions[name](self._instance.ctypes.data, *arguments))

    def _check(self, name: str, *arguments: int) -> None:
        self._raise(self._call(name, *arguments), name)

    def _raise(self, status: int, name: str) -> None:
        if status == _CONTEXT:
            self._raise_context()
        if status == _WEIGHTS:
            where = self.folder / str(self.info.get("weights"))
            raise UsageError(f"{where} is not of this build", why="it has the weights of another", hint=_MAKE)
        if status:
            raise DeviceFault(f"{name} of {self.info['name']} failed with status {status}")

    def _raise_context(self) -> NoReturn:
        raise UsageError(
            f"out of context: {self.length} of {self.context} positions are taken, and these tokens need more",
            hint="reset or truncate, or build with a larger --context; sdk llm fit says what fits",
        )


class _Library:
    """The library of a build, loaded: its functions, and what it says of its sizes."""

    def __init__(self, folder: Path) -> None:
        self.info, found = read_info(folder)
        self.prefix = found.name
        path = folder / (found.library or "")
        if found.library is None or Path(found.library).name != found.library or not path.is_file():
            raise UsageError(
                f"{folder} has no library for this machine", hint="build it with --board host: sdk llm build MODEL"
            )
        try:
            loaded = ctypes.CDLL(str(path.resolve()))
            self.functions = {name: _function(loaded, found.name, name) for name in _SIGNATURES}
            self.sizes = {name: int(self.functions["size"](k)) for k, name in enumerate(_SIZES)}
            self.gpu = found.gpu
            if found.gpu is not None:
                self.functions |= {name: _function(loaded, found.name, name) for name in _GPU}
            if self.sizes["threads"] > 1:
                self.functions |= {name: _function(loaded, found.name, name) for name in _POOL}
        except (OSError, AttributeError) as err:
            raise UsageError(f"cannot load {path}", why=str(err), hint="build it again on this machine") from None
        if self.sizes["abi"] != _ABI:
            raise UsageError(f"cannot load {path}", why="it is of another version", hint="build it again")
        self._mapped, self.weights = _mapped(folder, found.weights, self.sizes["weights"])


def _mapped(folder: Path, name: str | None, size: int) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
    """The file of weights, mapped, and what init is given for it."""
    if name is None or Path(name).name != name:
        raise UsageError(f"{folder / 'model.json'} is damaged", why="it names no file of weights", hint=_MAKE)
    held = np.frombuffer(map_file(folder / name, "the folder"), np.uint8)
    if held.nbytes != size:
        why = f"it has {held.nbytes} of {size} bytes"
        raise UsageError(f"{folder / name} is not of this build", why=why, hint=_MAKE)
    return held, (held.ctypes.data, held.nbytes)


def read_info(folder: Path) -> tuple[dict[str, Any], Info]:
    """model.json, and what every reader needs of it. Raises UsageError."""
    path = folder / "model.json"
    try:
        data = read_regular(path, _JSON)
        told, info = json.loads(data), msgspec.json.decode(data, type=Info)
    except OSError as err:
        why = err.strerror or str(err)
        raise UsageError(f"{folder} holds no language model", why=f"{path.name}: {why}", hint=_MAKE) from None
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{path} is damaged", why=str(err)[:200], hint=_MAKE) from None
    if info.schema != SCHEMA:
        why = f"its schema is {info.schema}, this version of the SDK reads {SCHEMA}"
        raise UsageError(f"{folder} was built by another version", why=why, hint="build it again: sdk llm build MODEL")
    return told, info


_MAKE: Final = "make one: sdk llm build MODEL -o FOLDER"
_P, _N, _S = ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t
_SIGNATURES: Final[Mapping[str, tuple[Any, ...]]] = {
    "init": (_P, _P, _S, _P, _S, _P, _S), "reset": (_P,), "feed": (_P, _P, _N, _P), "verify": (_P, _P, _N, _P),
    "truncate": (_P, _N), "length": (_P,), "restore": (_P, _N, _N), "size": (_N,),
}  # fmt: skip
_POOL: Final[Mapping[str, tuple[Any, ...]]] = {"pool_bytes": (), "pool_start": (_P, _P, _N), "pool_stop": (_P,)}
_GPU: Final[Mapping[str, tuple[Any, ...]]] = {
    "gpu_open": (_P, _N, ctypes.c_char_p, TOLD, _P, ctypes.c_char_p), "gpu_close": (_P, _P), "gpu_fetch": (_P,),
    "gpu_changed": (_P,), "gpu_recorded": (_P,),
}  # fmt: skip


def _function(loaded: ctypes.CDLL, prefix: str, name: str) -> Callable[..., Any]:
    found = getattr(loaded, f"{prefix}_llm_{name}")
    found.argtypes = {**_SIGNATURES, **_POOL, **_GPU}[name]
    found.restype = _S if name in ("size", "pool_bytes") else ctypes.c_int32
    return found  # type: ignore[no-any-return]


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _stopped(stop: Callable[..., Any], pool: NDArray[np.uint8]) -> None:
    """Ends the threads of a pool, whose memory is kept until then."""
    stop(pool.ctypes.data)


def _aligned(size: int, align: int) -> NDArray[np.uint8]:
    """Bytes at a multiple of ``align``; pages that nobody touches take no memory."""
    held = np.zeros(size + align, np.uint8)
    start = -held.ctypes.data % align
    return held[start : start + size]
