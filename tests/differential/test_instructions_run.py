"""The C of each declared instruction, run on a core that has it, beside what its operation means in numpy.

Functions of real numbers are compared in tests/c/test_real_functions.py, the first lanes of vectors in memory in
tests/c/test_vectors_as_c.py, WebAssembly's in tests/c/test_wasm_instructions.py, products of bytes on AArch64 in
tests/c/test_neon_instructions.py, lines of assembly in tests/unit/test_instructions.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from differential.cores import board_of
from differential.image import link_code
from differential.machines import Request, run_requests
from sdk.codegen_c.functions.instructions.lookup import INSTRUCTION_SETS, fits, in_order, instruction_text
from sdk.codegen_c.functions.instructions.model import Instruction
from sdk.codegen_c.functions.instructions.operations import MEMORY
from sdk.codegen_c.functions.stmt import emit_loops
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Block, Buffer, For, Imm, Load, Loops, Op, Param, Store, ValueExpr
from sdk.compiler.ir.types import I32, DType, dtype
from sdk.compiler.sym import Var
from sdk.toolchains import BuildCache

pytestmark = pytest.mark.emulator
TIMES = 48  # values that each is tried on
HEAD = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#define M_NOINLINE __attribute__((noinline))\n"
TARGETS = [
    ("m0plus", ""), ("m3", ""), ("m4", ""), ("m4", "scalar"), ("m55", ""), ("aarch64", ""), ("avx2", ""),
    ("avx2", "sse2"), ("avx512", ""), ("avx512", "avx2+avxvnni"),
]  # fmt: skip
ALL = [one for own in INSTRUCTION_SETS.values() for one in own.instructions if one.text]
ELSEWHERE = {*MEMORY, *(op for one in INSTRUCTION_SETS["real"].instructions for op in one.ops)} - {"fma"}
INTEGERS = [f"{k}{bits}" for k in "iu" for bits in (8, 16, 32)]
SHIFTS = ("rdbpot", "rdbpot1", "rdbpot22")
BYTES = list(product(("i8", "u8"), repeat=2))
WIDE = ["", "x4", "x8", "x16"]

# By operation the types to try: of the result, then of the arguments.
SIGNATURES: dict[str, list[str]] = {
    **{name: [" ".join([f"i32{n}"] * 3) for n in WIDE] for name in ("srdhm", "srdhm30", *SHIFTS)},
    "mac_high": [" ".join([f"i32{n}"] * 4) for n in WIDE],
    "mulq64": [f"i32{n} i64{n} i32{n} i32{n}" for n in WIDE],
    "clz": [f"{k}32{n} {k}32{n}" for k in "iu" for n in WIDE],
    **{f"zip_{half}": [" ".join([t] * 3) for t in ("i8x16", "i16x8", "i32x4", "f32x4", "i32x8", "f32x16")]
       for half in ("lo", "hi")},
    "dot": [*(f"i32 i32 {a}{n} {b}{n}" for a, b in BYTES for n in ("x4", "x16")), "i32 i32 i16x2 i16x2",
            "i64 i64 i16x2 i16x2", "i32x16 i32x16 u8x64 i8x64", "i32x8 i32x8 u8x32 i8x32",
            "i32x16 i32x16 i16x32 i16x32", "i32x8 i32x8 i16x16 i16x16", "i32x4 i32x4 i16x8 i16x8"],
    "dot_small": ["i16x16 i16x16 u8x32 i8x32"],
    "dot_narrow": ["i32x8 i32x8 i8x32 i8x32"],
    "settled": ["f32x4 f32x4", "f32x8 f32x8"],
    "mac_lane": [f"i32 i32 {a}{n} {b}{n} i32" for a, b in BYTES for n in ("x4", "x16")],
    "mac_pair": ["i32 i32 i16x2 i16x2 i32 i32"],
    "fma": [" ".join([f"f32{n}"] * 4) for n in WIDE],
    "add_halves": ["i64 i64 i64"],
    "bits": ["i8x4 i16x2", "u8x4 i16x2", "i16x2 i8x4", "i16x2 u8x4", "f32 i32", "i32 f32"],
    **{f"fold_{name}": [f"{t} {t}x{n}" for t in INTEGERS for n in (4, 8, 16) if n * dtype(t).nbytes >= 16]
       for name in ("add", "mul", "min", "max")},
    "fmod": ["i32 i32 i32", "u32 u32 u32", "i8 i8 i8"],
    "abs": ["i32 i32", "u32 u32", "i8 i8"],
    **{name: [" ".join([f"{t}x{16 // dtype(t).nbytes}"] * 3) for t in INTEGERS] + words
       for name, words in (("min", []), ("max", ["i8x4 i8x4 i8x4"]))},
    "cast": [f"{a} {b}" for t in ("i8x4", "u8x4") for a, b in ((t, "i32x4"), ("i32x4", t))],
    **{name: ["i16x2 i8x4", "i16x2 u8x4"] for name in ("evens", "odds")},
    "add": ["i8x4 i8x4 i8x4", "u8x4 u8x4 u8x4"],
    "broadcast": ["i8x4 i8", "u8x4 u8", "i16x2 i16"],
}  # fmt: skip
LITERALS = {"mac_lane": [(k,) for k in range(4)], "mac_pair": list(product((0, 1), repeat=2))}
EDGES = [0, 1, -1, 2, 7, 2**31 - 1, -(2**31), 0x7FFF, -0x8000, 127, -128, 255, 1 << 30]
BELOW = {  # the least and most of an argument where an operation is not defined for all that its type holds
    ("srdhm30", 0): (-(2**30) + 1, 2**30 - 1),
    ("rdbpot", 1): (0, 31), ("rdbpot1", 1): (1, 31), ("rdbpot22", 1): (1, 22),
    ("mulq64", 0): (-(2**40), 2**40), ("mulq64", 1): (0, 2**31 - 1), ("mulq64", 2): (-20, 7),
    ("add_halves", 1): (-(2**31), 2**31 - 2**15 - 1), ("mac_high", 2): (-(2**29), 2**29),
    ("dot_small", 0): (-255, 255), ("dot_small", 1): (0, 127), ("dot_narrow", 2): (-127, 127),
}  # fmt: skip


def chosen(op: str, types: tuple[DType, ...], features: frozenset[str], small: bool = False) -> Instruction | None:
    """The instruction whose text the printer takes."""
    for one in in_order(one for one in ALL if op in one.ops and one.needs <= features):
        if (small or not one.small) and fits(one, types):
            assert instruction_text(op, types, features, small) is not None
            return one
    return None


class Kernel:
    """A loop that stores ``value(*reads)`` of each of ``TIMES`` arguments of the types; what its instructions are."""

    def __init__(self, name: str, types: tuple[DType, ...], value: ValueExpr, uses: list[Instruction]) -> None:
        self.uses = uses
        self.result, self.args = types[0], types[1:]
        turn = Var("i", 0, TIMES - 1)
        made = {f"x{k}": Load(f"x{k}", (turn.expr * t.lanes,), t) for k, t in enumerate(self.args)}
        params = [Param(Buffer(f"x{k}", t.scalar, (TIMES * t.lanes,)), "read") for k, t in enumerate(self.args)]
        params.append(Param(Buffer("y", self.result.scalar, (TIMES * self.result.lanes,)), "write"))
        store = Store("y", (turn.expr * self.result.lanes,), placed(value, made))
        self.loops = Loops(name, (), tuple(params), Block((For(turn, 0, TIMES, Block((store,))),)))


def placed(value: ValueExpr, made: dict[str, Load]) -> ValueExpr:
    """A value with the reads of its arguments at their places."""
    if isinstance(value, Load):
        return made[value.buffer]
    return Op(value.name, tuple(placed(a, made) for a in value.args), value.dtype) if isinstance(value, Op) else value


def kernels(unit: Unit) -> Iterator[Kernel]:
    """What the target's instructions are for: each operation, and what the printer joins."""
    maximum = max(unit.machine.vector_bytes, 4 * unit.machine.floats.lanes)
    widths = {n for n in (16, 32, 64) if n <= maximum} if "vectors" in unit.features else {4}
    for name, signatures in SIGNATURES.items():
        for text in signatures:
            types = tuple(map(dtype, text.split()))
            one = chosen(name, types, unit.features)
            literals = LITERALS.get(name, [()])
            wide = [t for t in types if t.lanes > 1]
            if one is None or (wide and max(t.nbytes for t in wide) not in widths and name != "mac_pair"):
                continue
            for given in literals:
                args = types[1 : len(types) - len(given)]
                reads = (Load(f"x{k}", (0,), t) for k, t in enumerate(args))
                value = Op(name, (*reads, *(Imm(n, I32) for n in given)), types[0])
                yield Kernel("_".join([name, *text.split(), *map(str, given)]), (types[0], *args), value, [one])
    yield from joined(unit)


def joined(unit: Unit) -> Iterator[Kernel]:
    """Shifts of what is small, and sums brought to integers of fewer bits."""
    for name, lanes in product(SHIFTS[1:], (1, 4) if "vectors" in unit.features else (1,)):
        type = I32.with_lanes(lanes)
        a, b, e = (Load(f"x{k}", (0,), type) for k in range(3))
        one = chosen(name, (type,) * 3, unit.features, small=True)
        assert one
        yield Kernel(f"small_{name}_{lanes}", (type,) * 4, op(name, op("srdhm30", a, b), e), [one])
    a, b, e = (Load(f"x{k}", (0,), I32) for k in range(3))
    for type in map(dtype, ("i8", "u8", "i16")):
        lo, hi = type.limits
        names = ((f"clamp_{type}", 2), (f"clamp_shr_{type}", 3))
        uses = [one for k, n in names if (one := chosen(k, (I32,) * n, unit.features))]
        clamped = op("min", op("max", a, imm(lo)), imm(hi))
        yield Kernel(f"clamp_{type}", (type, I32), cast(clamped, type), uses[:1])
        for by in (1, 10, 31):
            clamped = op("min", op("max", op("shr", a, imm(by)), imm(lo)), imm(hi))
            yield Kernel(f"clamp_shr_{type}_{by}", (type, I32), cast(clamped, type), uses[1:])
        for zero, name in product((lo, lo + 3), ("rdbpot1", "rdbpot22")):
            whole = chosen("rescale_product", (I32,) * 5, unit.features)
            joint = zero == lo and name == "rdbpot22" and abs(2 * zero + 1) < 512
            scaled = op("add", op(name, op("srdhm30", a, b), e), imm(zero))
            value = cast(op("min", op("max", scaled, imm(lo)), imm(hi)), type)
            inside = [*uses[1:], *([whole] if whole and joint else [])]
            yield Kernel(f"scaled_{type}_{zero - lo}_{name}", (type, I32, I32, I32), value, inside)


def arguments(kernel: Kernel, rng: np.random.Generator) -> list[np.ndarray]:
    """What a kernel is given: edges and random bits, in the ranges that its operation is defined for."""
    name = kernel.loops.name
    base = next((n for n in sorted(SIGNATURES, key=len, reverse=True) if name.startswith(f"{n}_")), "")
    bounds = {k: BELOW.get((base, k)) for k in range(len(kernel.args))}
    if not base or base == "small":
        bounds = {0: (-(2**30) + 1, 2**30 - 1), 2: (1, 22)}
    out = []
    for k, type in enumerate(kernel.args):
        size = TIMES * type.lanes
        if type.is_float:
            out.append(rng.integers(-1000, 1000, size).astype(type.numpy))
            continue
        bits = rng.integers(-(2**63), 2**63 - 1, size) >> rng.integers(0, 64, size)
        bits = np.where(rng.random(size) < 0.3, rng.choice(EDGES, size), bits)
        minimum, maximum = bounds.get(k) or type.limits
        values = bits.astype(type.numpy)
        whole = values.astype(object)
        inside = np.array([minimum + int(v - minimum) % (maximum - minimum + 1) for v in whole], object)
        out.append(inside.astype(type.numpy))
    return out


def source(unit: Unit, found: list[Kernel]) -> str:
    """The kernels, and a ``drive`` that calls that of number ``words[0]`` on the inputs at the offsets behind."""
    printed = [emit_loops(unit, one.loops, {}) for one in found]
    calls = []
    for k, (one, function) in enumerate(zip(found, printed, strict=True)):
        given = [f"(const void *)(in + words[{n + 1}])" for n in range(len(one.args))]
        calls.append(f"    case {k}: {function.name}({', '.join([*given, '(void *)out'])}); return 0;")
    signature = "int32_t drive(const int32_t *words, const uint8_t *in, uint8_t *out)"
    drive = [f'__attribute__((section(".text.drive"), used)) {signature};', signature, "{", "    switch (words[0]) {"]
    drive += [*calls, "    default: return 1;", "    }", "}"]
    return "\n\n".join([HEAD, unit.preamble(), *(f.text for f in printed), "\n".join(drive)]) + "\n"


def unit_of(core: str, isa: str) -> Unit:
    """The target; hot loops stay C."""
    have = board_of(core).capabilities
    unit = Unit("m", frozenset() if isa == "scalar" else frozenset(isa.split("+")) if isa else have)
    unit.machine = replace(unit.machine, assembly=None)
    return unit


@pytest.mark.parametrize(("core", "isa"), TARGETS, ids=lambda text: text or "all")
def test_instructions_do_what_they_mean(core: str, isa: str, tmp_path: Path) -> None:
    unit, rng = unit_of(core, isa), np.random.default_rng(len(core))
    found = list(kernels(unit))
    link_code(source(unit, found), core, "zig", BuildCache(tmp_path / "cache"), tmp_path / "image")
    requests, given = [], []
    for k, one in enumerate(found):
        args = arguments(one, rng)
        sizes = [-(-a.nbytes // 64) * 64 for a in args]
        words = [k, *(sum(sizes[:n]) for n in range(len(args)))]
        data = b"".join(a.tobytes().ljust(size, b"\0") for a, size in zip(args, sizes, strict=True))
        requests.append(Request(struct.pack(f"<{len(words)}i", *words), data, TIMES * one.result.nbytes))
        given.append(args)
    wrong = []
    for one, args, raw in zip(found, given, run_requests(tmp_path / "image", core, requests), strict=True):
        wanted = np.zeros(TIMES * one.result.lanes, one.result.numpy)
        run_loops(one.loops, {**{f"x{k}": a for k, a in enumerate(args)}, "y": wanted})
        if isinstance(raw, str) or raw != wanted.tobytes():
            got = raw if isinstance(raw, str) else np.frombuffer(raw, wanted.dtype)
            wrong.append(f"{one.loops.name}: {got}, not {wanted}")
    assert wrong == []


def test_every_instruction_is_run() -> None:
    run = [one for core, isa in TARGETS for kernel in kernels(unit_of(core, isa)) for one in kernel.uses]
    run += INSTRUCTION_SETS["wasm"].instructions + INSTRUCTION_SETS["neon_integer"].instructions
    left = [one for one in ALL if one not in run and not set(one.ops) <= ELSEWHERE]
    assert [(one.ops, one.types, sorted(one.needs)) for one in left] == []
