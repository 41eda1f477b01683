"""Random index expressions as C have the values sym gives them, negative numerators included."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import pytest
from c_harness import HEAD, WARNINGS

from sdk.boards import load_board
from sdk.codegen_c.functions.dims import DimPrinter
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.sym import Dim, Var, dmax, dmin, evaluate, floordiv, mod
from sdk.errors import BuildError
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

VARS = (Var("n", 1, 40), Var("m", -20, 20), Var("k", 0, 96, 8))
COUNT = 400


def random_dim(rng: random.Random, depth: int) -> Dim:
    if depth == 0:
        return rng.choice([*(v.expr for v in VARS), rng.randint(-9, 9)])
    a, b = random_dim(rng, depth - 1), random_dim(rng, rng.randrange(depth))
    match rng.randrange(7):
        case 0:
            return a + b
        case 1:
            return a - b
        case 2:
            return a * b if depth < 3 else a * rng.randint(-5, 5)
        case 3:
            return floordiv(a, rng.randint(1, 7))
        case 4:
            return mod(a, rng.randint(1, 8))
        case 5:
            return dmin(a, b)
        case _:
            return dmax(a, b)


def library(lines: list[str], unit: Unit, folder: Path) -> ctypes.CDLL:
    signature = "void values(int32_t n, int32_t m, int32_t k, int32_t *out)"
    body = "\n".join(f"    out[{j}] = {text};" for j, text in enumerate(lines))
    used = "    (void)n;\n    (void)m;\n    (void)k;\n"
    text = f"{HEAD}{unit.preamble()}\n{signature};\n{signature}\n{{\n{used}{body}\n}}\n"
    tool, target = get_toolchain(), target_for(load_board("host"))
    job = CompileJob(SourceText("dims.c", text), target, flags=(*WARNINGS, "-ftrapv"), pic=True, opt="1")
    return ctypes.CDLL(str(tool.link(LinkJob("shared", (tool.compile(job),), target), folder / "dims.so")))


def test_values_are_those_of_sym(tmp_path: Path) -> None:
    rng = random.Random(7)
    dims = [random_dim(rng, 1 + j % 4) for j in range(COUNT)]
    moduli = [rng.randint(1, 9) for _ in dims]
    unit = Unit("m", frozenset())
    printer = DimPrinter(unit, lambda v: v.name)
    rows = [dmax(d, 0) for d in dims]
    lines = [printer.text(d) for d in dims] + [printer.slot(d, m) for d, m in zip(rows, moduli, strict=True)]
    loaded = library(lines, unit, tmp_path)
    out = (ctypes.c_int32 * len(lines))()
    for _ in range(50):
        env = {v: rng.choice(range(v.lo, v.hi + 1, v.multiple)) for v in VARS}
        loaded.values(*(env[v] for v in VARS), out)
        values = [evaluate(d, env) for d in dims]
        assert list(out)[:COUNT] == values
        assert list(out)[COUNT:] == [max(v, 0) % m for v, m in zip(values, moduli, strict=True)]


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (VARS[0].expr * 3 + 2, "n * 3 + 2"),
        (4 - VARS[0].expr, "-n + 4"),
        (VARS[0].expr // 3, "n / 3"),
        ((VARS[0].expr + 1) // 3 * 2, "((n + 1) / 3) * 2"),
        (VARS[1].expr // 3, "m_floordiv(m, 3)"),
        (VARS[2].expr // 8, "k / 8"),
    ],
)
def test_texts(dim: Dim, text: str) -> None:
    assert DimPrinter(Unit("m", frozenset()), lambda v: v.name).text(dim) == text


def test_the_slot_of_a_row() -> None:
    printer = DimPrinter(Unit("m", frozenset()), lambda v: v.name)
    row = VARS[1].expr - 1
    assert printer.slot(row, 3) == "(int32_t)((uint32_t)(m - 1) % 3u)"
    assert printer.slot(row, 4) == "((m - 1) & 3)"
    assert printer.slot(row, 1) == "0"
    assert printer.slot(VARS[0].expr, 100) == "n"


def test_an_index_past_32_bits_is_refused() -> None:
    with pytest.raises(BuildError, match="does not fit 32 bits"):
        DimPrinter(Unit("m", frozenset()), lambda v: v.name).text(1 << 40)
