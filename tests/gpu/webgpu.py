"""Kernels in WGSL on the first adapter of `wgpu`, which is lavapipe here: what processes of their own run."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sdk.codegen_c.wgsl.kernel import Kernel
from sdk.compiler.ir.loops import Loops
from sdk.compiler.sym import Var, evaluate


@dataclass
class Job:
    """A kernel to run on copies of arrays, one for each storage buffer; ``begins`` are the bytes at which operands
    begin in theirs (empty: all at 0, each operand in a buffer of its own)."""

    kernel: Kernel
    arrays: Sequence[np.ndarray]
    numbers: Sequence[int]
    groups: tuple[int, int, int]
    begins: Sequence[int] = ()


def job_of(loops: Loops, kernel: Kernel, arrays: Sequence[np.ndarray], dims: Mapping[str, int]) -> Job:
    """A whole call of ``loops`` on arrays."""
    env: dict[Var, int] = {v: dims[v.name] for v in loops.dims}
    numbers = [*env.values()]
    if loops.rows is not None:
        env |= {loops.rows.lo: 0, loops.rows.hi: (extent := evaluate(loops.rows.extent, env))}
        numbers += [0, extent]
    groups = []
    for axis, size in zip("xyz", kernel.group, strict=True):
        items = evaluate(kernel.extents.get(f"global.{axis}", size), env)
        groups.append(min(evaluate(kernel.extents.get(f"group.{axis}", -(-items // size)), env), 65535))
    x, y, z = groups
    return Job(kernel, [np.array(a, order="C") for a in arrays], numbers, (x, y, z))


@cache
def device() -> Any:
    """The first adapter's device, with no more than the default limits."""
    import wgpu

    adapter = wgpu.gpu.request_adapter_sync()
    assert adapter.info["backend_type"] == "Vulkan", adapter.info  # without a driver it takes OpenGL without a word
    return adapter.request_device_sync()


def run_jobs(jobs: Sequence[Job]) -> list[list[np.ndarray] | str]:
    """The arrays afterwards, or what is wrong with a kernel."""
    import wgpu

    out: list[list[np.ndarray] | str] = []
    for job in jobs:
        try:
            out.append(_run(job))
        except wgpu.GPUError as error:
            out.append(str(error))
    return out


def _run(job: Job) -> list[np.ndarray]:
    import wgpu

    gpu, kernel = device(), job.kernel
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    raw = [a.tobytes() + bytes(-a.nbytes % 4) or bytes(4) for a in job.arrays]
    buffers = [gpu.create_buffer_with_data(data=data, usage=usage) for data in raw]
    words = [*(job.begins or [0] * len(job.arrays)), *job.numbers]
    words += [0] * (4 - len(words) % 4)
    numbers = gpu.create_buffer_with_data(data=struct.pack(f"<{len(words)}i", *words), usage=wgpu.BufferUsage.UNIFORM)
    kinds = ["storage" if written else "read-only-storage" for written in kernel.written] + ["uniform"]
    entries = [
        {"binding": k, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}} for k, kind in enumerate(kinds)
    ]
    layout = gpu.create_bind_group_layout(entries=entries)
    bound = [{"binding": k, "resource": {"buffer": b}} for k, b in enumerate([*buffers, numbers])]
    group = gpu.create_bind_group(layout=layout, entries=bound)
    pipeline = gpu.create_compute_pipeline(
        layout=gpu.create_pipeline_layout(bind_group_layouts=[layout]),
        compute={"module": gpu.create_shader_module(code=kernel.text), "entry_point": "main"},
    )
    encoder = gpu.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(*job.groups)
    work.end()
    gpu.queue.submit([encoder.finish()])
    found = []
    for array, buffer in zip(job.arrays, buffers, strict=True):
        data = bytes(gpu.queue.read_buffer(buffer))[: array.nbytes]
        found.append(np.frombuffer(data, array.dtype).reshape(array.shape))
        buffer.destroy()
    return found
