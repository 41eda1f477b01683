"""The text of a module compared with the module that it reads back to."""

from __future__ import annotations

from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module

__all__ = ["check_function", "check_round_trip"]


def check_round_trip(module: Module, where: str = "") -> str:
    """The text of the module, which reads back to it."""
    text = print_module(module)
    again = parse_module(text, collect_blobs(module))
    assert again == module, where
    assert print_module(again) == text, where
    return text


def check_function(loops: Loops, where: str = "") -> str:
    """The text of a module of one function."""
    return check_round_trip(Module("m", "scheduled", loops={loops.name: loops}), where)
