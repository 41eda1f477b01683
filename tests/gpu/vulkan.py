"""Kernels on the first Vulkan device, which is lavapipe here: jobs for ``runner.c``, many to a process."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdk.codegen_c.spirv.kernel import Kernel
from sdk.compiler.ir.loops import Loops
from sdk.compiler.sym import Var, evaluate

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O1"]
NEEDS = {"Float16": 1, "Float64": 2, "Int64": 4, "StorageBuffer8BitAccess": 16, "StorageBuffer16BitAccess": 16}


@dataclass
class Job:
    """A kernel to run on copies of arrays, with its numbers; the recording has it ``dispatches`` times. Arrays begin at
    odd multiples of 8 bytes, or where they are ``aligned`` at multiples of 16."""

    kernel: Kernel
    arrays: Sequence[np.ndarray]
    numbers: Sequence[int]
    groups: Sequence[int]
    dispatches: int = 1
    barriers: bool = True
    submits: int = 1
    aligned: bool = False

    def data(self) -> bytes:
        """The job as the runner reads it."""
        k = self.kernel
        needs = 0
        for name in k.capabilities:
            needs |= NEEDS.get(name, 0)
        head = [len(k.module) // 4, len(self.arrays), k.words, *k.group, *self.groups, needs, self.dispatches]
        head += [int(self.barriers), self.submits, 0 if self.aligned else 8, *(a.nbytes for a in self.arrays)]
        numbers = struct.pack(f"<{len(self.numbers)}i", *self.numbers)
        blobs = [a.tobytes() + bytes(-a.nbytes % 4) for a in self.arrays]
        return b"".join([struct.pack(f"<{len(head)}I", *head), k.module, numbers, *blobs])


@dataclass
class Result:
    """What became of a job: a status, how long its last dispatch took, the arrays afterwards."""

    status: int
    ns: int
    arrays: list[np.ndarray]


def build_runner(folder: Path) -> Path:
    """The program, compiled with the driver's files."""
    gpu = ROOT / "c_runtime" / "gpu"
    program = folder / "runner"
    sources = [*sorted((gpu / "src").glob("gpu_vulkan*.c")), Path(__file__).with_name("runner.c")]
    line = ["gcc", *FLAGS, f"-I{gpu / 'include'}", "-o", str(program), *map(str, sources), "-ldl"]
    subprocess.run(line, check=True)
    return program


def run_jobs(program: Path, jobs: Sequence[Job], env: Mapping[str, str] | None = None) -> tuple[list[Result], str]:
    """The results of jobs, run in order in one process, and what that said."""
    chosen = {"VK_ICD_FILENAMES": ":".join(map(str, Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json")))}
    sent = b"".join(job.data() for job in jobs)
    done = subprocess.run([program], input=sent, capture_output=True, env={**os.environ, **chosen, **(env or {})})
    said = done.stderr.decode()
    assert done.returncode == 0, said
    out, at = done.stdout, 0
    results = []
    for job in jobs:
        status, ns = struct.unpack_from("<iI", out, at)
        at += 8
        arrays = []
        for a in job.arrays if status == 0 else ():
            arrays.append(np.frombuffer(out, a.dtype, a.size, at).reshape(a.shape))
            at += (a.nbytes + 3) // 4 * 4
        results.append(Result(status, ns, arrays))
    assert at == len(out) or "Validation" in out[at:].decode(errors="replace"), said
    return results, said + out[at:].decode(errors="replace")


def job_of(
    loops: Loops, kernel: Kernel, arrays: Sequence[np.ndarray], dims: Mapping[str, int], aligned: bool = False
) -> Job:
    """A whole call of ``loops`` on arrays."""
    env: dict[Var, int] = {v: dims[v.name] for v in loops.dims}
    numbers = [*env.values()]
    if loops.rows is not None:
        env |= {loops.rows.lo: 0, loops.rows.hi: (extent := evaluate(loops.rows.extent, env))}
        numbers += [0, extent]
    groups = []
    for axis, size in zip("xyz", kernel.group, strict=True):
        items = evaluate(kernel.extents.get(f"global.{axis}", size), env)
        groups.append(evaluate(kernel.extents.get(f"group.{axis}", -(-items // size)), env))
    return Job(kernel, [np.array(a, order="C") for a in arrays], numbers, groups, aligned=aligned)
