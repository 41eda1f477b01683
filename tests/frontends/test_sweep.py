"""Every operator with every element type: equal to its reference, or refused with the reason that is listed here.

A letter for each of ``TYPES``: ``=`` LiteRT's reference kernels take it, and results are equal bit for bit (of floats,
to 1e-5); ``m`` the same of tflite-micro, which is the reference where LiteRT rounds otherwise or has none; ``R``
refused, though one of them takes it; ``s`` only ours takes it; ``.`` nobody does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from reference import litert_outputs
from sweep_models import MODELS, TYPES, build
from tflite_micro.python.tflite_micro import runtime

from sdk.compiler.interp.graph import run_graph
from sdk.compiler.ir.module import Module
from sdk.errors import BuildError
from sdk.frontends.tflite.importer import import_tflite

Outputs = list[list[np.ndarray]]
EXPECTED: Final[dict[str, str]] = {
    "ABS": "=s==..=", "NEG": "=.===.=", "EXP": "=s=...=", "LOG": "=s=...=", "SQRT": "=s=...=", "RSQRT": "=s=...=",
    "SIN": "......=", "COS": "......=", "SQUARE": "......=", "SIGN": "...=..=", "FLOOR": "......=",
    "HARD_SWISH": "==....=", "RELU": "===...=", "RELU6": "===...=", "RELU_N1_TO_1": "==s...=",
    "RELU_0_TO_1": "==s...=", "ZEROS_LIKE": "...==.=", "LOGICAL_NOT": ".....=.", "GELU": "===...=",
    "LEAKY_RELU": "==m...=", "SOFTMAX": "===...=", "LOG_SOFTMAX": "==....=", "L2_NORMALIZATION": "==....=",
    "LOGISTIC": "===...=", "TANH": "===...=", "ADD": "=====.=", "SUB": "=====.=", "MUL": "==m==.=",
    "SQUARED_DIFFERENCE": "=s.=..=", "MAXIMUM": "=====.=", "MINIMUM": "=====.=", "BITWISE_XOR": "====s..",
    "RIGHT_SHIFT": "====s..", "EQUAL": "=======", "NOT_EQUAL": "=======", "LESS": "=====.=", "LESS_EQUAL": "=====.=",
    "GREATER": "=====.=", "GREATER_EQUAL": "=====.=", "LOGICAL_AND": ".....=.", "LOGICAL_OR": ".....=.",
    "ADD_N": "...=..=", "PRELU": "==R...=", "BATCH_MATMUL": "=.=...=", "MEAN": "=====.=", "SUM": "m=m==R=",
    "REDUCE_PROD": "=.===R=", "REDUCE_MAX": "=======", "REDUCE_MIN": "=======", "REDUCE_ANY": ".....=.",
    "REDUCE_ALL": ".....=.", "ARG_MAX": "==s=.==", "ARG_MIN": "==s=.==", "CUMSUM": "...==.=", "TOPK_V2": "=====.=",
    "AVERAGE_POOL_2D": "===...=", "MAX_POOL_2D": "===...=", "L2_POOL_2D": "......=", "RESIZE_BILINEAR": "===...=",
    "RESIZE_NEAREST_NEIGHBOR": "====s==", "RESHAPE": "=======", "SQUEEZE": "=======", "EXPAND_DIMS": "=======",
    "TRANSPOSE": "=======", "CONCATENATION": "=======", "SLICE": "=======", "STRIDED_SLICE": "=======",
    "SPLIT": "=====s=", "SPLIT_V": "=====s=", "PAD": "=======", "PADV2": "=======", "MIRROR_PAD": "=======",
    "TILE": "=======", "GATHER": "=======", "GATHER_ND": "=======", "SCATTER_ND": "==.==R=", "SELECT": "=======",
    "SELECT_V2": "=======", "PACK": "=====s=", "UNPACK": "====s==", "REVERSE_V2": "=======",
    "REVERSE_SEQUENCE": "s====s=", "BROADCAST_TO": "=======", "SPACE_TO_DEPTH": "==s==s=",
    "DEPTH_TO_SPACE": "==s==s=", "SPACE_TO_BATCH_ND": "=======", "BATCH_TO_SPACE_ND": "=======", "ONE_HOT": "==s====",
    "FILL": "=======", "WHERE": "==.====", "EMBEDDING_LOOKUP": "=======", "DYNAMIC_UPDATE_SLICE": "=======",
}  # fmt: skip
# Why those of ``R`` are refused: words of the error, and what is behind it.
REFUSED: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("PRELU", "int16"): ("has type INT16, supported: i8", "LiteRT reads slopes of int16 as if they were int8"),
    ("SUM", "bool"): ("has type BOOL", "LiteRT takes it for REDUCE_ANY"),
    ("REDUCE_PROD", "bool"): ("has type BOOL", "LiteRT takes it for REDUCE_ALL"),
    ("SCATTER_ND", "bool"): ("has type BOOL", "what meets at one place would be added"),
}
# Tables made with the erff of the platform, whose last bits differ among libraries.
NEARLY: Final = {("GELU", "int16")}


POSITIVE: Final = {"SQRT", "RSQRT", "LOG"}  # LiteRT stops below 0, or has NaN
RUNS: Final = 2


def inputs(module: Module, rng: np.random.Generator, positive: bool) -> list[np.ndarray]:
    found = []
    for p in module.graphs["main"].params:
        shape, kind = p.type.static_shape, p.type.dtype
        if kind.is_float:
            found.append((rng.random(shape) + 0.1 if positive else rng.standard_normal(shape)).astype(np.float32))
        elif kind.bits == 1:
            found.append(rng.integers(0, 2, shape).astype(bool))
        else:
            lo, hi = kind.limits if kind.bits <= 16 else (0, 9)
            lo = p.type.quant.zero_point if positive and p.type.quant else lo
            found.append(rng.integers(lo, hi, shape, endpoint=True).astype(kind.numpy))
    return found


def micro_outputs(data: bytes, given: list[list[np.ndarray]], results: int) -> Outputs:
    engine = runtime.Interpreter.from_bytes(data, arena_size=len(data) * 10 + 200_000)
    found = []
    for arrays in given:
        for k, array in enumerate(arrays):
            engine.set_input(array, k)
        engine.invoke()
        found.append([np.array(engine.get_output(k)) for k in range(results)])
    return found


def attempt(run: Callable[[], Outputs]) -> Outputs | None:
    """What an engine gives; None where it does not take the model."""
    try:
        return run()
    except (RuntimeError, ValueError):
        return None


def equal(found: Outputs, wanted: Outputs, off: int = 0) -> bool:
    pairs = [(a, b) for ours, theirs in zip(found, wanted, strict=True) for a, b in zip(ours, theirs, strict=True)]
    return all(
        a.dtype == b.dtype and a.shape == b.shape
        and (np.allclose(a, b, rtol=1e-5, atol=1e-6) if b.dtype.kind == "f" else near(a, b, off))
        for a, b in pairs
    )  # fmt: skip


def near(a: np.ndarray, b: np.ndarray, off: int) -> bool:
    return bool((a == b).all()) if off == 0 else bool((abs(a.astype(np.int64) - b.astype(np.int64)) <= off).all())


def taken(data: bytes) -> bool:
    """Whether a reference runs a model, all of whose inputs are zeros."""
    from ai_edge_litert import interpreter as litert

    try:
        engine = litert.Interpreter(
            model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
        )
        engine.allocate_tensors()
        engine.invoke()
    except (RuntimeError, ValueError):
        return False
    return True


def outcome(name: str, dtype: str, seed: int) -> tuple[str, str]:
    """The letter of an operator and a type, and why it was refused."""
    rng = np.random.default_rng((len(name), seed))
    data = build(MODELS[name](rng), rng, dtype)
    try:
        module = import_tflite(data, "one")
    except BuildError as error:
        return ("R" if taken(data) else "."), str(error)
    graph = module.graphs["main"]
    given = [inputs(module, rng, name in POSITIVE) for _ in range(RUNS)]
    found: Outputs = []
    for arrays in given:
        got = run_graph(module, "main", {p.name: a for p, a in zip(graph.params, arrays, strict=True)})
        found.append([np.asarray(got[r.name]) for r in graph.results])
    wanted = attempt(lambda: litert_outputs(data, given))
    if wanted is not None and equal(found, wanted, int((name, dtype) in NEARLY)):
        return "=", ""
    micro = attempt(lambda: micro_outputs(data, given, len(graph.results)))
    if micro is not None:
        return ("m" if equal(found, micro) else "X"), ""
    return ("s" if wanted is None else "X"), ""


def check(name: str, seeds: range) -> None:
    for dtype, expected in zip(TYPES, EXPECTED[name], strict=True):
        for seed in seeds:
            letter, why = outcome(name, dtype, seed)
            # where the two references agree on all numbers of a model, it is LiteRT that was asked
            assert letter == expected or (letter, expected) == ("=", "m"), (dtype, seed, why)
            if letter == "R":
                assert REFUSED[name, dtype][0] in why


@pytest.mark.parametrize("name", MODELS)
def test_operators_and_types(name: str) -> None:
    check(name, range(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_more_of_them(name: str) -> None:
    check(name, range(1, 12))


def test_every_refusal_is_listed_once() -> None:
    letters = [(name, *pair) for name, row in EXPECTED.items() for pair in zip(TYPES, row, strict=True)]
    assert {(name, kind) for name, kind, letter in letters if letter == "R"} == set(REFUSED)
    assert set(EXPECTED) == set(MODELS)
