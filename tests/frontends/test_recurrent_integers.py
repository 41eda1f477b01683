"""Recurrent operators on quantised tensors in files of their own, over several runs that remember: against tflite-micro
bit for bit, and against LiteRT what tflite-micro does not take."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import assert_bit_exact, assert_steps_are_runs, litert_outputs, random_inputs
from tflite_files import ModelFile

from sdk.boards import load_board
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ops.fixed import quantize_multiplier
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.errors import BuildError
from sdk.frontends.base import ModelFile as ModelSource
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.engine import LiteRt, TfliteMicro
from sdk.frontends.tflite.importer import import_tflite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from as_c import Library, agree

Rng = np.random.Generator
Alter = dict[str, dict[str, Any]] | None


def real(rng: Rng, lo: float, hi: float) -> float:
    return float(np.float32(rng.uniform(lo, hi)))


def altered(m: ModelFile, alter: Alter) -> bytes:
    """The file with other fields of the tensors of these names."""
    m.tensors = [replace(t, **(alter or {}).get(t.name, {})) for t in m.tensors]
    return m.build()


def svdf(
    rng: Rng, *, batch: int = 1, inputs: int = 7, units: int = 5, rank: int = 1, steps: int = 4, memory: str = "int16",
    bias: bool = True, act: int = 0, zero: int | None = None, loud: bool = False, alter: Alter = None,
) -> bytes:  # fmt: skip
    """``loud`` numbers saturate what is remembered, and wrap there in i8; ``alter`` says what is wrong with tensors."""
    m, filters = ModelFile(), units * rank
    x_scale, w_scale, t_scale = real(rng, 0.01, 0.1), real(rng, 0.005, 0.02), real(rng, 0.005, 0.02)
    largest = x_scale * w_scale * 128 * 127 * np.sqrt(inputs) * (0.05 if loud else 0.5)
    s_scale = float(np.float32(largest / (32767 if memory == "int16" else 127)))
    if zero is None:
        zero = 0 if memory == "int16" else int(rng.integers(-60, 60))
    y_scale = float(np.float32(largest * t_scale * np.sqrt(steps * rank) * 0.5))
    bias_scale = float(np.float32(s_scale) * np.float32(t_scale))
    x = m.input("x", (batch, inputs), "int8", x_scale, int(rng.integers(-128, 128)))
    top = 127 if memory == "int8" else 1000
    given = [
        x,
        m.const("feature", rng.integers(-127, 128, (filters, inputs)), "int8", scale=w_scale),
        m.const("time", rng.integers(-top, top + 1, (filters, steps)), memory, scale=t_scale),
        m.const("bias", rng.integers(-2000, 2000, units), "int32", scale=bias_scale) if bias else -1,
        m.tensor("kept", (batch, filters * steps), memory, s_scale, zero, variable=True),
    ]
    y = m.output("y", (batch, units), "int8", y_scale, int(rng.integers(-100, 100)))
    m.op("SVDF", given, [y], "SVDFOptions", Rank=rank, FusedActivationFunction=act)
    return altered(m, alter)


@pytest.mark.parametrize("memory", ["int16", "int8"])
def test_svdf_as_micro(memory: str) -> None:
    rng = np.random.default_rng(3)
    for rank, batch, steps, loud in ((1, 1, 4, False), (2, 3, 3, True), (3, 1, 1, False), (1, 2, 2, True)):
        data = svdf(rng, rank=rank, batch=batch, steps=steps, memory=memory, loud=loud, act=int(rng.integers(0, 4)))
        assert_bit_exact(data, runs=2 * steps + 2, seed=rank)


def test_ratios_of_svdf_are_those_of_the_engine() -> None:
    """Of doubles in tflite-micro, of single precision in LiteRT: here one is a half and the other a bit less, so that
    odd sums become other numbers."""
    rng = np.random.default_rng(8)
    while True:
        kept, time = (np.float32(rng.uniform(0.5, 1)) for _ in range(2))
        if float(kept) * float(time) < float(kept * time):
            break
    alter = {
        "feature": {"scales": [float(kept) / 64 / 0.05]}, "kept": {"scales": [float(kept)]}, "x": {"scales": [0.05]},
        "time": {"scales": [float(time)], "data": rng.integers(-2, 3, (20, 1)).astype(np.int16)},
        "bias": {"scales": [float(kept * time)], "data": np.zeros(20, np.int32)},
        "y": {"scales": [2 * float(kept * time)]},
    }  # fmt: skip
    assert_bit_exact(svdf(rng, units=20, batch=2, steps=1, alter=alter))
    steps_of_litert(svdf(rng, units=20, batch=2, steps=1, act=1, bias=False, alter=alter))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_svdf_of_many_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    maximum = {"batch": 4, "inputs": 40, "units": 20, "rank": 5, "steps": 12}
    sizes = {k: int(rng.integers(1, n)) for k, n in maximum.items()}
    data = svdf(rng, **sizes, memory=str(rng.choice(["int16", "int8"])), loud=bool(rng.random() < 0.3))
    assert_bit_exact(data, runs=sizes["steps"] + 4, seed=seed, distinct=False)


def steps_of_litert(data: bytes, runs: int = 8) -> None:
    module, rng = import_tflite(data, "model"), np.random.default_rng(0)
    graph, states = module.graphs["main"], initial_states(module)
    given = [random_inputs(module, rng, run) for run in range(runs)]
    answers = litert_outputs(data, [list(inputs.values()) for inputs in given])
    for inputs, want in zip(given, answers, strict=True):
        found = run_graph(module, "main", inputs, states)
        for r, expected in zip(graph.results, want, strict=True):
            np.testing.assert_array_equal(found[r.name], expected)
    assert len({want[0].tobytes() for want in answers}) > 1


def test_svdf_without_bias_as_litert() -> None:
    rng = np.random.default_rng(5)
    for rank in (1, 2):
        steps_of_litert(svdf(rng, rank=rank, batch=2, bias=False, act=1))


@pytest.mark.parametrize(("engine", "given", "why"), [
    (TfliteMicro, {"bias": False}, "without a bias ends its process"),
    (LiteRt, {"memory": "int8"}, "the memory of SVDF for int16"),
])  # fmt: skip
def test_engines_that_svdf_does_not_suit(engine: Any, given: dict[str, Any], why: str) -> None:
    data = svdf(np.random.default_rng(5), act=1, **given)
    file = ModelSource(Path("model.tflite"), data, FRONTEND)
    with pytest.raises(BuildError, match="does not take this model") as error:
        engine(file, import_tflite(data, "model").graphs["main"])
    assert why in str(error.value.why)


def lstm(
    rng: Rng, *, kind: str = "int8", batch: int = 1, steps: int = 3, inputs: int = 5, units: int = 4,
    major: bool = False, clip: float = 0.0, power: int = -11, loud: float = 1.0, signature: bool = False,
    drop: tuple[int, ...] = (), more: dict[int, Any] | None = None, act: int = 4, alter: Alter = None,
) -> bytes:  # fmt: skip
    """One layer; ``drop`` leaves inputs out, ``more`` adds constants for others."""
    m, wide = ModelFile(), "int32" if kind == "int8" else "int64"
    top = 128 if kind == "int8" else 32768
    zero, h_zero = (int(rng.integers(-128, 128)), int(rng.integers(-20, 20))) if kind == "int8" else (0, 0)
    x_scale, h_scale = (float(np.float32(v / top)) for v in (rng.uniform(1, 4), rng.uniform(0.9, 1.2)))
    shape = (steps, batch, inputs) if major else (batch, steps, inputs)
    opened = [(-1 if d == steps else d) for d in shape] if signature else None
    given = [m.input("x", shape, kind, x_scale, zero, signature=opened), *([-1] * 23)]
    for k in range(1, 9):
        columns = inputs if k < 5 else units
        scale = float(np.float32(rng.uniform(0.3, 1) * loud / 127 / np.sqrt(columns)))
        given[k] = m.const(f"w{k}", rng.integers(-127, 128, (units, columns)), "int8", scale=scale)
    for k in range(12, 16):
        scale = x_scale * float(np.float32(loud / 127))
        given[k] = m.const(f"b{k}", rng.integers(-500, 500, units) * (top // 128), wide, scale=scale)
    given[18] = m.tensor("hidden", (batch, units), kind, h_scale, h_zero, variable=True)
    given[19] = m.tensor("cells", (batch, units), "int16", 2.0**power, 0, variable=True)
    for k in drop:
        given[k] = -1
    for k, data in (more or {}).items():
        given[k] = m.const(f"m{k}", data, "int16", scale=0.001)
    out = (steps, batch, units) if major else (batch, steps, units)
    y = m.output("y", out, kind, h_scale, h_zero, signature=[*opened[:2], units] if opened else None)
    m.op("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [y], "UnidirectionalSequenceLSTMOptions", TimeMajor=major,
         CellClip=clip, ProjClip=0.0, FusedActivationFunction=act)  # fmt: skip
    return altered(m, alter)


@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_lstm_as_micro(kind: str) -> None:
    rng = np.random.default_rng(7)
    for batch, steps, major, clip, power, loud in (
        (1, 5, False, 0.0, -12, 1.0), (2, 3, True, 0.5, -13, 4.0), (3, 2, False, 10.0, -11, 2.0),
        (1, 1, True, 0.0, -15, 8.0), (2, 1, False, 3.0, -9, 30.0),
    ):  # fmt: skip
        data = lstm(rng, kind=kind, batch=batch, steps=steps, major=major, clip=clip, power=power, loud=loud)
        assert_bit_exact(data, runs=5, seed=steps)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_lstm_of_many_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = {k: int(rng.integers(1, n)) for k, n in (("batch", 4), ("steps", 9), ("inputs", 30), ("units", 20))}
    data = lstm(
        rng, kind=str(rng.choice(["int8", "int16"])), **sizes, major=bool(rng.random() < 0.5),
        clip=float(rng.choice([0.0, 1.0, 8.0])), power=int(rng.integers(-15, 1)), loud=float(rng.choice([1, 5, 40])),
    )  # fmt: skip
    assert_bit_exact(data, runs=4, seed=seed, distinct=False)


def test_lstm_multiplies_scales_in_doubles() -> None:
    """Where a product in single precision gives another multiplier of 16 bits, that of tflite-micro's int16 sums."""
    rng = np.random.default_rng(2)

    def reduced(product: float) -> int:
        return (quantize_multiplier(product * 4096)[0] + (1 << 15)) >> 16

    while True:
        a, b = (np.float32(rng.uniform(0.5, 2) / n) for n in (32768, 500))
        if reduced(float(a) * float(b)) != reduced(float(a * b)):
            break
    alter = {"x": {"scales": [float(a)]}, **{f"w{k}": {"scales": [float(b)]} for k in range(1, 5)}}
    assert_bit_exact(lstm(rng, kind="int16", units=16, steps=5, alter=alter), runs=10)


def test_open_steps() -> None:
    """Any number of steps in one program: as many runs of one step each."""
    rng = np.random.default_rng(1)
    data = lstm(rng, steps=4, inputs=5, signature=True)
    assert_steps_are_runs(data)


def test_as_c(tmp_path: Path) -> None:
    """Runs of compiled models that remember, against the interpreter, which is what tflite-micro computes."""
    rng, board = np.random.default_rng(11), load_board("host")
    files = [svdf(rng, rank=2, batch=2, loud=True), svdf(rng, memory="int8", steps=1),
             *(svdf(rng, memory="int8", loud=True, batch=b) for b in (1, 2)),
             *(lstm(rng, kind=k, batch=2, clip=c, power=p, loud=4) for k in ("int8", "int16")
               for c, p in ((0.0, -9), (1.0, -14)))]  # fmt: skip
    imported = [import_tflite(data, "model") for data in files]
    passes = default_passes(board, BuildOptions())
    modules = {f"m{k}": lower_module(module, passes) for k, module in enumerate(imported)}
    library = Library(modules, tmp_path)
    for (prefix, module), source in zip(modules.items(), imported, strict=True):
        states, steps = initial_states(source), [random_inputs(source, rng, run) for run in range(6)]
        for got, given in zip(library.runs(prefix, module, steps, {}), steps, strict=True):
            agree(got, run_graph(source, "main", given, states), prefix)


def ones(shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    return {"shape": shape, "dtype": dtype, "data": np.ones(shape, dtype)}


LSTMS: dict[str, tuple[dict[str, Any], str]] = {
    "coupled": ({"drop": (1, 5, 12)}, "int8 with coupled gates wants 5 intermediate tensors"),
    "peepholes": ({"more": {k: np.ones(4) for k in (9, 10, 11)}}, "int8 with peepholes wants 5 intermediate tensors"),
    "activation": ({"act": 1}, "activation RELU of cells is not supported"),
    "scale": ({"power": 3}, "cells have the scale 8.0"),
    "no bias": ({"drop": (13,)}, "input 13 is missing"),
    "bias of i64": ({"alter": {"b13": ones((4,), "int64")}}, "the bias b13 is int64"),
    "no state": ({"drop": (18,)}, "input 18 is missing"),
    "constant state": ({"alter": {"hidden": {"variable": False}}}, "is no variable: it must be kept"),
    "contents of state": ({"alter": {"hidden": ones((1, 4), "int8")}}, "is a variable with contents in the file"),
    "contents of input": ({"alter": {"x": ones((1, 3, 5), "int8")}}, "the input x has contents in the file"),
    "size of state": ({"alter": {"cells": {"shape": (1, 3)}}}, r"keeps i16\[1, 3\], needed: 4 elements of i16"),
    "zero of cells": ({"alter": {"cells": {"zero_points": [3]}}}, "tensor cells of i16 has the zero point 3"),
    "zero of weights": ({"alter": {"w3": {"zero_points": [3]}}}, "with zero point 3; supported: int8 of 4"),
    "columns": ({"alter": {"w3": ones((4, 3), "int8")}}, r"weights w3 of shape \[4, 3\] do not fit 5 numbers"),
    "rank": ({"alter": {"x": {"shape": (3, 5)}}}, "the input has rank 2 and type i8"),
    "scale of output": ({"alter": {"hidden": {"scales": [2.0**-40]}}}, "of a product is 1 or more"),
}
SVDFS: dict[str, tuple[dict[str, Any], str]] = {
    "ranks": ({"alter": {"time": ones((5,), "int16")}}, "input and weights have the ranks 2, 2 and 1"),
    "filters": ({"alter": {"time": ones((4, 4), "int16")}}, "with rank 1 do not fit inputs of 7 numbers"),
    "types": ({"alter": {"time": ones((5, 4), "int8")}}, "weights and memory are INT8, INT8, INT16; supported"),
    "activation": ({"act": 4}, "fused activation TANH"),
    "zero": ({"alter": {"feature": {"zero_points": [1]}}}, "weights have a zero point"),
    "bias": ({"alter": {"bias": ones((4,), "int32")}}, "the bias has the shape .* for 5 units"),
    "memory": ({"alter": {"kept": {"variable": False}}}, "is no variable"),
}


@pytest.mark.parametrize("name", LSTMS)
def test_refused_lstm(name: str) -> None:
    given, why = LSTMS[name]
    with pytest.raises(BuildError) as error:
        import_tflite(lstm(np.random.default_rng(0), **given), "model")
    assert re.search(why, str(error.value))


@pytest.mark.parametrize("name", SVDFS)
def test_refused_svdf(name: str) -> None:
    given, why = SVDFS[name]
    with pytest.raises(BuildError) as error:
        import_tflite(svdf(np.random.default_rng(0), **given), "model")
    assert re.search(why, str(error.value))


def test_open_batches_are_refused() -> None:
    """What is kept has a place for each of the batch."""
    rng = np.random.default_rng(0)
    for data, axis, why in (
        (lstm(rng, batch=2, steps=3, alter={"x": {"signature": (-1, 3, 5)}}), 0, "keeps a state of each of the batch"),
        (svdf(rng, alter={"x": {"signature": (-1, 7)}}), 0, "keeps numbers of each of the batch"),
    ):
        with pytest.raises(BuildError) as error:
            import_tflite(data, "model", dims={f"x_{axis}": (1, 4)})
        assert why in str(error.value)


FLOATS = {
    "weights by feature are INT16": {"feature": ones((4, 5), "int16")},
    "weights by time are INT16": {"time": ones((4, 3), "int16")},
    "have 4 scales, supported: one": {"feature": {**ones((4, 5), "int8"), "scales": [0.1] * 4, "zero_points": [0] * 4}},
    "the bias has the shape": {"bias": ones((3,), "float32")},
}


@pytest.mark.parametrize("why", FLOATS)
def test_refused_svdf_of_floats(why: str) -> None:
    m = ModelFile()
    given = [m.input("x", (1, 5), "float32"), m.const("feature", np.ones((4, 5)), "float32"),
             m.const("time", np.ones((4, 3)), "float32"), m.const("bias", np.ones(4), "float32"),
             m.tensor("kept", (1, 12), "float32", variable=True)]  # fmt: skip
    m.op("SVDF", given, [m.output("y", (1, 4), "float32")], "SVDFOptions", Rank=1, FusedActivationFunction=0)
    with pytest.raises(BuildError) as error:
        import_tflite(altered(m, FLOATS[why]), "model")
    assert why in str(error.value)
