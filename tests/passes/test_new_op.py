"""An op that no pass has heard of is treated by all of them as it declares itself, and one that declares nothing is
left alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from as_c import Library, agree

from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.intrinsics import imm, op
from sdk.compiler.ir.loops import Load, Loops, Store, ValueExpr
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall, Repeat, walk_plan
from sdk.compiler.ir.text import parse_module
from sdk.compiler.ir.types import F32, TensorType
from sdk.compiler.ops.build import function, map_elements, nest, param
from sdk.compiler.ops.numerics import single
from sdk.compiler.ops.registry import OPS, OpDef, define, sample
from sdk.compiler.ops.shapes import broadcast_shapes
from sdk.compiler.ops.traits import OPAQUE, AxisRole, Elementwise, Movement
from sdk.compiler.passes.pipeline import parse_pipeline, run_pipeline
from sdk.compiler.verify.module import check

# --- the new ops: what they are, and nothing anywhere else ------------------------------------------------------------


def _softsign(x: ValueExpr) -> ValueExpr:
    return op("tdiv", x, op("add", op("abs", x), imm(1.0, x.dtype)))


def _flip_loops(name: str, types: Sequence[TensorType], outs: Sequence[TensorType], given: Mapping[str, Any]) -> Loops:
    over = nest(outs[0].shape)
    shape = types[0].shape
    source = tuple(shape[k] - 1 - i if k in given["axes"] else i for k, i in enumerate(over.index))
    body = over.around(Store("o", over.index, Load("x", source, types[0].dtype)))
    return function(name, [param("x", types[0]), param("o", outs[0], "write")], [body], over.rows)


SOFTSIGN = OpDef(
    "softsign_like",
    ("x",),
    lambda x: x,
    single(lambda x: x / (1 + np.abs(x))),
    map_elements(("x",), _softsign),
    samples=(sample(TensorType(F32, (3, 4))),),
    kind=Elementwise(),
)
# the same to whoever does not ask
UNDECLARED = replace(SOFTSIGN, name="softsign_opaque", kind=OPAQUE)
HALFWAY = OpDef(
    "halfway",
    ("a", "b"),
    lambda a, b: TensorType(a.dtype, broadcast_shapes(a.shape, b.shape)),
    single(lambda a, b: (a + b) * a.dtype.type(0.5)),
    map_elements(("a", "b"), lambda a, b: op("mul", op("add", a, b), imm(0.5, a.dtype))),
    samples=(sample(TensorType(F32, (3, 4)), TensorType(F32, (4,))),),
    kind=Elementwise(exact=True),
)
FLIP = OpDef(
    "flip",
    ("x",),
    lambda x, *, axes: x,
    lambda x, *, axes: np.ascontiguousarray(np.flip(x, axes)),
    _flip_loops,
    samples=(sample(TensorType(F32, (3, 4)), axes=(1,)),),
    kind=Movement(),
    axes={"axes": AxisRole.SOME},
)


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    new = [define(one) for one in (SOFTSIGN, UNDECLARED, HALFWAY, FLIP)]
    yield
    for one in new:
        del OPS[one.name]


# --- what passes do with them -----------------------------------------------------------------------------------------


def module_of(text: str) -> Module:
    module = parse_module(f"module m typed\n\n{text}", ops=ops)
    check(module, ops)
    return module


def inputs_of(module: Module) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    found = {}
    for p in module.graphs["main"].params:
        drawn = rng.integers(-128, 128, p.type.static_shape) / (16 if p.type.dtype.is_float else 1)
        found[p.name] = drawn.astype(p.type.dtype.numpy)
    return found


def after(text: str, pipeline: str) -> Module:
    """The module after passes, which gives what it gave."""
    before = module_of(text)
    done = run_pipeline(before, parse_pipeline(pipeline))
    check(done, ops)
    inputs = inputs_of(before)
    got, want = (run_graph(m, "main", inputs) for m in (done, before))
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-5)
    return done


def callees(module: Module) -> list[str]:
    return [n.callee for n in module.graphs["main"].body if isinstance(n, Call)]


@pytest.mark.parametrize(("name", "given"), [("softsign_like", ""), ("flip", " {axes = (0,)}")])
def test_constants_are_folded(name: str, given: str) -> None:
    text = f"""const @c: f32[3] = [1, -3, 0.5]

graph @main(%x: f32[3]) {{
  %a = {name}(@c){given} : f32[3]
  %o = add(%x, %a) : f32[3]
  return %o
}}"""
    assert callees(after(text, "fold,cleanup")) == ["add"]


CONVOLUTION = """const @w: f32[4, 3, 3, 2] = [{w}]
const @b: f32[4] = [1, 0, -1, 2]

graph @main(%x: f32[1, 8, 6, 2]) {{
  %s = conv2d(%x, @w, @b) {{dilation = (1, 1), pad = (1, 1, 1, 1), stride = (1, 1)}} : f32[1, 8, 6, 4]
  {rest}
}}"""


def convolution(rest: str) -> str:
    return CONVOLUTION.format(w=", ".join(str(k % 7 - 3) for k in range(4 * 3 * 3 * 2)), rest=rest)


def test_an_elementwise_op_is_fused_into_its_producer() -> None:
    text = convolution("%o = softsign_like(%s) : f32[1, 8, 6, 4]\n  return %o")
    done = after(text, "lower,fuse")
    assert len(callees(done)) == len(done.loops) == 1


def test_an_elementwise_op_is_fused_into_its_producer_past_a_view() -> None:
    text = convolution(
        "%v = reshape(%s) {shape = (48, 4)} : f32[48, 4]\n  %o = softsign_like(%v) : f32[48, 4]\n  return %o"
    )
    done = after(text, "canonicalize,cleanup,lower,fuse")
    assert [c for c in callees(done) if c != "reshape"] == ["conv2d_softsign_like"]


TURNED = """graph @main(%x: f32[1, 4, 6, 3]) {{
  %t = transpose(%x) {{perm = (0, 3, 1, 2)}} : f32[1, 3, 4, 6]
  %s = {call} : f32[1, 3, 4, 6]
  %o = transpose(%s) {{perm = (0, 2, 3, 1)}} : f32[1, 4, 6, 3]
  return %o
}}"""


@pytest.mark.parametrize("call", ["softsign_like(%t)", "halfway(%t, %t)", "flip(%t) {axes = (1, 3)}"])
def test_transpositions_move_through(call: str) -> None:
    done = after(TURNED.format(call=call), "layout,cleanup")
    assert [c for c in callees(done) if c != "reshape"] == [call.partition("(")[0]]


def test_an_attribute_of_axes_is_renumbered() -> None:
    done = after(TURNED.format(call="flip(%t) {axes = (1, 3)}"), "layout,cleanup")
    (flip,) = (n for n in done.graphs["main"].body if isinstance(n, Call) and n.callee == "flip")
    assert flip.attr("axes") == (2, 3)  # channels and columns of an image that has its channels last


def test_broadcasts_are_left_to_an_elementwise_op() -> None:
    text = """graph @main(%x: f32[5, 4], %y: f32[4]) {
  %w = broadcast_to(%y) {shape = (5, 4)} : f32[5, 4]
  %o = halfway(%x, %w) : f32[5, 4]
  return %o
}"""
    assert callees(after(text, "simplify-graph,cleanup")) == ["halfway"]


QUANTISED = """const @s: f32[] = [0.0625]
const @z: i8[] = [3]
const @s2: f32[] = [{scale}]

graph @main(%x: i8[1, 8, 4, 2]) {{
  %r = dequantize(%x, @s, @z) : f32[1, 8, 4, 2]
  %f = {call} : f32[1, 8, 4, 2]
  %o = quantize(%f, @s2, @z) {{out = "i8"}} : i8[1, 8, 4, 2]
  return %o
}}"""


def test_between_integers_an_elementwise_op_is_a_table() -> None:
    done = after(QUANTISED.format(call="softsign_like(%r)", scale=0.0078125), "integer,cleanup")
    assert [c for c in callees(done) if c != "reshape"] == ["lookup"]


def test_between_integers_a_movement_moves_integers() -> None:
    done = after(QUANTISED.format(call="flip(%r) {axes = (1,)}", scale=0.0625), "integer,cleanup")
    assert [c for c in callees(done) if c != "reshape"] == ["flip"]


def test_channels_are_eliminated_through_an_elementwise_op() -> None:
    """Channel 1 of the first product is zeros, which ``halfway`` with 0 keeps: the second product does not read it."""
    text = """const @v: f32[2, 3] = [1, 0, 2, 3, 0, 4]
const @h: f32[3] = [1, 0, 2]
const @w: f32[3, 2] = [1, 2, 3, 4, 5, 6]

graph @main(%x: f32[5, 2]) {
  %a = matmul(%x, @v) : f32[5, 3]
  %s = halfway(%a, @h) : f32[5, 3]
  %o = matmul(%s, @w) : f32[5, 2]
  return %o
}"""
    done = after(text, "prune-channels,cleanup")
    assert done.graphs["main"].body[1].out.type.shape == (5, 2)


STREAMED = "lower,simplify-loops,cleanup,memory-aware-scheduling,plan-memory{{io=arena,memory={memory}}}"


@pytest.mark.parametrize("call", ["softsign_like(%s)", "halfway(%s, %s)", "flip(%s) {axes = (2,)}"])
def test_rows_are_streamed(call: str) -> None:
    rest = f"""%o = {call} : f32[1, 8, 6, 4]
  %p = max_pool2d(%o) {{kernel = (2, 2), pad = (0, 0, 0, 0), stride = (2, 2)}} : f32[1, 4, 3, 4]
  return %p"""
    module = module_of(convolution(rest))
    inputs = inputs_of(module)
    (want,) = run_graph(module, "main", inputs).values()
    sizes = {}
    for memory in ("time", "min"):
        done = run_pipeline(module, parse_pipeline(STREAMED.format(memory=memory)))
        (plan,) = done.plans.values()
        (got,) = run_plan(done, "main", inputs).values()
        np.testing.assert_allclose(got, want, rtol=1e-5)
        sizes[memory] = sum(r.bytes for r in plan.regions)
    repeated = [step for s in plan.body if isinstance(s, Repeat) for step in walk_plan(s.body)]
    assert any(isinstance(s, PlanCall) and s.callee.startswith(call.partition("(")[0]) for s in repeated)
    assert sizes["min"] < sizes["time"]


def test_the_c_of_a_model_of_new_ops_is_right(tmp_path: Path) -> None:
    text = convolution(
        "%f = flip(%s) {axes = (1, 2)} : f32[1, 8, 6, 4]\n  %h = halfway(%f, @b) : f32[1, 8, 6, 4]\n"
        "  %o = softsign_like(%h) : f32[1, 8, 6, 4]\n  return %o"
    )
    module = module_of(text)
    passes = "fold,simplify-graph,layout,canonicalize,cleanup,lower,fuse,simplify-loops,schedule,cleanup,plan-memory"
    done = run_pipeline(module, parse_pipeline(passes))
    inputs = inputs_of(module)
    got = Library({"new": done}, tmp_path).run("new", done, inputs, {})
    agree(got, run_graph(module, "main", inputs), "new ops")


# --- and with one that declares nothing -------------------------------------------------------------------------------


def test_an_op_that_declares_nothing_is_left_alone() -> None:
    turned = after(TURNED.format(call="softsign_opaque(%t)"), "layout,cleanup")
    assert callees(turned) == ["transpose", "softsign_opaque", "transpose"]
    between = after(QUANTISED.format(call="softsign_opaque(%r)", scale=0.0078125), "integer,cleanup")
    assert callees(between) == ["dequantize", "softsign_opaque", "quantize"]
