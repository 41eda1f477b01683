"""A planned module for pages: C for WebAssembly that runs any one step, and its kernels and steps as JavaScript.

The JavaScript of a web project (templates/projects/_shared/web_gpu.js) is the runtime: it records the steps for the
dims of a run, proves kernels against the C, and runs as C what has no kernel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from sdk.codegen_c.base import EmitOptions, Emitted
from sdk.codegen_c.gpu.files import made_kernels
from sdk.codegen_c.gpu.kernels import Code, Kernels
from sdk.codegen_c.gpu.run import PROOF_STEPS, GpuRunPrinter
from sdk.codegen_c.gpu.steps import ARENA, STATE, Constants, Step, constants, scratch_bytes, steps_of
from sdk.codegen_c.js import js_dim
from sdk.codegen_c.program.files import emit as emit_c
from sdk.codegen_c.program.interface import Entry, Interface, Port
from sdk.codegen_c.program.plan import RunPrinter
from sdk.codegen_c.program.weights import Weights, collect
from sdk.codegen_c.wgsl.kernel import Kernel, make_kernel
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import PlanCall
from sdk.errors import BuildError

__all__ = ["emit"]

_HEAD: Final = "// Kernels and steps for WebGPU. Made by the compiler with the C beside it. Do not edit.\n"


class _StepPrinter(GpuRunPrinter):
    """Prints the functions of one entry: those of the C backend, and one that runs a step."""

    def functions(self) -> list[str]:
        """The C backend's functions, and the step's, which the JavaScript calls."""
        *small, run = RunPrinter.functions(self)
        text = self._step_function("")
        return [*small, f"{text.splitlines()[0]};\n{text}", run]

    def _checks(self) -> None:
        RunPrinter._checks(self)


def emit(module: Module, prefix: str, *, isa: frozenset[str], options: EmitOptions) -> Emitted:
    """The C backend's files with ``<entry>_gpu_step`` and ``<prefix>_gpu_constant``, and ``<prefix>_gpu.js``.

    Raises:
        BuildError: a plan is not recorded, nothing of it has a kernel, or what the C backend raises.
    """
    if options.weights_file:
        raise BuildError("weights in a file have no part in a page on WebGPU", hint="leave out --weights, or --gpu")
    made = made_kernels(module, prefix, options)
    plain = replace(options, gpu="")
    api, weights = Interface(module, prefix, plain), collect(module, prefix)
    places = constants(weights)
    printer = partial(_StepPrinter, kernels=made, places=places)
    out = emit_c(module, prefix, isa=isa, options=plain, printer=printer, more=[_constants(prefix, places)])
    return replace(out, files={**out.files, f"{prefix}_gpu.js": _script(api, weights, made, places)})


def _constants(prefix: str, places: Constants) -> str:
    """The function that tells where constants lie in memory."""
    head = f"const void *{prefix}_gpu_constant(int32_t index)"
    rows = "".join(f"        {symbol},\n" for symbol in places.places) or "        0,\n"
    table = f"    static const void *const places[] = {{\n{rows}    }};"
    return f"{head};\n{head}\n{{\n{table}\n    return places[index];\n}}"


def _script(api: Interface, weights: Weights, made: Kernels, places: Constants) -> str:
    shaders = _Shaders(made.codes)
    entries = [_entry(api, e, made, weights, places, shaders) for e in api.entries]
    held = [weights.distinct[symbol].nbytes for symbol in places.places]
    uploads = [[region, at, size] for (region, at), size in zip(places.places.values(), held, strict=True)]
    known = {
        # bytes of a region: of the arena and the state a run says them
        "regions": [0, 0, scratch_bytes(made), *places.bytes],
        "uploads": uploads,
        "init": [{"name": d.var.name} for d in api.init],
    }
    lines = [f"  {key}: {json.dumps(value)}," for key, value in known.items()]
    texts = [
        f"    {{ name: {json.dumps(name)}, written: {json.dumps(list(k.written))}, code: {_quoted(k.text)} }},"
        for name, k in shaders.made.values()
    ]
    body = "\n".join([*lines, "  kernels: [", *texts, "  ],", "  entries: [", *entries, "  ],"])
    return f"{_HEAD}export const gpu = {{\n{body}\n}};\n"


def _quoted(text: str) -> str:
    """A text as a template literal."""
    escaped = text.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
    return f"`{escaped}`"


class _Shaders:
    """The modules of kernels: one for each way in which operands share buffers."""

    def __init__(self, codes: Sequence[Code]) -> None:
        self.codes = codes
        self.made: dict[tuple[int, tuple[int, ...]], tuple[str, Kernel]] = {}

    def number(self, kernel: int, places: tuple[int, ...]) -> int:
        """The number of a kernel whose operands lie in these buffers."""
        key = (kernel, places)
        if key not in self.made:
            code = self.codes[kernel]
            self.made[key] = code.name, make_kernel(code.grid.loops, places, code.grid.local)
        return list(self.made).index(key)


def _entry(
    api: Interface, entry: Entry, made: Kernels, weights: Weights, places: Constants, shaders: _Shaders
) -> str:
    """An entry: what each step touches and launches, as functions of the dims ``d``."""
    plan = entry.plan
    steps = [_step(step, shaders) for step in steps_of(api.module, plan, made, weights, places)]
    proof = {d.var.name: min(d.var.maximum, d.var.minimum + PROOF_STEPS * d.multiple) for d in entry.all_dims}

    def port(one: Port) -> str:
        region = STATE if plan.region(one.buffer.region).kind == "state" else ARENA
        return _object({
            "region": region, "offset": js_dim(one.buffer.offset), "bytes": js_dim(one.type.nbytes),
            "kind": json.dumps(one.type.dtype.kind), "size": one.type.dtype.nbytes,
        })  # fmt: skip

    # bytes that places are made of, each by the dims and those before it
    named = " ".join(f"{js_dim(var.expr)} = {js_dim(value)};" for var, value in plan.places)
    lines = [f"      symbol: {json.dumps(entry.name)},", f"      proof: {json.dumps(proof)},"]
    lines.append(f"      placed(d) {{{f' {named}' if named else ''} return d; }},")
    for key, rows in (
        ("inputs", [port(p) for p in entry.inputs]), ("outputs", [port(p) for p in entry.outputs]), ("steps", steps),
    ):  # fmt: skip
        lines += [f"      {key}: (d) => [", *(f"        {row}," for row in rows), "      ],"]
    return "\n".join(["    {", *lines, "    },"])


def _step(step: Step, shaders: _Shaders) -> str:
    operands = [
        _object({
            "region": o.region, "offset": js_dim(o.offset), "bytes": js_dim(o.bytes),
            "element": json.dumps(str(o.element) if o.element.is_float else ""),
            "reads": json.dumps(o.reads), "writes": json.dumps(o.writes),
        })
        for o in step.operands
    ]  # fmt: skip
    launches = []
    for one in step.launches:
        regions = [step.operands[k].region for k in one.operands]
        bound = sorted(set(regions))
        kernel = shaders.number(one.kernel, tuple(bound.index(r) for r in regions))
        groups = ", ".join(js_dim(g) for g in one.groups)
        uses = json.dumps(list(one.operands))
        launches.append(f"{{ kernel: {kernel}, bound: {json.dumps(bound)}, uses: {uses}, groups: [{groups}] }}")
    what = ", ".join(step.stmt.ops) or step.stmt.callee if isinstance(step.stmt, PlanCall) else "copy"
    return _object({
        "what": json.dumps(what), "why": json.dumps(step.why), "operands": f"[{', '.join(operands)}]",
        "numbers": f"[{', '.join(js_dim(n) for n in step.numbers)}]", "launches": f"[{', '.join(launches)}]",
    })  # fmt: skip


def _object(fields: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{key}: {value}" for key, value in fields.items()) + " }"
