"""Attributes of ops as a caller gives them: checked by name, and made what the IR keeps."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from typing import Any

import numpy as np

from sdk.compiler.ir.graph import Attr
from sdk.compiler.ir.types import DType
from sdk.compiler.ops.registry import OpDef
from sdk.compiler.sym import Expr
from sdk.errors import BuildError

__all__ = ["attribute", "check_attributes"]


def check_attributes(row: OpDef, given: Iterable[str]) -> None:
    """Checks that ``given`` are the names of attributes of an op, and that none is missing.

    Raises:
        BuildError: one is unknown or missing.
    """
    known = {key for sample in row.samples for key, _ in sample.attrs}
    if extra := sorted(set(given) - known):
        hint = f"it has {', '.join(sorted(known)) or 'none'}"
        raise BuildError(f"op {row.name} has no attribute {extra[0]}", hint=hint)
    rule = signature(row.infer).parameters.values()
    optional = {p.name for p in rule if p.default is not p.empty}
    wanted = set.intersection(*({key for key, _ in sample.attrs} for sample in row.samples)) - optional
    if missing := sorted(wanted - set(given)):
        raise BuildError(f"op {row.name} also needs {', '.join(missing)}")


def attribute(value: Any) -> Attr:
    """An attribute as the IR keeps it: sequences as tuples, types by name, numpy's numbers as Python's.

    Raises:
        TypeError: it is of no kind that attributes are.
    """
    if isinstance(value, (list, tuple)):
        return tuple(attribute(v) for v in value)
    if isinstance(value, DType):
        return str(value)
    if isinstance(value, np.generic):
        return attribute(value.item())
    if isinstance(value, (bool, int, float, str, Expr)):
        return value
    raise TypeError(f"a {type(value).__name__} is no attribute")
