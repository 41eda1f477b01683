"""The tokenizer of a device, run on this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from sdk.driver.host_c import kept_library
from sdk.errors import BuildError
from sdk.llm.text.table import PARTS
from sdk.resources import data_dir

__all__ = ["DeviceTokenizer", "Stream", "text_library"]

SPECIAL: Final = 1
PLAIN: Final = 2
MEMORY: Final = 2
SPACE: Final = 3
_SAYS: Final = {
    1: "the table of a tokenizer is damaged, or of another version",
    4: "the patterns of this tokenizer take too long on this text",
    5: "no token has this number",
    6: "the text has a gigabyte or more",
    7: "the vocabulary has no token for a character, and none for what it does not know",
}
_ADVICE: Final = {1: "compile the tokenizer again", 5: "use the tokens of this tokenizer"}


class _Part(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_uint32))


class _Tok(ctypes.Structure):
    _fields_ = (*((name, ctypes.c_uint32) for name in ("kind", "flags", "tokens", "unknown", "longest")),
                ("part", _Part * PARTS))  # fmt: skip


class _Stream(ctypes.Structure):
    _fields_ = (
        ("tok", ctypes.POINTER(_Tok)), ("left", ctypes.c_uint32), ("specials", ctypes.c_bool),
        ("begun", ctypes.c_bool), ("held", ctypes.c_uint8 * 4), ("n_held", ctypes.c_uint8),
    )  # fmt: skip


@lru_cache(maxsize=1)
def text_library() -> ctypes.CDLL:
    """The C of tokenizers, for this machine.

    Raises:
        MissingToolError: no compiler for this machine is installed.
    """
    sources = sorted((data_dir("c_runtime") / "llm").glob("tok_*.c"))
    library = ctypes.CDLL(str(kept_library(*sources)))
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.sdk_tok_load.argtypes = [pointer, pointer, size]
    library.sdk_tok_encode.argtypes = [
        pointer, ctypes.c_char_p, size, ctypes.c_uint32, pointer, size, pointer, pointer, size
    ]  # fmt: skip
    library.sdk_tok_work.argtypes = [pointer, size]
    library.sdk_tok_stream.argtypes = [pointer, pointer, ctypes.c_bool]
    library.sdk_tok_next.argtypes = [pointer, ctypes.c_uint32, pointer, size, pointer]
    library.sdk_tok_end.argtypes = [pointer, pointer, size, pointer]
    library.sdk_tok_longest.argtypes = [pointer]
    library.sdk_tok_work.restype = library.sdk_tok_longest.restype = size
    return library


def _check(status: int) -> None:
    if status:
        raise BuildError(_SAYS[status], where="tokenizer", hint=_ADVICE.get(status, "shorten the text"))


class DeviceTokenizer:
    """A table of ``compile_table``, read by the C that devices have.

    Raises:
        BuildError: the table is damaged.
        MissingToolError: no compiler for this machine is installed.
    """

    def __init__(self, table: bytes) -> None:
        self._library = text_library()
        self._memory = np.zeros(len(table) // 8 + 1, dtype=np.uint64)  # aligned to 8 bytes
        self._memory.view(np.uint8)[: len(table)] = np.frombuffer(table, dtype=np.uint8)
        self.handle = _Tok()
        _check(self._library.sdk_tok_load(ctypes.byref(self.handle), self._memory.ctypes.data, len(table)))
        self._longest = self._library.sdk_tok_longest(ctypes.byref(self.handle))

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return int(self.handle.tokens)

    @property
    def longest(self) -> int:
        """The most bytes of text that one more token adds."""
        return int(self._longest)

    def encode(self, text: str | bytes, *, special: bool = False, plain: bool = False) -> list[int]:
        """The tokens of a text: ``special`` puts around it what the model expects, ``plain`` takes names of special
        tokens in it as text. Bytes that are no UTF-8 count as U+FFFD.

        Raises:
            BuildError: the text is too long, or the patterns of the tokenizer take too long on it.
        """
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        count = ctypes.c_size_t()
        room, work = len(data) + 64, self._library.sdk_tok_work(ctypes.byref(self.handle), len(data))
        while True:
            ids = np.empty(room, dtype=np.uint32)
            memory = np.empty(work, dtype=np.uint8)
            status = self._library.sdk_tok_encode(
                ctypes.byref(self.handle), data, len(data), SPECIAL * special | PLAIN * plain, ids.ctypes.data, room,
                ctypes.byref(count), memory.ctypes.data, work,
            )  # fmt: skip
            if status == MEMORY:
                work *= 2
            elif status == SPACE:
                room = count.value
            else:
                _check(status)
                return [int(one) for one in ids[: count.value]]

    def decode(self, ids: Iterable[int], *, specials: bool = False) -> str:
        """The text of tokens, with special ones where ``specials``.

        Raises:
            BuildError: a number is above those of all tokens.
        """
        stream = self.stream(specials=specials)
        return "".join([stream.next(one) for one in ids]) + stream.end()

    def stream(self, *, specials: bool = False) -> Stream:
        """A text that grows token by token."""
        return Stream(self, specials)


class Stream:
    """A text that grows token by token: bytes that may yet become a character are held back."""

    def __init__(self, tokenizer: DeviceTokenizer, specials: bool) -> None:
        self._tokenizer, self._state = tokenizer, _Stream()
        self._library = text_library()
        self._out = ctypes.create_string_buffer(max(tokenizer._longest, 8))
        self._library.sdk_tok_stream(ctypes.byref(self._state), ctypes.byref(tokenizer.handle), specials)

    def next(self, token: int) -> str:
        """What one more token adds.

        Raises:
            BuildError: its number is above those of all tokens.
        """
        n = ctypes.c_size_t()
        _check(
            self._library.sdk_tok_next(
                ctypes.byref(self._state), min(token, 0xFFFFFFFF), self._out, len(self._out), ctypes.byref(n)
            )
        )
        return self._out.raw[: n.value].decode()

    def end(self) -> str:
        """What is held back at the end, as U+FFFD."""
        n = ctypes.c_size_t()
        _check(self._library.sdk_tok_end(ctypes.byref(self._state), self._out, len(self._out), ctypes.byref(n)))
        return self._out.raw[: n.value].decode()
