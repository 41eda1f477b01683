"""Constants as C arrays: each distinct one once, aligned for words, in flash or copied to RAM at the start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sdk.codegen_c.base import EmitOptions
from sdk.codegen_c.functions.expr import literal
from sdk.codegen_c.functions.names import Scope, scalar_name
from sdk.codegen_c.program.banner import banner
from sdk.codegen_c.program.weights_bytes import WeightsFile
from sdk.compiler.ir.module import Const, Module, Stack

__all__ = ["Weights", "array_text", "collect", "collect_file", "weights_file"]

_ALIGN = 16
_PER_LINE = 16


@dataclass(frozen=True)
class Weights:
    """The arrays of a model: ``symbols`` by constant (equal ones share one), the ``distinct`` in order; ``in_ram``
    where the program's start copies them there. Those of a ``file`` go by where they lie in it."""

    symbols: dict[str, str]
    distinct: dict[str, Const | Stack]
    in_ram: bool = False
    file: WeightsFile | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all distinct arrays."""
        return sum(c.nbytes for c in self.distinct.values())

    def declarations(self) -> list[str]:
        """An ``extern`` declaration for each array."""
        return [] if self.file else [f"extern {self.declarator(symbol)};" for symbol in self.distinct]

    def declarator(self, symbol: str) -> str:
        """The declarator of an array; one that is not const lies in RAM."""
        const = self.distinct[symbol]
        held = "" if self.in_ram else "const "
        return f"{held}{scalar_name(const.type.dtype)} {symbol}[{max(const.nbytes // const.type.dtype.nbytes, 1)}]"


def collect(module: Module, prefix: str, in_ram: bool = False) -> Weights:
    """The constants that the plans use or states start from."""
    used = [b.name for plan in module.plans.values() for b in plan.buffers if b.role == "const"]
    used += [s.init for s in module.states.values() if isinstance(s.init, str)]
    scope = Scope()
    symbols: dict[str, str] = {}
    distinct: dict[str, Const | Stack] = {}
    known: dict[tuple[str, int, str], str] = {}
    for name in dict.fromkeys(used):
        const = module.stacks.get(name) or module.consts[name]
        key = (scalar_name(const.type.dtype), len(const.arrays), const.digest)
        if key not in known:
            known[key] = scope.declare(name, f"{prefix}_w_{name}")
            distinct[known[key]] = const
        symbols[name] = known[key]
    return Weights(symbols, distinct, in_ram)


def collect_file(module: Module, prefix: str) -> Weights:
    """The same as parts of a file that an instance is given, ``self->weights``."""
    found = collect(module, prefix)
    file = WeightsFile(tuple(found.distinct.values()))
    places = dict(zip(found.distinct, file.offsets, strict=True))
    names = {}
    for symbol, const in found.distinct.items():
        names[symbol] = f"{prefix.upper()}_WEIGHT({scalar_name(const.type.dtype)}, {places[symbol]}u)"
    symbols = {name: names[symbol] for name, symbol in found.symbols.items()}
    return Weights(symbols, {names[symbol]: const for symbol, const in found.distinct.items()}, file=file)


def weights_file(weights: Weights, prefix: str, options: EmitOptions, align: int = _ALIGN) -> str:
    """The text of the file that holds the arrays; those of ``align`` bytes and more begin at a multiple of it."""
    macro = f"{prefix.upper()}_WEIGHTS"
    head = f"""{banner(options, f"{prefix}: constants.")}
#include "{prefix}.h"

/* Where the constants go, e.g. -D{macro}="__attribute__((section(\\".sdk_region.qspi\\")))". */
#ifndef {macro}
#define {macro}{_place(options)}
#endif

#if defined(__GNUC__)
#define {macro}_ALIGN(n) __attribute__((aligned(n)))
#else
#define {macro}_ALIGN(n)
#endif
"""
    blocks = [head, *(_definition(weights, symbol, macro, align) for symbol in weights.distinct)]
    return "\n".join(blocks)


def _place(options: EmitOptions) -> str:
    """The attribute that puts the constants where the linker script has their memory; "" for the usual one."""
    memory = options.memories.get("const")
    return "" if memory is None else f' __attribute__((section(".sdk_region.{memory}")))'


def _definition(weights: Weights, symbol: str, macro: str, align: int) -> str:
    const = weights.distinct[symbol]
    fits = [size for size in (align, _ALIGN) if const.nbytes >= size]
    align = fits[0] if fits else max(const.type.dtype.nbytes, 4)
    declarator = weights.declarator(symbol)
    return f"extern {declarator};\n{macro} {macro}_ALIGN({align}) {array_text(declarator, const)}\n"


def array_text(declarator: str, const: Const | Stack) -> str:
    """``declarator = {values};`` of a constant."""
    values = list(_values(const)) or ["0"]
    lines = [", ".join(values[k : k + _PER_LINE]) for k in range(0, len(values), _PER_LINE)]
    return f"{declarator} = {{\n    " + ",\n    ".join(lines) + "\n};"


def _values(const: Const | Stack) -> Iterable[str]:
    type = const.type.dtype
    plain = [v for array in const.arrays for v in (*array.reshape(-1).tolist(), *_padding(const))]
    if type.bits < 32 and type.kind in "iu":
        return map(str, plain)
    return (literal(v, type).text for v in plain)


def _padding(const: Const | Stack) -> list[int]:
    """Zeros behind each array of a stack."""
    if not isinstance(const, Stack):
        return []
    return [0] * (const.stride // const.type.dtype.nbytes - const.arrays[0].size)
