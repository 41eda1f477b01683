"""Planned modules compiled to shared libraries, run through the record that a device agent would use."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from c_harness import HOST_ISA, OPT, WARNINGS

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.graph import Attr, Call, Graph, ReadState, Value, WriteState, attrs
from sdk.compiler.ir.module import Const, Module, State
from sdk.compiler.ir.types import DType, TensorType
from sdk.compiler.ops.registry import infer
from sdk.compiler.passes.lower import Lower
from sdk.compiler.passes.plan_memory import PlanMemory
from sdk.compiler.sym import Dim, Var
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, ObjectFile, SourceText, get_toolchain, target_for

OPTIONS = EmitOptions(source="net.tflite", model_hash="ab" * 32, board="host")
DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "i8", 8: "f2", 9: "f4", 10: "f8", 11: "?"}
Arrays = Mapping[str, np.ndarray]


class Tensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("dtype", ctypes.c_uint8), ("ndim", ctypes.c_uint8),
        ("shape", ctypes.POINTER(ctypes.c_int32)), ("bytes", ctypes.c_uint32), ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int32),
    )  # fmt: skip


class DimBound(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("lo", ctypes.c_int32), ("hi", ctypes.c_int32))


class Record(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint32), ("name", ctypes.c_char_p), ("hash", ctypes.c_char_p),
        ("input_count", ctypes.c_uint16), ("output_count", ctypes.c_uint16), ("dim_count", ctypes.c_uint16),
        ("tensors", ctypes.POINTER(Tensor)), ("dims", ctypes.POINTER(DimBound)),
        ("arena_bytes", ctypes.c_uint32), ("state_bytes", ctypes.c_uint32),
        ("context_bytes", ctypes.c_uint32),
        ("init", ctypes.CFUNCTYPE(ctypes.c_int)), ("reset", ctypes.CFUNCTYPE(ctypes.c_int)),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int32))),
        ("data", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint16)),
        ("selftest", ctypes.CFUNCTYPE(ctypes.c_int)), ("threads", ctypes.c_int32),
        ("set_parallel", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)),
    )  # fmt: skip


class CModel:
    """One entry of a loaded library."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.record = Record.in_dll(library, f"{name}_rt_model")
        assert self.record.init() == 0

    def tensors(self) -> list[Tensor]:
        return [self.record.tensors[k] for k in range(self.record.input_count + self.record.output_count)]

    def run(self, inputs: Arrays, dims: Sequence[int] = ()) -> int:
        tensors = self.tensors()
        for k, tensor in enumerate(tensors[: self.record.input_count]):
            data = inputs[tensor.name.decode()]
            assert data.nbytes <= tensor.bytes
            assert data.dtype == np.dtype(DTYPES[tensor.dtype])
            ctypes.memmove(self.record.data(k), data.tobytes(), data.nbytes)
        return self.record.run((ctypes.c_int32 * len(dims))(*dims) if dims else None)

    def outputs(self) -> dict[str, np.ndarray]:
        """Every byte of the outputs, as flat arrays."""
        out = {}
        for k, tensor in enumerate(self.tensors()):
            if k >= self.record.input_count:
                data = ctypes.string_at(self.record.data(k), tensor.bytes)
                out[tensor.name.decode()] = np.frombuffer(data, np.dtype(DTYPES[tensor.dtype]))
        return out


def check(model: CModel, inputs: Arrays, want: Arrays, dims: Sequence[int] = ()) -> None:
    """Runs and compares; outputs may have fewer elements than their storage."""
    assert model.run(inputs, dims) == 0
    got = model.outputs()
    assert list(got) == list(want)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name][: value.size], value.reshape(-1), err_msg=name)


def files_of(module: Module, prefix: str = "net", options: EmitOptions = OPTIONS) -> dict[str, str]:
    """Every generated file of a model and its glue, without ``models.c``."""
    emitted = get_backend("c99").emit(module, prefix, isa=HOST_ISA, options=options)
    files = {**emitted.files, **emitted.agent}
    files.pop("models.c")
    return files


def load(
    files: Mapping[str, str],
    folder: Path,
    toolchain: str = "zig",
    defines: tuple[str, ...] = (),
    headers: Mapping[str, str] | None = None,
    more: Sequence[ObjectFile] = (),
) -> ctypes.CDLL:
    """Compiles all files together, every warning an error, and loads them with ``more``."""
    tool, target = get_toolchain(toolchain), target_for(load_board("host"))
    texts = {**{n: t for n, t in files.items() if n.endswith(".h")}, **(headers or {})}
    jobs = [
        CompileJob(
            SourceText(name, text), target, headers=tuple(SourceText(n, t) for n, t in texts.items()),
            include_dirs=(data_dir("c_runtime") / "include",), defines=defines, flags=WARNINGS,
            pic=True, opt=OPT[toolchain],
        )
        for name, text in files.items()
        if name.endswith(".c")
    ]  # fmt: skip
    out = folder / f"model_{toolchain}.so"
    return ctypes.CDLL(str(tool.link(LinkJob("shared", (*tool.compile_all(jobs), *more), target), out)))


class Net:
    """A graph of ops under construction."""

    def __init__(self, *dims: Var) -> None:
        self.dims = dims
        self.params: list[Value] = []
        self.body: list[Any] = []
        self.consts: dict[str, Const] = {}
        self.states: dict[str, State] = {}

    def input(self, name: str, type: DType, *shape: Dim) -> Value:
        self.params.append(Value(name, TensorType(type, shape)))
        return self.params[-1]

    def const(self, name: str, type: DType, data: np.ndarray) -> Value:
        self.consts[name] = Const(name, TensorType(type, data.shape), data.astype(type.numpy))
        return Value(name, self.consts[name].type, const=True)

    def op(self, name: str, callee: str, *args: Value, **given: Attr) -> Value:
        (type,) = infer(callee, [a.type for a in args], given)
        out = Value(name, type)
        self.body.append(Call((out,), "op", callee, args, attrs(**given), source=f"{callee} {name}"))
        return out

    def read(self, name: str, type: DType, shape: tuple[int, ...], init: int | str) -> Value:
        self.states[name] = State(name, TensorType(type, shape), init)
        out = Value(f"{name}_now", self.states[name].type)
        self.body.append(ReadState(out, name))
        return out

    def write(self, name: str, value: Value) -> None:
        self.body.append(WriteState(name, value))

    def typed(self, *results: Value) -> Module:
        graph = Graph("main", self.dims, tuple(self.params), tuple(self.body), results)
        return Module("net", "typed", self.consts, self.states, {"main": graph})

    def planned(self, *results: Value, io: str = "arena") -> Module:
        return PlanMemory(io=io).run(Lower().run(self.typed(*results)))
