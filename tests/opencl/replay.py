"""A host for the OpenCL backend's output: builds the kernels and replays an entry's launches with pyopencl."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyopencl as cl

from sdk.compiler.ir.types import dtype
from sdk.compiler.sym import Var, evaluate
from sdk.compiler.sym.text import parse_dim

GROUP = 8


class Replay:
    """A program on the Oclgrind simulator."""

    def __init__(self, files: Mapping[str, str | bytes], prefix: str) -> None:
        platform = next(p for p in cl.get_platforms() if p.name == "Oclgrind")
        self.context = cl.Context([platform.get_devices()[0]])
        self.queue = cl.CommandQueue(self.context)
        found = json.loads(files[f"{prefix}.json"])
        self.program = cl.Program(self.context, str(files[found["kernels"]])).build(["-Werror"])
        self.entries = {e["entry"]: e for e in found["entries"]}
        self.weights = np.frombuffer(bytes(files[found["weights"]]) or b"\0", np.uint8)

    def run(self, entry: str, inputs: Mapping[str, np.ndarray], dims: Mapping[str, int]) -> dict[str, np.ndarray]:
        """One run of an entry; outputs by name."""
        record = self.entries[entry]
        scope = {n: Var(n, lo, hi, step) for n, (lo, hi, step) in record["dims"].items()}
        env = {scope[n]: value for n, value in dims.items()}

        def number(text: str) -> int:
            return evaluate(parse_dim(text, scope), env)

        flags = cl.mem_flags
        memory = {
            name: cl.Buffer(self.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=self.weights)
            if r["kind"] == "const"
            else cl.Buffer(self.context, flags.READ_WRITE, max(number(r["bytes"]), 1))
            for name, r in record["regions"].items()
        }

        def place(name: str) -> tuple[cl.Buffer, int]:
            buffer = record["buffers"][name]
            return memory[buffer["region"]], number(buffer["offset"])

        for name in record["inputs"]:
            region, at = place(name)
            cl.enqueue_copy(self.queue, region, np.ascontiguousarray(inputs[name]), dst_offset=at)
        for step in record["body"]:
            self._launch(step, place, number)
        out = {}
        for name in record["outputs"]:
            buffer = record["buffers"][name]
            shape = tuple(number(d) for d in buffer["shape"])
            out[name] = np.empty(shape, dtype(buffer["dtype"]).numpy)
            region, at = place(name)
            cl.enqueue_copy(self.queue, out[name], region, src_offset=at)
        return out

    def _launch(self, step: Mapping[str, Any], place: Any, number: Any) -> None:
        arguments: list[Any] = []
        for name in step["buffers"]:
            region, at = place(name)
            arguments += [region, np.int32(at)]
        arguments += [np.int32(number(n)) for n in step["numbers"]]
        extents = {axis: number(text) for axis, text in step["extents"].items()}
        sizes, local = [], []
        for axis in "xyz":
            group = extents.get(f"local.{axis}", GROUP if axis == "x" and f"global.{axis}" in extents else 1)
            items = extents.get(f"global.{axis}", extents.get(f"group.{axis}", 1) * group)
            sizes.append(-(-items // group) * group)
            local.append(group)
        if 0 not in sizes:
            getattr(self.program, step["kernel"])(self.queue, sizes, local, *arguments)
