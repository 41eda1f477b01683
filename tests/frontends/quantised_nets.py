"""Networks of floats made integer ones, as a converter does after training: scales from what a few runs give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import tflite
from ai_edge_litert import interpreter as litert
from nets import Net
from tflite_files import ModelFile, OperatorSpec, TensorSpec

__all__ = ["Kind", "quantised"]

Array = np.ndarray[Any, Any]
Kind = Literal["int8", "uint8"]
LIMITS: Final = {"int8": (-128, 127), "uint8": (0, 255)}
NAMES: Final = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
# Where layers have their weights and biases, and the axis of the weights that has scales of its own in int8.
LAYERS: Final = {"CONV_2D": (1, 2, 0), "DEPTHWISE_CONV_2D": (1, 2, 3), "FULLY_CONNECTED": (1, 2, None),
                 "TRANSPOSE_CONV": (1, 3, 0)}  # fmt: skip
# What moves elements, whose inputs (of floats) and results have one scale.
MOVES: Final = {
    "AVERAGE_POOL_2D", "CONCATENATION", "DEPTH_TO_SPACE", "GATHER", "MAX_POOL_2D", "MIRROR_PAD", "PAD", "REDUCE_MAX",
    "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SPLIT", "TRANSPOSE",
}  # fmt: skip
# Results whose scale the runtime wants, and whether their zero is in the middle.
FIXED: Final = {"SOFTMAX": (1 / 256, False), "LOGISTIC": (1 / 256, False), "TANH": (1 / 128, True),
                "L2_NORMALIZATION": (1 / 128, True)}  # fmt: skip
# What stays in floats, between operators that convert.
REALS: Final = {"int8": {"CUSTOM"}, "uint8": {"CUSTOM", "BATCH_MATMUL", "RSQRT", "SQUARED_DIFFERENCE"}}


def quantised(net: Net, kind: Kind, runs: Sequence[Sequence[Array]]) -> bytes:
    """The file of a network with tensors of ``kind``, of which ``runs`` are inputs."""
    return _Converter(net, kind, runs).file()


class _Converter:
    def __init__(self, net: Net, kind: Kind, runs: Sequence[Sequence[Array]]) -> None:
        self.net, self.kind, self.lo, self.hi = net, kind, *LIMITS[kind]
        self.ends = _ends(net, runs)
        self.group = list(range(len(net.tensors)))
        for op in net.operators:
            if self.moves(op):
                tensors = [k for k in (*op.inputs, *op.outputs) if self.real(k)]
                for k in tensors[1:]:
                    self.group[self.root(k)] = self.root(tensors[0])
        self.given = {self.root(op.outputs[0]): FIXED[_name(op)] for op in net.operators if _name(op) in FIXED}
        self.m = ModelFile()
        self.stored: dict[int, int] = {}  # tensors of the network as integers
        self.reals: dict[int, int] = {}  # as they are

    def real(self, k: int) -> bool:
        return self.net.tensors[k].dtype == "float32"

    def moves(self, op: OperatorSpec) -> bool:
        return _name(op) in MOVES

    def root(self, k: int) -> int:
        while self.group[k] != k:
            k = self.group[k]
        return k

    def scale(self, k: int) -> tuple[float, int]:
        """Scale and zero point of a tensor."""
        root = self.root(k)
        if root in self.given:
            scale, middle = self.given[root]
            return scale, (self.lo + self.hi + 1) // 2 if middle else self.lo
        found = [self.ends[n] for n in range(len(self.group)) if n in self.ends and self.root(n) == root]
        lo, hi = min(0.0, *(e[0] for e in found)), max(0.0, *(e[1] for e in found))
        scale = float(np.float32(max(hi - lo, 1e-3) / (self.hi - self.lo)))
        return scale, int(np.clip(round(self.lo - lo / scale), self.lo, self.hi))

    def file(self) -> bytes:
        for k in self.net.inputs:
            spec = self.net.tensors[k]
            if self.real(k):
                self.stored[k] = self.m.input(spec.name, spec.shape, self.kind, *self.scale(k))
            else:
                self.reals[k] = self.m.input(spec.name, spec.shape, spec.dtype)
        for op in self.net.operators:
            self.operator(op)
        self.m.outputs[:] = [self.stored.get(k, self.reals.get(k, -1)) for k in self.net.outputs]
        return self.m.build()

    def operator(self, op: OperatorSpec) -> None:
        if _name(op) in REALS[self.kind] or not any(map(self.real, (*op.inputs, *op.outputs))):
            inputs, made, kept = [self.as_is(k) for k in op.inputs], self.reals, True
        elif _name(op) in LAYERS:
            inputs, made, kept = self.layer(op), self.stored, False
        else:
            inputs = [self.integers(k) if self.real(k) else self.as_is(k) for k in op.inputs]
            made, kept = self.stored, False
        for k in op.outputs:
            spec = self.net.tensors[k]
            if kept or not self.real(k):
                self.reals[k] = self.m.tensor(spec.name, spec.shape, spec.dtype)
            else:
                made[k] = self.m.tensor(spec.name, spec.shape, self.kind, *self.scale(k))
        outputs = [self.reals[k] if k in self.reals else made[k] for k in op.outputs]
        self.m.operators.append(OperatorSpec(op.code, inputs, outputs, op.options, op.fields, op.custom, op.flags))

    def as_is(self, k: int) -> int:
        if k not in self.reals:
            spec = self.net.tensors[k]
            self.reals[k] = self.m.tensor(spec.name, spec.shape, spec.dtype, data=spec.data)
            if k in self.stored:
                self.m.op("DEQUANTIZE", [self.stored[k]], [self.reals[k]])
        return self.reals[k]

    def integers(self, k: int) -> int:
        if k not in self.stored:
            spec, given = self.net.tensors[k], self.scale(k)
            data = None if spec.data is None else _steps(spec.data, *given, *LIMITS[self.kind])
            self.stored[k] = self.m.tensor(f"{spec.name}_stored", spec.shape, self.kind, *given, data=data)
            if k in self.reals:
                self.m.op("QUANTIZE", [self.reals[k]], [self.stored[k]])
        return self.stored[k]

    def layer(self, op: OperatorSpec) -> list[int]:
        """The inputs of a layer: weights of 8 bits, biases of 32."""
        at, last, axis = LAYERS[_name(op)]
        x = op.inputs[2 if _name(op) == "TRANSPOSE_CONV" else 0]
        spec = self.net.tensors[op.inputs[at]]
        scales, weights = self.weights(spec, axis)
        inputs = [self.integers(k) if k == x else self.as_is(k) for k in op.inputs[:at]]
        inputs.append(weights)
        if x not in op.inputs[:at]:
            inputs.append(self.integers(x))
        if last < len(op.inputs):
            bias, steps = self.net.tensors[op.inputs[last]], [float(np.float32(self.scale(x)[0] * s)) for s in scales]
            data = np.round(_held(bias) / np.asarray(steps))
            inputs.append(self.m.tensor(bias.name, bias.shape, "int32", steps, data=data))
        return inputs

    def weights(self, spec: TensorSpec, axis: int | None) -> tuple[list[float], int]:
        data = _held(spec)
        if self.kind == "uint8":
            lo, hi = min(0.0, float(data.min())), max(0.0, float(data.max()))
            scale = float(np.float32((hi - lo) / 255))
            zero = int(np.clip(round(-lo / scale), 0, 255))
            stored = _steps(data, scale, zero, 0, 255)
            return [scale], self.m.tensor(spec.name, spec.shape, "uint8", scale, zero, data=stored)
        others = tuple(k for k in range(data.ndim) if k != axis) if axis is not None else None
        maximum = np.abs(data).max(axis=others, keepdims=True)
        scales = [float(s) for s in (maximum / 127).astype(np.float32).reshape(-1)]
        stored = np.round(data / (maximum / 127)).clip(-127, 127)
        return scales, self.m.tensor(spec.name, spec.shape, "int8", scales, axis=axis or 0, data=stored)


def _name(op: OperatorSpec) -> str:
    return NAMES[op.code]


def _held(spec: TensorSpec) -> Array:
    assert spec.data is not None
    return spec.data.astype(np.float64)


def _steps(data: Array, scale: float, zero: int, lo: int, hi: int) -> Array:
    return np.asarray(np.clip(np.round(data / scale) + zero, lo, hi))


def _ends(net: Net, runs: Sequence[Sequence[Array]]) -> dict[int, tuple[float, float]]:
    """The least and the largest number of each tensor of floats, over all runs and in constants."""
    engine = litert.Interpreter(model_content=net.build(), experimental_preserve_all_tensors=True,
                                experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)  # fmt: skip
    engine.allocate_tensors()
    found = {k: (float(t.data.min()), float(t.data.max())) for k, t in enumerate(net.tensors)
             if t.data is not None and t.dtype == "float32"}  # fmt: skip
    made = [k for op in net.operators for k in op.outputs if net.tensors[k].dtype == "float32"]
    for given in runs:
        for k, array in zip(net.inputs, given, strict=True):
            engine.set_tensor(k, array)
        engine.invoke()
        for k in (*made, *(k for k in net.inputs if net.tensors[k].dtype == "float32")):
            values = engine.get_tensor(k)
            lo, hi = found.get(k, (np.inf, -np.inf))
            found[k] = (min(lo, float(values.min())), max(hi, float(values.max())))
    return found
