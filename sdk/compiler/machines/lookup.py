"""Which machine a set of capabilities is: of the rows of this folder the one with most of what the core has."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from sdk.compiler.machines.machine import Machine

__all__ = ["MACHINES", "in_order", "machine_for"]


def in_order(rows: Iterable[Machine]) -> tuple[Machine, ...]:
    """Rows in the order in which they are asked: the widest vectors first, then those that need most."""
    return tuple(sorted(rows, key=lambda row: (-row.vector_bytes, -len(row.needs))))


def _found() -> Iterator[Machine]:
    """``MACHINES`` of every module of this folder."""
    package = importlib.import_module("sdk.compiler.machines")
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        if info.name != "lookup":
            yield from getattr(importlib.import_module(f"sdk.compiler.machines.{info.name}"), "MACHINES", ())


MACHINES: Final = in_order(_found())


def machine_for(capabilities: Iterable[str]) -> Machine:
    """The machine of a core that has these capabilities, with its unit for floats."""
    have = frozenset(capabilities)
    machine = next(row for row in MACHINES if row.needs <= have)
    return replace(machine, floats=next(unit for unit in machine.float_units if unit.needs <= have))
