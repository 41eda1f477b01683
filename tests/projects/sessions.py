"""The C around a model of an app in this process: instances, and their golden cases."""

from __future__ import annotations

import ctypes
import platform
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}  # Android's name of a machine
# a model with a state: what came in until now
STREAM = """module m imported

state @seen: f32[1024] = 0

graph @main(%x: f32[1024]) {
  %was = read @seen : f32[1024]
  %sum = add(%was, %x) : f32[1024]
  write @seen = %sum
  return %sum
}
"""
FLAGS = {"x86_64": ["-march=x86-64-v2"], "arm64-v8a": []}  # what Android's compiler takes for granted


def compiled(folder: Path, m: str, out: Path, gcc: str) -> ctypes.CDLL:
    """The session of an app as a library of this machine; ``folder`` holds a folder for each instruction set."""
    own = folder / ABIS[platform.machine()]
    sources = [*folder.glob(f"{m}_session*.c"), *own.glob("*.c"), *own.glob("*.S")]
    return _linked(gcc, [*FLAGS[own.name], f"-I{folder / 'include'}", f"-I{own}"], sources, out)


def compiled_package(folder: Path, out: Path, gcc: str) -> ctypes.CDLL:
    """The C of a Swift package as a library of this machine."""
    return _linked(gcc, [f"-I{folder}", f"-I{folder / 'include'}"], sorted(folder.glob("*.[cS]")), out)


def _linked(gcc: str, flags: Sequence[str], sources: Sequence[Path], out: Path) -> ctypes.CDLL:
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-psabi", "-Wno-overlength-strings"]
    subprocess.run([gcc, "-O1", "-shared", "-fPIC", *flags, *strict, *sources, "-o", out], check=True)
    return ctypes.CDLL(str(out))


class Session:
    """An instance of the model ``m`` in a library."""

    def __init__(self, library: ctypes.CDLL, m: str, *weights: object) -> None:
        self.library, self.m, self.handle = library, m, ctypes.c_void_p()
        assert library[f"{m}_session_open"](*weights, ctypes.byref(self.handle)) == 0

    def close(self) -> None:
        """Gives its memory back."""
        self.library[f"{self.m}_session_close"](self.handle)

    def shape(self, entry: int, tensor: int, dims: Sequence[int]) -> list[int] | int:
        """Of a tensor, or the code of an error."""
        shape = (ctypes.c_int32 * 8)()
        given = (ctypes.c_int32 * max(1, len(dims)))(*dims)
        rank = self.library[f"{self.m}_session_shape"](entry, tensor, given, shape)
        return rank if rank < 0 else list(shape[:rank])

    def run(self, entry: int, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], dims: Sequence[int]) -> int:
        """The code of a run; what it found of the dims is dropped."""
        given = (ctypes.c_int32 * max(1, len(dims)))(*dims)
        words = []
        for arrays in (inputs, outputs):
            words.append((ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays]))
            words.append((ctypes.c_size_t * max(1, len(arrays)))(*[a.nbytes for a in arrays]))
        return int(self.library[f"{self.m}_session_run"](self.handle, entry, *words, given))


def two_entries(folder: Path) -> list[str]:
    """What a command is given of a model whose entries and tensors are called as words of languages are, with a size
    that is chosen and one that a run finds."""
    name = 'when"$x */'
    nodes = [helper.make_node("Relu", ["in"], [name]), helper.make_node("Neg", ["in"], ["self"])]
    wide = [helper.make_tensor_value_info(text, TensorProto.FLOAT, ["in", 4]) for text in ("in", name, "self")]
    found = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
        helper.make_tensor_value_info("nz", TensorProto.INT64, [1, "k"]),
    ]
    for file, graph in (
        ("fun", helper.make_graph(nodes, "g", wide[:1], wide[1:])),
        ("find", helper.make_graph([helper.make_node("NonZero", ["x"], ["nz"])], "g", found[:1], found[1:])),
    ):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (folder / file).with_suffix(".onnx").write_bytes(model.SerializeToString())
    return [*(f"{entry}={folder / entry}.onnx" for entry in ("fun", "find")), "--dim", "in=1:3"]


def read_cases(data: bytes, dims: int, tensors: int) -> Iterator[tuple[int, list[int], list[bytes]]]:
    """The cases of a file of golden cases: entry, dims, and the bytes of each tensor."""
    (count,), at = struct.unpack_from("<i", data), 4
    for _ in range(count):
        entry, *values = struct.unpack_from(f"<{1 + dims}i", data, at)
        at += 4 * (1 + dims)
        found = []
        for _ in range(tensors):
            (size,) = struct.unpack_from("<i", data, at)
            found.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        yield entry, values, found
    assert at == len(data)
