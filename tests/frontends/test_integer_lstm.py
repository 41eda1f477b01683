"""LSTMs of int8 with peepholes, projections, normalised layers, coupled gates, and single steps: LiteRT bit for bit."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from integer_lstm_cases import FORMS, SEQUENCE, STEP, integer_lstm
from reference import assert_steps_are_runs, litert_outputs, random_inputs

from sdk.boards import load_board
from sdk.compiler.interp.graph import initial_states, run_graph
from sdk.compiler.ir.intrinsics import apply
from sdk.compiler.ir.loops import Imm, Let, Op, Ref
from sdk.compiler.ir.types import I16
from sdk.compiler.ops.word_curves import WORD_BITS, word_curve, word_curve_ref
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.driver.reference import open_reference
from sdk.errors import BuildError, MissingToolError
from sdk.frontends.base import ModelFile as ModelSource
from sdk.frontends.tflite import FRONTEND
from sdk.frontends.tflite.importer import import_tflite

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from as_c import Library, agree

# Of tables of all numbers, as a program with gemmlowp's header fixedpoint.h writes them: the logistic curve with three
# integer bits, tanh with 0 to 6.
CURVES = "f581e3c051f4b74d6d0a2e6034f3d7c3e375176e0217c7f2233f5f318867fe2c"


def curves() -> list[tuple[int, bool]]:
    return [(3, False), *((bits, True) for bits in WORD_BITS)]


def every_word() -> np.ndarray:
    return np.arange(-32768, 32768).astype(np.int16)


def test_curves_are_those_of_gemmlowp() -> None:
    found = [word_curve_ref(every_word(), bits, tanh) for bits, tanh in curves()]
    assert hashlib.sha256(b"".join(table.astype("<i2").tobytes() for table in found)).hexdigest() == CURVES
    reals = every_word() / 4096
    for table, want in ((found[0], 1 / (1 + np.exp(-reals))), (found[4], np.tanh(reals))):
        assert np.abs(table / 32768 - want).max() < 5e-4


def test_curves_in_loops() -> None:
    """The statements that loops are made of, on all numbers at once."""
    x = every_word()[:, None]

    def value(one: Any, names: dict[str, np.ndarray]) -> np.ndarray:
        if isinstance(one, Imm):
            return np.full((1, 1), one.value, one.dtype.numpy)
        if isinstance(one, Ref):
            return names[one.name]
        assert isinstance(one, Op)
        return apply(one.name, [value(a, names) for a in one.args], one.dtype)

    for bits, tanh in curves():
        lets, result = word_curve(Ref("x", I16), bits, tanh, "t_")
        names = {"x": x}
        for one in lets:
            assert isinstance(one, Let)
            names[one.name] = value(one.value, names)
        np.testing.assert_array_equal(value(result, names)[:, 0], word_curve_ref(x[:, 0], bits, tanh))


def as_litert(data: bytes, runs: int = 6, seed: int = 0, distinct: bool = True) -> None:
    """Random inputs, states carried along, through the interpreter and LiteRT's reference kernels."""
    module, rng = import_tflite(data, "model"), np.random.default_rng(seed)
    states, given = initial_states(module), [random_inputs(module, rng, run) for run in range(runs)]
    answers = litert_outputs(data, [list(inputs.values()) for inputs in given])
    for run, (inputs, want) in enumerate(zip(given, answers, strict=True)):
        found = run_graph(module, "main", inputs, states)["y"]
        np.testing.assert_array_equal(found, want[0], err_msg=f"run {run}")
    assert len({want[0].tobytes() for want in answers}) > 1 or not distinct


@pytest.mark.parametrize("name", FORMS)
def test_as_litert(name: str) -> None:
    for seed in range(3):
        as_litert(integer_lstm(np.random.default_rng(seed), **FORMS[name]), seed=seed, distinct=name != "one unit")


def drawn(seed: int) -> bytes:
    """A layer of any form; of peepholes there are as many as outputs, where LiteRT's kernel wants that."""
    rng = np.random.default_rng(seed)

    def chance(share: float) -> bool:
        return bool(rng.random() < share)

    step, sizes = chance(0.2), {k: int(rng.integers(1, n)) for k, n in (("batch", 4), ("inputs", 30), ("units", 40))}
    parts = {k: chance(0.5) for k in ("coupled", "peephole", "norm", "bias")}
    major = chance(0.5) and not step
    outputs = int(rng.integers(1, 40))
    if parts["peephole"] and (outputs > sizes["units"] or (sizes["batch"] > 1 and (major or step))):
        outputs = sizes["units"]
    return integer_lstm(
        rng, op=STEP if step else SEQUENCE, steps=int(rng.integers(1, 8)), major=major, **sizes, **parts,
        outputs=outputs if chance(0.5) or not any(parts.values()) else None,
        clips=(float(rng.choice([0, 0, 0.1, 1, 10])), float(rng.choice([0, 0, 0.1, 0.6, 10]))),
        power=int(rng.integers(-15, -8)), loud=float(rng.choice([0.1, 1, 5, 40])),
    )  # fmt: skip


def is_plain(data: bytes) -> bool:
    """Whether LiteRT and tflite-micro both take a layer."""
    calls = import_tflite(data, "model").graphs["main"].body
    return any(getattr(node, "callee", "") == "lstm_scan_q" for node in calls)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 1000, 50))
def test_any_form(seed: int) -> None:
    for k in range(seed, seed + 50):
        data = drawn(k)
        if not is_plain(data):
            as_litert(data, runs=4, seed=k, distinct=False)


def test_some_of_any_form() -> None:
    models = [data for data in map(drawn, range(5000, 5020)) if not is_plain(data)]
    assert len(models) > 12
    for data in models:
        as_litert(data, runs=3, distinct=False)


def test_peepholes_beyond_the_outputs_see_nothing() -> None:
    """As in LiteRT's kernel, which counts cells by outputs; of them, those before do."""
    given = {"peephole": True, "outputs": 2, "units": 5, "batch": 2, "loud": 4.0}

    def answers(first: int) -> list[np.ndarray]:
        rng, other = np.random.default_rng(3), np.zeros(5, np.int16)
        other[:first] = 30000
        alter = {f"p{k}": {"data": other} for k in (9, 10, 11)}
        module = import_tflite(integer_lstm(rng, **given, alter=alter), "model")
        states, draw = initial_states(module), np.random.default_rng(0)
        return [run_graph(module, "main", random_inputs(module, draw, run), states)["y"] for run in range(6)]

    none, two, all_of = (np.stack(answers(k)) for k in (0, 2, 5))
    np.testing.assert_array_equal(two, all_of)
    assert (none != two).any()


def test_open_steps() -> None:
    """Any number of steps in one program: as many runs of one step each."""
    rng = np.random.default_rng(1)
    data = integer_lstm(rng, steps=4, norm=True, coupled=True, outputs=3, signature=True)
    assert_steps_are_runs(data)


def test_as_c(tmp_path: Path) -> None:
    """Runs of compiled models that remember, against the interpreter, which is what LiteRT computes."""
    names, board = ("peephole", "projected", "all", "all coupled", "many units", "step of all"), load_board("host")
    imported = [import_tflite(integer_lstm(np.random.default_rng(2), **FORMS[n]), "model") for n in names]
    passes = default_passes(board, BuildOptions())
    modules = {f"m{k}": lower_module(module, passes) for k, module in enumerate(imported)}
    library, rng = Library(modules, tmp_path), np.random.default_rng(11)
    for (prefix, module), source in zip(modules.items(), imported, strict=True):
        states, steps = initial_states(source), [random_inputs(source, rng, run) for run in range(6)]
        for got, given in zip(library.runs(prefix, module, steps, {}), steps, strict=True):
            agree(got, run_graph(source, "main", given, states), prefix)


def opened(data: bytes, against: str) -> str:
    return open_reference(against, ModelSource(Path("m.tflite"), data, FRONTEND), import_tflite(data, "m")).name


def test_engines() -> None:
    """tflite-micro has kernels for none of these; of what it has one for, LiteRT's computes otherwise."""
    rng = np.random.default_rng(0)
    assert [opened(integer_lstm(rng, **FORMS[n]), "auto") for n in ("all", "step")] == ["litert"] * 2
    same = integer_lstm(rng)
    assert opened(same, "auto") == "tflite-micro"
    with pytest.raises((BuildError, MissingToolError), match="LiteRT does not take this model") as error:
        opened(same, "litert")
    assert "rounds its curves otherwise" in str(error.value.why)


def of(shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    return {"shape": shape, "dtype": dtype, "data": np.ones(shape, dtype)}


NORM, SEEN = {"norm": True, "outputs": 3}, {"peephole": True}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "8 bits": ({**SEEN, "between": 12}, "with 12 intermediate tensors, gates of 8 bits, is not supported"),
    "none": ({**SEEN, "between": 0}, "with peepholes wants 5 intermediate tensors, the operator has 0"),
    "step": ({"op": STEP, "between": 4}, "with single steps wants 5 intermediate tensors, the operator has 4"),
    "basic": ({"op": STEP, "KernelType": 1}, "the basic kernel of LSTM is not supported"),
    "activation": ({**SEEN, "FusedActivationFunction": 1}, "activation RELU of cells"),
    "words": ({**SEEN, "alter": {"x": {"dtype": "int16", "zero_points": [0]}}}, "int16 with peepholes is not"),
    "bytes": ({**SEEN, "alter": {"x": {"dtype": "uint8", "zero_points": [7]}}}, "uint8 with peepholes is not"),
    "zero between": ({"outputs": 2, "alter": {"between4": {"zero_points": [128]}}}, "the zero point 128, outside i8"),
    "unstated": ({**NORM, "alter": {"between1": {"scales": [], "zero_points": []}}},
                 "the intermediate tensor between1 .*must have one positive finite scale"),
    "scale": ({**NORM, "alter": {"between4": {"scales": [float("nan")]}}}, "between4 .*must have one positive"),
    "cells": ({"outputs": 2, "power": -8}, "tanh takes 2.*-15 to 2.*-9"),
    "no power": ({"outputs": 2, "alter": {"cells": {"scales": [0.001]}}}, "instead of a power of two"),
    "rank": ({**NORM, "alter": {"x": {"shape": (3, 5)}}}, "the input has rank 2 instead of 3"),
    "rank of a step": ({"op": STEP, "alter": {"x": {"shape": (1, 1, 5)}}}, "the input has rank 3 instead of 2"),
    "half coupled": ({**NORM, "more": {1: ""}}, "input 12 is of a gate that lacks input 1"),
    "coupled norm": ({**NORM, "coupled": True, "more": {20: "n20"}}, "input 20 is of a gate that lacks input 1"),
    "some peepholes": ({**SEEN, "more": {10: ""}}, "input 10 is missing"),
    "some norms": ({"norm": True, "more": {23: ""}}, "input 23 is missing"),
    "no bias": ({**NORM, "more": {13: ""}}, "input 13 is missing"),
    "bias": ({**NORM, "alter": {"b13": of((4,), "int64")}}, "the bias b13 is int64"),
    "norm": ({**NORM, "alter": {"n21": of((4,), "int8")}}, r"is int8\[4\], needed: int16\[4\]"),
    "zero of norm": ({**NORM, "alter": {"n21": {"zero_points": [1]}}}, "has a zero point, supported: 0"),
    "scale of norm": ({**NORM, "alter": {"n21": {"scales": [2.0**19]}}}, "has the scale 524288.0, too large"),
    "seen": ({**SEEN, "alter": {"p10": of((3,), "int16")}}, r"is int16\[3\], needed: int16\[4\]"),
    "seen much": ({**SEEN, "alter": {"p10": {"scales": [1.0]}}}, "of a product is 1 or more"),
    "seen by more": ({**SEEN, "outputs": 6}, "peepholes of 4 cells with 6 outputs"),
    "seen in a batch": ({**SEEN, "outputs": 2, "major": True, "batch": 2}, "with 2 outputs and a batch of 2"),
    "state": ({"outputs": 3, "more": {16: "", 17: ""}, "coupled": True}, "3 outputs of 4 units without a projection"),
    "projection": ({"outputs": 3, "alter": {"w16": of((3, 5), "int8")}}, r"is int8\[3, 5\] with zero point 0, needed"),
    "no projection": ({"outputs": 3, "more": {16: ""}}, "input 16 is missing"),
    "zero of projection": ({"outputs": 3, "alter": {"w16": {"zero_points": [2]}}}, "with zero point 2, needed"),
    "bias of projection": ({"outputs": 3, "alter": {"b17": of((4,), "int32")}}, r"is int32\[4\], needed: int32\[3\]"),
    "no matrix": ({"outputs": 3, "alter": {"w8": of((4,), "int8")}}, "needed: a matrix with elements"),
    "diagonals": ({"outputs": 3, "alter": {"w6": of((4,), "int8")}}, r"are int8\[4\] with zero point 0; supported"),
    "constant state": ({**NORM, "alter": {"hidden": {"variable": False}}}, "is no variable"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    given, why = REFUSED[name]
    with pytest.raises(BuildError) as error:
        import_tflite(integer_lstm(np.random.default_rng(0), **given), "model")
    assert re.search(why, str(error.value))


def test_intermediate_tensors_that_are_not_there() -> None:
    """Numbers of tensors outside the file."""
    data = integer_lstm(np.random.default_rng(0), peephole=True)
    lists = (np.asarray([5, *range(k, k + 5)], "<i4").tobytes() for k in range(60))
    (at,) = (data.find(numbers) for numbers in lists if numbers in data)
    broken = data[: at + 4] + np.int32(9999).tobytes() + data[at + 8 :]
    with pytest.raises(BuildError, match="a tensor of operator 0 of subgraph 0 is number 9999"):
        import_tflite(broken, "model")
