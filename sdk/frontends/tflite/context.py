"""What an importer of one operator sees: its tensors, its options, and calls to emit into the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Attr, Value
from sdk.compiler.ir.module import State
from sdk.compiler.ir.types import I8, I16, U8, DType, Quant, TensorType, dtype_of
from sdk.compiler.ops import infer
from sdk.compiler.sym import Dim, Expr
from sdk.errors import BuildError
from sdk.frontends.builder import Builder as CallBuilder
from sdk.frontends.builder import Contents
from sdk.frontends.emit import Emitter
from sdk.frontends.names import identifier
from sdk.frontends.tflite.reader import Operator, Subgraph, Tensor
from sdk.frontends.tflite.sizes import sizes_of
from sdk.frontends.tflite.unsigned import LOWER, RAISE, is_unsigned, lowered

__all__ = [
    "LIST", "Argument", "Builder", "Importer", "OpNode", "OperatorSpec", "Table", "fits", "tensor_quant", "usable",
]  # fmt: skip

Array = NDArray[Any]
Argument = Value | str  # of a subgraph: a value, or the name of the variable that a handle stands for
LIST: Final = "VARIANT"  # as the schema calls the type of a list of tensors
_NARROW: Final = (I8, U8, I16)


def tensor_quant(tensor: Tensor) -> Quant | None:
    """The quantisation of a whole tensor; None without, with one scale per channel, or one that means nothing."""
    stored = tensor.dtype is not None and not tensor.dtype.is_float
    one = stored and len(tensor.scales) == 1 and usable(tensor.scales[0])
    return Quant(tensor.scales[0], tensor.zero_points[0]) if one else None


def usable(scale: float) -> bool:
    """Whether a scale can be computed with."""
    return math.isfinite(scale) and scale > 0


@dataclass(kw_only=True)
class Builder(CallBuilder):
    """The module under construction. ``values`` maps tensor numbers of the main subgraph to graph values, ``lowered``
    those of u8 to values of i8, 128 lower; a tensor may be in both. ``state_names`` has resources by name, variable
    tensors by number; ``kept`` those of other subgraphs. ``inline`` imports a subgraph in place."""

    graph: Subgraph
    subgraphs: tuple[Subgraph, ...]
    values: dict[int, Value] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    handles: dict[int, str] = field(default_factory=dict)
    state_names: dict[str | int, str] = field(default_factory=dict)
    lowered: dict[int, Value] = field(default_factory=dict)
    initial: dict[str, Tensor] = field(default_factory=dict)
    kept: dict[int, dict[str | int, str]] = field(default_factory=dict)
    inline: Callable[[int, tuple[Argument, ...]], tuple[Argument, ...]] = lambda index, args: ()

    def value(self, number: int, lower: bool = False) -> Value | None:
        """The value of a tensor, of u8 also as i8 and ``lower``: converted where it was computed as the other one. None
        where nothing has computed it."""
        here, there = (self.lowered, self.values) if lower else (self.values, self.lowered)
        if number not in here and number in there:
            tensor = self.graph.tensors[number]
            given, source = LOWER if lower else RAISE, f"QUANTIZE {tensor.title}"
            args = (self.materialize(there[number], source),)
            (found,) = infer("rescale", [args[0].type], given)
            types = [replace(found, quant=tensor_quant(lowered(tensor) if lower else tensor))]
            stems = [f"{tensor.name}_{found.dtype}"]
            made = self.folded("rescale", args, given, types, stems)
            (here[number],) = made or self.emit("rescale", args, given, types, stems, source)
        return here.get(number)


@dataclass
class OpNode:
    """One operator being imported. It sees the tensors numbered in ``lower`` as i8, 128 lower than the file's u8."""

    builder: Builder
    operator: Operator
    lower: frozenset[int] = frozenset()
    _seen: dict[int, Tensor] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """How reports name the operator: its kind and the tensor it makes."""
        outputs = [
            self.tensor(k, "outputs").name.split(";")[0] for k in range(len(self.operator.outputs))[:1]
        ]
        return " ".join([self.operator.name, *outputs])

    @property
    def emitter(self) -> Emitter:
        """Emits what stands between inputs and outputs, for code that several formats share."""
        return Emitter(self.builder, self.source, f"{identifier(self.output().name)}_part")

    def tensor(self, k: int, side: str = "inputs") -> Tensor:
        """The description of input (or output) ``k`` in the file.

        Raises:
            BuildError: the operator does not have it.
        """
        numbers: tuple[int, ...] = getattr(self.operator, side)
        if k >= len(numbers) or numbers[k] < 0:
            raise BuildError(f"{side[:-1]} {k} is missing")
        return self._seen_as(self.builder.graph.tensors[numbers[k]])

    def _seen_as(self, tensor: Tensor) -> Tensor:
        if tensor.index not in self.lower:
            return tensor
        if tensor.index not in self._seen:
            self._seen[tensor.index] = lowered(tensor)
        return self._seen[tensor.index]

    def output(self, k: int = 0) -> Tensor:
        """The description of output ``k`` in the file."""
        return self.tensor(k, "outputs")

    def was_unsigned(self, tensor: Tensor) -> bool:
        """Whether a tensor that is seen as i8 is of u8 in the file."""
        return tensor.index in self.lower

    def has(self, k: int) -> bool:
        """Whether input ``k`` is given."""
        return k < len(self.operator.inputs) and self.operator.inputs[k] >= 0

    @property
    def dtypes(self) -> list[DType | None]:
        """The element types of its inputs and outputs."""
        numbers = (*self.operator.inputs, *self.operator.outputs)
        return [self.builder.graph.tensors[k].dtype for k in numbers if k >= 0]

    def option(self, name: str) -> Any:
        """An option by the name of its accessor; 0 where the file has none for this operator, which is how LiteRT reads
        it."""
        return self.operator.options[name] if self.operator.options else 0

    def positive(self, name: str) -> int:
        """An integer option that must be at least 1."""
        value = int(self.option(name))
        if not 1 <= value < 1 << 16:
            raise BuildError(f"the option {name} is {value}")
        return value

    def input(self, k: int, *kinds: DType) -> Value:
        """The value of input ``k``, of one of the element types given.

        Raises:
            BuildError: it is missing, of another type, or not computed before this operator.
        """
        tensor = self.tensor(k)
        if tensor.dtype is None or (kinds and tensor.dtype not in kinds):
            wanted = " or ".join(str(t) for t in kinds)
            raise BuildError(f"input {k} ({tensor.title}) has type {tensor.type_name}, supported: {wanted}")
        if tensor.data is not None:
            return self.builder.const(tensor.name, tensor.data)
        found = self.builder.value(tensor.index, tensor.index in self.lower)
        if found is None:
            raise BuildError(f"input {k} ({tensor.title}) is used before it is computed")
        return found

    def list_of(self, k: int) -> Value:
        """The list of tensors that input ``k`` is, a sequence of the builder.

        Raises:
            BuildError: it is none, or not computed before this operator.
        """
        tensor = self.tensor(k)
        found = self.builder.values.get(tensor.index)
        if found is None or self.builder.sequences.get(found.name) is None:
            raise BuildError(f"input {k} ({tensor.title}) is no list of tensors that was computed before")
        return found

    def keep_list(self, value: Value, k: int = 0) -> None:
        """Makes output ``k`` a list of tensors, a sequence of the builder.

        Raises:
            BuildError: the file says another type of it.
        """
        tensor = self.output(k)
        if tensor.type_name != LIST:
            raise BuildError(f"output {tensor.title} is a list of tensors, the file says {tensor.type_name.lower()}")
        self.bind(k, value)

    def contents(self, k: int) -> Contents | None:
        """What is known of the contents of input ``k`` at import: numbers or dims; None when that is nothing."""
        tensor = self.tensor(k)
        if tensor.data is not None:
            return Contents(dtype_of(tensor.data), tensor.data)
        found = (self.builder.lowered if tensor.index in self.lower else self.builder.values).get(tensor.index)
        return None if found is None else self.builder.contents_of(found)

    def data(self, k: int) -> Array | None:
        """The contents of input ``k`` where they are numbers at import."""
        found = self.contents(k)
        return None if found is None else found.numbers

    def constant(self, k: int) -> Array:
        """The contents of input ``k``.

        Raises:
            BuildError: it is not a constant.
        """
        found = self.data(k)
        if found is None:
            raise BuildError(f"input {k} ({self.tensor(k).title}) must be a constant")
        return found

    def integers(self, k: int) -> tuple[int, ...]:
        """The contents of the integer constant ``k``."""
        data = self.constant(k)
        if data.dtype.kind not in "iu":
            raise BuildError(f"input {k} must hold integers")
        return tuple(int(v) for v in data.reshape(-1))

    def dims(self, k: int) -> tuple[Dim, ...]:
        """The contents of the integer tensor ``k`` as numbers and sizes of inputs.

        Raises:
            BuildError: they are only known at run time.
        """
        found = self.contents(k)
        if found is None or found.dtype.kind not in "iu":
            raise BuildError(f"input {k} ({self.tensor(k).title}) must hold integers known when the model is built")
        return tuple(d if isinstance(d, Expr) else int(d) for d in found.array.reshape(-1).tolist())

    def quant(self, tensor: Tensor) -> Quant:
        """The scale and zero point of a tensor quantised as a whole.

        Raises:
            BuildError: it has none, one per channel, or a zero point outside its type.
        """
        found = tensor_quant(tensor)
        if found is None or tensor.dtype is None:
            scales = tensor.scales
            has = f"has the scale {scales[0]}" if len(scales) == 1 else f"has {len(scales)} scales"
            raise BuildError(f"tensor {tensor.title} must have one positive finite scale, it {has}")
        lo, hi = tensor.dtype.limits
        if not lo <= found.zero_point <= hi:
            raise BuildError(
                f"tensor {tensor.name} has the zero point {found.zero_point}, outside {tensor.dtype}"
            )
        return found

    def out_dtype(self, *kinds: DType) -> DType:
        """The element type of output 0, one of those given."""
        tensor = self.output()
        if tensor.dtype is None or tensor.dtype not in kinds:
            raise BuildError(f"output {tensor.title} has type {tensor.type_name}")
        return tensor.dtype

    def const(self, stem: str, data: Array) -> Value:
        """A constant of the module named after the operator's result."""
        return self.builder.const(f"{identifier(self.output().name)}_{stem}", np.asarray(data))

    def scalar(self, number: float, like: Value) -> Value:
        """A constant of rank 0 in the element type of ``like``."""
        return self.const("scalar", np.asarray(number, like.type.dtype.numpy))

    def inline(self, index: int, args: tuple[Argument, ...]) -> tuple[Argument, ...]:
        """The results of a subgraph imported in place of the operator.

        Raises:
            BuildError: there is none of that number, or it cannot be imported with these arguments.
        """
        return self.builder.inline(index, args)

    def call(self, op: str, *args: Value, to: int | str = 0, **given: Attr) -> Value:
        """Emits a call; ``to`` is the output number it computes, or the suffix of an intermediate result. On small
        constants, and on sizes of inputs, the result is known at once instead.

        Raises:
            BuildError: the op rejects its arguments, or the result does not fit the file's tensor.
        """
        (value,) = self.calls(op, *args, to=(to,), **given)
        return value

    def cast(self, x: Value, kind: DType, to: int | str = 0) -> Value:
        """Emits a conversion to another element type (``to`` as in ``call``); floats are held to an integer type."""
        return self._emitted("cast", (x,), (to,), {"to": str(kind)})[0]

    def calls(self, op: str, *args: Value, to: tuple[int | str, ...], **given: Attr) -> tuple[Value, ...]:
        """The same with a result for each of ``to``."""
        return self._emitted(op, args, to, given)

    def _emitted(
        self, op: str, args: tuple[Value, ...], to: tuple[int | str, ...], given: Mapping[str, Attr]
    ) -> tuple[Value, ...]:
        builder = self.builder
        found = infer(op, [a.type for a in args], given)
        types = [self._stated(k, type) if isinstance(k, int) else type for k, type in zip(to, found, strict=True)]
        own = identifier(self.output().name)
        stems = [self.output(k).name if isinstance(k, int) else f"{own}_{k}" for k in to]
        values = self._sizes(op, args, given, stems)
        if values is None:
            args = tuple(builder.materialize(a, self.source) for a in args)
            values = builder.folded(op, args, given, types, stems)
        values = values or builder.emit(op, args, given, types, stems, self.source)
        for k, value in zip(to, values, strict=True):
            if isinstance(k, int):
                self._keep(self.output(k), value)
        return values

    def _sizes(
        self, op: str, args: Sequence[Value], given: Mapping[str, Attr], stems: Sequence[str]
    ) -> tuple[Value, ...] | None:
        """The result of arithmetic on sizes that are not all numbers."""
        known = [None if a.const else self.builder.contents_of(a) for a in args]
        if all(k is None or k.numbers is not None for k in known):
            return None
        found = sizes_of(op, [self.builder.contents_of(a) for a in args], given)
        return None if found is None else (self.builder.known(found, stems[0]),)

    def known(self, contents: Contents, k: int = 0) -> None:
        """Makes output ``k`` a value whose contents are known at import.

        Raises:
            BuildError: it does not fit the file's tensor.
        """
        self._stated(k, contents.type)
        self._keep(self.output(k), self.builder.known(contents, self.output(k).name))

    def _stated(self, k: int, found: TensorType) -> TensorType:
        """The type of output ``k`` with what the file says of its meaning."""
        tensor = self.output(k)
        self._check_free(tensor)
        if tensor.dtype != found.dtype or not fits(found.shape, tensor):
            raise BuildError(
                f"output {tensor.name} is {found.dtype}{list(found.shape)}, "
                f"the file says {tensor.type_name.lower()}{list(tensor.shape)}"
            )
        return replace(found, quant=tensor_quant(tensor))

    def _keep(self, tensor: Tensor, value: Value) -> None:
        kept = self.builder.lowered if tensor.index in self.lower else self.builder.values
        kept[tensor.index] = value

    def _check_free(self, tensor: Tensor) -> None:
        """Refuses an output that something else gives its contents."""
        if tensor.data is not None:
            raise BuildError(f"output {tensor.name} is a constant")
        if tensor.index in self.builder.values or tensor.index in self.builder.lowered:
            raise BuildError(f"output {tensor.name} is an input of the model or computed before")

    def bind(self, k: int, value: Value) -> None:
        """Makes output ``k`` another name of ``value``.

        Raises:
            BuildError: the tensor has contents already.
        """
        self._check_free(self.output(k))
        self._keep(self.output(k), value)


def fits(found: tuple[Dim, ...], stated: Tensor) -> bool:
    """Whether a shape is what the file says, where it says something: a tensor whose shape the run computes has open
    extents, or no rank at all."""
    if not stated.ranked:
        return True
    return len(found) == len(stated.shape) and all(
        not isinstance(f, int) or s in (f, -1) or open_ == -1
        for f, s, open_ in zip(found, stated.shape, stated.signature, strict=True)
    )


Importer = Callable[[OpNode], None]


Table = Mapping[str, Importer]  # importers by the name of the operator
Unsigned = Literal["lower", "follow", "convert", "keep"]


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """How one operator is imported: the options it reads, how many inputs it has at most (None: any number), and an
    importer for quantised tensors, one for real ones, or both. ``unsigned`` says how the quantised one sees u8."""

    options: str
    fields: tuple[str, ...]
    max_inputs: int | None
    quantised: Importer | None
    real: Importer | None
    unsigned: Unsigned = "lower"

    def importer(self, dtypes: Collection[DType | None]) -> Importer:
        """The importer for tensors of these element types (None: one without counterpart here).

        Where there are both, the real one takes whatever has floats in it (weights of i8 among them) or no integers
        that are commonly quantised.
        """
        real = any(t.is_float for t in dtypes if t) or not any(t in _NARROW for t in dtypes)
        first, second = (self.real, self.quantised) if real else (self.quantised, self.real)
        found = first or second
        assert found is not None, "what is in the table has an importer"
        return found

    def lower(self, node: OpNode) -> frozenset[int]:
        """The tensors of u8 that the importer of an operator sees as i8.

        Arithmetic is done on i8 alone. What only moves elements follows its inputs, and what converts reads what
        there is and leaves a result of the model as it is to be: so no tensor is converted twice.
        """
        if self.importer(node.dtypes) is not self.quantised or self.unsigned == "keep":
            return frozenset()
        builder, operator = node.builder, node.operator
        tensors = builder.graph.tensors
        sides = operator.inputs, operator.outputs
        ins, outs = ({k for k in side if k >= 0 and is_unsigned(tensors[k])} for side in sides)
        if self.unsigned == "lower":
            return frozenset(ins | outs)
        there = {k for k in ins if k in builder.lowered and k not in builder.values}
        if self.unsigned == "convert":
            return frozenset(there | (outs - set(builder.graph.outputs)))
        return frozenset(ins | outs) if there else frozenset()
