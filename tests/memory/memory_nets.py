"""Scheduled modules for tests: ops called one after the other, each lowered to its naive loops."""

from __future__ import annotations

import numpy as np

from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.graph import Call, Graph, ReadState, Value, WriteState
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Const, Module, State
from sdk.compiler.ir.types import I8, I32, TensorType
from sdk.compiler.ops.registry import get_op, infer
from sdk.compiler.sym import evaluate

ADD = {
    "a_mult": 1623821475,
    "a_offset": 128,
    "a_shift": -1,
    "b_mult": 1073741824,
    "b_offset": -4,
    "b_shift": 0,
    "hi": 127,
    "left_shift": 20,
    "lo": -128,
    "out": "i8",
    "out_mult": 1098017566,
    "out_shift": -18,
    "zp": -4,
}
SAME3 = {"dilation": (1, 1), "pad": (1, 1, 1, 1), "pad_value": -7, "stride": (1, 1), "x_offset": 7}
POINT = {**SAME3, "pad": (0, 0, 0, 0)}


class Net:
    """A graph under construction."""

    def __init__(self, name: str = "main", seed: int = 0) -> None:
        self.name = name
        self.rng = np.random.default_rng(seed)
        self.params: list[Value] = []
        self.body: list[object] = []
        self.results: list[Value] = []
        self.consts: dict[str, Const] = {}
        self.states: dict[str, State] = {}
        self.loops: dict[str, Loops] = {}
        self.dims: tuple = ()
        self.count = 0

    def input(self, name: str, *shape: object, dtype=I8) -> Value:
        value = Value(name, TensorType(dtype, tuple(shape)))
        self.params.append(value)
        return value

    def const(
        self, shape: tuple[int, ...], dtype=I8, data: np.ndarray | None = None, name: str = ""
    ) -> Value:
        name = name or f"w{len(self.consts)}"
        if data is None:
            data = self.rng.integers(-9, 9, shape)
        const = Const(name, TensorType(dtype, shape), data.astype(dtype.numpy))
        self.consts[name] = const
        return Value(name, const.type, const=True)

    def op(self, op: str, *args: Value, name: str = "", **given: object) -> Value:
        definition = get_op(op)
        (type,) = infer(op, [a.type for a in args], given)
        name = name or f"t{self.count}"
        self.count += 1
        out = Value(name, type)
        if definition.view:
            self.body.append(Call((out,), "op", op, args, tuple(sorted(given.items()))))
            return out
        self.call(self.lower(op, args, (type,), given), args, (out,))
        return out

    def lower(self, op: str, args, types, given) -> Loops:
        name = f"{op}_{len(self.loops)}"
        return get_op(op).loops(name, [a.type for a in args], list(types), given)

    def call(self, loops: Loops, args, outs) -> None:
        self.loops[loops.name] = loops
        self.body.append(Call(tuple(outs), "loops", loops.name, tuple(args), source=loops.name))

    def conv(self, x: Value, channels: int, kernel: int = 3, stride: int = 1, op: str = "conv2d") -> Value:
        """An i32 convolution and its requantisation."""
        depth = x.type.shape[3]
        shape = (channels, kernel, kernel, depth) if op == "conv2d" else (kernel, kernel, depth)
        given = {**(SAME3 if kernel == 3 else POINT), "stride": (stride, stride)}
        if op != "conv2d":
            given["multiplier"] = 1
        acc = self.op(
            op, x, self.const(shape), self.const((shape[0] if op == "conv2d" else depth,), I32), **given
        )
        return self.requantize(acc)

    def requantize(self, acc: Value) -> Value:
        mult = self.const((1,), I32, np.array([1 << 30]))
        shift = self.const((1,), I32, np.array([-3]))
        return self.op(
            "requantize",
            acc,
            mult,
            shift,
            acc_bits=20,
            hi=127,
            lo=-128,
            out="i8",
            shift_hi=-1,
            shift_lo=-12,
            zp=-4,
        )

    def state(self, name: str, *shape: int, dtype=I8, init: int | str = 0) -> str:
        self.states[name] = State(name, TensorType(dtype, tuple(shape)), init)
        return name

    def read(self, state: str, name: str) -> Value:
        out = Value(name, self.states[state].type)
        self.body.append(ReadState(out, state))
        return out

    def write(self, state: str, value: Value) -> None:
        self.body.append(WriteState(state, value))

    def module(self, *results: Value) -> Module:
        graph = Graph(self.name, self.dims, tuple(self.params), tuple(self.body), tuple(results))
        return Module("net", "scheduled", self.consts, self.states, {self.name: graph}, self.loops)


def run_graph(
    module: Module, inputs: dict[str, np.ndarray], states: dict[str, np.ndarray], entry: str = "main"
):
    """What the graph means: each value an array of its own. Returns results; updates ``states``."""
    graph = module.graphs[entry]
    env = dict(inputs)

    def get(value: Value) -> np.ndarray:
        return np.array(module.consts[value.name].data) if value.const else env[value.name]

    sizes = {}
    for p in graph.params:
        for d, n in zip(p.type.shape, inputs[p.name].shape, strict=True):
            if not isinstance(d, int):
                for v in graph.dims:
                    if d is v.expr:
                        sizes[v] = n
    for node in graph.body:
        match node:
            case ReadState():
                env[node.out.name] = states[node.state].copy()
            case WriteState():
                states[node.state] = get(node.value).copy()
            case Call(kind="op"):
                shape = tuple(evaluate(d, sizes) for d in node.out.type.shape)
                env[node.out.name] = get(node.args[0]).reshape(shape).copy()
            case Call():
                loops = module.loops[node.callee]
                for v in node.outs:
                    shape = tuple(evaluate(d, sizes) for d in v.type.shape)
                    env[v.name] = np.zeros(shape, v.type.dtype.numpy)
                arrays = [get(a).copy() for a in node.args] + [env[v.name] for v in node.outs]
                run_loops(loops, {p.buffer.name: a for p, a in zip(loops.params, arrays, strict=True)})
    return [get(r) for r in graph.results]
