"""The interpreter of instructions beside a model of the processor: the same registers and memory after each."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable

import pytest
from unicorn import UC_ARCH_ARM, UC_MODE_MCLASS, UC_MODE_THUMB, Uc
from unicorn.arm_const import UC_ARM_REG_CPSR, UC_ARM_REG_R0, UC_CPU_ARM_CORTEX_M4

from sdk.codegen_c.functions.thumb.execute import Fault, Memory, execute, signed
from sdk.toolchains.elf import ElfFile

CODE, DATA, SIZE = 0x10000, 0x20000, 4096
REGISTERS = {"%[t0]": 0, "%[t1]": 1, "%[t2]": 2, "%[t3]": 3, "%[a]": 4, "%[b]": 5, "%[p0]": 6, "%[n]": 7}
SUMS = [f"smla{x}{y} %[t0], %[a], %[b], %[t1]" for x in "bt" for y in "bt"]
LINES = [
    "add %[t0], %[a], %[b]", "add %[t0], %[a], #4095", "add %[t0], %[a], %[a], asr #31", "sub %[t0], %[a], %[b]",
    "sub %[t0], %[a], #1", "sub %[t0], %[a], #4095", "asr %[t0], %[a], %[n]", "asr %[t0], %[a], #31",
    "lsl %[t0], %[a], %[n]", "lsl %[t0], %[a], #1", "mvn %[t0], %[a]", "mla %[t0], %[a], %[b], %[t1]", *SUMS,
    "smlad %[t0], %[a], %[b], %[t1]", "smmla %[t0], %[a], %[b], %[t1]", "smmlar %[t0], %[a], %[b], %[t1]",
    "smmulr %[t0], %[a], %[b]", "sxtb16 %[t0], %[a]", "sxtb16 %[t0], %[a], ror #8", "uxtb16 %[t0], %[a]",
    "uxtb16 %[t0], %[a], ror #8", "ssat %[t0], #8, %[a]", "ssat %[t0], #8, %[a], asr #1", "ssat %[t0], #16, %[a]",
    "ssat %[t0], #16, %[a], asr #1", "usat %[t0], #8, %[a]", "usat %[t0], #8, %[a], asr #1", "subs %[n], %[n], #1",
    "ldr %[t0], [%[p0]]", "ldr %[t0], [%[p0], #4]", "ldr %[t0], [%[p0], #-255]", "ldr %[t0], [%[p0]], #-255",
    "ldrb %[t0], [%[p0], #3]", "ldrsb %[t0], [%[p0], #4001]", "ldrh %[t0], [%[p0], #1]", "ldrsh %[t0], [%[p0]], #2",
    "ldrd %[t0], %[t1], [%[p0], #-1020]", "ldrd %[t1], %[t0], [%[p0]], #1020", "ldmia %[p0]!, {%[t0], %[t1], %[t3]}",
    "str %[a], [%[p0], #8]", "strb %[a], [%[p0]], #1", "strh %[a], [%[p0], #-2]", "strd %[a], %[b], [%[p0], #16]",
    "strd %[b], %[a], [%[p0]], #-8",
]  # fmt: skip
ENDS = [0, 1, -1, 2**31 - 1, -(2**31), 0x7FFF, -0x8000, 0x7F80FF80, 255, 32, 31]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, need_assembler: str) -> ElfFile:
    """Every line, between symbols of its number."""
    folder = tmp_path_factory.mktemp("lines")
    text = [".syntax unified", ".thumb", ".text"]
    for k, line in enumerate([*LINES, "nop"]):
        named = re.sub(r"%\[\w+\]", lambda found: f"r{REGISTERS[found[0]]}", line)
        text += [f".global line{k}", f"line{k}: {named}"]
    (folder / "lines.s").write_text("\n".join(text) + "\n")
    out = folder / "lines.elf"
    flags = ["-mcpu=cortex-m4", "-mthumb", "-nostdlib", f"-Wl,-Ttext={CODE:#x}", "-Wl,-eline0"]
    subprocess.run([need_assembler, *flags, folder / "lines.s", "-o", out], check=True)
    return ElfFile(out)


@pytest.fixture(scope="module")
def need_assembler() -> str:
    return "arm-none-eabi-gcc"


@pytest.fixture(scope="module")
def processor(image: ElfFile) -> Callable[[int, list[int], bytes], tuple[list[int], bytes]]:
    at = {s.name: s.value & ~1 for s in image.symbols if s.name.startswith("line")}
    end = at[f"line{len(LINES)}"]
    machine = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
    machine.ctl_set_cpu_model(UC_CPU_ARM_CORTEX_M4)
    machine.mem_map(CODE, 0x10000)
    machine.mem_map(0, SIZE * 4)
    machine.mem_write(CODE, image.code_at(CODE, end - CODE))

    def run(line: int, registers: list[int], memory: bytes) -> tuple[list[int], bytes]:
        machine.mem_write(0, memory)
        for k, value in enumerate(registers):
            machine.reg_write(UC_ARM_REG_R0 + k, value & 0xFFFFFFFF)
        machine.emu_start(at[f"line{line}"] | 1, at[f"line{line + 1}"], count=1)
        after = [signed(machine.reg_read(UC_ARM_REG_R0 + k)) for k in range(len(registers))]
        zero = bool(machine.reg_read(UC_ARM_REG_CPSR) >> 30 & 1)
        assert zero == (after[REGISTERS["%[n]"]] == 0) or not LINES[line].startswith("subs")
        return after, bytes(machine.mem_read(0, len(memory)))

    return run


@pytest.mark.parametrize("line", range(len(LINES)), ids=LINES)
def test_each_instruction_does_what_the_processor_does(
    line: int, processor: Callable[[int, list[int], bytes], tuple[list[int], bytes]]
) -> None:
    rng = random.Random(line)
    for _ in range(40):
        registers = {name: rng.choice([rng.choice(ENDS), signed(rng.getrandbits(32))]) for name in REGISTERS}
        registers["%[p0]"] = SIZE + 4 * rng.randint(0, 8)
        registers["%[n]"] = rng.choice([0, 1, 2, 31, 32, 40, 255, 256, 257])
        data = rng.randbytes(3 * SIZE)
        memory = bytearray(data)
        got = execute([LINES[line]], registers, Memory(memory, [(0, len(memory))]), set(REGISTERS))
        wanted, there = processor(line, [registers[name] for name in REGISTERS], data)
        assert [got[name] for name in REGISTERS] == wanted
        assert bytes(memory) == there


@pytest.mark.parametrize(
    "lines",
    [
        ["ldr %[t0], [%[p0], #4096]"], ["ldr %[t0], [%[p0], #-256]"], ["ldr %[t0], [%[p0]], #256"],
        ["ldrd %[t0], %[t1], [%[p0], #1024]"], ["ldrd %[t0], %[t0], [%[p0]]"], ["ldrd %[t0], %[t1], [%[p0], #2]"],
        ["ldmia %[p0]!, {%[t1], %[t0], %[t3]}"], ["add %[t0], %[a], #4096"], ["add %[t0], %[a], #-1"],
        ["lsl %[t0], %[a], #0"], ["asr %[t0], %[a], #32"], ["mla %[t0], %[a], %[b], #1"], ["nop %[t0], %[a]"],
        ["sxtb16 %[t0], %[a], ror #4"], ["sub %[b], %[a], #1"], ["ldr %[t0], [%[p0], #400]"],
        ["1:", "subs %[n], %[n], #0", "bne 1b"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_no_processor_does_is_a_fault(lines: list[str]) -> None:
    registers = {**dict.fromkeys(REGISTERS, 7), "%[p0]": 256}
    with pytest.raises(Fault):
        execute(lines, registers, Memory(bytearray(1024), [(0, 512)]), set(REGISTERS) - {"%[b]"})


def test_an_address_that_is_no_multiple_of_four_faults_where_two_registers_are_filled() -> None:
    registers = {**dict.fromkeys(REGISTERS, 7), "%[p0]": 258}
    memory = Memory(bytearray(1024), [(0, 512)])
    assert execute(["ldr %[t0], [%[p0]]"], registers, memory, set(REGISTERS))
    for line in ("ldrd %[t0], %[t1], [%[p0]]", "ldmia %[p0]!, {%[t0], %[t1], %[t2]}", "strd %[a], %[b], [%[p0]]"):
        with pytest.raises(Fault):
            execute([line], registers, memory, set(REGISTERS))
