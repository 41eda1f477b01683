"""C names: identifiers made valid, unique in their scope and free of keywords; the C types of scalars."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final

from sdk.compiler.ir.types import DType
from sdk.errors import BuildError

__all__ = ["Scope", "identifier", "scalar_name"]

# Words of C and C++ (the header is included from both), and what our includes define.
# fmt: off
_TAKEN: Final = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
    "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
    "volatile", "while", "bool", "true", "false", "asm", "catch", "class", "delete", "explicit",
    "export", "friend", "mutable", "namespace", "new", "operator", "private", "protected", "public",
    "template", "this", "throw", "try", "typename", "using", "virtual", "and", "and_eq", "bitand",
    "bitor", "compl", "not", "not_eq", "or", "or_eq", "xor", "xor_eq", "typeof", "linux", "unix",
    "alignas", "alignof", "char8_t", "char16_t", "char32_t", "co_await", "co_return", "co_yield", "concept",
    "const_cast", "consteval", "constexpr", "constinit", "decltype", "dynamic_cast", "noexcept", "nullptr",
    "reinterpret_cast", "requires", "static_assert", "static_cast", "thread_local", "typeid", "typeof_unqual",
    "main", "scratch", "NULL", "offsetof", "size_t", "ptrdiff_t", "wchar_t", "max_align_t",
    *(f"{u}int{k}{n}_t" for u in ("", "u") for k in ("", "_least", "_fast") for n in (8, 16, 32, 64)),
    "intptr_t", "uintptr_t", "intmax_t", "uintmax_t",
))
# fmt: on
# Macros of stdint.h, of which a new edition of C adds more.
_MACROS: Final = re.compile(
    r"(U?INT(_?(LEAST|FAST)?[0-9]+|MAX|PTR)|PTRDIFF|SIZE|SIG_ATOMIC|WCHAR|WINT)_(MIN|MAX|WIDTH|C)|U?INT(MAX|[0-9]+)_C"
)


def identifier(text: str) -> str:
    """``text`` as a C identifier: other characters become ``_``, keywords get a trailing one."""
    name = re.sub(r"[^0-9A-Za-z_]", "_", text)
    if not name or name[0].isdigit():
        name = f"v{name}"
    # C reserves a leading underscore before a capital or another underscore.
    name = name.lstrip("_") or "v" if re.match(r"_[_A-Z]", name) else name
    return f"{name}_" if name in _TAKEN or _MACROS.fullmatch(name) else name


_SCALARS: Final = {
    "bool": "bool",
    "i8": "int8_t",
    "u8": "uint8_t",
    "i16": "int16_t",
    "u16": "uint16_t",
    "i32": "int32_t",
    "u32": "uint32_t",
    "i64": "int64_t",
    "u64": "uint64_t",
    "f16": "uint16_t",  # bits: arithmetic is done in f32
    "f32": "float",
    "f64": "double",
}


def scalar_name(type: DType) -> str:
    """The C type of one lane.

    Raises:
        BuildError: C99 has no such type.
    """
    name = _SCALARS.get(str(type.scalar))
    if name is None:
        raise BuildError(f"C99 has no data type {type.scalar}")
    return name


class Scope:
    """Nested C blocks: gives each thing declared an identifier that hides none of an enclosing block.

    Names that begin like those of the file (``prefix`` and ``_``, in any case) are told apart from them.
    """

    def __init__(self, prefix: str = "") -> None:
        self._stack: list[dict[Hashable, str]] = [{}]
        self._taken: list[set[str]] = [set()]  # what each block has declared, also what is declared anew
        self._file = f"{prefix}_".lower() if prefix else None

    def push(self) -> None:
        """Enters a block."""
        self._stack.append({})
        self._taken.append(set())

    def pop(self) -> None:
        """Leaves the innermost block."""
        self._stack.pop()
        self._taken.pop()

    def declare(self, key: Hashable, name: str) -> str:
        """The identifier, made from ``name``, of the thing ``key``, declared in the innermost block."""
        used = set().union(*self._taken)
        stem = identifier(name)
        if self._file is not None and stem.lower().startswith(self._file):
            stem = f"v_{stem}"
        c_name, k = stem, 2
        while c_name in used:
            c_name, k = f"{stem}_{k}", k + 1
        self._stack[-1][key] = c_name
        self._taken[-1].add(c_name)
        return c_name

    def declare_outer(self, key: Hashable, name: str) -> str:
        """As ``declare``, in the outermost block."""
        inner, names = self._stack[1:], self._taken[1:]
        taken = set().union(*names)
        c_name, k = name, 2
        while identifier(c_name) in taken:
            c_name, k = f"{name}_{k}", k + 1
        del self._stack[1:], self._taken[1:]
        found = self.declare(key, c_name)
        self._stack += inner
        self._taken += names
        return found

    def alias(self, key: Hashable, c_name: str) -> None:
        """Makes ``key`` another name of the declared ``c_name`` in the innermost block."""
        self._stack[-1][key] = c_name

    def lookup(self, key: Hashable) -> str:
        """The identifier of ``key`` here; KeyError when it is not declared."""
        for block in reversed(self._stack):
            if key in block:
                return block[key]
        raise KeyError(key)
