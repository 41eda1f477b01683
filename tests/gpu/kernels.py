"""Single kernels through the runtime's OpenCL driver, called from Python: what the ops' samples and timings take."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sdk.codegen_c.gpu.grid import Groups
from sdk.codegen_c.gpu.kernels import Code, Launch, kernels
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ops import OPS, infer
from sdk.compiler.passes.simplify_loops import SimplifyLoops
from sdk.compiler.sym import Var, evaluate
from sdk.resources import data_dir
from tests.ops.op_samples import arguments, concrete, environments

SAMPLES = [(o, s, k) for o in OPS.values() if not o.view for k, s in enumerate(o.samples)]
BINARY = ctypes.c_void_p


class _Code(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("text", ctypes.c_char_p), ("spirv", ctypes.c_void_p), ("count", ctypes.c_uint32),
        ("operands", ctypes.c_uint16), ("words", ctypes.c_uint16), ("written", ctypes.c_uint32),
        ("local", ctypes.c_uint16 * 3), ("local_bytes", ctypes.c_uint32), ("needs", ctypes.c_uint32),
    ]  # fmt: skip


class _Range(ctypes.Structure):
    _fields_ = [("buffer", ctypes.c_uint64), ("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class Device:
    """The first OpenCL device."""

    def __init__(self, library: Path) -> None:
        self.c = ctypes.CDLL(str(library))
        self.gpu = ctypes.c_void_p()
        message = ctypes.create_string_buffer(512)
        assert self.c.sdk_gpu_open_opencl(-1, ctypes.byref(self.gpu), message) == 0, message.value

    def run(
        self, codes: Sequence[Code], launches: Sequence[Launch], arrays: Sequence[np.ndarray], numbers: Sequence[int],
        groups: Sequence[Sequence[int]], repeats: int = 1,
    ) -> tuple[int, list[np.ndarray], int]:  # fmt: skip
        """Kernels in a row on copies of arrays: (first status that is no success, the arrays afterwards, ns of the
        quickest repeat)."""
        c, gpu = self.c, self.gpu
        shown = len(arrays)
        arrays = [*arrays, *(np.full(n, 85, np.uint8) for one in launches for n in one.scratch)]
        buffers = [ctypes.c_uint64() for _ in arrays]
        for buffer, array in zip(buffers, arrays, strict=True):
            raw = np.ascontiguousarray(array)
            assert c.sdk_gpu_buffer(gpu, ctypes.c_uint64(raw.nbytes), ctypes.byref(buffer)) == 0
            size = ctypes.c_uint64(raw.nbytes)
            assert c.sdk_gpu_write(gpu, buffer, ctypes.c_uint64(0), BINARY(raw.ctypes.data), size) == 0
        ranges = [(b.value, 0, a.nbytes) for b, a in zip(buffers, arrays, strict=True)]
        words = (ctypes.c_int32 * max(len(numbers), 1))(*numbers)
        recording = ctypes.c_void_p()
        assert c.sdk_gpu_recording(gpu, len(codes), 1, ctypes.byref(recording)) == 0
        assert c.sdk_gpu_record_begin(gpu, recording) == 0
        made, status, beyond = [], 0, shown
        for code, launch, count in zip(codes, launches, groups, strict=True):
            uses = [*launch.operands, *range(beyond, beyond + len(launch.scratch))]
            beyond += len(launch.scratch)
            operands = (_Range * max(len(uses), 1))(*(ranges[k] for k in uses))
            own = _Code(
                code.name.encode(), code.text.encode(), None, 0, code.operands, code.operands + code.numbers,
                code.written, (ctypes.c_uint16 * 3)(*code.grid.local), code.local_bytes, code.needs,
            )  # fmt: skip
            kernel = ctypes.c_uint64()
            status = status or c.sdk_gpu_kernels(gpu, ctypes.byref(own), 1, ctypes.byref(kernel))
            made.append((own, kernel))
            if status == 0:
                size = (ctypes.c_uint32 * 3)(*count)
                status = c.sdk_gpu_record_dispatch(gpu, recording, ctypes.byref(own), kernel, operands, words, size)
        best = 0
        for _ in range(repeats if status == 0 else 0):
            status = status or c.sdk_gpu_submit(gpu, recording) or c.sdk_gpu_wait(gpu)
            times = (ctypes.c_uint64 * len(codes))()
            assert c.sdk_gpu_times(gpu, recording, times, len(codes)) == 0
            best = min(best or sum(times), sum(times))
        out = [np.empty(a.shape, a.dtype) for a in arrays[:shown]]
        for buffer, array in zip(buffers, out, strict=False):
            size = ctypes.c_uint64(array.nbytes)
            assert c.sdk_gpu_read(gpu, buffer, ctypes.c_uint64(0), BINARY(array.ctypes.data), size) == 0
        c.sdk_gpu_free_recording(gpu, recording)
        for _, kernel in made:
            c.sdk_gpu_free_kernel(gpu, kernel)
        for buffer in buffers:
            c.sdk_gpu_free_buffer(gpu, buffer)
        return status, out, best

    @property
    def message(self) -> str:
        """What the last status said: the member behind the driver, the limits and what the device is called."""
        return ctypes.string_at((self.gpu.value or 0) + 8 + 72 + 337).decode()


def library(folder: Path) -> Path:
    """The runtime as a library."""
    from sdk.boards import load_board
    from sdk.toolchains import CompileJob, LinkJob, SourceText, target_for, toolchain_for

    root = data_dir("c_runtime") / "gpu"
    target = target_for(load_board("host"))
    tool = toolchain_for(target)
    jobs = [
        CompileJob(SourceText.read(path), target, pic=True, include_dirs=(root / "include", root / "src"))
        for path in (root / "src" / "gpu.c", *sorted((root / "src").glob("gpu_opencl*.c")))
    ]
    return tool.link(LinkJob("shared", tuple(map(tool.compile, jobs)), target, libs=("dl",)), folder / "gpu.so")


def plain(name: str, sample: object) -> Loops:
    """The nest of an op's sample, as a build has it before it becomes kernels."""
    o = OPS[name]
    attrs = dict(sample.attrs)
    assert o.loops is not None
    loops = o.loops("f", sample.inputs, infer(o.name, sample.inputs, attrs), attrs)
    return SimplifyLoops().run(Module("m", loops={"f": loops})).loops["f"]


def launch(loops: Loops, counts: Sequence[Groups], dims: Mapping[str, int]) -> tuple[list[int], list[list[int]]]:
    """Numbers and groups of the kernels of a function."""
    env: dict[Var, int] = {v: dims[v.name] for v in loops.dims}
    numbers = list(env.values())
    if loops.rows is not None:
        extent = evaluate(loops.rows.extent, env)
        env |= {loops.rows.lo: 0, loops.rows.hi: extent}
        numbers += [0, extent]
    return numbers, [[int(evaluate(g, env)) for g in row] for row in counts]


def given(name: str, sample: object, loops: Loops, dims: Mapping[Var, int]) -> dict[str, np.ndarray]:
    """Arguments of a sample and room for its results, by the names of the function."""
    inputs = arguments(sample, dims, np.random.default_rng(2))
    outs = infer(name, sample.inputs, dict(sample.attrs))
    arrays = [*inputs, *(np.full(concrete(t, dims).static_shape, 85, t.dtype.numpy) for t in outs)]
    return {p.buffer.name: a.copy() for p, a in zip(loops.params, arrays, strict=True)}


def check_samples(folder: Path, start: int, step: int) -> tuple[int, list[str], list[str]]:
    """Samples of ops on the device against the interpreter: how many were run, which differ, which have no kernel."""
    device = Device(library(folder))
    count, wrong, missing = 0, [], []
    for o, sample, number in SAMPLES[start::step]:
        loops = plain(o.name, sample)
        dims = environments(sample)[number % len(environments(sample))]
        made = kernels({"f": loops}, "net", "opencl")
        what = f"{o.name} {number} at {({v.name: n for v, n in dims.items()})}"
        if made.missing:
            missing.append(f"{what}: {made.missing['f']}")
            continue
        want = given(o.name, sample, loops, dims)
        arrays = [a.copy() for a in want.values()]
        by_name = {v.name: n for v, n in dims.items()}
        run_loops(loops, want, by_name)
        launches = made.of["f"]
        numbers, groups = launch(loops, [one.groups for one in launches], by_name)
        status, got, _ = device.run([made.codes[one.kernel] for one in launches], launches, arrays, numbers, groups)
        count += 1
        if status != 0 or not all(_near(a, b) for a, b in zip(got, want.values(), strict=True)):
            wrong.append(f"{what}: status {status} {device.message if status else ''}")
    return count, wrong, missing


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    if b.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    top = max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
    return bool(np.allclose(x, y, rtol=0, atol=1e-4 * top, equal_nan=True))
