"""The C99 backend: a planned module as a freestanding header, code and constants."""

from __future__ import annotations

from sdk.codegen_c.c99.model import emit, emit_header
from sdk.codegen_c.c99.options import EmitOptions, EntryStack, GoldenCase

__all__ = ["EmitOptions", "EntryStack", "GoldenCase", "emit", "emit_header"]
