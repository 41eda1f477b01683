"""AArch64's rows of spellings: the C text of each, run under QEMU, is what the operation means."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import HEAD, WARNINGS

from sdk.boards import load_board
from sdk.codegen_c.functions.instructions.neon_integer import SET
from sdk.codegen_c.functions.unit import Unit
from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.types import DType, dtype
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

pytestmark = pytest.mark.emulator
TRIES = 400
BOARDS = {"aarch64-linux-neon": "neon", "aarch64-linux": "neon dotprod", "aarch64-linux-i8mm": "neon dotprod i8mm"}
SHIFTS = {"rdbpot": (0, 31), "rdbpot1": (1, 31), "rdbpot22": (1, 22)}


@dataclass(frozen=True)
class Row:
    """An operation on these types (the result first) as a text of C with ``{0}`` …; ``lane`` is its last argument."""

    op: str
    types: tuple[DType, ...]
    text: str
    small: bool
    lane: int | None = None

    def arguments(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Any values, extremes among them, that the operation is for."""
        out = [values(rng, t) for t in self.types[1:]]
        if self.op in SHIFTS:
            lo, hi = SHIFTS[self.op]
            out[1] = rng.integers(lo, hi + 1, out[1].shape).astype(np.int32)
        if self.small or self.op == "srdhm30":
            out[0] = np.clip(out[0], 1 - (1 << 30), (1 << 30) - 1)
        return out

    def meaning(self, args: list[np.ndarray]) -> np.ndarray:
        """What the interpreter computes."""
        lane = [] if self.lane is None else [np.full((TRIES, 1), self.lane, np.int32)]
        return np.asarray(INTRINSICS[self.op].fn([*args, *lane], self.types[0]))


def values(rng: np.random.Generator, kind: DType) -> np.ndarray:
    lo, hi = kind.limits
    shape = (TRIES, kind.lanes)
    edges = rng.choice([lo, lo + 1, -1 if lo else 0, 0, 1, hi // 2, hi // 2 + 1, hi - 1, hi], shape)
    return np.where(rng.random(shape) < 0.4, edges, rng.integers(lo, hi + 1, shape)).astype(kind.numpy)


def rows(have: frozenset[str]) -> Iterator[Row]:
    """The rows for a core, of each operation, once for each lane."""
    for one in SET.instructions:
        if not one.needs <= have:
            continue
        kinds = tuple(dtype(t) for t in one.types)
        for op in one.ops:
            if op == "dot_lane":
                acc, a, b, _ = kinds[1:]
                for lane in range(a.lanes * acc.lanes // b.lanes):
                    text = one.text.replace("{3:int}", str(lane)).replace("{3}", str(lane))
                    yield Row(op, kinds[:-1], text, one.small, lane)
            else:
                yield Row(op, kinds if len(kinds) > 1 else kinds * 3, one.text, one.small)


def program(unit: Unit, cases: list[Row]) -> str:
    """Reads the arguments of all tries of all rows, writes their results."""
    functions, calls = [], []
    for k, row in enumerate(cases):
        reads = [f"        {unit.value_type(t)} x{j} = *(const {memory(unit, t)} *)take({t.nbytes});"
                 for j, t in enumerate(row.types[1:])]  # fmt: skip
        text = unit.expand(row.text.format(*(f"x{j}" for j in range(len(reads)))))
        result = row.types[0]
        give = f"        {unit.value_type(result)} y = {text};\n        fwrite(&y, 1, {result.nbytes}, stdout);"
        body = "\n".join([*reads, give])
        functions.append(
            f"static void f{k}(void) {{\n    for (int32_t i = 0; i < {TRIES}; ++i) {{\n{body}\n    }}\n}}"
        )
        calls.append(f"    f{k}();")
    take = """static const void *take(size_t bytes) {
    static uint8_t room[4][64];
    static uint32_t next = 0;
    next = (next + 1u) % 4u;
    if (fread(room[next], 1, bytes, stdin) != bytes) {
        exit(3);
    }
    return room[next];
}"""
    main = "int main(void) {\n" + "\n".join(calls) + "\n    return 0;\n}"
    head = f"#include <stdio.h>\n#include <stdlib.h>\n{HEAD}"
    return "\n\n".join([head, unit.preamble(), take, *functions, main]) + "\n"


def memory(unit: Unit, kind: DType) -> str:
    return unit.vector_type(f"{kind}_mem")


@pytest.mark.parametrize("opt", ["0", "3"])
@pytest.mark.parametrize("board", BOARDS)
def test_every_row_computes_what_the_operation_means(board: str, opt: str, tmp_path: Path, need_tool: Any) -> None:
    need_tool("qemu-aarch64")
    place, have = load_board(board), frozenset(BOARDS[board].split())
    assert have <= place.capabilities
    cases = list(rows(have))
    assert {op for one in SET.instructions if one.needs <= have for op in one.ops} == {c.op for c in cases}
    unit = Unit("m", have)
    tool, target = get_toolchain("zig"), target_for(place)
    source = SourceText("rows.c", program(unit, cases))
    made = tool.compile(CompileJob(source, target, flags=WARNINGS, opt=opt))
    assert made.warnings == ""
    image = tmp_path / "rows"
    tool.link(LinkJob("executable", (made,), target), image)
    image.chmod(0o755)
    rng = np.random.default_rng(3)
    given = [case.arguments(rng) for case in cases]
    raw = b"".join(np.hstack([a.view(np.uint8).reshape(TRIES, -1) for a in args]).tobytes() for args in given)
    assert place.emulator is not None
    command = [word.replace("{elf}", str(image)) for word in place.emulator.argv]
    done = subprocess.run(command, input=raw, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    at = 0
    for case, args in zip(cases, given, strict=True):
        size = TRIES * case.types[0].nbytes
        got = np.frombuffer(done.stdout[at : at + size], case.types[0].numpy).reshape(TRIES, -1)
        at += size
        np.testing.assert_array_equal(got, case.meaning(args).reshape(got.shape), err_msg=f"{case.op} {case.text}")
    assert at == len(done.stdout)
