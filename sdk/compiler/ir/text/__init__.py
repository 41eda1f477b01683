"""The text of modules: printer and parser, exact in both directions."""

from sdk.compiler.ir.text.parser import parse_module
from sdk.compiler.ir.text.printer import collect_blobs, print_module

__all__ = ["collect_blobs", "parse_module", "print_module"]
