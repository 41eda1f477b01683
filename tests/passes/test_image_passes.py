"""What the passes on images keep: the values of the graph, for many random ones and for open sizes."""

from __future__ import annotations

import numpy as np
import pytest

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Call, Graph, Value, attrs
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.ops.registry import infer
from sdk.compiler.passes.canonicalize import Canonicalize
from sdk.compiler.passes.cleanup import Cleanup
from sdk.compiler.passes.fold_scale import FoldScale
from sdk.compiler.passes.layout import SinkTransposes, transposed_bytes
from sdk.compiler.sym import Var
from sdk.compiler.verify.module import check

H = Var("h", 2, 6)


class Net:
    """A graph as it is written, op by op."""

    def __init__(self, *shapes: tuple[object, ...]) -> None:
        self.params = tuple(Value(f"x{k}", TensorType(F32, shape)) for k, shape in enumerate(shapes))
        self.body: list[Call] = []
        self.consts: dict[str, Const] = {}

    def const(self, data: np.ndarray) -> Value:
        data = np.asarray(data, np.float32)
        const = Const(f"c{len(self.consts)}", TensorType(F32, data.shape), data)
        self.consts[const.name] = const
        return Value(const.name, const.type, const=True)

    def call(self, op: str, *args: Value, **given: object) -> Value:
        (type_,) = infer(op, [v.type for v in args], given)
        out = Value(f"v{len(self.body)}", type_)
        self.body.append(Call((out,), "op", op, args, attrs(**given)))
        return out

    def module(self, *results: Value) -> Module:
        graph = Graph("main", (H,), self.params, tuple(self.body), results)
        return Module("m", "typed", consts=self.consts, graphs={"main": graph})


def same(before: Module, after: Module, seed: int, h: int = 4) -> None:
    check(before, ops)
    check(after, ops)
    rng = np.random.default_rng(seed)
    given = {}
    for p in before.graphs["main"].params:
        given[p.name] = rng.standard_normal([h if d is H.expr else d for d in p.type.shape]).astype(np.float32)
    wanted = run_graph(before, "main", given)
    found = run_graph(after, "main", given)
    assert list(wanted) == list(found)
    for name, want in wanted.items():
        np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-4)


def count(module: Module, op: str) -> int:
    return sum(n.callee == op for n in module.graphs["main"].body)


def some_step(net: Net, pool: list[Value], rng: np.random.Generator) -> Value:
    x = pool[int(rng.integers(len(pool)))]
    rank = x.type.rank
    match int(rng.integers(11)):
        case 0 | 1 | 2:
            return net.call("transpose", x, perm=tuple(int(k) for k in rng.permutation(rank)))
        case 3:
            return net.call("relu", x)
        case 4:
            shape = [d if isinstance(d, int) and rng.random() < 0.5 else 1 for d in x.type.shape]
            return net.call("mul", x, net.const(rng.standard_normal(shape[int(rng.integers(rank)) :])))
        case 5:
            twins = [v for v in pool if v.type.shape == x.type.shape]
            return net.call("add", x, twins[int(rng.integers(len(twins)))])
        case 6:
            return net.call("concat", x, x, axis=int(rng.integers(rank)))
        case 7:
            axes = sorted({int(k) for k in rng.integers(0, rank, 2)})
            return net.call("reduce_mean", x, axes=tuple(axes))
        case 8:
            pads = tuple((int(rng.integers(2)), int(rng.integers(2))) for _ in range(rank))
            return net.call("pad", x, pads=pads, value=0.0)
        case 9:
            return net.call("slice", x, begin=(0,) * rank, size=x.type.shape, strides=(1,) * rank)
        case _:
            k = int(rng.integers(rank - 1))
            merged = (*x.type.shape[:k], x.type.shape[k] * x.type.shape[k + 1], *x.type.shape[k + 2 :])
            return net.call("reshape", x, shape=merged) if rank > 2 else net.call("relu", x)


@pytest.mark.parametrize("seed", range(80))
def test_layout_keeps_every_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = Net((1, 3, H.expr, 2), (2, H.expr, 3, 1))
    pool = list(net.params)
    for _ in range(12):
        value = some_step(net, pool, rng)
        if value.type.size is not None and value.type.max_bytes < 1 << 16:
            pool.append(value)
    before = net.module(pool[-1], pool[-2])
    before = Cleanup().run(before)
    after = SinkTransposes().run(before)
    same(before, after, seed)
    less = transposed_bytes(after.graphs["main"]) < transposed_bytes(before.graphs["main"])
    assert less == (after is not before)
    assert SinkTransposes().run(after) is after


def test_layout_leaves_one_transposition_of_a_chain() -> None:
    net = Net((2, 3, H.expr, 4))
    (x,) = net.params
    w, b = net.const(np.ones((5, 1, 1, 3))), net.const(np.zeros(5))
    window = {"stride": (1, 1), "dilation": (1, 1), "pad": (0, 0, 0, 0)}
    y = net.call("transpose", x, perm=(0, 2, 3, 1))
    y = net.call("conv2d", y, w, b, **window)
    y = net.call("transpose", y, perm=(0, 3, 1, 2))
    y = net.call("relu", net.call("mul", y, net.const(np.arange(5).reshape(5, 1, 1))))
    y = net.call("concat", y, net.call("pad", y, pads=((0, 0), (0, 0), (0, 0), (0, 0)), value=0.0), axis=1)
    y = net.call("reduce_mean", y, axes=(2, 3))
    before = net.module(net.call("reshape", y, shape=(2, 10)))
    after = SinkTransposes().run(before)
    assert count(before, "transpose") == 2
    assert count(after, "transpose") == 1
    same(before, after, 1)


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d", "conv_transpose2d"])
@pytest.mark.parametrize("seed", range(4))
def test_scales_and_shifts_fold_into_the_weights(op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = Net((1, H.expr, 5, 4))
    shape = (3, 3, 4) if op == "depthwise_conv2d" else (4, 3, 3, 4)
    given = {"stride": (1, 1), "dilation": (1, 1), "pad": (1, 1, 1, 1)}
    given |= {"multiplier": 1} if op == "depthwise_conv2d" else {"more": (0, 0)} if op == "conv_transpose2d" else {}
    y = net.call(op, net.params[0], net.const(rng.standard_normal(shape)), net.const(rng.standard_normal(4)), **given)
    y = net.call("mul", y, net.const(rng.standard_normal((1, 1, 4))))
    y = net.call("sub", net.call("add", net.const(rng.standard_normal(4)), y), net.const(rng.standard_normal(())))
    y = net.call("div", y, net.const(rng.random((4,)) + 0.5))
    before = net.module(net.call("relu", y))
    after = Cleanup().run(FoldScale().run(before))
    assert [n.callee for n in after.graphs["main"].body] == [op, "relu"]
    same(before, after, seed)


def test_scales_fold_into_a_matrix() -> None:
    rng = np.random.default_rng(0)
    net = Net((H.expr, 4))
    y = net.call("matmul", net.params[0], net.const(rng.standard_normal((4, 5))))
    before = net.module(net.call("mul", y, net.const(rng.standard_normal((5,)))))
    after = FoldScale().run(before)
    assert count(after, "mul") == 0
    same(before, after, 0)


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (3, 2), (4, 4), (5, 3)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("pad", [((0, 0, 0, 0), (0, 0)), ((1, 0, 1, 2), (1, 0)), ((1, 1, 1, 1), (0, 1))])
def test_a_transposed_convolution_is_one_of_every_phase(
    kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[tuple[int, ...], tuple[int, int]]
) -> None:
    rng = np.random.default_rng(3)
    net = Net((2, H.expr, 5, 3))
    w, b = net.const(rng.standard_normal((2, *kernel, 3))), net.const(rng.standard_normal(2))
    given = {"stride": stride, "dilation": (1, 1), "pad": pad[0], "more": pad[1]}
    before = net.module(net.call("conv_transpose2d", net.params[0], w, b, **given))
    after = Canonicalize().run(before)
    assert count(after, "conv_transpose2d") == 0
    same(before, after, 2)
    same(before, after, 2, h=2)
