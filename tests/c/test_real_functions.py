"""The C of real functions is as near to the true ones as docs/math.md says, everywhere and in every build.

Every float of a dense sample (a denser one in `make soak`) is compared with double precision; the unit is the
distance of floats at the true value, that of the smallest normal numbers below them. Infinities, NaN and the sign
of 0 must be right.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from c_harness import WARNINGS

from sdk.boards import load_board
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.ir.intrinsics import INTRINSICS, apply
from sdk.compiler.ir.types import F16, F32, F64, I8, I32, I64, U8, U32, DType
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

TABLE = Path(__file__).parents[2] / "docs" / "math.md"
HEAD = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
EXACT = ("floor", "ceil", "trunc", "round", "abs")
UNARY = (
    "exp", "log", "tanh", "sigmoid", "erf", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "asinh", "acosh", "atanh", *EXACT,
)  # fmt: skip
HELPERS = {"round": "whole"}
CONVERSIONS = [(I8, F32), (U8, F32), (I32, F32), (U32, F32), (I64, F64), (I32, F64), (F16, F32), (F32, F16)]
# Toolchain, what zig calls the machine (None: this one), lanes of 32 bits.
BUILDS = {
    "scalar": ("zig", "x86_64", 1),
    "gcc": ("gcc", None, 1),
    "avx2": ("zig", "haswell", 8),
    "avx512": ("zig", None, 16),
    "gcc-avx512": ("gcc", None, 16),
}
STEP = 4093
SOAK_STEP = 61


def of_lanes(type: DType, lanes: int) -> DType:
    return type.with_lanes(lanes) if lanes > 1 else type


def c_array(unit: Unit, type: DType, lanes: int) -> str:
    return unit.memory_type(of_lanes(type, lanes), type) if lanes > 1 else unit.value_type(type)


def wrapper(unit: Unit, name: str, helper: str, types: list[DType], lanes: int) -> str:
    out, *ins = (c_array(unit, t, lanes) for t in types)
    call = ", ".join(f"((const {t} *)in[{k}])[i]" for k, t in enumerate(ins))
    signature = f"void {name}(void *out, const void *const *in, size_t count)"
    body = f"for (size_t i = 0; i < count; ++i) {{ (({out} *)out)[i] = {unit.helper(helper)}({call}); }}"
    return f"{signature};\n{signature} {{ {body} }}"


class Functions:
    """All functions in one library; ``lanes`` is those of 32 bits."""

    def __init__(self, folder: Path, toolchain: str, cpu: str | None, lanes: int) -> None:
        self.lanes = lanes
        unit = Unit("m", frozenset({"sse2"}))
        blocks = []
        for type, width in ((F32, lanes), (F64, max(lanes // 2, 1))):
            own = of_lanes(type, width)
            for name in UNARY:
                blocks.append(wrapper(unit, f"{name}_{type}", f"{HELPERS.get(name, name)}_{own}", [type] * 2, width))
            for name in ("pow", "fmod"):
                blocks.append(wrapper(unit, f"{name}_{type}", f"{name}_{own}", [type] * 3, width))
        for to, source in CONVERSIONS:
            width = lanes if 64 not in (to.bits, source.bits) else max(lanes // 2, 1)
            family = "half" if F16 in (to, source) else "hold"
            helper = f"{family}_{of_lanes(to, width)}_{of_lanes(source, width)}"
            blocks.append(wrapper(unit, f"{to}_{source}", helper, [to, source], width))
        unit.floats_used = True
        tool, target = get_toolchain(toolchain), target_for(load_board("host"))
        if cpu is not None:
            target = replace(target, zig_cpu=cpu)
        text = "\n\n".join((HEAD, unit.preamble(), *blocks)) + "\n"
        job = CompileJob(SourceText("real.c", text), target, flags=WARNINGS, pic=True, opt="2")
        out = tool.link(LinkJob("shared", (tool.compile(job),), target), folder / "real.so")
        self.library = ctypes.CDLL(str(out))

    def __call__(self, name: str, to: np.dtype[Any], *args: np.ndarray) -> np.ndarray:
        size = -(-args[0].size // 64) * 64
        padded = [np.resize(a, size) for a in args]
        out = np.empty(size, to)
        lanes = self.lanes if 8 not in (out.itemsize, args[0].itemsize) else max(self.lanes // 2, 1)
        pointers = (ctypes.c_void_p * len(args))(*(a.ctypes.data for a in padded))
        getattr(self.library, name)(ctypes.c_void_p(out.ctypes.data), pointers, ctypes.c_size_t(size // lanes))
        return out[: args[0].size]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Functions]:
    return {name: Functions(tmp_path_factory.mktemp("real"), *how) for name, how in BUILDS.items()}


@pytest.fixture(scope="module", params=BUILDS, ids=str)
def functions(request: pytest.FixtureRequest, builds: dict[str, Functions]) -> Functions:
    return builds[request.param]


def bounds() -> dict[str, float]:
    """Units in the last place of f32 that the documentation promises."""
    rows = re.findall(r"^\| ((?:`\w+` ?)+)\| ([\d.]+|exact) \|", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        name: 0.0 if bound == "exact" else float(bound) for names, bound in rows for name in re.findall(r"\w+", names)
    }


def places(true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest floats of true values (in double precision), and their units of the last place."""
    with np.errstate(all="ignore"):
        want = true.astype(np.float32)
        return want, np.spacing(np.maximum(np.abs(want), np.finfo(np.float32).tiny)).astype(np.float64)


def errors(
    got: np.ndarray, true: np.ndarray, known: tuple[np.ndarray, np.ndarray] | None = None
) -> np.ndarray:
    """The distance from the true values, in units of the last place of f32; ``known`` are their ``places``."""
    want, unit = known or places(true)
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - true) / np.where(np.isfinite(unit), unit, 2.0**104)
    same = (np.isnan(got) & np.isnan(want)) | ((got == want) & ((got != 0) | (np.signbit(got) == np.signbit(want))))
    off = np.where(same & ~np.isfinite(off), 0, off)
    wrong = (np.isnan(got) != np.isnan(want)) | ((got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want)))
    edge = np.isinf(got) & np.isfinite(want)
    return np.where(wrong | (edge & (np.abs(want) < 3.4028e38)), np.inf, np.where(edge, 1.0, off))


def check(functions: Functions, name: str, x: np.ndarray, true: np.ndarray, known: Any = None, where: str = "") -> None:
    off = errors(functions(f"{name}_f32", x.dtype, x), true, known)
    worst = int(np.argmax(off))
    assert off[worst] <= bounds()[name], f"{where}{name}({x[worst]!r}) is {off[worst]:.3f} units off"


@pytest.mark.parametrize("name", UNARY)
def test_dense_sample(builds: dict[str, Functions], name: str) -> None:
    """By all builds: what is true takes longer to compute than what they say."""
    step = STEP * 8 if name == "erf" else STEP
    near = np.arange(0, 1 << 12, dtype=np.uint32)  # denormals, 1, the ends of the normal numbers, both signs
    starts = (0, 0x00800000, 0x3F800000 - 2048, 0x7F800000 - 2048, 0x4B000000 - 2048)
    parts = [near + np.uint32(start | sign) for start in starts for sign in (0, 0x80000000)]
    x = np.concatenate([np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32), *parts]).view(np.float32)
    with np.errstate(all="ignore"):
        true = apply(name, [x.astype(np.float64)], F64)
        known = places(true)
        for build, functions in builds.items():
            check(functions, name, x, true, known, f"{build}: ")


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("functions", ["scalar", "avx512"], indirect=True)  # without and with fused multiply-add
def test_many_floats(functions: Functions, name: str) -> None:
    """70 million floats of every magnitude, others for each function."""
    first = UNARY.index(name) * SOAK_STEP // len(UNARY)
    bits = np.arange(first, 1 << 32, SOAK_STEP, dtype=np.uint64).astype(np.uint32)
    with np.errstate(all="ignore"):
        for part in np.array_split(bits, 32):
            x = part.view(np.float32)
            check(functions, name, x, apply(name, [x.astype(np.float64)], F64))


def test_every_function_has_a_bound() -> None:
    assert set(UNARY) | {"pow", "fmod"} == set(bounds())
    real = {name for name, row in INTRINSICS.items() if name in (*UNARY, "pow", "fmod") and row.result == "same"}
    assert real == set(bounds())


SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 0.5, -0.5, 3, 1e30, -1e30, 5e-324, -3, 1e-40])


@pytest.mark.parametrize("type", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["pow", "fmod"])
def test_special_arguments_of_two(functions: Functions, name: str, type: DType) -> None:
    a, b = (v.ravel().astype(type.numpy) for v in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        want = (np.power if name == "pow" else np.fmod)(a, b)
    got = functions(f"{name}_{type}", a.dtype, a, b)
    np.testing.assert_allclose(got, want, rtol=1e-6 if type == F32 else 1e-12)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[got == 0]))


def test_pow_and_fmod(functions: Functions) -> None:
    rng = np.random.default_rng(1)
    x, y = np.abs(rng.standard_normal(1 << 20) * 4).astype(np.float32), rng.standard_normal(1 << 20) * 20
    y = np.where(rng.random(y.size) < 0.2, np.rint(y), y).astype(np.float32)
    x = np.where((np.rint(y) == y) & (rng.random(y.size) < 0.5), -x, x)
    with np.errstate(all="ignore"):
        true = np.power(x.astype(np.float64), y.astype(np.float64))
    assert errors(functions("pow_f32", x.dtype, x, y), true).max() <= bounds()["pow"]
    a, b = (rng.standard_normal(1 << 18) * 10.0 ** rng.integers(-40, 38, 1 << 18) for _ in range(2))
    for type in (np.float32, np.float64):
        one, two = a.astype(type), b.astype(type)
        with np.errstate(all="ignore"):
            want = np.fmod(one, two)
        got = functions("fmod_f32" if type is np.float32 else "fmod_f64", one.dtype, one, two)
        np.testing.assert_array_equal(got, want)


EXACT_F64 = {
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "exp": mpmath.exp, "log": mpmath.log, "tanh": mpmath.tanh, "erf": mpmath.erf, "sqrt": mpmath.sqrt,
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "asin": mpmath.asin, "acos": mpmath.acos,
    "atan": mpmath.atan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "asinh": mpmath.asinh, "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT_F64)
def test_double_precision(functions: Functions, name: str) -> None:
    rng = np.random.default_rng(2)
    sizes = [1e-300, 1e-8, 0.1, 0.999] if name in ("asin", "acos", "atanh") else [1e-300, 1e-8, 0.1, 3.0, 30.0, 500.0]
    if name in ("sin", "cos", "tan"):
        sizes += [1e5, 1e7, 1e22, 1e300]
    x = np.concatenate([rng.uniform(-1, 1, 200) * s for s in sizes])
    x = 1 + np.abs(x) if name == "acosh" else np.abs(x) if name in ("log", "sqrt", "rsqrt") else x
    with mpmath.workdps(400 if name in ("sin", "cos", "tan") else 60):
        true = [EXACT_F64[name](mpmath.mpf(float(v))) for v in x]
        got = functions(f"{name}_f64", x.dtype, x)
        off = [abs((mpmath.mpf(float(g)) - t) / t) for g, t in zip(got, true, strict=True) if 1e-300 < abs(t) < 1e300]
    assert max(off) < 1e-15


@pytest.mark.parametrize(("to", "source"), [c for c in CONVERSIONS if F16 not in c], ids=str)
def test_floats_become_integers_within_range(functions: Functions, to: DType, source: DType) -> None:
    lo, hi = to.limits
    edges = [float(v + d) for v in (lo, 0, hi) for d in (-2, -1, -0.75, -0.5, 0, 0.5, 0.75, 1, 2)]
    x = np.array([*edges, 1e30, -1e30, np.inf, -np.inf, np.nan, 3e9, -3e9, 1e19, -0.0], source.numpy)
    x = np.concatenate([x, np.random.default_rng(3).standard_normal(1000) * 200]).astype(source.numpy)
    np.testing.assert_array_equal(functions(f"{to}_{source}", np.dtype(to.numpy), x), apply("cast", [x], to))


def test_half_precision(functions: Functions) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = functions("f32_f16", np.dtype(np.float32), every)
    with np.errstate(invalid="ignore"):
        want = every.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(wide, want)
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(want))
    some = np.arange(0, 1 << 32, 499, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = want[np.isfinite(want)].astype(np.float64)
    middle = ((near[:-1] + near[1:]) / 2).astype(np.float32)
    for x in (some, middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))):
        with np.errstate(over="ignore", invalid="ignore"):
            expected = x.astype(np.float16)
        got = functions("f16_f32", np.dtype(np.uint16), x).view(np.float16)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
