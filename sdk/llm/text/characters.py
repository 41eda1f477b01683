"""Sets of characters, and normal form C, as the package ``tokenizers`` has them: it is asked, so that its version of
Unicode is the one that a device gets."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from sdk.llm.text.package import tokenizers_package

__all__ = ["CODES", "CharSet", "Composition", "case_variants", "class_members", "composition", "digits"]

CODES: Final = 0x110000
CharSet = np.ndarray[tuple[int], np.dtype[np.bool_]]  # of CODES
# Code points that differ from their neighbours; the rest is not assigned or private, each range all alike.
_ASKED: Final = ((0, 0xD800), (0xE000, 0x34000), (0xE0000, 0xE0200))
_ALIKE: Final = ((0x34000, 0xE0000), (0xE0200, 0xF0000), (0xF0000, CODES))


@lru_cache(maxsize=1)
def _asked() -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], str]:
    codes = [code for low, high in _ASKED for code in range(low, high)] + [low for low, _ in _ALIKE]
    return np.array(codes), "".join(map(chr, codes))


@lru_cache(maxsize=64)
def class_members(pattern: str) -> CharSet:
    """The characters that a pattern of one character (``\\p{L}``, ``\\s``, ``[a-c]``) matches.

    Raises:
        ValueError: the engine of ``tokenizers`` knows no such pattern.
    """
    package = tokenizers_package()
    codes, text = _asked()
    try:
        split = package.pre_tokenizers.Split(package.Regex(pattern), "removed")
    except Exception as error:  # the engine has no class of errors
        raise ValueError(str(error)) from error
    member = np.ones(len(codes), dtype=bool)
    for _, (begin, end) in split.pre_tokenize_str(text):
        member[begin:end] = False
    return _spread(codes, member)


def _spread(codes: np.ndarray[tuple[int], np.dtype[np.int64]], member: CharSet) -> CharSet:
    found = np.zeros(CODES, dtype=bool)
    found[codes] = member
    for low, high in _ALIKE:
        found[low:high] = found[low]
    found.setflags(write=False)
    return found


@lru_cache(maxsize=1)
def digits() -> CharSet:
    """The characters that the pre-tokenizer ``Digits`` splits off."""
    codes, text = _asked()
    split = tokenizers_package().pre_tokenizers.Digits(individual_digits=True)
    # between letters, each digit is a piece of its own
    pieces = split.pre_tokenize_str("a" + "".join(f"{char}a" for char in text))
    member = np.zeros(len(codes), dtype=bool)
    for _, (begin, end) in pieces:
        if end - begin == 1 and begin % 2:
            member[begin // 2] = True
    return _spread(codes, member)


@lru_cache(maxsize=1)
def _by_case() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for code in range(0x80, 0x20000):
        folded = chr(code).casefold()
        if len(folded) == 1 and folded < "\x80":
            found.setdefault(folded, []).append(chr(code))
    return found


@lru_cache(maxsize=64)
def case_variants(letter: str) -> CharSet:
    """The characters that an ASCII letter matches where case does not count."""
    package = tokenizers_package()
    text = "".join([letter.lower(), letter.upper(), *_by_case().get(letter.lower(), [])])
    split = package.pre_tokenizers.Split(package.Regex(f"(?i:{letter})"), "removed")
    kept = {at for _, (begin, end) in split.pre_tokenize_str(text) for at in range(begin, end)}
    found = np.zeros(CODES, dtype=bool)
    found[[ord(char) for at, char in enumerate(text) if at not in kept]] = True
    return found


class Composition:
    """What normal form C needs: ``decomposed`` has the full canonical decomposition of each character that has one and
    is no Hangul syllable, ``orders`` the order of each mark that may move, ``composed`` the pairs that become one."""

    def __init__(self) -> None:
        package = tokenizers_package()
        nfd, nfc = package.normalizers.NFD().normalize_str, package.normalizers.NFC().normalize_str
        chars = [char for char in _asked()[1] if char not in "\n" and not "\uac00" <= char <= "\ud7a3"]
        parts = nfd("\n".join(chars)).split("\n")
        self.decomposed = {char: part for char, part in zip(chars, parts, strict=True) if char != part}
        self.orders = _orders(nfd)
        self.composed: dict[tuple[str, str], str] = {}
        whole = nfc("\n".join(self.decomposed.values())).split("\n")
        begins = nfc("\n".join(part[:-1] for part in self.decomposed.values())).split("\n")
        for (char, part), again, begin in zip(self.decomposed.items(), whole, begins, strict=True):
            if again == char and len(begin) == 1:
                self.composed[begin, part[-1]] = char


def _orders(nfd: Callable[[str], str]) -> dict[str, int]:
    """The canonical combining class of each character that ``nfd`` moves: what a class is never changes, and a version
    of Unicode that is older than Python's lacks some characters."""
    marks = [char for char in _asked()[1] if unicodedata.combining(char)]
    low, high = (next(char for char in marks if unicodedata.combining(char) == order) for order in (1, 240))
    found = {}
    for char in marks:
        order = unicodedata.combining(char)
        probe = f"a{high}{char}" if order == 1 else f"a{char}{low}"
        if nfd(probe) == f"a{probe[2]}{probe[1]}":
            found[char] = order
    return found


@lru_cache(maxsize=1)
def composition() -> Composition:
    """The tables of normal form C."""
    return Composition()
