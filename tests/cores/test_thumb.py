"""The decoder of Thumb instructions against an assembler: every kind, both sizes, DSP, floats and vectors."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sdk.cores import Instruction, decoder_for
from sdk.cores.thumb import decode_thumb
from sdk.toolchains.elf import ElfFile

CASES = {
    "alu": "adds r0,r1,r2; mov r8,r1; cmp r0,#3; lsls r0,r1,#2; add.w r0,r1,r2,lsl #3; movw r0,#0x1234; uxtb r0,r1;"
    " sxtb16 r0,r1,ror #8; ssat r0,#8,r1; pkhbt r0,r1,r2,lsl #16; clz r0,r1; bfi r0,r1,#3,#4; ubfx r0,r1,#3,#4;"
    " qadd r0,r1,r2; rev r0,r1; adr r0,. + 4; add sp,#8; sadd8 r0,r1,r2; and.w r0,r1,#0xff00ff; rsb r0,r1,r2,asr #1",
    "mul": "muls r0,r1,r0; mul.w r8,r1,r2",
    "mla": "mla r0,r1,r2,r3; mls r0,r1,r2,r3",
    "dsp": "smlad r0,r1,r2,r3; smuad r0,r1,r2; smlabb r0,r1,r2,r3; smmulr r0,r1,r2; smmla r0,r1,r2,r3;"
    " smulbt r0,r1,r2; smlawb r0,r1,r2,r3",
    "mul_long": "umull r0,r1,r2,r3; smlal r0,r1,r2,r3; smlald r0,r1,r2,r3; smull r0,r1,r2,r3",
    "div": "udiv r0,r1,r2; sdiv r0,r1,r2",
    "load": "ldr r0,[r1]; ldr r0,[r1,#4]!; ldrsb r0,[r1,r2]; ldrb.w r0,[r1],#1; ldrh r0,[r1,#2]; ldr r0,[sp,#4];"
    " ldrsh.w r0,[r1,r2,lsl #1]; ldrd.w r0,r1,[r2] @2",
    "store": "str r0,[r1]; strb r0,[r1,r2]; strh.w r0,[r1],#2; str r0,[sp,#4]; str.w r9,[r1,#4]!",
    "load_many": "ldmia r0!,{r1,r2,r3} @3; ldmia.w r9,{r1,r2} @2; pop {r4,pc} @2; pop.w {r4,r8,r9} @3;"
    " ldrd r0,r1,[r2] @2",
    "store_many": "stmia r0!,{r1,r2} @2; push {r4,r5,lr} @3; push.w {r4,r8} @2; strd r0,r1,[r2,#8] @2",
    "branch": "b .; beq .; bne.w .; b.w .; cbz r0,. + 8; cbnz r1,. + 8",
    "call": "bl .; blx r3",
    "jump": "bx lr; mov pc,r0; ldr.w pc,[r0]",
    "loop": "1: nop; le lr,1b",
    "table": "tbb [pc,r0]; tbh [pc,r0,lsl #1]",
    "it": "it eq; moveq r0,r1",
    "nop": "nop; dsb; mrs r0,primask; wfi",
    "fp": "vadd.f32 s0,s1,s2; vsub.f32 s0,s1,s2; vcmp.f32 s0,s1; vcvt.s32.f32 s0,s1; vabs.f32 s0,s1;"
    " vmov.f32 s0,#1.0; vmul.f32 s0,s1,s2; vnmul.f32 s0,s1,s2; vmaxnm.f32 s0,s1,s2; vmov.f32 s0,s1",
    "fp_mla": "vmla.f32 s0,s1,s2; vfma.f32 s0,s1,s2; vmls.f32 s0,s1,s2; vfnms.f32 s0,s1,s2; vfms.f32 s0,s1,s2;"
    " vnmla.f32 s0,s1,s2",
    "fp_div": "vdiv.f32 s0,s1,s2; vsqrt.f32 s0,s1",
    "fp_move": "vmov s0,r1; vmov r1,s0; vmrs apsr_nzcv,fpscr; vmov r0,r1,s2,s3",
    "fp_load": "vldr s0,[r0]; vldr d0,[r0] @2; vldmia r0!,{s0-s3} @4; vpop {s16-s17} @2",
    "fp_store": "vstr s0,[r0]; vstmia r0!,{s0-s1} @2; vpush {s16-s19} @4",
    "vector": "vmladava.s8 r0,q0,q1; vmladav.s8 r0,q0,q1; vadd.i32 q0,q1,q2; vqrdmulh.s32 q0,q1,q2; vrshl.s32 q0,q1,q2;"
    " vmul.i32 q0,q1,r0; vmax.s32 q0,q1,q2; vdup.8 q0,r0; vaddva.s32 r0,q0; vmla.s32 q0,q1,r0; vshr.s32 q0,q1,#4",
    "vector_load": "vldrb.8 q0,[r0]; vldrw.u32 q0,[r0],#16; vldrb.s32 q0,[r0]; vldrb.s32 q0,[r0,q1];"
    " vld20.8 {q0,q1},[r0]",
    "vector_store": "vstrb.8 q0,[r0],#16; vstrw.32 q0,[r0]; vstrb.32 q0,[r0,q1]",
}  # fmt: skip
SKIP_FIRST = {"loop": 1}  # instructions before the one meant
SKIP_LAST = {"it": 1}


def assembled(text: str, folder: Path) -> bytes:
    source, out = folder / "a.s", folder / "a.o"
    source.write_text(f".syntax unified\n.thumb\n.text\n{text}\n")
    subprocess.run(
        ["arm-none-eabi-gcc", "-march=armv8.1-m.main+mve.fp+fp.dp+dsp", "-mfloat-abi=hard", "-c", source, "-o", out],
        check=True,
    )
    return next(s.data for s in ElfFile(out).sections if s.name == ".text")


def all_of(code: bytes) -> list[Instruction]:
    out, at = [], 0
    while at < len(code):
        out.append(decode_thumb(code, at))
        at += out[-1].size
    assert at == len(code)
    return out


@pytest.mark.parametrize("kind", CASES)
def test_the_kinds_of_instructions(kind: str, tmp_path: Path, need_tool) -> None:
    need_tool("arm-none-eabi-gcc")
    lines = [line.strip() for line in CASES[kind].split(";")]
    found = all_of(assembled("\n".join(line.split("@")[0] for line in lines), tmp_path))
    lines = lines[SKIP_FIRST.get(kind, 0) : len(lines) - SKIP_LAST.get(kind, 0)]
    found = found[SKIP_FIRST.get(kind, 0) : len(found) - SKIP_LAST.get(kind, 0)]
    for line, one in zip(lines, found, strict=True):
        text, _, words = line.partition("@")
        wanted = "load_many" if text.startswith("ldrd") else kind
        assert (one.kind, one.words) == (wanted, int(words or 1)), text


def test_what_no_compiler_makes_is_other() -> None:
    assert decode_thumb(b"\x00\xde", 0).kind == "other"


def test_machines_with_tables_have_decoders() -> None:
    assert decoder_for("EM_ARM") is decode_thumb
    assert decoder_for("EM_NONE") is None
