"""The machines that execute an image: Unicorn in this process, QEMU, Node, or this machine in a child process."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import unicorn
from elftools.elf.constants import SH_FLAGS

from differential.apart import Died, apart
from differential.case import Array, Runs
from differential.cores import CORES, board_of
from differential.image import CODE, RAM, Compiled
from differential.started import run_started
from sdk.compiler.ir.plan import Plan, PlanBuffer
from sdk.compiler.sym import Var, evaluate
from sdk.devices.emulated.cores import CORES as MODELS
from sdk.devices.emulated.cores import Core, opened
from sdk.devices.emulated.spec import core_name
from sdk.toolchains.elf import ElfFile

__all__ = ["Request", "execute", "run_requests"]

CODE_BYTES, RAM_BYTES, STACK_BYTES, IO_BYTES, PAGE = 16 << 20, 64 << 20, 1 << 20, 64 << 20, 4096
STACK, IO, BACK = 0x3000_0000, 0x6000_0000, 0x1F00_0000
JUNK = b"\xa5"
Outcome = list[dict[str, Array]] | str  # outputs of each run by name, or what went wrong


@dataclass(frozen=True)
class Request:
    """The words, input bytes and number of output bytes of all runs of one model, or of one call of ``drive``."""

    words: bytes
    given: bytes
    wanted: int


def execute(
    image: Path, core: str, models: Sequence[Compiled], runs: Sequence[Runs], timeout_s: float = 30.0
) -> list[Outcome]:
    """Runs every model of an image; what a model that faults or does not end gives is a text.

    ``timeout_s`` is for the runs of one model.
    """
    requests = [_request(k, model.plan, r) for k, (model, r) in enumerate(zip(models, runs, strict=True))]
    pairs = zip(models, runs, run_requests(image, core, requests, timeout_s), strict=True)
    return [found if isinstance(found, str) else _outputs(m.plan, r, found) for m, r, found in pairs]


def run_requests(image: Path, core: str, requests: Sequence[Request], timeout_s: float = 30.0) -> list[bytes | str]:
    """The output bytes of each request, or what went wrong."""
    machine = CORES[core].machine
    if machine == "unicorn":
        return _emulated(image, core, requests, timeout_s)
    if machine != "native":
        return run_started(image, machine, [(r.words, r.given, r.wanted) for r in requests], timeout_s)
    return _native(image, requests, timeout_s)


def _request(index: int, plan: Plan, runs: Runs) -> Request:
    words, given, wanted = [index, len(runs.inputs)], bytearray(), 0
    for inputs, dims in zip(runs.inputs, runs.dims, strict=True):
        words += [dims[v.name] for v in plan.dims]
        for name in plan.inputs:
            raw = np.ascontiguousarray(inputs[name]).tobytes()
            words.append(len(raw))
            given += raw
        sizes = [math.prod(shape) * kind.itemsize for _, shape, kind in _results(plan, dims)]
        words += sizes
        wanted += sum(sizes)
    return Request(struct.pack(f"<{len(words)}i", *words), bytes(given), wanted)


def _results(plan: Plan, dims: dict[str, int]) -> list[tuple[str, tuple[int, ...], np.dtype[Any]]]:
    """Name, shape and type of each output; dims that a run computes are at their most, and come last as numbers."""
    env: dict[Var, int] = {v: dims[v.name] for v in plan.dims} | {v: v.maximum for v in plan.fresh}

    def one(buffer: PlanBuffer) -> tuple[int, ...]:
        return tuple(evaluate(d, env) for d in buffer.type.shape)

    found = [(n, one(plan.buffer(n)), np.dtype(plan.buffer(n).type.dtype.numpy)) for n in plan.outputs]
    return found + [(f"dim {v.name}", (), np.dtype(np.int32)) for v in plan.fresh]


def _outputs(plan: Plan, runs: Runs, raw: bytes) -> list[dict[str, Array]]:
    at, out = 0, []
    for dims in runs.dims:
        found = {}
        for name, shape, kind in _results(plan, dims):
            size = math.prod(shape) * kind.itemsize
            found[name] = np.frombuffer(raw[at : at + size], kind).reshape(shape)
            at += size
        out.append(found)
    return out


# ---- Unicorn ----

def _emulated(image: Path, core: str, requests: Sequence[Request], timeout_s: float) -> list[bytes | str]:
    elf, out, machine = ElfFile(image), [], None
    for request in requests:
        machine = machine or _booted(elf, core)
        found = _called(machine, core, request, timeout_s)
        if isinstance(found, str):
            machine = None  # its memory may hold anything
        out.append(found)
    return out


def _booted(elf: ElfFile, core: str) -> unicorn.Uc:
    kind = _core(core)
    uc = opened(kind)
    for base, size in ((CODE, CODE_BYTES), (RAM, RAM_BYTES), (STACK, STACK_BYTES), (IO, IO_BYTES), (BACK, PAGE)):
        uc.mem_map(base, size)
    for section in elf.sections:
        if section.flags & SH_FLAGS.SHF_ALLOC and section.size:
            data = JUNK * section.size if section.type == "SHT_NOBITS" else section.data
            try:
                uc.mem_write(section.address, data)
            except unicorn.UcError as err:
                place = f"{section.name} of {section.size} bytes at {section.address:#x}"
                raise AssertionError(f"the image for {core} does not fit the machine: {place}") from err
    kind.enable_fpu(uc)
    return uc


def _core(core: str) -> Core:
    main = board_of(core).core
    return MODELS[core_name(main.arch, main.fpu)]


def _called(uc: unicorn.Uc, core: str, request: Request, timeout_s: float) -> bytes | str:
    kind = _core(core)
    use, thumb = kind.registers, kind.thumb
    given = IO + _up(len(request.words))
    result = given + _up(len(request.given))
    if result + request.wanted > IO + IO_BYTES:
        return "its inputs and outputs are too large for one request"
    uc.mem_write(IO, request.words)
    uc.mem_write(given, request.given)
    for register, value in zip(use.arguments[:3], (IO, given, result), strict=True):
        uc.reg_write(register, value)
    uc.reg_write(use.sp, STACK + STACK_BYTES - 64)
    uc.reg_write(use.lr, BACK | thumb)
    try:
        uc.emu_start(CODE | thumb, BACK, timeout=int(timeout_s * 1e6))
    except unicorn.UcError as err:
        return f"fault: {err} at {uc.reg_read(use.pc):#x}"
    if uc.reg_read(use.pc) != BACK:
        return f"no end within {timeout_s:g} s"
    status = ctypes.c_int32(uc.reg_read(use.arguments[0]) & 0xFFFF_FFFF).value
    return f"status {status}" if status else bytes(uc.mem_read(result, request.wanted))


def _up(size: int) -> int:
    return (size + 63) // 64 * 64


# ---- this machine ----


def _native(image: Path, requests: Sequence[Request], timeout_s: float) -> list[bytes | str]:
    out: list[bytes | str] = []
    while len(out) < len(requests):
        left = requests[len(out) :]
        found, ended = apart(lambda left=left: _loaded(image, left), timeout_s + len(left))
        out += found
        if isinstance(ended, Died):
            out.append(str(ended))
    return out


def _loaded(image: Path, requests: Sequence[Request]) -> Any:
    """Yields the outputs of each request."""
    library = ctypes.CDLL(str(image))
    for request in requests:
        result = ctypes.create_string_buffer(max(request.wanted, 1))
        status = library.drive(request.words, request.given, result)
        yield f"status {status}" if status else result.raw[: request.wanted]
