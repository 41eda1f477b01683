"""The tables of grammars, and the C of devices that follows them, on this machine."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sdk.driver.host_c import kept_library
from sdk.errors import UsageError
from sdk.llm.grammar.automaton import Automaton, build_automaton
from sdk.llm.grammar.nodes import Rules
from sdk.llm.grammar.words import Words
from sdk.resources import data_dir

__all__ = ["Grammar", "GrammarRun"]

MAGIC: Final = 0x4D524753
VERSION: Final = 1
_RUN_BYTES: Final = 4096  # above sizeof(sdk_grammar_run_t)
_HANDLE_BYTES: Final = 128
_MAX_WORK: Final = 64 << 20
_OK, _MEMORY, _STEPS, _TOKEN = 0, 2, 3, 4


class Grammar:
    """A grammar for a vocabulary: ``table`` is what a device reads.

    Raises:
        UsageError: no text can be written, a rule begins with itself, or the grammar is too large.
    """

    def __init__(self, rules: Rules, words: Words) -> None:
        self.words = words
        self.table = _table(build_automaton(rules, words.characters), words.mark)

    def run(self) -> GrammarRun:
        """A text that begins."""
        return GrammarRun(self)


class GrammarRun:
    """How far a text of a grammar has come.

    Raises:
        UsageError: the grammar has too many ways to read a text.
        MissingToolError: no compiler for this machine is installed.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._library = _library()
        self._words, self._grammar = _aligned(grammar.words.table), _aligned(grammar.table)
        self._handles = [np.zeros(_HANDLE_BYTES // 8, dtype=np.uint64) for _ in range(2)]
        loads = (self._library.sdk_words_load, self._library.sdk_grammar_load)
        tables = ((self._words, grammar.words.table), (self._grammar, grammar.table))
        for load, handle, (memory, table) in zip(loads, self._handles, tables, strict=True):
            assert load(handle.ctypes.data, memory.ctypes.data, len(table)) == _OK
        self._taken: list[int] = []
        self._begin(int(self._library.sdk_grammar_work(self._handles[1].ctypes.data)))

    def _begin(self, size: int) -> None:
        """Begins with this much memory, and takes again what was taken."""
        while size <= _MAX_WORK:
            self._work = np.empty(size // 8 + 1, dtype=np.uint64)
            self._state = np.zeros(_RUN_BYTES // 8, dtype=np.uint64)
            status = self._library.sdk_grammar_begin(
                self._state.ctypes.data, self._handles[1].ctypes.data, self._handles[0].ctypes.data,
                self._work.ctypes.data, size,
            )  # fmt: skip
            status = next((found for found in map(self._take, self._taken) if found != _OK), status)
            if status == _OK:
                return
            if status != _MEMORY:
                raise _too_much(status)
            size *= 4
        raise _too_much(_MEMORY)

    def _take(self, token: int) -> int:
        return int(self._library.sdk_grammar_take(self._state.ctypes.data, token))

    def allowed(self, vocabulary: int) -> NDArray[np.uint32]:
        """A bit for each token that may come next, without those that end an answer.

        Raises:
            UsageError: the grammar has too many ways to read this text.
        """
        found = np.zeros((vocabulary + 31) // 32, dtype=np.uint32)
        for _ in self._tries():
            status = self._library.sdk_grammar_allowed(self._state.ctypes.data, found.ctypes.data, vocabulary)
            if status == _OK:
                return found
            if status != _MEMORY:
                break
        raise _too_much(status)

    def take(self, token: int) -> bool:
        """Goes on by a token; False, and nothing changes, where it may not come here.

        Raises:
            UsageError: the grammar has too many ways to read this text.
        """
        for _ in self._tries():
            status = self._take(token)
            if status in (_OK, _TOKEN):
                self._taken += [token] if status == _OK else []
                return status == _OK
            if status != _MEMORY:
                break
        raise _too_much(status)

    def _tries(self) -> Iterator[None]:
        """Each time with more memory than before."""
        yield
        size = self._work.nbytes
        while size * 4 <= _MAX_WORK:
            size *= 4
            self._begin(size)
            yield

    @property
    def can_end(self) -> bool:
        """Whether the text is whole."""
        return bool(self._library.sdk_grammar_can_end(self._state.ctypes.data))

    @property
    def is_done(self) -> bool:
        """Whether it is, and nothing can follow."""
        return bool(self._library.sdk_grammar_is_done(self._state.ctypes.data))


def _too_much(status: int) -> UsageError:
    why = {_MEMORY: f"more than {_MAX_WORK >> 20} MB of them would be kept"}.get(status)
    return UsageError("the grammar has too many ways to read this text", why=why,
                      hint="give alternatives that begin differently")  # fmt: skip


def _aligned(data: bytes) -> NDArray[np.uint64]:
    memory = np.zeros(len(data) // 8 + 1, dtype=np.uint64)
    memory.view(np.uint8)[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return memory


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(kept_library(*sorted((data_dir("c_runtime") / "llm").glob("grammar_*.c")))))
    pointer, size, u32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    library.sdk_words_load.argtypes = library.sdk_grammar_load.argtypes = [pointer, pointer, size]
    library.sdk_grammar_work.argtypes, library.sdk_grammar_work.restype = [pointer], size
    library.sdk_grammar_begin.argtypes = [pointer, pointer, pointer, pointer, size]
    library.sdk_grammar_allowed.argtypes = [pointer, pointer, u32]
    library.sdk_grammar_take.argtypes = [pointer, u32]
    for name in ("sdk_grammar_can_end", "sdk_grammar_is_done"):
        function = getattr(library, name)
        function.argtypes, function.restype = [pointer], ctypes.c_bool
    return library


def _table(automaton: Automaton, mark: int) -> bytes:
    classes, members = _classes(automaton)
    moves = [sorted({to << 8 | one for low, high, to in row for one in members[low, high]}) for row in automaton.moves]
    calls = [word for row in automaton.calls for call in row for word in call]
    parts = [
        classes, _u32(automaton.starts), _places(moves), _places(automaton.calls),
        _u32([word for row in moves for word in row]), _u32(calls),
        bytes(automaton.final) + bytes(-len(automaton.final) % 4),
    ]  # fmt: skip
    body = b"".join(parts)
    counts = (len(automaton.starts), len(moves), sum(map(len, moves)), sum(map(len, automaton.calls)))
    return struct.pack("<10I", MAGIC, VERSION, 40 + len(body), *counts, max(classes), automaton.root, mark) + body


def _classes(automaton: Automaton) -> tuple[bytes, dict[tuple[int, int], list[int]]]:
    """The class of each byte (0: no move takes it), and the classes of each range: bytes that all moves take alike."""
    ranges = sorted({(low, high) for row in automaton.moves for low, high, _ in row})
    takes: list[list[int]] = [[] for _ in range(256)]
    for k, (low, high) in enumerate(ranges):
        for byte in range(low, high + 1):
            takes[byte].append(k)
    numbers: dict[tuple[int, ...], int] = {(): 0}
    classes = bytes(numbers.setdefault(tuple(one), len(numbers)) for one in takes)
    return classes, {(low, high): sorted(set(classes[low : high + 1])) for low, high in ranges}


def _places(rows: list[list[int]] | list[list[tuple[int, int]]]) -> bytes:
    return np.cumsum([0, *map(len, rows)]).astype("<u4").tobytes()


def _u32(numbers: list[int]) -> bytes:
    return np.array(numbers, dtype="<u4").tobytes()
