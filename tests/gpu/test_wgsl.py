"""Kernels in WGSL on lavapipe through `wgpu`, against the interpreter: ops, ends of types, groups, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.codegen_c.wgsl.kernel import make_kernel
from sdk.compiler.interp.loops import run_loops
from sdk.compiler.ir.intrinsics import apply
from sdk.compiler.ir.types import DType
from sdk.compiler.ops import OpDef, Sample, infer
from sdk.errors import BuildError
from tests.gpu.test_spirv import ALONE, BOTH, COUNT, ENDS, GROUPS, SAMPLES, elementwise, loops_of, nest, pairs, same
from tests.gpu.webgpu import Job, job_of, run_jobs
from tests.opencl.test_opencl import MODEL, planned
from tests.ops.op_samples import arguments, concrete, environments

# Why a kernel is refused: WGSL has no f64, WebGPU promises eight buffers and 8 KiB of variables to an item.
WHY = ("floating-point numbers of 64 bits", "buffers, WebGPU promises 8", "bytes, WGSL promises 8192")


def check_ops(webgpu: Any, chosen: Sequence[tuple[OpDef, Sample, int]]) -> None:
    jobs, wanted, refused = [], [], []
    for o, sample, number in chosen:
        loops = nest(o, sample)
        dims = environments(sample)[number % len(environments(sample))]
        by_name = {v.name: n for v, n in dims.items()}
        what = f"{o.name} {number} at {by_name}"
        try:
            kernel = make_kernel(loops)
        except BuildError as error:
            refused.append(f"{what}: {error.message}")
            continue
        assert kernel == make_kernel(loops)
        inputs = arguments(sample, dims, np.random.default_rng(2))
        outs = infer(o.name, sample.inputs, dict(sample.attrs))
        arrays = [*inputs, *(np.full(concrete(t, dims).static_shape, 85, t.dtype.numpy) for t in outs)]
        names = [p.buffer.name for p in loops.params]
        want = {n: a.copy() for n, a in zip(names, arrays, strict=True)}
        run_loops(loops, want, by_name)
        jobs.append(job_of(loops, kernel, arrays, by_name))
        wanted.append((what, [want[n] for n in names]))
    assert [what for what in refused if not any(why in what for why in WHY)] == []
    assert len(jobs) > len(chosen) * 3 // 4
    for got, (what, arrays) in zip(webgpu(run_jobs, jobs), wanted, strict=True):
        assert not isinstance(got, str), f"{what}: {got}"
        for a, b in zip(got, arrays, strict=True):
            same(a, b, what)


def test_some_ops_equal_the_interpreter(webgpu: Any) -> None:
    check_ops(webgpu, SAMPLES[3::97])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_op_equals_the_interpreter(webgpu: Any, part: int) -> None:
    check_ops(webgpu, SAMPLES[part::8])


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 9))])
def test_operations_at_the_ends_of_their_types(webgpu: Any, part: int) -> None:
    """Wrapping, saturation, NaN and infinities, division by 0 and by -1, in 64 bits too."""
    jobs, wanted = [], []
    some = [(f"{name}(%a[i], %b[i])", (kind, kind), kind) for kind, names in BOTH.items() for name in names]
    some += [(f"{name}(%a[i], %b[i])", ("i64", "i64"), "i64") for name in ("tdiv", "fmod", "shl", "shr")]
    some += [("fmod(%a[i], %b[i])", (kind, kind), kind) for kind in ("i8", "u8", "i16", "i32", "u32")]
    some += [(f"{name}(%a[i])", (kind,), kind) for kind, names in ALONE.items() for name in names]
    some += [(f"{to}(%a[i])", (source,), to) for source in ENDS for to in ENDS if source != to]
    some += [("srdhm(%a[i], %b[i])", ("i32", "i32"), "i32")]
    for expr, kinds, kind in some[part::9]:
        tests = ("lt(", "le(", "gt(", "ge(", "eq(", "ne(", "isnan(", "isinf(")
        out = "bool" if expr.startswith(tests) else kind
        a, b = pairs(kinds[0])
        if expr.startswith("sh"):
            b &= 63
        if expr.startswith("tdiv"):  # whose size the interpreter does not hold
            a, b = (np.maximum(x, -np.iinfo(x.dtype).max) for x in (a, b))
        loops = elementwise(expr, kinds, out)
        arrays = [*[a, b][: len(kinds)], np.zeros(64, np.bool_ if out == "bool" else DType(out[0], int(out[1:])).numpy)]
        want = {p.buffer.name: x.copy() for p, x in zip(loops.params, arrays, strict=True)}
        with np.errstate(all="ignore"):
            run_loops(loops, want)
        jobs.append(job_of(loops, make_kernel(loops), arrays, {}))
        wanted.append((expr, want["o"]))
    for got, (what, want_one) in zip(webgpu(run_jobs, jobs), wanted, strict=True):
        assert not isinstance(got, str), f"{what}: {got}"
        same(got[-1], want_one, what)


def test_shifts_of_all_distances(webgpu: Any) -> None:
    jobs, wanted = [], []
    for name in ("rdbpot", "shr"):
        loops = elementwise(f"{name}(%a[i], %b[i])", ("i32", "i32"), "i32")
        a = np.random.default_rng(9).integers(-(1 << 31), 1 << 31, 64).astype(np.int32)
        a[:4] = [-(1 << 31), (1 << 31) - 1, -1, 0]
        b = (np.arange(64) % 32).astype(np.int32)
        jobs.append(job_of(loops, make_kernel(loops), [a, b, np.zeros(64, np.int32)], {}))
        wanted.append(apply(name, [a, b], DType("i", 32)))
    for got, want in zip(webgpu(run_jobs, jobs), wanted, strict=True):
        np.testing.assert_array_equal(got[2], want)


def test_groups_shared_memory_and_fewer_groups_than_work(webgpu: Any) -> None:
    loops = loops_of(GROUPS)
    x = np.random.default_rng(5).standard_normal((64, 32)).astype(np.float32)
    kernel = make_kernel(loops)
    assert (kernel.group, kernel.local_bytes) == ((32, 1, 1), 128)
    job = job_of(loops, kernel, [x, np.zeros(64, np.float32)], {})
    few = Job(kernel, job.arrays, job.numbers, (5, 1, 1))
    count = make_kernel(loops_of(COUNT))
    n = 65536 * 64 + 77  # more groups than an axis has
    many = job_of(loops_of(COUNT), count, [np.zeros(n, np.int32)], {"n": n})
    assert many.groups[0] == 65535
    *sums, ones = webgpu(run_jobs, [job, few, many])
    for got in sums:
        np.testing.assert_allclose(got[1], np.exp(x).sum(axis=1), rtol=1e-5)
    assert (ones[0] == 1).all()


def test_operands_of_one_buffer(webgpu: Any) -> None:
    """Bytes beside others' bytes: items write parts of words that others write too, and read what is there."""
    loops = loops_of(
        "loops @f(read %a: i8[61], write %o: i8[61], read %w: i8[61]) {\n"
        'for i in 0..61 bind axis "global.x" {\n%o[i] = %a[i] + %w[i]\n}\n}'
    )
    rng = np.random.default_rng(1)
    arena, weights = (rng.integers(-128, 128, 256).astype(np.int8) for _ in range(2))
    kernel = make_kernel(loops, places=(0, 0, 1))
    assert kernel.written == (True, False)
    ((got, rest),) = webgpu(run_jobs, [Job(kernel, [arena, weights], [], (1, 1, 1), (131, 7, 64))])
    want = arena.copy()
    want[7 : 7 + 61] = arena[131 : 131 + 61] + weights[64 : 64 + 61]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(rest, weights)


def test_a_module_is_written_as_texts_and_launches() -> None:
    _, ready = planned(MODEL, {"w": np.random.default_rng(0).standard_normal((24, 10)).astype(np.float32)})
    files = get_backend("wgsl").emit(ready, "net", isa=frozenset(), options=EmitOptions()).files
    assert {"net.json", "net_weights.bin"} < files.keys()
    texts = [text for name, text in files.items() if name.endswith(".wgsl")]
    assert texts
    assert all("@compute @workgroup_size(64, 1, 1)" in str(text) for text in texts)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('eval "f"(%x[0])\n%o[0] = %x[0]', "library symbol f"),
        ("alloc %t: f32[2100] in scratch\n%t[0] = %x[0]\n%o[0] = %t[0]", "WGSL promises 8192"),
        ('for i in 0..4 bind axis "global.x" {\n%o[i] = f32(f64(%x[i]))\n}', "64 bits"),
        (
            'for g in 0..2 bind axis "group.x" {\nalloc %t: f32[5000] in local\n'
            'for i in 0..2 bind axis "local.x" {\n%t[i] = %x[i]\n%o[i] = %t[i]\n}\n}',
            "WebGPU promises 16384",
        ),
        (
            'for g in 0..2 bind axis "group.x" {\nfor i in 0..512 bind axis "local.x" {\n%o[0] = %x[0]\n}\n}',
            "a group of 512 work items, WebGPU promises 256",
        ),
    ],
)
def test_what_has_no_form_is_refused(body: str, why: str) -> None:
    loops = loops_of(f"loops @f(read %x: f32[4], write %o: f32[4]) {{\n{body}\n}}")
    with pytest.raises(BuildError, match=why) as caught:
        make_kernel(loops)
    assert caught.value.where == "loops @f"
