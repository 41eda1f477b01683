"""The module under construction: calls, constants, and values whose contents are known before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.budget import FOLDED, NODES, Budget
from sdk.compiler.ir.graph import Attr, Call, Node, Value, attr_symbols, attrs, fresh_name
from sdk.compiler.ir.module import Const, State
from sdk.compiler.ir.types import BOOL, DType, TensorType, dtype_of
from sdk.compiler.ops import get_op, infer
from sdk.compiler.sym import Dim, Expr, Var
from sdk.errors import BuildError
from sdk.frontends.loop_bounds import Passes
from sdk.frontends.names import identifier

__all__ = ["Builder", "Contents", "Ratio", "contents_of"]

Array = NDArray[Any]
SYMBOLIC_LIMIT = 1024  # dims in one tensor that only stands for sizes
FOLD_ELEMENTS = 1024  # larger results are computed by the compiler, where that pays
READ_ELEMENTS = 1 << 16
_KEPT = frozenset({"quantize", "dequantize"})  # patterns of integer kernels are found by them


@dataclass(frozen=True, eq=False)
class Contents:
    """What a tensor holds, known at import: an array of numbers, or of numpy type object: ints and
    ``Expr`` in an integer tensor, ``Ratio`` and floats in a float tensor."""

    dtype: DType
    array: Array

    @property
    def numbers(self) -> Array | None:
        """The contents when they are numbers; None when some are symbolic."""
        return None if self.array.dtype == np.object_ else self.array

    @property
    def type(self) -> TensorType:
        """The type of the tensor."""
        return TensorType(self.dtype, self.array.shape)


@dataclass(frozen=True, slots=True)
class Ratio:
    """An element of a float tensor made of sizes: ``num / den``, with ``den`` a positive number."""

    num: Dim
    den: int


def contents_of(elements: Sequence[Any], dtype: DType, shape: tuple[int, ...]) -> Contents:
    """Contents with these elements in row-major order; numbers when no element is symbolic."""
    flat = np.empty(len(elements), dtype=np.object_)
    flat[:] = [e.num / e.den if isinstance(e, Ratio) and isinstance(e.num, int) else e for e in elements]
    if any(isinstance(e, (Expr, Ratio)) for e in flat):
        return Contents(dtype, flat.reshape(shape))
    numbers = np.array(flat.tolist(), dtype=np.float64 if dtype.is_float else np.int64)
    return Contents(dtype, numbers.astype(dtype.numpy).reshape(shape))


@dataclass
class Builder:
    """``body``, ``consts`` and ``states`` of the graph, ``dims`` its symbols by name; ``names`` are taken; ``asked`` is
    values that a converter wanted to know at import, and could not; ``narrow`` gives values that stand for those of a
    narrower type the format's number of it; ``sequences`` gives values that stand for several those, and None for an
    optional value that is not there; ``places`` where the elements of values that are not 0 stand; ``digests`` names
    constants by their contents; ``passes`` is how often loops may run that data end."""

    body: list[Node] = field(default_factory=list)
    consts: dict[str, Const] = field(default_factory=dict)
    dims: dict[str, Var] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    budget: Budget = field(default_factory=Budget)
    asked: set[str] = field(default_factory=set)
    narrow: dict[str, int] = field(default_factory=dict)
    sequences: dict[str, tuple[Value, ...] | None] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    places: dict[str, Value] = field(default_factory=dict)
    digests: dict[tuple[TensorType, str], str] = field(default_factory=dict)
    passes: Passes = field(default_factory=Passes)
    _known: dict[str, Contents] = field(default_factory=dict)
    _material: dict[str, Value] = field(default_factory=dict)

    def value_name(self, text: str) -> str:
        """A name for a value that nothing of the module has yet."""
        return fresh_name(identifier(text), self.names)

    def sequence(self, parts: tuple[Value, ...] | None, stem: str) -> Value:
        """A value that stands for several, or for an optional one that is not there; only the import knows it."""
        value = Value(self.value_name(stem), TensorType(BOOL, (0,)))
        self.sequences[value.name] = parts
        return value

    def known(self, contents: Contents, stem: str) -> Value:
        """A value with known contents that stands nowhere in the graph yet."""
        value = Value(self.value_name(stem), contents.type)
        self._known[value.name] = contents
        return value

    def contents_of(self, value: Value) -> Contents | None:
        """What is known of the contents of ``value``."""
        if value.const:
            return Contents(value.type.dtype, np.asarray(self.consts[value.name].data))
        found = self._known.get(value.name)
        if found is None:
            self.asked.add(value.name)
        return found

    def const(self, stem: str, data: Array) -> Value:
        """A constant with these contents; one already there with the same type and bytes is shared."""
        made = Const(stem, TensorType(dtype_of(data), data.shape), data)
        key = (made.type, made.digest)
        if key not in self.digests:
            name = self.digests[key] = self.value_name(stem)
            self.consts[name] = Const(name, made.type, made.data)
        return Value(self.digests[key], made.type, const=True)

    def materialize(self, value: Value, source: str) -> Value:
        """``value`` as the graph can use it: known numbers become a constant, known dims calls that make them."""
        if value.name in self.sequences:
            raise BuildError("a sequence or an optional value without one stands where a tensor is wanted")
        contents = None if value.const else self._known.get(value.name)
        if contents is None:
            return value
        if value.name not in self._material:
            numbers = contents.numbers
            if numbers is not None:
                self._material[value.name] = self.const(value.name, numbers)
            else:
                self._material[value.name] = self._dims_tensor(contents, value.name, source)
        return self._material[value.name]

    def _dims_tensor(self, contents: Contents, stem: str, source: str) -> Value:
        """Calls that make a tensor of dims: one ``full`` per element, joined."""
        elements = contents.array.reshape(-1).tolist()
        if len(elements) > SYMBOLIC_LIMIT:
            raise BuildError(f"a tensor of {len(elements)} sizes of inputs is too large to make at run time")
        if contents.array.ndim == 0:
            return self._element(elements[0], (), contents.dtype, stem, source)
        parts = [self._element(e, (1,), contents.dtype, stem, source) for e in elements]
        (flat,) = self.call("concat", tuple(parts), {"axis": 0}, stem, source) if len(parts) > 1 else parts
        if contents.array.ndim == 1:
            return flat
        return self.call("reshape", (flat,), {"shape": contents.array.shape}, stem, source)[0]

    def _element(self, value: Any, shape: tuple[int, ...], kind: DType, stem: str, source: str) -> Value:
        """A tensor of one element with a size (or a quotient of one) in it."""
        if not isinstance(value, Ratio):
            return self.call("full", (), {"shape": shape, "value": value, "dtype": str(kind)}, stem, source)[0]
        top = self.call("full", (), {"shape": shape, "value": value.num, "dtype": "i64"}, stem, source)
        found = self.call("cast", top, {"to": str(kind)}, stem, source)
        if value.den != 1:
            den = self.const(f"{stem}_den", np.full((), value.den, dtype=kind.numpy))
            found = self.call("div", (*found, den), {}, stem, source)
        return found[0]

    def call(
        self, op: str, args: tuple[Value, ...], given: Mapping[str, Attr], stem: str, source: str
    ) -> tuple[Value, ...]:
        """Appends a call of an op, or computes it at once where its arguments are small constants; its results.

        Raises:
            BuildError: the op rejects its arguments.
        """
        args = tuple(self.materialize(a, source) for a in args)
        types = infer(op, [a.type for a in args], given)
        stems = (stem,) * len(types)
        return self.folded(op, args, given, types, stems) or self.emit(op, args, given, types, stems, source)

    def emit(
        self, op: str, args: tuple[Value, ...], given: Mapping[str, Attr], types: Sequence[TensorType],
        stems: Sequence[str], source: str,
    ) -> tuple[Value, ...]:
        """Appends a call with results of these types, named after ``stems``."""
        self.budget.spend(NODES, 1, source)
        outs = tuple(Value(self.value_name(s), t) for s, t in zip(stems, types, strict=True))
        self.body.append(Call(outs, "op", op, args, attrs(**given), source=source))
        return outs

    def folded(
        self, op: str, args: tuple[Value, ...], given: Mapping[str, Attr], types: Sequence[TensorType],
        stems: Sequence[str],
    ) -> tuple[Value, ...] | None:
        """What a call on small constants computes (None for others): sizes are often computed from numbers in the
        file."""
        if op in _KEPT or not all(a.const for a in args) or attr_symbols(attrs(**given)):
            return None
        if not all(isinstance(t.size, int) and t.size <= FOLD_ELEMENTS for t in types):
            return None
        if not all(isinstance(a.type.size, int) and a.type.size <= READ_ELEMENTS for a in args):
            return None
        self.budget.spend(FOLDED, sum(t.max_bytes for t in types), stems[0])
        found = get_op(op).reference(*(np.asarray(self.consts[a.name].data) for a in args), **given)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(
            self.known(Contents(t.dtype, np.asarray(r, dtype=t.dtype.numpy)), stem)
            for t, r, stem in zip(types, results, stems, strict=True)
        )
