"""A model calls its sizes, inputs and outputs what it likes: no name of ours, and no word of C, is in its way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import sdk
from sdk.boards import load_board
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.loops import For, Let
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.walk import walk
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.errors import UsageError
from sdk.frontends.onnx.importer import import_onnx
from sdk.frontends.onnx.sizes import names_of

RNG = np.random.default_rng(3)
BOUNDS, AT = (1, 6), {"A": 5, "B": 3}
# what collided before: scalars, rows of a call, loops, what schedules derive from them
COLLIDED = frozenset(
    ("length", "at", "at_given", "row_lo", "row_hi", "place", "count", "share", "better", "i1_o", "i0_t", "k", "t", "j")
)
Shape = Sequence[int | str]
Net = tuple[list[tuple[str, list[str], int, dict[str, Any]]], dict[str, tuple[Shape, str]], dict[str, np.ndarray]]


def _weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _rows(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64)


# operators, inputs with the open sizes A and B, constants
NETS: Mapping[str, Net] = {
    "LSTM": (
        [("LSTM", ["x", "w", "r"], 2, {"hidden_size": 3})],
        {"x": (["A", "B", 2], "f4")},
        {"w": _weights(1, 12, 2), "r": _weights(1, 12, 3)},
    ),
    "GRU": (
        [("GRU", ["x", "w", "r"], 2, {"hidden_size": 3})],
        {"x": (["A", "B", 2], "f4")},
        {"w": _weights(1, 9, 2), "r": _weights(1, 9, 3)},
    ),
    "Conv": (
        [("Conv", ["x", "w"], 1, {"pads": [1, 1, 1, 1]})],
        {"x": ([1, 2, "A", "B"], "f4")},
        {"w": _weights(5, 2, 3, 3)},
    ),
    "Pool": (
        [
            ("MaxPool", ["x"], 1, {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}),
            ("AveragePool", ["x"], 1, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ],
        {"x": ([1, 2, "A", "B"], "f4")},
        {},
    ),
    "MatMul": ([("MatMul", ["x", "y"], 1, {})], {"x": (["A", "B"], "f4"), "y": (["B", 9], "f4")}, {}),
    "Softmax": (
        [("Softmax", ["x"], 1, {}), ("LogSoftmax", ["x"], 1, {}), ("Hardmax", ["x"], 1, {})],
        {"x": (["A", "B"], "f4")},
        {},
    ),
    "LayerNormalization": (
        [("LayerNormalization", ["x", "g"], 1, {})],
        {"x": (["A", "B", 6], "f4")},
        {"g": _weights(6)},
    ),
    "Reduce": (
        [
            ("ReduceMean", ["x"], 1, {"axes": [1]}),
            ("ReduceProd", ["x"], 1, {"axes": [0]}),
            ("ArgMax", ["x"], 1, {"axis": 1}),
        ],
        {"x": (["A", "B"], "f4")},
        {},
    ),
    "CumSum": ([("CumSum", ["x", "k"], 1, {})], {"x": (["A", "B"], "f4")}, {"k": np.array(1)}),
    "TopK": ([("TopK", ["x", "k"], 2, {})], {"x": (["A", 4, "B"], "f4")}, {"k": np.array([1])}),
    "Gather": (
        [
            ("Gather", ["x", "i"], 1, {"axis": 1}),
            ("GatherElements", ["x", "j"], 1, {"axis": 1}),
            ("OneHot", ["i", "d", "v"], 1, {}),
        ],
        {"x": (["A", 4], "f4"), "i": (["B"], "i8"), "j": (["A", "B"], "i8")},
        {"d": np.array(4), "v": np.array([0.0, 1.0], np.float32)},
    ),
    "Scatter": (
        [
            ("ScatterElements", ["x", "i", "u"], 1, {"axis": 1, "reduction": "add"}),
            ("ScatterND", ["x", "j", "y"], 1, {}),
        ],
        {"x": (["A", 4], "f4"), "i": (["A", "B"], "i8"), "u": (["A", "B"], "f4"), "y": ([1, 4], "f4")},
        {"j": np.zeros((1, 1), np.int64)},
    ),
    "Resize": (
        [("Resize", ["x", "", "s"], 1, {"mode": "linear"})],
        {"x": ([1, 2, "A", "B"], "f4")},
        {"s": np.array([1, 1, 2, 2], np.float32)},
    ),
    "NonZero": (
        [("NonZero", ["x"], 1, {}), ("Compress", ["x", "c"], 1, {"axis": 0})],
        {"x": (["A", "B"], "f4"), "c": (["A"], "?")},
        {},
    ),
    "Move": (
        [
            ("Transpose", ["x"], 1, {"perm": [1, 0]}),
            ("Concat", ["x", "x"], 1, {"axis": 1}),
            ("Tile", ["x", "t"], 1, {}),
            ("Trilu", ["x"], 1, {}),
            ("Pad", ["x", "p"], 1, {"mode": "edge"}),
            ("ReverseSequence", ["x", "l"], 1, {}),
        ],
        {"x": (["A", "B"], "f4"), "l": (["B"], "i8")},
        {"t": np.array([2, 3]), "p": np.array([1, 0, 0, 2])},
    ),
}


def _model(net: Net, names: Mapping[str, str]) -> onnx.ModelProto:
    nodes, inputs, constants = net
    made = [
        helper.make_node(op, args, [f"out{k}_{j}" for j in range(outs)], **more)
        for k, (op, args, outs, more) in enumerate(nodes)
    ]
    params = []
    for name, (shape, kind) in inputs.items():
        sizes = [names[d] if isinstance(d, str) else d for d in shape]
        params.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), sizes))
    outs = [onnx.ValueInfoProto(name=name) for node in made for name in node.output]
    fixed = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(made, "names", params, outs, fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _arrays(net: Net) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    found = []
    for shape, kind in net[1].values():
        extents = [AT[d] if isinstance(d, str) else d for d in shape]
        drawn = rng.standard_normal(extents) if kind == "f4" else rng.integers(0, 2, extents)
        found.append(drawn.astype(kind))
    return found


def _stages(net: Net, names: Mapping[str, str], board: str = "host") -> tuple[Module, Module]:
    """The module as imported and as it is before memory is planned."""
    imported = import_onnx(_model(net, names), "names", dims={names[d]: BOUNDS for d in _open(net)})
    seen: dict[str, Module] = {}
    place = load_board(board)
    passes = default_passes(place, BuildOptions())
    lower_module(imported, passes, lambda step, module: seen.update({step.name: module}))
    return imported, seen["memory-aware-scheduling"]


def _open(net: Net) -> list[str]:
    return list(dict.fromkeys(d for shape, _ in net[1].values() for d in shape if isinstance(d, str)))


def _results(module: Module, arrays: Sequence[np.ndarray], at: Mapping[str, int]) -> list[np.ndarray]:
    given = dict(zip((p.name for p in module.graphs["main"].params), arrays, strict=True))
    return list(run_graph(module, "main", given, None, at).values())


def _agree(net: Net, names: Mapping[str, str], board: str = "host") -> None:
    imported, scheduled = _stages(net, names, board)
    at = {names[d]: AT[d] for d in _open(net)}
    pairs = zip(_results(imported, _arrays(net), at), _results(scheduled, _arrays(net), at), strict=True)
    for want, got in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=f"{names}")


def _own_names(net: Net, board: str = "host") -> Iterator[str]:
    """Every loop, scalar, row and buffer of the functions that the net becomes."""
    _, scheduled = _stages(net, {d: f"Dim{d}" for d in "AB"}, board)
    for loops in scheduled.loops.values():
        yield from (p.buffer.name for p in loops.params)
        for item in walk(loops.body):
            if isinstance(item, For):
                yield item.var.name
            elif isinstance(item, Let):
                yield item.name
        if loops.rows is not None:
            yield from (loops.rows.lo.name, loops.rows.hi.name)


WORDS = (
    "length", "self", "in", "out", "arena", "int", "for", "if", "double", "main", "scratch", "state", "states",
    "批次", "尺寸", "é", "a' * 30", "b' + 'a' * 29", "N", "n", "Length", "LENGTH", "x.y", "x_y", "x y", "x-y",
    "1st", "__x", "_X", "NULL", "inline", "class", "ctx", "context", "m", "model", "names", "names_run",
    "NAMES_E_DIM", "run", "init", "EOF", "errno", "assert", "min", "max", "uint8_t", "linux", "I", "idx", "i32",
    "floordiv", "mod", "inf", "nan", "select", "dims", "dim", "args", "params", "row_lo", "row_hi", "row", "h",
    "at_0", "once", "never", "hooks", "memory", "weights", "config", "bytes", "size", "rc", "status", "step",
    "k", "i", "j", "unix", "signed", "asm", "typeof", "_Bool", "bool", "true", "offsetof", "reserved", "input",
    "output", "inputs", "outputs", "info", "name", "lo", "hi", "count", "part", "px", "x'y", "abs", "exp",
    "memcpy", "printf", "index", "y0", "signal", "INT32_MAX", "bits", "error", "ok", "code", "const", "data",
    "dim a", "dim_a", "lambda", "None", "import", "2*n", "(n)", "n+0", "print", "void", "this", "alignas",
    "thread_local", "nullptr", "constexpr", "requires", "co_await", "static_assert", "UINT64_C", "SIZE_MAX",
    "INTPTR_WIDTH",
)  # fmt: skip


def _of_words(words: Sequence[str], role: str) -> onnx.ModelProto:
    """Sums of two inputs each, whose sizes, inputs, results between or outputs have these names."""
    nodes, params, outs = [], [], []
    for k, word in enumerate(words):
        size, given, between, result = (
            word if role == what else f"{what}{k}" for what in ("size", "given", "between", "result")
        )
        rows = size if role == "size" else 1 + k % 6
        params.append(helper.make_tensor_value_info(given, onnx.TensorProto.FLOAT, [rows, 2]))
        nodes += [helper.make_node("Neg", [given], [between]), helper.make_node("Softmax", [between], [result])]
        outs.append(onnx.ValueInfoProto(name=result))
    graph = helper.make_graph(nodes, "words", params, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _runs(words: Sequence[str], role: str, path: Path) -> None:
    """The model of these names, compiled to C for this machine, equals numpy; no two of them have become one."""
    onnx.save(_of_words(words, role), path)
    sizes: list[str] = []
    if role == "size":
        with pytest.raises(UsageError) as refused:
            import_onnx(path, "names")
        sizes = refused.value.message.split(": ", 1)[1].split(", ")
        assert len(set(sizes)) == len(words)
    rng = np.random.default_rng(1)
    bounds = dict.fromkeys(sizes, BOUNDS)
    with sdk.compile(path, board="host", dims=bounds) as model:
        graph = import_onnx(path, "names", dims=bounds).graphs["main"]
        given = {p.name: rng.standard_normal((1 + k % 6, 2)).astype(np.float32) for k, p in enumerate(graph.params)}
        assert len(given) == len({v.name for v in graph.results}) == len(words)
        found = model(**given)
    for param, result in zip(graph.params, graph.results, strict=True):
        x = np.exp(-given[param.name].astype(np.float64))
        np.testing.assert_allclose(found[result.name], x / x.sum(axis=1, keepdims=True), rtol=1e-5)


ROLES = ("size", "given", "between", "result")
NAMES = tuple(w for w in WORDS if names_of(w) in (None, (w,)))  # others are arithmetic on a name


@pytest.mark.parametrize("role", ROLES)
def test_some_words(role: str, tmp_path: Path) -> None:
    alike = ("x.y", "x_y", "x y", "length", "Length", "LENGTH", "self", "int", "INT32_MAX", "批次", "尺寸")
    _runs(alike if role == "size" else tuple(dict.fromkeys([*alike, *NAMES[::4]])), role, tmp_path / "words.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_every_word(role: str, tmp_path: Path) -> None:
    maximum = 14 if role == "size" else len(NAMES)  # an agent takes 16 dims
    for first in range(0, len(NAMES), maximum):
        _runs(NAMES[first : first + maximum], role, tmp_path / f"words{first}.onnx")


def _pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from zip(names[::2], [*names[1::2], "other"], strict=False)


@pytest.mark.parametrize("name", NETS)
def test_own_names_as_sizes(name: str) -> None:
    """A few of the names of a net's own kernels as its sizes."""
    net = NETS[name]
    names = [n for n in dict.fromkeys(_own_names(net)) if n in COLLIDED]
    for pair in list(_pairs(names))[:1]:
        _agree(net, dict(zip("AB", pair, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("board", ["host", "nucleo_l4r5zi"])
@pytest.mark.parametrize("name", NETS)
def test_every_own_name_as_size(name: str, board: str) -> None:
    for pair in _pairs(sorted(set(_own_names(NETS[name], board)))):
        _agree(NETS[name], dict(zip("AB", pair, strict=True)), board)


def test_sizes_of_alike_names_are_two() -> None:
    """"a:b" and "a.b" make one identifier, two sizes in Chinese none at all."""
    for first, second in (("a:b", "a.b"), ("批次", "尺寸"), ("a" * 300, "b" + "a" * 300)):
        net = NETS["MatMul"]
        with pytest.raises(UsageError, match="without bounds") as refused:
            import_onnx(_model(net, {"A": first, "B": second}), "names")
        assert len(refused.value.message.split(": ", 1)[1].split(", ")) == 2
