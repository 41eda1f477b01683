"""Graph passes keep every bit: modules run by numpy before and after, on real models and on small graphs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sdk.compiler import ops
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.graph import Call
from sdk.compiler.ir.module import Const, Module
from sdk.compiler.ir.text import collect_blobs, parse_module, print_module
from sdk.compiler.passes.pipeline import parse_pipeline, run_pipeline
from sdk.compiler.verify.module import verify
from sdk.frontends.tflite.importer import import_tflite

NAMES = (
    "kws_ref_model",
    "pretrainedResnet_quant",
    "ad01_int8",
    "str_ww_ref_model",
    "micro_speech_quantized",
    "hello_world_int8",
    "okay_nabu",
    "wake_vad",
    "vww_96_int8",
    "person_detect",
)
GRAPH_PASSES = "fold,fold-pad,canonicalize,fold-offset{x-offset=%d},cleanup"
CASES = Path(__file__).resolve().parent.parent / "cases"


def outputs(module: Module, seed: int, runs: int = 2) -> list[list[np.ndarray]]:
    """What every entry gives in turn, states kept between."""
    rng = np.random.default_rng(seed)
    states = initial_states(module)
    found = []
    for _ in range(runs):
        for graph in module.graphs.values():
            if graph.entry:
                inputs = {}
                for p in graph.params:
                    lo, hi = p.type.dtype.limits
                    shape = p.type.static_shape
                    inputs[p.name] = rng.integers(lo, hi, shape, endpoint=True).astype(p.type.dtype.numpy)
                found.append(list(run_graph(module, graph.name, inputs, states).values()))
    return found


def assert_same(before: Module, after: Module, seed: int = 3) -> None:
    for a, b in zip(outputs(before, seed), outputs(after, seed), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.models
@pytest.mark.parametrize("name", NAMES)
def test_models_keep_every_bit(name: str, models: Path) -> None:
    module = import_tflite((models / f"{name}.tflite").read_bytes(), "m", dims={})
    for offset in (0, 128):
        after = run_pipeline(replace(module, stage="typed"), parse_pipeline(GRAPH_PASSES % offset))
        assert verify(after, ops) == []
        assert_same(module, after)


@pytest.mark.models
def test_text_is_fast(models: Path) -> None:
    module = import_tflite((models / "vww_96_int8.tflite").read_bytes(), "m", dims={})
    passes = parse_pipeline(f"{GRAPH_PASSES % 0},lower,fuse,schedule{{isa=avx2+fma}},plan-memory")
    planned = run_pipeline(replace(module, stage="typed"), passes)
    start = time.process_time()
    parse_module(print_module(planned), collect_blobs(planned))
    assert time.process_time() - start < 2


def sections() -> Sequence[object]:
    found = []
    for path in sorted(CASES.glob("*/*.ir")):
        if path.parent.name not in ("text", "verify", "plan_memory"):
            for k, section in enumerate(path.read_text(encoding="utf-8").split("// -----\n")):
                runs = "extern" not in section and re.search(r" in \d+\.\.", section) is None
                if runs:
                    found.append(pytest.param(section, id=f"{path.parent.name}/{path.stem}:{k}"))
    return found


@pytest.mark.parametrize("section", sections())
def test_cases_keep_every_bit(section: str) -> None:
    before = parse_module(section.split("// EXPECT")[0], ops=ops)
    match = re.search(r"// RUN:(.*)", section)
    assert match is not None
    assert_same(before, run_pipeline(before, parse_pipeline(match[1].strip())))


CHAIN = """module m typed
graph @main(%x: KIND[300]) {
  %a = FIRST : i8[300]
  %b = SECOND : i8[300]
  return %b
}
"""
RESCALE = 'rescale(%{}) {{hi = 100, in_zp = 3, lo = -128, mult = 1518500250, out = "i8", shift = 1, zp = -4}}'
LOOKUP = "lookup(%{}, @table)"


@pytest.mark.parametrize("kind", ["i8", "u8"])
@pytest.mark.parametrize(("first", "second"), [(LOOKUP, LOOKUP), (LOOKUP, RESCALE), (RESCALE, LOOKUP)])
def test_chains_of_byte_functions_become_one_table(kind: str, first: str, second: str) -> None:
    body = (
        CHAIN.replace("KIND", kind).replace("FIRST", first.format("x")).replace("SECOND", second.format("a"))
    )
    table = np.random.default_rng(1).integers(-128, 128, 256).astype(np.int8)
    head, rest = body.split("\n", 1)
    const = f"const @table: i8[256] = [{', '.join(map(str, table))}]\n"
    module = parse_module(f"{head}\n{const}{rest}", ops=ops)
    after = run_pipeline(module, parse_pipeline("canonicalize,cleanup"))
    (node,) = after.graphs["main"].body
    assert isinstance(node, Call)
    assert node.callee == "lookup"
    assert [c.name for c in after.consts.values()] == ["b_table"]
    assert_same(module, after)


TWINS = """module m typed
const @a: i8[4] = [1, 2, 3, 4]
const @b: i8[4] = [1, 2, 3, 4]
graph @main(%x: i8[4]) {
  %y = concat(@a, @b, %x) {axis = 0} : i8[12]
  return %y
}
"""
PLAIN = "module m typed\ngraph @main(%x: i8[4]) {\n  %y = relu(%x) : i8[4]\n  return %y\n}\n"


def test_passes_give_back_a_module_they_do_not_change() -> None:
    module = parse_module(PLAIN)
    for name in ("fold", "fold-pad", "canonicalize", "fold-offset", "cleanup"):
        assert run_pipeline(module, parse_pipeline(name)) is module


def test_equal_constants_become_one() -> None:
    module = parse_module(TWINS, ops=ops)
    after = run_pipeline(module, parse_pipeline("cleanup"))
    assert list(after.consts) == ["a"]
    assert isinstance(after.consts["a"], Const)
    assert_same(module, after)
