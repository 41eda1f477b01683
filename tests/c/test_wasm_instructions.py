"""The instructions of WebAssembly's vectors in an engine: each equals its operation's meaning in numpy."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from c_harness import WARNINGS
from differential.started import run_started

from sdk.boards import load_board
from sdk.codegen_c.functions.instructions.lookup import INSTRUCTION_SETS, instruction_text
from sdk.codegen_c.functions.instructions.model import Instruction
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.ir.intrinsics import INTRINSICS, has_meaning
from sdk.compiler.ir.types import DType, dtype
from sdk.driver.targets import target_of
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain

BOARD = load_board("wasm32")
CASES = [(one, op) for one in INSTRUCTION_SETS["wasm"].instructions for op in one.ops]
COUNT = 3000
SMALL = 1 << 30


def types_of(one: Instruction, op: str) -> tuple[DType, ...]:
    arity = INTRINSICS[op].arity
    return tuple(map(dtype, one.types + one.types[-1:] * (arity + 1 - len(one.types))))


def source() -> str:
    """All instructions behind one function ``drive``, as the driver of started.py calls it."""
    unit, cases = Unit("m", BOARD.capabilities), []
    for k, (one, op) in enumerate(CASES):
        result, *given = types_of(one, op)
        text = instruction_text(op, (result, *given), unit.features, one.small)
        assert text == one.text.replace("$T", str(result)), "another instruction is taken"
        loads, size = [], 0
        for type in given:
            loads.append(f"*(const {unit.vector_type(f'{type}_mem')} *)(in + {size})")
            size += type.nbytes
        value = unit.expand(text.format(*loads))
        out = f"*({unit.vector_type(f'{result}_mem')} *)out = {value};"
        step = f"++i, in += {size}, out += {result.nbytes}"
        cases.append(f"case {k}: for (int32_t i = 0; i < words[1]; {step}) {{ {out} }} return 0;")
    signature = "int32_t drive(const int32_t *words, const uint8_t *in, uint8_t *out)"
    body = "\n".join(cases)
    return (
        f"#include <stdint.h>\n{unit.preamble()}\n{signature};\n{signature}\n{{\n"
        f"switch (words[0]) {{\n{body}\ndefault: return -1;\n}}\n}}\n"
    )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool, target = get_toolchain("zig"), target_of(BOARD)
    unit = tool.compile(CompileJob(SourceText("instructions.c", source()), target, flags=WARNINGS))
    return tool.link(LinkJob("module", (unit,), target), tmp_path_factory.mktemp("wasm") / "instructions.wasm")


def arguments(one: Instruction, op: str, rng: np.random.Generator) -> list[np.ndarray]:
    """Vectors of all values, the least and the greatest often."""
    out = []
    for type in types_of(one, op)[1:]:
        lo, hi = type.limits
        values = rng.integers(lo, hi + 1, (COUNT, type.lanes))
        values = np.where(rng.random(values.shape) < 0.2, rng.choice([lo, hi, 0, 1], values.shape), values)
        out.append(values.astype(type.numpy))
    if op.startswith("rdbpot"):
        out[1] = rng.integers(1, 23 if op == "rdbpot22" else 32, out[1].shape).astype(np.int32)
    if one.small:
        out[0] = np.clip(out[0], -SMALL, SMALL)
    return out


@pytest.mark.parametrize(("k", "one", "op"), [(k, *case) for k, case in enumerate(CASES)], ids=lambda v: str(v)[:12])
def test_an_instruction_computes_its_operation(k: int, one: Instruction, op: str, image: Path, need_tool) -> None:
    need_tool("node")
    result, args = types_of(one, op)[0], arguments(one, op, np.random.default_rng(k))
    assert has_meaning(op, args, result)
    given = b"".join(part[i].tobytes() for i in range(COUNT) for part in args)
    words = struct.pack("<2i", k, COUNT)
    (raw,) = run_started(image, "node", [(words, given, COUNT * result.nbytes)], 30.0)
    assert isinstance(raw, bytes), raw
    found = np.frombuffer(raw, result.numpy).reshape(COUNT, result.lanes)
    np.testing.assert_array_equal(found, INTRINSICS[op].fn(args, result))
