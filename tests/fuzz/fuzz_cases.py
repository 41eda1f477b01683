"""One file for each number: mutated copies of good models, and models shaped by hand; the same for the same seed."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import fuzz_converters
import fuzz_flat
import fuzz_proto
import fuzz_shapes
import fuzz_text
import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "frontends"), str(ROOT / "tests" / "frontends" / "onnx")]

from mutate import mutations  # noqa: E402  # beside, once the path is there
from streaming import streaming_file  # noqa: E402

LARGEST = 300_000  # bytes of a model that is worth mutating thousands of times


@dataclass(frozen=True)
class Case:
    """A file to compile: its bytes, the ending of its name, and what was done to make it."""

    data: bytes
    suffix: str
    what: str


@cache
def flat_seeds() -> dict[str, bytes]:
    """Whole .tflite files: one of each operator, a streaming one, the bundled one, real ones where they are."""
    from test_operators import CASES

    found = dict(CASES) | {
        "streaming": streaming_file(),
        "digits": (ROOT / "examples" / "digits" / "digits_int8.tflite").read_bytes(),
    }
    return found | {p.name: p.read_bytes() for p in _real(".tflite")}


def _real(suffix: str) -> list[Path]:
    folder = ROOT.parent / "shared" / "models"
    return [p for p in sorted(folder.glob(f"*{suffix}")) if p.stat().st_size < LARGEST] if folder.is_dir() else []


@cache
def proto_seeds() -> dict[str, bytes]:
    """Whole .onnx files."""
    rng = np.random.default_rng(4)

    def const(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)

    def ints(name: str, *values: int) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(values), name)

    node = helper.make_node
    net = [
        node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        node("Relu", ["c"], ["r"]), node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["p", "", "scales"], ["u"], mode="linear"), node("Add", ["u", "r"], ["a"]),
        node("GlobalAveragePool", ["a"], ["g"]), node("Reshape", ["g", "shape"], ["f"]),
        node("Gemm", ["f", "v"], ["m"], transB=1), node("Softmax", ["m"], ["y"], axis=1),
    ]  # fmt: skip
    moves = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "two"], ["d"], axis=0), node("Pad", ["x", "pads"], ["q"]),
        node("Slice", ["q", "lo", "hi", "axes"], ["t"]), node("Transpose", ["t"], ["e"], perm=[0, 2, 3, 1]),
        node("Concat", ["e", "e"], ["k"], axis=3), node("ReduceMean", ["k", "axes"], ["y"], keepdims=1),
        node("Cast", ["d"], ["z"], to=1),
    ]  # fmt: skip
    quantized = [
        node("QuantizeLinear", ["x", "sc", "zp"], ["i"]), node("DequantizeLinear", ["i", "sc", "zp"], ["j"]),
        node("Conv", ["j", "w", "b"], ["c"]), node("QuantizeLinear", ["c", "sc", "zp"], ["o"]),
        node("DequantizeLinear", ["o", "sc", "zp"], ["y"]),
    ]  # fmt: skip
    found = {
        "net": _file(net, ["y"], [const("w", 4, 3, 3, 3), const("b", 4), const("v", 5, 4), ints("shape", 1, -1),
                                  numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")]),
        "moves": _file(moves, ["y", "z"], [ints("two", 2), ints("pads", 0, 0, 1, 1, 0, 0, 1, 1), ints("lo", 1),
                                           ints("hi", 5), ints("axes", 2)]),
        "quantized": _file(quantized, ["y"], [const("w", 4, 3, 3, 3), const("b", 4),
                                              numpy_helper.from_array(np.float32(0.1), "sc"),
                                              numpy_helper.from_array(np.int8(3), "zp")]),
    }  # fmt: skip
    rng_of = np.random.default_rng(8)
    for k in range(12):  # loops, branches and functions that are whole
        draw = fuzz_shapes.Draw(rng_of)
        with suppress(DecodeError):  # nested deeper than protobuf reads
            made = (fuzz_shapes.looping, fuzz_shapes.nesting)[k % 2](draw).SerializeToString()
            if len(made) < 3000:
                found[f"nested {k}"] = made
    return found | {p.name: p.read_bytes() for p in _real(".onnx")}


def _file(nodes: list[onnx.NodeProto], outputs: list[str], constants: list[onnx.TensorProto]) -> bytes:
    params = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 8, 8))]
    graph = helper.make_graph(nodes, "g", params, [onnx.ValueInfoProto(name=n) for n in outputs], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()


@cache
def text_seeds() -> dict[str, str]:
    """Programs as text: what every construct looks like, and small models as they are imported."""
    from sdk.compiler.ir.text import print_module
    from sdk.frontends.tflite.importer import import_tflite

    found = {"everything": (ROOT / "tests" / "ir" / "everything.ir").read_text(encoding="utf-8")}
    for name in ("conv same strided relu", "streaming"):
        module = import_tflite(flat_seeds()[name], "m")
        found[name] = print_module(module)
    return found


@cache
def _places(name: str) -> list[fuzz_flat.Place]:
    return fuzz_flat.places(flat_seeds()[name])


def mutated(seed: int, number: int) -> Case:
    """A mutated copy: 4 in 10 of .tflite and of .onnx files, 2 of programs; of the former one in five by bytes."""
    rng = np.random.default_rng([seed, number])
    kind, by_bytes = number % 10, rng.random() < 0.2
    seeds = text_seeds() if kind >= 8 else proto_seeds() if kind >= 4 else flat_seeds()
    name = sorted(seeds)[int(rng.integers(len(seeds)))]
    if kind >= 8:
        return Case(fuzz_text.mutated(text_seeds()[name], rng).encode(), ".ir", name)
    data, suffix = (proto_seeds()[name], ".onnx") if kind >= 4 else (flat_seeds()[name], ".tflite")
    if by_bytes:
        ((what, damaged),) = mutations(data, 1, seed=int(rng.integers(1 << 30)))
        return Case(damaged, suffix, f"{name}: {what}")
    if suffix == ".tflite":
        damaged, what = fuzz_flat.mutated(data, _places(name), rng)
        return Case(damaged, suffix, f"{name}: {what}")
    model = onnx.load_model_from_string(data)
    what = fuzz_proto.mutate(model, rng)
    return Case(model.SerializeToString(), suffix, f"{name}: {what}")


def shaped(seed: int, number: int) -> Case:
    """A model shaped by hand."""
    data, what = fuzz_shapes.shaped(np.random.default_rng([seed, number, 1]))
    return Case(data, ".onnx", what)


def converted(seed: int, number: int) -> Case:
    """A model of one node of any operator that is converted."""
    data, what = fuzz_converters.converted(np.random.default_rng([seed, number, 2]))
    return Case(data, ".onnx", what)


GENERATORS: Final = {"mutated": mutated, "shaped": shaped, "converted": converted}
