"""The decoder of RV32IMC against an assembler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sdk.cores.riscv import decode_riscv
from sdk.toolchains.elf import ElfFile

CASES = {
    "alu": "add a0,a1,a2; addi a0,a1,100; c.addi a0,1; c.mv a0,a1; c.add a0,a1; lui a0,4; auipc a0,1; slli a0,a1,3;"
    " c.slli a0,2; c.li a0,1; c.addi4spn a0,sp,16; c.addi16sp sp,32; c.sub a0,a1; sltu a0,a1,a2; c.srai a0,3",
    "mul": "mul a0,a1,a2",
    "mul_long": "mulh a0,a1,a2; mulhu a0,a1,a2; mulhsu a0,a1,a2",
    "div": "div a0,a1,a2; remu a0,a1,a2",
    "load": "lw a0,0(a1); lb t0,3(a1); lhu a0,2(t1); c.lw a0,4(a1); c.lwsp a0,8(sp)",
    "store": "sw a0,0(t1); sb a0,1(a1); c.sw a0,4(a1); c.swsp a0,8(sp)",
    "branch": "beq a0,a1,.; bltu a0,a1,.; c.beqz a0,.; c.bnez a0,.; c.j .; jal zero,.",
    "call": "jal ra,.; jalr ra,4(a0); c.jalr a0; c.jal .",
    "jump": "jalr zero,4(ra); c.jr ra",
    "nop": "fence; csrr a0,mcycle",
}


@pytest.mark.parametrize("kind", CASES)
def test_the_kinds_of_instructions(kind: str, tmp_path: Path, need_tool) -> None:
    need_tool("riscv64-unknown-elf-gcc")
    lines = [line.strip() for line in CASES[kind].split(";")]
    source, out = tmp_path / "a.s", tmp_path / "a.o"
    source.write_text(".option norelax\n" + "\n".join(lines) + "\n")
    command = ["riscv64-unknown-elf-gcc", "-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32", "-c", source, "-o", out]
    subprocess.run(command, check=True)
    code = next(s.data for s in ElfFile(out).sections if s.name == ".text")
    at = 0
    for line in lines:
        one = decode_riscv(code, at)
        assert one.kind == kind, line
        assert one.size == (2 if line.startswith("c.") else one.size)
        at += one.size
    assert at == len(code)


def test_what_rv32imc_has_not_is_other() -> None:
    assert decode_riscv(bytes.fromhex("07a00500"), 0).kind == "other"  # a load of a float
