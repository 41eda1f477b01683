"""The C that maps a model's file of weights, and the file."""

from __future__ import annotations

from sdk.codegen_c.base import Files
from sdk.codegen_c.program.banner import banner
from sdk.codegen_c.program.interface import Interface
from sdk.codegen_c.program.weights_bytes import WeightsFile
from sdk.templates import render

__all__ = ["mapped_files"]


def mapped_files(api: Interface, file: WeightsFile) -> Files:
    """``<prefix>_weights.c``, which maps and checks, and ``<prefix>_weights.bin``."""
    text = render(
        "c99/weights.c",
        banner=banner(api.options, f"{api.prefix}: its file of weights, mapped and checked."),
        m=api.prefix,
        M=api.prefix.upper(),
        digest=", ".join(f"0x{byte:02x}" for byte in file.digest),
    )
    return {f"{api.prefix}_weights.c": text, f"{api.prefix}_weights.bin": file.data}
