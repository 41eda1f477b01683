"""Kernels in SPIR-V on lavapipe against the interpreter: every op, types that a device lacks, groups, odd values."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sdk.codegen_c.spirv.kernel import Kernel, make_kernel
from sdk.codegen_c.spirv.memory import Features
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import apply
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import parse_module
from sdk.compiler.ir.types import DType
from sdk.compiler.ops import OPS, OpDef, Sample, infer
from sdk.compiler.passes.map_grid import MapGrid
from sdk.errors import BuildError
from tests.gpu.vulkan import Job, Result, build_runner, job_of, run_jobs
from tests.ops.op_samples import arguments, concrete, environments

SAMPLES = [(o, s, k) for o in OPS.values() if not o.view for k, s in enumerate(o.samples)]
PLAIN, PACKED = Features(), Features(storage8=False, storage16=False)
SYNC = {
    "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
    "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
}
OUT_OF_BOUNDS = SYNC | {"VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT"}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_runner(tmp_path_factory.mktemp("runner"))


def loops_of(text: str) -> Loops:
    (found,) = parse_module(f"module net scheduled\n{text}").loops.values()
    return found


def nest(o: OpDef, sample: Sample) -> Loops:
    attrs = dict(sample.attrs)
    assert o.loops is not None
    loops = o.loops("f", sample.inputs, infer(o.name, sample.inputs, attrs), attrs)
    return MapGrid().run(Module("m", loops={"f": loops})).loops["f"]


def check_valid(modules: Sequence[bytes], folder: Path) -> None:
    """What the specification says of a module holds, as the tools of its authors see it."""
    for k, module in enumerate(modules):
        path = folder / f"{k}.spv"
        path.write_bytes(module)
        done = subprocess.run(["spirv-val", "--target-env", "vulkan1.1", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout


def same(got: np.ndarray, want: np.ndarray, what: str) -> None:
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    finite = np.abs(want[np.isfinite(want)].astype(np.float64))
    top = max(1.0, float(finite.max(initial=0)))
    wide = [x.astype(np.float64) for x in (got, want)]
    np.testing.assert_allclose(*wide, rtol=0, atol=1e-4 * top, err_msg=what)


def check_ops(runner: Path, chosen: Sequence[tuple[OpDef, Sample, int]], features: Features, folder: Path) -> None:
    jobs, wanted, kernels = [], [], []
    for o, sample, number in chosen:
        loops = nest(o, sample)
        dims = environments(sample)[number % len(environments(sample))]
        inputs = arguments(sample, dims, np.random.default_rng(2))
        outs = infer(o.name, sample.inputs, dict(sample.attrs))
        arrays = [*inputs, *(np.full(concrete(t, dims).static_shape, 85, t.dtype.numpy) for t in outs)]
        names = [p.buffer.name for p in loops.params]
        want = {n: a.copy() for n, a in zip(names, arrays, strict=True)}
        by_name = {v.name: n for v, n in dims.items()}
        run_loops(loops, want, by_name)
        kernel = make_kernel(loops, features)
        assert kernel == make_kernel(loops, features)
        kernels.append(kernel)
        jobs.append(job_of(loops, kernel, arrays, by_name))
        wanted.append((f"{o.name} {number} at {by_name}", [want[n] for n in names]))
    check_valid([k.module for k in kernels], folder)
    results, said = run_jobs(runner, jobs)
    assert "llvmpipe" in said
    for result, (what, arrays) in zip(results, wanted, strict=True):
        assert result.status == 0, what
        for got, array in zip(result.arrays, arrays, strict=True):
            same(got, array, what)


def test_some_ops_equal_the_interpreter(runner: Path, tmp_path: Path) -> None:
    check_ops(runner, SAMPLES[3::29], PLAIN, tmp_path)


def test_bytes_as_parts_of_words(runner: Path, tmp_path: Path) -> None:
    """Devices without access to 8 and 16 bits of buffers."""
    narrow = [s for s in SAMPLES if any(t.dtype.bits < 32 for t in s[1].inputs)]
    check_ops(runner, narrow[7::41], PACKED, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("features", [PLAIN, PACKED], ids=["plain", "packed"])
@pytest.mark.parametrize("part", range(8))
def test_every_op_equals_the_interpreter(runner: Path, tmp_path: Path, features: Features, part: int) -> None:
    check_ops(runner, SAMPLES[part::8], features, tmp_path)


def test_every_op_has_a_kernel() -> None:
    """And none of them wants more than every device has."""
    for o, sample, number in SAMPLES[1::5]:
        kernel = make_kernel(nest(o, sample))
        assert kernel.words <= 32, (o.name, number)
        assert kernel.local_bytes <= 32 << 10


# --- operations at their ends ------------------------------------------------------------------------------------

ENDS = {
    "i8": [-128, -127, -1, 0, 1, 7, 126, 127],
    "u8": [0, 1, 2, 127, 128, 200, 254, 255],
    "i16": [-32768, -32767, -1, 0, 1, 7, 32766, 32767],
    "u16": [0, 1, 255, 256, 32767, 32768, 65534, 65535],
    "i32": [-(1 << 31), -(1 << 31) + 1, -1, 0, 1, 1 << 30, (1 << 31) - 2, (1 << 31) - 1],
    "u32": [0, 1, 2, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 2, (1 << 32) - 1],
    "i64": [-(1 << 63), -(1 << 32), -1, 0, 1, 1 << 31, 1 << 62, (1 << 63) - 1],
    "f32": [float("nan"), float("-inf"), -3e9, -1.5, -0.0, 0.5, 2.5, float("inf")],
    "f16": [float("nan"), float("-inf"), -65504.0, -1.5, -0.0, 2.0**-24, 6.1e-5, float("inf")],
}
BOTH = {
    **{k: ("add", "sub", "mul", "min", "max", "lt", "ge", "eq", "ne", "and", "or", "xor") for k in ENDS if k[0] != "f"},
    "f32": ("min", "max", "lt", "le", "gt", "ge", "eq", "ne", "pow", "fmod"),
}
ALONE = {
    "i8": ("neg", "abs"),
    "i32": ("neg", "abs", "clz"),
    "f32": ("isnan", "isinf", "floor", "ceil", "trunc", "round", "tanh", "exp", "log", "sin", "erf", "sigmoid"),
}


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    ends = np.array(ENDS[kind], DType(kind[0], int(kind[1:])).numpy)
    a, b = np.meshgrid(ends, ends)
    return a.reshape(-1).copy(), b.reshape(-1).copy()


def elementwise(expr: str, kinds: Sequence[str], out: str) -> Loops:
    params = ", ".join(f"read %{n}: {k}[64]" for n, k in zip("ab", kinds, strict=False))
    body = f'for i in 0..64 bind axis "global.x" {{\n%o[i] = {expr}\n}}'
    return loops_of(f"loops @f({params}, write %o: {out}[64]) {{\n{body}\n}}")


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 5))])
def test_operations_at_the_ends_of_their_types(runner: Path, part: int) -> None:
    """Wrapping, saturation, NaN and infinities, division by 0 and by -1: as the table of operations says."""
    jobs, wanted = [], []

    def add(expr: str, kinds: Sequence[str], out: str) -> None:
        a, b = pairs(kinds[0])
        arrays = [a, b][: len(kinds)]
        loops = elementwise(expr, kinds, out)
        result = np.zeros(64, np.bool_ if out == "bool" else DType(out[0], int(out[1:])).numpy)
        data = dict(zip("abo", [*arrays, result], strict=False)) | {"o": result}
        want = {n: x.copy() for n, x in data.items()}
        with np.errstate(all="ignore"):
            run_loops(loops, want)
        jobs.append(job_of(loops, make_kernel(loops), [data[p.buffer.name] for p in loops.params], {}))
        wanted.append((expr, want["o"]))

    for kind, names in BOTH.items():
        for name in names:
            out = "bool" if name in ("lt", "le", "gt", "ge", "eq", "ne") else kind
            add(f"{name}(%a[i], %b[i])", (kind, kind), out)
    for kind in ("i8", "u8", "i16", "i32", "u32", "i64"):
        add("fmod(%a[i], %b[i])", (kind, kind), kind)
    for kind, names in ALONE.items():
        for name in names:
            add(f"{name}(%a[i])", (kind,), "bool" if name.startswith("is") else kind)
    for source in ENDS:
        for to in ENDS:
            if source != to:
                add(f"{to}(%a[i])", (source,), to)
    add("srdhm(%a[i], %b[i])", ("i32", "i32"), "i32")
    results, _ = run_jobs(runner, jobs[part::5])
    for result, (what, want) in zip(results, wanted[part::5], strict=True):
        assert result.status == 0, what
        same(result.arrays[-1], want, what)


def test_shifts_of_all_distances(runner: Path) -> None:
    jobs, wanted = [], []
    rng = np.random.default_rng(9)
    for name in ("rdbpot", "rdbpot1", "rdbpot22", "shl", "shr"):
        loops = elementwise(f"{name}(%a[i], %b[i])", ("i32", "i32"), "i32")
        a = rng.integers(-(1 << 31), 1 << 31, 64).astype(np.int32)
        a[:4] = [-(1 << 31), (1 << 31) - 1, -1, 0]
        low, high = {"rdbpot1": (1, 31), "rdbpot22": (1, 22)}.get(name, (0, 31))
        b = (np.arange(64) % (high - low + 1) + low).astype(np.int32)
        jobs.append(job_of(loops, make_kernel(loops), [a, b, np.zeros(64, np.int32)], {}))
        wanted.append(apply(name, [a, b], DType("i", 32)))
    results, _ = run_jobs(runner, jobs)
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result.arrays[2], want)


def test_sines_of_large_numbers(runner: Path) -> None:
    """Beyond the reach of a short reduction, where drivers give anything."""
    loops = elementwise("sin(%a[i])", ("f32",), "f32")
    x = np.float32(np.logspace(-3, 38, 64)) * np.where(np.arange(64) % 2, 1, -1).astype(np.float32)
    (result,), _ = run_jobs(runner, [job_of(loops, make_kernel(loops), [x, np.zeros(64, np.float32)], {})])
    np.testing.assert_allclose(result.arrays[1], np.sin(x.astype(np.float64)), atol=2e-6)


# --- groups, launches and recordings -------------------------------------------------------------------------------

GROUPS = """
loops @total(read %x: f32[64, 32], write %o: f32[64]) {
  for i in 0..64 bind axis "group.x" {
    alloc %part: f32[32] in local
    for j in 0..32 bind axis "local.x" {
      %part[j] = exp(%x[i, j])
      barrier group
      if j < 1 {
        alloc %sum: f32[] in register
        %sum[] = 0.0
        for k in 0..32 {
          %sum[] = %sum[] + %part[k]
        }
        %o[i] = %sum[]
      }
    }
  }
}
"""
COUNT = """
loops @count<n in 1..9000000>(update %o: i32[n]) {
  for i in 0..n bind axis "global.x" {
    %o[i] = %o[i] + 1
  }
}
"""


def test_groups_shared_memory_and_barriers(runner: Path) -> None:
    loops = loops_of(GROUPS)
    x = np.random.default_rng(5).standard_normal((64, 32)).astype(np.float32)
    kernel = make_kernel(loops)
    assert (kernel.group, kernel.local_bytes) == ((32, 1, 1), 128)
    job = job_of(loops, kernel, [x, np.zeros(64, np.float32)], {})
    few = Job(job.kernel, job.arrays, job.numbers, (5, 1, 1))  # groups take the rest in further steps
    for result in run_jobs(runner, [job, few])[0]:
        np.testing.assert_allclose(result.arrays[1], np.exp(x).sum(axis=1), rtol=1e-5)


def test_a_launch_of_more_groups_than_an_axis_has(runner: Path) -> None:
    """The driver launches what there is, items go on to the rest; and of fewer groups than there is work for."""
    loops = loops_of(COUNT)
    kernel = make_kernel(loops)
    n = 65536 * 64 + 77
    jobs = [job_of(loops, kernel, [np.zeros(n, np.int32)], {"n": n})]
    jobs.append(Job(kernel, [np.zeros(1000, np.int32)], [1000], (2, 1, 1)))
    assert jobs[0].groups[0] > 65535
    for result in run_jobs(runner, jobs)[0]:
        assert result.status == 0
        assert (result.arrays[0] == 1).all()


def test_a_recording_is_submitted_again(runner: Path) -> None:
    loops = loops_of(COUNT)
    job = job_of(loops, make_kernel(loops), [np.zeros(300, np.int32)], {"n": 300})
    job.dispatches, job.submits = 3, 4
    (result,), _ = run_jobs(runner, [job])
    assert (result.arrays[0] == 12).all()
    assert result.ns > 0


def chained(runner: Path, barriers: bool, env: dict[str, str]) -> tuple[Result, str]:
    """Three dispatches, each of which reads what the one before wrote."""
    loops = elementwise("%a[i] + 1:i32", ("i32",), "i32")
    job = job_of(loops, make_kernel(loops), [np.zeros(64, np.int32), np.zeros(64, np.int32)], {})
    job.dispatches, job.barriers, job.submits = 3, barriers, 2
    (result,), said = run_jobs(runner, [job], env)
    return result, said


def test_the_validation_layers_have_nothing_to_say(runner: Path) -> None:
    """And do say so where a barrier is missing: they are there, and look."""
    result, said = chained(runner, True, SYNC)
    assert (result.arrays[1] == 5).all()
    assert not re.search("Validation|VUID|SYNC-", said), said
    assert "SYNC-HAZARD" in chained(runner, False, SYNC)[1]


@pytest.mark.slow
def test_no_access_leaves_a_buffer(runner: Path) -> None:
    result, said = chained(runner, True, OUT_OF_BOUNDS)
    assert (result.arrays[1] == 5).all()
    assert "VUID" not in said, said


def test_a_kernel_that_wants_what_the_device_lacks_is_a_status(runner: Path) -> None:
    """More buffers, a larger group, a type: refused with a number, before the driver sees it."""
    loops = loops_of(COUNT)
    job = job_of(loops, make_kernel(loops), [np.zeros(8, np.int32)], {"n": 8})
    large = Kernel(**{f: getattr(job.kernel, f) for f in Kernel.__slots__} | {"group": (4096, 1, 1)})
    halves = Kernel(**{f: getattr(job.kernel, f) for f in Kernel.__slots__} | {"capabilities": ("Float16",)})
    results, said = run_jobs(runner, [Job(large, job.arrays, [8], (1, 1, 1)), Job(halves, job.arrays, [8], (1, 1, 1))])
    assert [r.status for r in results] == [-11, -11]
    assert "a larger group than the device allows" in said
    assert "a type or an instruction that the device does not have" in said


LONG = """
loops @long(read %x: i32[4], write %o: i32[4]) {
  for i in 0..4 bind axis "global.x" {
    alloc %t: i32[] in register
    %t[] = 0
    for j in 0..ROWS {
      for k in 0..250 {
        %t[] = %t[] + %x[i]
      }
    }
    %o[i] = %t[]
  }
}
"""


def test_an_item_of_many_steps(runner: Path) -> None:
    """llvmpipe ends loops after 65,535 steps in all: what is allowed is done whole, what takes more is refused."""
    loops = loops_of(LONG.replace("ROWS", "258"))  # 258 * 251 + 1 steps
    x = np.arange(4, dtype=np.int32)
    (result,), _ = run_jobs(runner, [job_of(loops, make_kernel(loops), [x, np.zeros(4, np.int32)], {})])
    np.testing.assert_array_equal(result.arrays[1], x * 250 * 258)
    with pytest.raises(BuildError, match="65512 steps of loops"):
        make_kernel(loops_of(LONG.replace("ROWS", "261")))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('eval "f"(%x[0])\n%o[0] = %x[0]', "library symbol f"),
        ('for i in 0..4 bind axis "warp.x" { %o[i] = %x[i] }', "'warp.x'"),
        ("for i in 0..4 vector { %o[i] = %x[i] }", "lanes"),
        ("alloc %t: f32[99999] in scratch\n%t[0] = %x[0]\n%o[0] = %t[0]", "a work item has 65536 bytes"),
        ('for i in 0..4 bind axis "global.x" {\nbarrier group\n%o[i] = %x[i]\n}', "a barrier"),
    ],
)
def test_what_has_no_form_is_refused(body: str, why: str) -> None:
    loops = loops_of(f"loops @f(read %x: f32[4], write %o: f32[4]) {{\n{body}\n}}")
    with pytest.raises(BuildError, match=why) as caught:
        make_kernel(loops)
    assert caught.value.where == "loops @f"


