"""Planned modules compiled together as one C file and run, and how results are compared."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanBuffer
from sdk.compiler.sym import Var, evaluate
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for

Arrays = dict[str, np.ndarray]


FLOATS = 1e-4
HALVES = 1e-3  # sums in another order may round to neighbouring halves, 2**-11 of the value apart


def close(got: np.ndarray, want: np.ndarray, where: str, tolerance: float = FLOATS) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype), where
    if want.size and want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, err_msg=where)
    elif want.size:
        error = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
        assert error <= tolerance * max(1.0, float(np.abs(want).max())), f"{where}: off by {error}"


def agree(got: Arrays, want: Arrays, where: str, tolerance: float = FLOATS) -> None:
    for (name, a), b in zip(want.items(), got.values(), strict=True):
        close(b, a, f"{where}, {name}", tolerance)


class Library:
    """Several models compiled as one file without optimisation, each run through its own functions."""

    def __init__(self, modules: dict[str, Module], folder: Path, extra: str = "", toolchain: str = "gcc") -> None:
        isa = frozenset() if "avx2" not in load_board("host").capabilities else frozenset({"avx2"})
        files: dict[str, str] = {}
        for prefix, module in modules.items():
            files |= get_backend("c99").emit(module, prefix, isa=isa, options=EmitOptions()).files
        headers = tuple(SourceText(n, t) for n, t in files.items() if n.endswith(".h"))
        everything = "\n".join([*(t for n, t in files.items() if n.endswith(".c")), extra])
        tool, target = get_toolchain(toolchain), target_for(load_board("host"))
        flags = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
        job = CompileJob(SourceText("all.c", everything), target, headers=headers, flags=flags, pic=True, opt="0")
        out = folder / f"{next(iter(modules))}.so"
        self.library = ctypes.CDLL(str(tool.link(LinkJob("shared", tuple(tool.compile_all([job])), target), out)))

    def run(self, prefix: str, module: Module, inputs: Arrays, env: dict[str, int]) -> Arrays:
        """The outputs of one run; its dims are those of ``env`` and those that it computes."""
        return self.runs(prefix, module, [inputs], env)[0]

    def runs(self, prefix: str, module: Module, steps: Sequence[Arrays], env: dict[str, int]) -> list[Arrays]:
        """The same of several runs of one instance, which remembers from one to the next."""
        (plan,) = module.plans.values()
        sizes = [sum(evaluate(r.bytes, {}) for r in plan.regions if r.kind == kind) for kind in ("arena", "state")]
        held = [np.zeros(size + 64, np.uint8) for size in sizes]
        places = [memory.ctypes.data + -memory.ctypes.data % 64 for memory in held]
        context = (ctypes.c_void_p * 8)()
        given = [part for pair in zip(places, sizes, strict=True) for part in map(ctypes.c_size_t, pair)]
        assert self.library[f"{prefix}_init"](context, *given) == 0
        return [self._run(prefix, module, context, places[0], inputs, env) for inputs in steps]

    def _run(
        self, prefix: str, module: Module, context: Any, base: int, inputs: Arrays, env: dict[str, int]
    ) -> Arrays:
        (plan,) = module.plans.values()
        get = self.library
        caller = any(r.kind == "caller" for r in plan.regions)
        names = (*plan.inputs, *plan.outputs)
        held = {n: np.zeros(max(plan.buffer(n).type.max_bytes, 8), np.uint8) for n in names}
        for name, value in inputs.items():
            held[name][: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        dims = (ctypes.c_int32 * max(len(plan.dims) + len(plan.fresh), 1))(*(env[v.name] for v in plan.dims))
        args: list[Any] = [context]
        if caller:
            for group in (plan.inputs, plan.outputs):
                args.append((ctypes.c_void_p * len(group))(*(held[n].ctypes.data for n in group)))
        else:
            for name in plan.inputs:
                at = evaluate(plan.buffer(name).offset, {})
                ctypes.memmove(base + at, held[name].ctypes.data, inputs[name].nbytes)
        if plan.dims or plan.fresh:
            args.append(dims)
        assert get[f"{prefix}_run"](*args) == 0
        values = dict(zip((*plan.dims, *plan.fresh), dims, strict=False))
        return {n: self._output(plan.buffer(n), held[n], None if caller else base, values) for n in plan.outputs}

    @staticmethod
    def _output(buffer: PlanBuffer, held: np.ndarray, base: int | None, values: dict[Var, int]) -> np.ndarray:
        type = buffer.type
        shape = tuple(evaluate(d, values) for d in type.shape)
        count = int(np.prod(shape, dtype=np.int64)) * type.dtype.nbytes
        raw = held.tobytes() if base is None else ctypes.string_at(base + evaluate(buffer.offset, {}), count)
        return np.frombuffer(raw[:count], type.dtype.numpy).reshape(shape)
