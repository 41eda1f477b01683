"""What an op computes at a place may depend on the place: no pass moves such an op, or takes channels from it."""

from __future__ import annotations

import numpy as np

from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.graph import Call, Graph, Value, attrs
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.ops.registry import infer, kind_of
from sdk.compiler.ops.traits import Elementwise
from sdk.compiler.passes.layout import SinkTransposes
from sdk.compiler.passes.prune_channels import PruneChannels


def module_of(*steps: tuple[str, dict[str, object]]) -> Module:
    """Ops one after the other on ``x``; those with a second operand get a matrix of which two rows are zeros."""
    rng = np.random.default_rng(0)
    value = Value("x", TensorType(F32, (6, 6)))
    params, body, consts = (value,), [], {}
    for k, (op, given) in enumerate(steps):
        args = [value]
        if op == "matmul":
            data = rng.integers(1, 5, (6, 6)).astype(np.float32)
            data[[1, 4]] = 0
            consts[f"w{k}"] = Const(f"w{k}", TensorType(F32, (6, 6)), data)
            args.append(Value(f"w{k}", consts[f"w{k}"].type, const=True))
        (type_,) = infer(op, [a.type for a in args], given)
        value = Value(f"v{k}", type_)
        body.append(Call((value,), "op", op, tuple(args), attrs(**given)))
    graph = Graph("main", (), params, tuple(body), (value,))
    return Module("m", "typed", consts=consts, graphs={"main": graph})


def same(module: Module, other: Module) -> None:
    inputs = {"x": np.arange(1, 37, dtype=np.float32).reshape(6, 6)}
    (want,), (got,) = (run_graph(m, "main", inputs).values() for m in (module, other))
    np.testing.assert_array_equal(got, want)


def test_a_triangle_is_not_elementwise() -> None:
    module = module_of(("trilu", {"k": 0, "upper": True}), ("relu", {}))
    triangle, relu = module.graphs["main"].body
    assert isinstance(triangle, Call)
    assert isinstance(relu, Call)
    assert not isinstance(kind_of(triangle), Elementwise)
    assert isinstance(kind_of(relu), Elementwise)


def test_transpositions_do_not_pass_a_triangle() -> None:
    turn = ("transpose", {"perm": (1, 0)})
    module = module_of(turn, ("trilu", {"k": 0, "upper": True}), turn, ("relu", {}))
    same(module, SinkTransposes().run(module))


def test_a_triangle_keeps_its_channels() -> None:
    module = module_of(("matmul", {}), ("trilu", {"k": 1, "upper": False}), ("matmul", {}))
    same(module, PruneChannels().run(module))
