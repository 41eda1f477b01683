"""Which layers become integers, and at which tensors: as the integer kernels of a build want it.

A layer that has an integer kernel reads tensors that are stored as integers and makes one. What has none (softmax,
normalisations) stays in floats between. An activation that a kernel clamps for nothing is part of the layer before it;
functions of one tensor alone are one table; what only moves or chooses elements takes the integers as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import onnx

from sdk.compiler.ir.types import F32, TensorType
from sdk.quantizer.net import Net, attribute
from sdk.quantizer.sums import Sum, as_sum

__all__ = ["MOVES", "Layer", "Placement", "layer_name", "place"]

Role = Literal["sum", "two", "mean", "function", "move"]

# Elementwise functions that a table of 256 entries computes of int8, and whose values an int8 holds well.
_FUNCTIONS: Final = frozenset(
    {
        "Abs", "Celu", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu",
        "Selu", "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh",
    }
)  # fmt: skip
_CLAMPS: Final = frozenset({"Relu", "Clip"})
_TWO: Final = frozenset({"Add", "Sub", "Mul"})
_MEANS: Final = frozenset({"AveragePool", "GlobalAveragePool", "ReduceMean"})
MOVES: Final = frozenset(
    {
        "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalMaxPool", "MaxPool", "Pad", "ReduceMax",
        "ReduceMin", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
        "Upsample",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A layer that is computed on integers: its node, the tensors that it reads and makes, the constants in it.

    What is made is behind a bias and an activation that the kernel takes in: ``folded`` are the nodes of these,
    ``bias_of`` the one that adds a constant to a MatMul.
    """

    name: str
    op: str
    role: Role
    node: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sum: Sum | None = None
    constant: str | None = None
    folded: tuple[int, ...] = ()
    bias_of: int | None = None

    @property
    def counts(self) -> bool:
        """Whether the layer computes, and does not just move elements."""
        return self.role != "move"


@dataclass(frozen=True)
class Placement:
    """What is computed on integers: layers in order, and the groups of tensors that share scale and zero point."""

    layers: tuple[Layer, ...]
    groups: Mapping[str, str]  # each stored tensor to the first of its group

    @property
    def stored(self) -> list[str]:
        """The tensors that are stored as integers."""
        return list(self.groups)


@dataclass
class _Placer:
    net: Net
    types: Mapping[str, TensorType]
    skipped: frozenset[str]
    tables: bool  # whether functions and constants of 8 bits have kernels: for int8
    readers: dict[str, list[int]] = field(init=False)
    makers: dict[str, int] = field(init=False)
    taken: set[int] = field(default_factory=set)  # nodes that are part of a layer before them

    def __post_init__(self) -> None:
        self.readers, self.makers = self.net.readers(), self.net.makers()

    def real(self, name: str) -> bool:
        """Whether a tensor holds single floats that a run computes."""
        kind = self.types.get(name)
        return kind is not None and kind.dtype == F32 and name not in self.net.tensors

    def layer(self, k: int) -> Layer | None:
        """Node ``k`` as a layer on integers; None where it has no integer kernel, or is kept in floats with what its
        kernel would take in."""
        node = self.net.nodes[k]
        if node.domain not in ("", "ai.onnx") or not node.output:
            return None
        outputs = tuple(name for name in node.output if name)
        if not all(self.real(name) for name in outputs):
            return None
        role = self.role(k, node)
        if role is None or (len(outputs) > 1 and node.op_type != "Split"):
            return None
        one = as_sum(self.net, k)
        inputs = tuple(dict.fromkeys(self.data_inputs(node, role)))
        if not inputs or not all(self.real(name) for name in inputs):
            return None
        constant = next((n for n in node.input if n in self.net.tensors), None) if role == "two" else None
        found = self.with_folded(Layer(layer_name(node), node.op_type, role, k, inputs, outputs, one, constant))
        return None if found.name in self.skipped else found

    def role(self, k: int, node: onnx.NodeProto) -> Role | None:
        """What kind of kernel computes a node on integers."""
        op = node.op_type
        if op in ("Conv", "Gemm", "MatMul") and as_sum(self.net, k) is not None:
            return "sum"
        if op in _TWO:
            return self.two(node)
        if op in _MEANS and self.mean(node):
            return "mean"
        if op in _FUNCTIONS and self.function(node):
            return "function"
        return "move" if op in MOVES and self.move(node) else None

    def two(self, node: onnx.NodeProto) -> Role | None:
        """Arithmetic of two tensors, or of a tensor and a constant."""
        a, b = node.input
        if a == b:
            return "function" if self.tables else None
        constant = next((n for n in (a, b) if n in self.net.tensors), None)
        if constant is None:
            return "two"
        data = self.net.reals(constant)
        if data is None or data.size == 0 or not self.tables:
            return None
        return "function" if data.size == 1 else "two"

    def mean(self, node: onnx.NodeProto) -> bool:
        """Whether all results are means of equally many elements."""
        if node.op_type == "AveragePool":
            same = attribute(node, "auto_pad", "NOTSET").startswith("SAME")
            padded = same or any(attribute(node, "pads", ()))
            counted = not padded or bool(attribute(node, "count_include_pad", 0))
            flat = len(attribute(node, "kernel_shape", ())) == 2
            return counted and flat and not attribute(node, "ceil_mode", 0)
        return node.op_type != "ReduceMean" or len(node.input) < 2 or node.input[1] in self.net.tensors

    def function(self, node: onnx.NodeProto) -> bool:
        """Whether a function of one tensor has a kernel: limits must be known, 16 bits are only clamped."""
        if not all(not name or name in self.net.tensors for name in node.input[1:]):
            return False
        return self.tables or node.op_type in _CLAMPS

    def move(self, node: onnx.NodeProto) -> bool:
        """Whether the elements of the result are those of the operand, and zeros."""
        op = node.op_type
        if op in ("Resize", "Upsample"):
            inside = attribute(node, "coordinate_transformation_mode", "") != "tf_crop_and_resize"
            return bool(attribute(node, "mode", "nearest") == "nearest") and inside
        if op == "Pad":
            fill = self.net.array(node.input[2]) if len(node.input) > 2 and node.input[2] in self.net.tensors else None
            given = len(node.input) > 2 and bool(node.input[2])
            zero = (fill is not None and not fill.any()) if given else not attribute(node, "value", 0.0)
            return attribute(node, "mode", "constant") != "constant" or zero
        if op == "MaxPool":
            return len([name for name in node.output if name]) == 1
        return op == "Concat" or not any(self.real(name) for name in node.input[1:])

    def data_inputs(self, node: onnx.NodeProto, role: Role) -> Iterable[str]:
        """The inputs that hold what is computed with."""
        if node.op_type == "Concat":
            return list(node.input)
        if node.op_type in _TWO:
            return [n for n in node.input if n not in self.net.tensors]
        return [node.input[0]]

    def with_folded(self, layer: Layer) -> Layer:
        """The layer with the bias and the activation that its kernel takes in."""
        if layer.role not in ("sum", "two", "mean"):
            return layer
        out, folded, bias_of = layer.outputs[0], [], None
        after = self.net.alone(out, self.readers)
        if layer.op == "MatMul" and after is not None and self.is_bias(layer, after):
            bias_of = after
            folded.append(after)
            out = self.net.nodes[after].output[0]
            after = self.net.alone(out, self.readers)
        while after is not None and self.clamp(after, out):
            folded.append(after)
            out = self.net.nodes[after].output[0]
            after = self.net.alone(out, self.readers)
        self.taken.update(folded)
        return replace(layer, outputs=(out,), folded=tuple(folded), bias_of=bias_of)

    def is_bias(self, layer: Layer, k: int) -> bool:
        """Whether a node adds a number for each channel to a product of matrices."""
        node = self.net.nodes[k]
        if node.op_type != "Add" or layer.sum is None:
            return False
        weights = self.net.reals(layer.sum.weights)
        data = next((self.net.reals(n) for n in node.input if n in self.net.tensors), None)
        if weights is None or data is None:
            return False
        count = layer.sum.channels(weights)
        return data.size == count == data.shape[-1] and data.ndim <= self.types[layer.outputs[0]].rank

    def clamp(self, k: int, out: str) -> bool:
        """Whether a node holds ``out`` to limits that are known."""
        node = self.net.nodes[k]
        known = node.op_type in _CLAMPS and node.input[0] == out and self.function(node)
        return known and layer_name(node) not in self.skipped and node.domain in ("", "ai.onnx")


def layer_name(node: onnx.NodeProto) -> str:
    """What a layer is called: as its node, else as its first result."""
    return node.name or next((name for name in node.output if name), node.op_type)


def place(
    net: Net, types: Mapping[str, TensorType], skipped: Iterable[str] = (), *, tables: bool = True,
    only: Callable[[Layer], bool] = lambda layer: True,
) -> Placement:  # fmt: skip
    """Where the integers of a net begin and end.

    Args:
        net: a prepared net.
        types: of its tensors.
        skipped: names of layers that stay in floats.
        tables: whether functions of a tensor have integer kernels, as they have for int8.
        only: which of the layers that compute become integers.
    """
    placer = _Placer(net, types, frozenset(skipped), tables)
    found: dict[int, Layer] = {}
    for k in range(len(net.nodes)):
        layer = None if k in placer.taken else placer.layer(k)
        if layer is not None:
            found[k] = layer
    able = [layer for layer in found.values() if not layer.counts or only(layer)]
    layers = _without_inner(net, _reached(able), types, tables)
    return Placement(tuple(layers), _groups(layers))


def _reached(layers: list[Layer]) -> list[Layer]:
    """Those that compute, and of moves and functions those beside them: what they read, or what they make, is stored as
    integers anyway."""
    chosen = {one.node for one in layers if one.role in ("sum", "two", "mean")}
    grown = True
    while grown:
        made = {name for one in layers if one.node in chosen for name in one.outputs}
        read = {name for one in layers if one.node in chosen for name in one.inputs}
        more = {
            one.node for one in layers
            if one.node not in chosen and (all(n in made for n in one.inputs) or all(n in read for n in one.outputs))
        }  # fmt: skip
        chosen |= more
        grown = bool(more)
    return [one for one in layers if one.node in chosen]


def _without_inner(
    net: Net, layers: list[Layer], types: Mapping[str, TensorType], tables: bool
) -> list[Layer]:
    """Chains of functions of one tensor without what is stored between: one table computes all of it. A sum or product
    of two results of one tensor is part of its chain."""
    readers = net.readers()
    root: dict[str, str] = {}
    chained: dict[int, Layer] = {}
    for one in layers:
        begins = {root.get(name, name) for name in one.inputs}
        alike = all(types[n].shape == types[one.outputs[0]].shape for n in one.inputs)
        joins = one.role == "function" or (tables and one.role == "two" and one.constant is None and not one.folded)
        if joins and len(begins) == 1 and alike and (one.role == "function" or len(one.inputs) > 1):
            root[one.outputs[0]] = begins.pop()
            chained[one.node] = one
    inner = {
        name for name, begin in root.items()
        if name not in net.outputs and readers.get(name)
        and all(k in chained and root[chained[k].outputs[0]] == begin for k in readers[name])
    }  # fmt: skip
    found = []
    for one in layers:
        if one.node in chained:
            inputs = tuple(dict.fromkeys(root[n] if n in inner else n for n in one.inputs))
            outputs = tuple(n for n in one.outputs if n not in inner)
            found.append(replace(one, role="function", inputs=inputs, outputs=outputs))
        else:
            found.append(one)
    return found


def _groups(layers: list[Layer]) -> dict[str, str]:
    """Stored tensors by group: moves have their result in the integers of what they read."""
    stored = list(dict.fromkeys(name for one in layers for name in (*one.inputs, *one.outputs)))
    leader = {name: name for name in stored}

    def first(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for one in layers:
        if one.role == "move":
            names = [first(name) for name in (*one.inputs, *one.outputs)]
            minimum = min(names, key=stored.index)
            for name in names:
                leader[name] = minimum
    return {name: first(name) for name in stored}
