"""Loops that the run ends: as many passes as bounds allow, of which those count that onnxruntime makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import agree
from onnx import parser

import sdk
from sdk.compiler import ops
from sdk.compiler.interp.graph import run_graph
from sdk.compiler.verify.module import check
from sdk.errors import BuildError, DeviceFault, UsageError
from sdk.frontends.base import OpenSizesError, UnknownDimsError
from sdk.frontends.onnx.importer import import_onnx

Array = np.ndarray
Given = Mapping[str, Any]

# A sum below a limit goes on growing; the count is the largest number that there is.
GROWS = """main (float[3] x, float limit) => (float[3] last, float[k, 3] rows, int64 n) {
  most = Constant <value_int = 9223372036854775807> ()
  zero = Constant <value_int = 0> ()
  before = ReduceSum <keepdims = 0> (x)
  begins = Less (before, limit)
  last, n, rows = Loop (most, begins, x, zero) <body = step (int64 i, bool c, float[3] v, int64 k)
      => (bool d, float[3] w, int64 k2, float[3] row) {
    one = Constant <value_int = 1> ()
    k2 = Add (k, one)
    kf = Cast <to = 1> (k2)
    w = Add (v, kf)
    row = Mul (w, v)
    s = ReduceSum <keepdims = 0> (w)
    d = Less (s, limit)
  }>
}"""

# As many passes as rows, read by the number of the pass.
BY_SIZE = """main (float[n, 3] x) => (float[3] last, float[m, 3] rows) {
  shape = Shape (x)
  zero = Constant <value_int = 0> ()
  n = Gather (shape, zero)
  begin = Constant <value = float[3] {0.0, 0.0, 0.0}> ()
  yes = Constant <value = bool {1}> ()
  last, rows = Loop (n, yes, begin) <body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] row) {
    d = Identity (c)
    r = Gather (x, i)
    w = Add (v, r)
    row = Mul (w, r)
  }>
}"""

# Euclid: the count is known, when it ends is not; beyond its end it would divide by 0.
EUCLID = """main (int64 a, int64 b) => (int64 g, int64 z, int64[k] quotients) {
  most = Constant <value_int = 12> ()
  zero = Constant <value_int = 0> ()
  nothing = Equal (b, zero)
  begins = Not (nothing)
  g, z, quotients = Loop (most, begins, a, b) <body = step (int64 i, bool c, int64 u, int64 v)
      => (bool d, int64 nu, int64 nv, int64 q) {
    nu = Identity (v)
    nv = Mod (u, v)
    q = Div (u, v)
    done = Equal (nv, zero)
    d = Not (done)
  }>
}"""

# A loop inside one whose count is an input, and one in a branch: where these do not count, they may run for ever.
NESTED = """main (int64 n, float[2] x, float limit) => (float[2] y, float[2] z) {
  yes = Constant <value = bool {1}> ()
  most = Constant <value_int = 9223372036854775807> ()
  y = Loop (n, yes, x) <body = outer (int64 i, bool c, float[2] u) => (bool d, float[2] w) {
    d = Identity (c)
    s = ReduceSum <keepdims = 0> (u)
    go = Less (s, limit)
    w = Loop (most, go, u) <body = inner (int64 j, bool cc, float[2] p) => (bool dd, float[2] q) {
      q = Add (p, p)
      ss = ReduceSum <keepdims = 0> (q)
      dd = Less (ss, limit)
    }>
  }>
  total = ReduceSum <keepdims = 0> (x)
  zero = Constant <value_float = 0.0> ()
  above = Less (zero, total)
  z = If (above) <then_branch = yes_branch () => (float[2] a) {
    a = Loop (most, yes, x) <body = third (int64 j, bool cc, float[2] p) => (bool dd, float[2] q) {
      q = Add (p, p)
      ss = ReduceSum <keepdims = 0> (q)
      dd = Less (ss, limit)
    }>
  }, else_branch = no_branch () => (float[2] a) { a = Neg (x) }>
}"""

# Rows of an open number, one input from the end, results in both directions.
SCANNED = """main (float[n, 3] x) => (float[3] last, float[m, 3] rows, float[m, 3] back) {
  begin = Constant <value = float[3] {0.0, 0.0, 0.0}> ()
  last, rows, back = Scan <num_scan_inputs = 2, scan_input_directions = [0, 1], scan_output_directions = [0, 1],
      body = step (float[3] v, float[3] r, float[3] t) => (float[3] w, float[3] row, float[3] other) {
    w = Add (v, r)
    row = Mul (w, t)
    other = Sub (w, t)
  }> (begin, x, x)
}"""


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]>\n{text}')


def given(**inputs: Any) -> dict[str, Array]:
    return {name: np.array(v, np.float32 if name in ("x", "limit") else np.int64) for name, v in inputs.items()}


def compare(text: str, runs: Sequence[Given], **dims: tuple[int, int]) -> None:
    made = model(text)
    module = import_onnx(made, "test", dims=dims)
    check(module, ops)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    for inputs in runs:
        found = run_graph(module, "main", inputs)
        for got, want in zip(found.values(), session.run(None, dict(inputs)), strict=True):
            agree(np.asarray(got), want)


def rows(*counts: int) -> list[Given]:
    rng = np.random.default_rng(1)
    return [given(x=rng.standard_normal((n, 3))) for n in counts]


GROWN = [given(x=[0.5, -1, 2], limit=limit) for limit in (-5, 1.6, 5, 10, 30)]


def test_data_end_it() -> None:
    compare(GROWS, GROWN, last_passes=(0, 6))
    compare(EUCLID, [given(a=a, b=b) for a, b in ((12, 18), (7, 0), (987, 610), (5, 5))])


@pytest.mark.parametrize("low", [0, 1])
def test_a_size_counts_it(low: int) -> None:
    compare(BY_SIZE, rows(*range(low, 6)), n=(low, 5))


def test_slices_of_an_open_number() -> None:
    compare(SCANNED, rows(1, 2, 5), n=(1, 5))


def test_loops_where_they_do_not_count() -> None:
    """Of -1 doubled no sum is ever above a limit of 1: onnxruntime does not compute that either."""
    runs = [(2, [1, 2], 20), (0, [-1, -1], 1), (3, [-1, -1], -3), (3, [1, 3], 5)]
    given_runs = [given(n=n, x=x, limit=limit) for n, x, limit in runs]
    compare(NESTED, given_runs, y_passes=(0, 3), w_passes=(0, 5), a_passes=(0, 5))


def test_a_bounded_loop_in_a_branch_that_is_not_taken() -> None:
    head, tail = BY_SIZE.split("  last, rows = ")
    head = head.replace("x) => (float[3] last, float[m, 3] rows)", "x, bool go) => (float[3] y)")
    inner = tail[: tail.rindex("}")]
    text = f"""{head}  y = If (go) <then_branch = taken () => (float[3] last) {{ last, rows = {inner} }},
      else_branch = other () => (float[3] none) {{ none = Neg (begin) }}>
    }}"""
    module = import_onnx(model(text), "test", dims={"n": (1, 5), "last_passes": (0, 2)})
    for n, go in ((2, True), (5, False)):
        inputs = {**rows(n)[0], "go": np.array(go)}
        want = inputs["x"].sum(0) * go
        agree(np.asarray(run_graph(module, "main", inputs)["y"]), want.astype(np.float32))
    with pytest.raises(UsageError, match="outside its bounds"):
        run_graph(module, "main", {**rows(5)[0], "go": np.array(True)})


def test_more_passes_than_are_built_are_an_error() -> None:
    module = import_onnx(model(GROWS), "test", dims={"last_passes": (0, 6)})
    with pytest.raises(UsageError, match=r"last_passes = 7, outside its bounds 0\.\.6"):
        run_graph(module, "main", given(x=[0.5, -1, 2], limit=100))
    with sdk.compile(model(GROWS), board="host", dims={"last_passes": (0, 3)}) as built:
        for inputs in GROWN[:4]:
            want = [np.asarray(v) for v in run_graph(module, "main", inputs).values()]
            for got, one in zip(built(**inputs).values(), want, strict=True):
                agree(got, one)
        with pytest.raises(DeviceFault, match="E_DIM") as fault:
            built(**GROWN[-1])
    assert fault.value.why == "it finds out last_passes in 0..3"
    assert "--dim last_passes=LO:HI" in str(fault.value.hint)


def test_bounds_are_asked_for() -> None:
    with pytest.raises(OpenSizesError) as caught:
        import_onnx(model(NESTED), "test", dims={"y_passes": (0, 3)})
    assert caught.value.loops == ("w_passes", "a_passes")
    assert "--dim w_passes=0:64" in str(caught.value.hint)
    for text in (NESTED, BY_SIZE):
        bounds = {"y_passes": (0, 3), "w_passes": (0, 3), "a_passes": (0, 3)} if text is NESTED else {"n": (1, 4)}
        with pytest.raises(UnknownDimsError, match="no dim other"):
            import_onnx(model(text), "test", dims={**bounds, "other": (1, 2)})
    with pytest.raises(BuildError, match=r"passes of a loop cannot be 2\.\.1"):
        _refused(GROWS, last_passes=(2, 1))


def _refused(text: str, **dims: tuple[int, ...]) -> None:
    try:
        import_onnx(model(text), "test", dims=dims)
    except BuildError as error:
        raise BuildError(str(error.where)) from None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("w = Concat <axis = 0> (v, v)", "a pass makes f32[6] of its value 0, f32[3]"),
        ("w = Cast <to = 11> (v)", "a pass makes f64[3] of its value 0, f32[3]"),
    ],
)
def test_what_no_pass_can_leave_out(body: str, why: str) -> None:
    text = f"""main (float[3] x, bool go) => (float[k] y) {{
      most = Constant <value_int = 4> ()
      y = Loop (most, go, x) <body = step (int64 i, bool c, float[k] v) => (bool d, float[k] w) {{
        d = Identity (go)
        {body}
      }}>
    }}"""
    with pytest.raises(BuildError) as caught:
        _refused(text)
    assert why in caught.value.message


def test_a_count_without_end_is_refused_at_once() -> None:
    text = """main (float[3] x) => (float[3] y) {
      most = Constant <value_int = 9223372036854775807> ()
      yes = Constant <value = bool {1}> ()
      y = Loop (most, yes, x) <body = step (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
        d = Identity (c)
        w = Add (v, v)
      }>
    }"""
    with pytest.raises(BuildError, match="passes of unrolled loops"):
        _refused(text)
