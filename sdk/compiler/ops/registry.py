"""What an op is: one declaration with its inference, its numpy meaning, its loops and its samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.budget import GEOMETRY, RANK, TENSOR, WINDOW, Limit, check_limit
from sdk.compiler.ir.graph import Attr, Attrs, attrs
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import TensorType
from sdk.errors import BuildError

__all__ = ["OPS", "Infer", "LoopsOf", "OpDef", "Sample", "define", "get_op"]

Array = NDArray[Any]
Infer = Callable[..., TensorType | tuple[TensorType, ...]]
LoopsOf = Callable[[str, Sequence[TensorType], Sequence[TensorType], Mapping[str, Attr]], Loops]


@dataclass(frozen=True)
class Sample:
    """Arguments the registry-wide test checks an op with: input types (symbols allowed), attributes, and
    where an input needs particular values, a function ``rng -> array`` for its index."""

    inputs: tuple[TensorType, ...]
    attrs: Attrs = ()
    values: Mapping[int, Callable[[np.random.Generator], Array]] = field(default_factory=dict)


@dataclass(frozen=True)
class OpDef:
    """``infer(*types, **attrs)`` gives the result types; ``reference(*arrays, **attrs)`` the exact values;
    ``loops(name, arg types, result types, attrs)`` the naive nest, parameters named as ``inputs`` then ``o``
    (``o0, o1`` … for several). ``variadic`` repeats the last input. A ``view`` moves no bytes: no loops."""

    name: str
    inputs: tuple[str, ...]
    infer: Infer
    reference: Callable[..., Any]
    loops: LoopsOf | None
    samples: tuple[Sample, ...]
    variadic: bool = False
    view: bool = False

    def input_names(self, count: int) -> tuple[str, ...]:
        """Parameter names for ``count`` arguments."""
        if not self.variadic:
            return self.inputs
        return (*self.inputs[:-1], *(f"{self.inputs[-1]}{k}" for k in range(count - len(self.inputs) + 1)))


OPS: Final[dict[str, OpDef]] = {}


def define(op: OpDef) -> OpDef:
    """Registers an op.

    Raises:
        BuildError: the name is taken, or the declaration lacks samples or loops.
    """
    if op.name in OPS:
        raise BuildError(f"op {op.name} is declared twice")
    if not op.samples or (op.loops is None) != op.view:
        raise BuildError(f"op {op.name} needs samples, and loops unless it is a view")
    OPS[op.name] = op
    return op


def get_op(name: str) -> OpDef:
    """The op called ``name``.

    Raises:
        BuildError: no such op.
    """
    if name not in OPS:
        raise BuildError(f"unknown op {name}", hint="ops are declared in sdk/compiler/ops")
    return OPS[name]


def infer(name: str, types: Sequence[TensorType], given: Attrs | Mapping[str, Attr] = ()) -> tuple[TensorType, ...]:
    """Result types of op ``name`` on argument types.

    Raises:
        BuildError: no such op, it rejects its arguments, or a number among its attributes or a result is beyond what
            any model may ask for.
    """
    op = get_op(name)
    if len(types) != len(op.inputs) and not (op.variadic and len(types) >= len(op.inputs)):
        raise BuildError(f"op {name} takes {len(op.inputs)} arguments ({', '.join(op.inputs)}), got {len(types)}")
    stated = dict(given)
    for key, limit in _BOUNDED.items():
        if key in stated:
            _check_numbers(stated[key], limit, f"{key} of op {name}")
    found = op.infer(*types, **stated)
    out = found if isinstance(found, tuple) else (found,)
    for type in out:
        _check_result(type, name)
    return out


# Attributes that say where and how many elements are: positions are computed from them in 32 bits.
_BOUNDED: Final[dict[str, Limit]] = {
    **dict.fromkeys(("dilation", "kernel", "more", "pad", "stride"), WINDOW),
    **dict.fromkeys(
        ("axes", "axis", "begin", "block", "depth", "extent", "groups", "inner", "k", "maps", "multiplier", "pads",
         "perm", "place", "shape", "size", "sizes", "strides", "taps"), GEOMETRY,
    ),
}  # fmt: skip


def _check_numbers(given: Attr, limit: Limit, what: str) -> None:
    if isinstance(given, tuple):
        for one in given:
            _check_numbers(one, limit, what)
    elif isinstance(given, int):
        check_limit(limit, abs(given), what)


def _check_result(type: TensorType, name: str) -> None:
    check_limit(RANK, type.rank, f"the result of op {name}")
    size = math.prod(d for d in type.shape if isinstance(d, int))  # of extents that are numbers: exact, never wraps
    check_limit(TENSOR, size, f"the result of op {name}")


def sample(
    *inputs: TensorType,
    values: Mapping[int, Callable[[np.random.Generator], Array]] | None = None,
    **given: Attr,
) -> Sample:
    """A ``Sample`` with its attributes as keywords."""
    return Sample(inputs, attrs(**given), values or {})
