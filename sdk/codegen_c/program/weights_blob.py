"""Constants of big models as bytes: one binary file, and an assembler file that gives each part its symbol."""

from __future__ import annotations

from typing import Final

from sdk.codegen_c.base import EmitOptions
from sdk.codegen_c.program.banner import banner
from sdk.codegen_c.program.weights import Weights
from sdk.codegen_c.program.weights_bytes import ALIGN, little

__all__ = ["BLOB_ABOVE", "blob_files"]

BLOB_ABOVE: Final = 512 * 1024  # bytes of constants up to which C text is as good: what microcontrollers hold


def blob_files(weights: Weights, prefix: str, options: EmitOptions) -> dict[str, str | bytes]:
    """``<prefix>_weights.bin``, little-endian, each constant at a multiple of 64, and ``<prefix>_weights.S``."""
    parts: list[bytes] = []
    symbols: list[str] = []
    sizes: list[str] = []
    at = 0
    for symbol, const in weights.distinct.items():
        data = little(const)
        symbols.append(_symbol(prefix.upper(), symbol, at, len(data)))
        sizes.append(f"    .type {symbol}, {prefix.upper()}_OBJECT\n    .size {symbol}, {len(data)}\n")
        parts += [data, bytes(-len(data) % ALIGN)]
        at += len(data) + len(parts[-1])
    symbols.append(f"#if defined(__ELF__) || defined(__wasm__)\n{''.join(sizes)}#endif\n")
    return {
        f"{prefix}_weights.S": _head(prefix, options) + "\n".join(symbols),
        f"{prefix}_weights.bin": b"".join(parts),
    }


def _symbol(macro: str, symbol: str, at: int, size: int) -> str:
    name = f"{macro}_SYMBOL({symbol})"
    return f"    .globl {name}\n    .balign {ALIGN}\n{name}:\n    .incbin {macro}_WEIGHTS_BIN, {at}, {size}\n"


def _head(prefix: str, options: EmitOptions) -> str:
    macro = prefix.upper()
    return f"""{banner(options, f"{prefix}: constants, out of {prefix}_weights.bin.")}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "{prefix}_weights.bin is little-endian"
#endif

/* Path of the constants: assemble in their folder, name that with -Wa,-I,FOLDER, or give a path here. */
#ifndef {macro}_WEIGHTS_BIN
#define {macro}_WEIGHTS_BIN "{prefix}_weights.bin"
#endif

#if defined(__APPLE__)
#define {macro}_SYMBOL(name) _##name
#else
#define {macro}_SYMBOL(name) name
#endif

#if defined(__wasm__)
#define {macro}_OBJECT @object
#elif defined(__ELF__)
#define {macro}_OBJECT %object
    .section .note.GNU-stack,"",%progbits
#endif

/* Where the constants go. */
#if defined({macro}_WEIGHTS_SECTION)
    {macro}_WEIGHTS_SECTION
#elif defined(__APPLE__)
    .section __TEXT,__const
#elif defined(__wasm__)
    .section .rodata.{prefix}_weights,"",@
#else
    .section .rodata.{prefix}_weights,"a",%progbits
#endif

"""


