"""Code for several kinds of one architecture's cores in one program, which asks the system for its own when it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sdk.codegen_c.base import Files, Variant
from sdk.errors import BuildError
from sdk.templates import render

__all__ = ["dispatch_files", "pragmas"]


@dataclass(frozen=True)
class _Asked:
    """A capability that compilers turn on inside a file, by its name for clang's and gcc's pragmas, and the bit by
    which the system tells of it (Linux, arch/arm64/include/uapi/asm/hwcap.h): of AT_HWCAP, 16, or AT_HWCAP2, 26."""

    feature: str
    word: int
    bit: int


_CAPABILITIES: Final[Mapping[str, _Asked]] = {
    "dotprod": _Asked("dotprod", 16, 20),
    "i8mm": _Asked("i8mm", 26, 13),
}
_NUMBER: Final = re.compile(r"^#define (\w+) (\d+)u\b", re.MULTILINE)


def pragmas(beyond: frozenset[str]) -> str:
    """The features that a file needs beyond those of its compiler's flags, as pragmas join them with "+"; "" for none.

    Raises:
        BuildError: there is no pragma or no question for one of them.
    """
    unknown = sorted(beyond - _CAPABILITIES.keys())
    if unknown:
        raise BuildError(
            f"whether a core has {', '.join(unknown)} cannot be asked when the program runs",
            hint=f"--also takes {', '.join(sorted(_CAPABILITIES))}, and several joined by +",
        )
    return "+".join(_CAPABILITIES[one].feature for one in sorted(beyond))


def dispatch_files(prefix: str, base: Files, variants: Sequence[Variant]) -> Files:
    """The files of ``prefix`` with those of ``variants``, the most demanding first: the same interface, with memory
    that is enough for each, and ``<prefix>_dispatch.c``, whose functions call those of the core at hand. A variant
    whose code is that of every core is left out.

    Raises:
        BuildError: the interfaces differ in more than sizes.
    """
    variants = [v for v in variants if _code(v.prefix, v.files) != _code(prefix, base)]
    if not variants:
        return base
    header = str(base[f"{prefix}.h"])
    for variant in variants:
        header = _joined(prefix, header, variant)
    functions = re.findall(rf"^(\w[\w ]*?[ *]+){prefix}_(\w+)\((.*)\);$", header, re.MULTILINE)
    functions = [(kind, name, arguments) for kind, name, arguments in functions if not kind.startswith("typedef")]
    own = f"{prefix}_base.h"
    code = str(base[f"{prefix}.c"])
    banner = code[: code.index("*/")].partition("\n")[2].rstrip()  # who has generated it, of what
    made = {
        f"{prefix}.h": header,
        own: render(
            "c99/base.h", m=prefix, banner=banner, functions=[n for _, n, _ in functions], header=base[f"{prefix}.h"]
        ),
        f"{prefix}.c": code.replace(f'#include "{prefix}.h"\n', f'#include "{own}"\n', 1),
        f"{prefix}_dispatch.c": render(
            "c99/dispatch.c",
            m=prefix,
            banner=banner,
            variants=[(v.prefix, _questions(v.beyond)) for v in variants],
            functions=[(kind, name, arguments, _passed(prefix, arguments)) for kind, name, arguments in functions],
        ),
    }
    return {**base, **{name: text for variant in variants for name, text in variant.files.items()}, **made}


def _code(prefix: str, files: Files) -> str:
    """The functions of a variant, whatever its names begin with."""
    text = re.sub(r"^#.*\n", "", str(files[f"{prefix}.c"]).partition("*/")[2], flags=re.MULTILINE)
    return re.sub(r"\s+", " ", text.replace(prefix.upper(), "M").replace(prefix, "m"))


def _joined(prefix: str, header: str, variant: Variant) -> str:
    """The header, with the larger of each number that the variant has another of."""
    theirs = str(variant.files[f"{variant.prefix}.h"])
    theirs = theirs.replace(variant.prefix.upper(), prefix.upper()).replace(variant.prefix, prefix)
    numbers = {name: int(value) for name, value in _NUMBER.findall(theirs)}

    def larger(match: re.Match[str]) -> str:
        return f"#define {match[1]} {max(int(match[2]), numbers.get(match[1], 0))}u"

    if _bare(header) != _bare(theirs):
        raise BuildError(f"{variant.prefix}.h has another interface than {prefix}.h", hint="build without --also")
    return _NUMBER.sub(larger, header)


def _bare(header: str) -> str:
    """A header without sizes and comments."""
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", _NUMBER.sub(r"#define \1", header), flags=re.DOTALL))


def _questions(beyond: frozenset[str]) -> list[tuple[int, int]]:
    return [(_CAPABILITIES[one].word, _CAPABILITIES[one].bit) for one in sorted(beyond)]


def _passed(prefix: str, arguments: str) -> list[tuple[str, str]]:
    """The arguments by what follows the prefix in their type, "" for types that are not of the model, and by name."""
    found = []
    for one in arguments.split(", ") if arguments != "void" else []:
        name = re.split(r"[ *]", one)[-1]
        kind = one.removesuffix(name)
        found.append((kind.strip() if re.search(rf"\b{prefix}_", kind) else "", name))
    return found
