"""A planned module as C for a host with a GPU: the C backend's files, the kernels as constants, and the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from sdk.codegen_c.base import EmitOptions, Emitted
from sdk.codegen_c.gpu.kernels import Code, Kernels, Regions, kernels
from sdk.codegen_c.gpu.live import live_of
from sdk.codegen_c.gpu.run import GpuRunPrinter, left_of
from sdk.codegen_c.gpu.steps import (
    Constants,
    Left,
    aligned_of,
    check_plan,
    constants,
    functions_of,
    live_numbers,
    regions_of,
    scratch_bytes,
    steps_of,
)
from sdk.codegen_c.program.banner import banner, comment
from sdk.codegen_c.program.files import emit as emit_c
from sdk.codegen_c.program.interface import Interface, quoted
from sdk.codegen_c.program.weights import Weights, collect, collect_file
from sdk.compiler.ir.module import Module
from sdk.errors import BuildError
from sdk.resources import data_dir

__all__ = ["codes_file", "emit", "made_kernels"]

PAGES: Final = "webgpu"
# Files of the runtime: those for every driver, and the drivers.
_PARTS: Final = ("include/*.h", "src/sdk_rt_gpu_inside.h", "src/gpu.c", "src/gpu_model*.c")
_DRIVERS: Final = {
    "opencl": ("src/gpu_opencl*.c", "src/sdk_rt_gpu_opencl.h"),
    "vulkan": ("src/gpu_vulkan*.c", "src/sdk_rt_gpu_vulkan*.h"),
}


def emit(module: Module, prefix: str, *, isa: frozenset[str], options: EmitOptions) -> Emitted:
    """The C backend's files with ``<prefix>_init_gpu``; ``<prefix>_gpu.c`` with the kernels; the runtime for the driver
    that ``options.gpu`` names, as ``sdk_rt_gpu*``.

    Raises:
        BuildError: a plan is not recorded, or what the C backend raises.
    """
    api = Interface(module, prefix, options)
    weights = collect_file(module, prefix) if options.weights_file else collect(module, prefix)
    places = constants(weights)
    left = left_of(api)
    made = made_kernels(module, prefix, options, regions_of(module, weights, places), left)
    live = max(len(live_numbers(steps_of(module, p, made, weights, places, left))) for p in module.plans.values())
    printer = partial(GpuRunPrinter, kernels=made, places=places)
    more = _functions(api, weights, made, places, live)
    out = emit_c(module, prefix, isa=isa, options=options, printer=printer, more=more)
    head = banner(api.options, f"{prefix}: kernels.")
    own = {f"{prefix}_gpu.c": codes_file(prefix, made, head), **_runtime(options.gpu)}
    return replace(out, files={**out.files, **own})


def made_kernels(
    module: Module,
    prefix: str,
    options: EmitOptions,
    regions: Mapping[str, Regions] | None = None,
    left: Left = frozenset(),
) -> Kernels:
    """The kernels of a module for the interface that ``options.gpu`` names; ``regions`` of parameters, by function;
    calls that are ``left`` to the processor have none.

    Raises:
        BuildError: a plan is not recorded, or nothing has a kernel.
    """
    for plan in module.plans.values():
        check_plan(plan)
    live = {} if options.gpu == PAGES else live_of(module, functions_of(module))  # pages record nothing
    row = options.gpu_row or options.gpu
    made = kernels(functions_of(module, left), prefix, row, aligned_of(module), regions, live)
    if not made.codes:
        why = "; ".join(f"{name.strip()}: {text}" for name, text in made.missing.items()) or "no operator is left"
        raise BuildError("nothing of the model runs on a GPU", why=why, hint="leave out --gpu")
    return made


def _runtime(gpu: str) -> dict[str, str]:
    """The files of the runtime that a program needs, by the names that they have beside a model's."""
    root = data_dir("c_runtime") / "gpu"
    paths = [path for part in (*_PARTS, *_DRIVERS[gpu]) for path in sorted(root.glob(part))]
    names = [path.name if path.name.startswith("sdk_rt_") else f"sdk_rt_{path.name}" for path in paths]
    return {name: path.read_text(encoding="utf-8") for name, path in zip(names, paths, strict=True)}


def codes_file(prefix: str, made: Kernels, head: str = "") -> str:
    """The C of kernels: ``<prefix>_gpu_codes`` has them in order."""
    parts = [*([head] if head else []), '#include "sdk_rt_gpu.h"']
    notes = [f"   {comment(name.strip())}: {comment(why)}" for name, why in made.missing.items()]
    if notes:
        parts.append("\n/* What has no kernel and runs as C:\n" + "\n".join(notes) + " */")
    parts += [_code_text(prefix, k, code) for k, code in enumerate(made.codes)]
    name = f"{prefix}_gpu_codes"
    rows = ",\n".join(_code_row(prefix, k, code) for k, code in enumerate(made.codes))
    record = f"extern const sdk_gpu_code_t {name}[];\nconst sdk_gpu_code_t {name}[] = {{\n{rows},\n}};"
    return "\n".join([*parts, record]) + "\n"


def _code_text(prefix: str, number: int, code: Code) -> str:
    """The text or words of a kernel as constants, and its bindings where operands share them."""
    if code.bindings:
        row = ", ".join(f"{n}u" for n in code.bindings)
        own = replace(code, bindings=())
        return f"{_code_text(prefix, number, own)}\nstatic const uint8_t {prefix}_gpu_{number}_bindings[] = {{{row}}};"
    if code.words:
        lines = [", ".join(f"0x{w:08x}u" for w in code.words[k : k + 8]) for k in range(0, len(code.words), 8)]
        return f"\nstatic const uint32_t {prefix}_gpu_{number}[] = {{\n    " + ",\n    ".join(lines) + ",\n};"
    lines = [f'    {quoted(line)[:-1]}\\n"' for line in code.text.splitlines()]
    return f"\nstatic const char {prefix}_gpu_{number}[] =\n" + "\n".join(lines) + ";"


def _code_row(prefix: str, number: int, code: Code) -> str:
    own = f"{prefix}_gpu_{number}"
    text, words, count = ("NULL", own, len(code.words)) if code.words else (own, "NULL", 0)
    local = ", ".join(f"{n}u" for n in code.grid.local)
    numbers = f"{code.operands}u, {code.operands + code.numbers}u, 0x{code.written:x}u"
    bindings = f"{own}_bindings" if code.bindings else "NULL"
    rest = f"{{{local}}}, {code.local_bytes}u, {code.needs}u, {code.bound}u, {bindings}"
    return f"    {{{quoted(code.name)}, {text}, {words}, {count}u, {numbers}, {rest}}}"


def _functions(api: Interface, weights: Weights, made: Kernels, places: Constants, live: int) -> list[str]:
    """The tables of the whole model, and its functions for GPUs. ``live``: the most numbers that kernels of an entry
    read from memory."""
    m, M = api.prefix, api.prefix.upper()
    starts = weights.file.offsets if weights.file else (0,) * len(places.places)
    sizes = [weights.distinct[symbol].nbytes for symbol in places.places]
    data = ["NULL" if weights.file else symbol for symbol in places.places]
    uploads = [
        f"    {{{own}, {start}u, {size}u, {offset}u, {region}u}}"
        for own, start, size, (region, offset) in zip(data, starts, sizes, places.places.values(), strict=True)
    ] or ["    {NULL, 0u, 0u, 0u, 0u}"]
    sizes = [api.region_bytes("arena"), api.region_bytes("state"), scratch_bytes(made), *places.bytes]
    if live:
        sizes.append(4 * live)
    state = f"{m}_state_bytes(&self->init_dims)" if api.init else f"{M}_STATE_BYTES"
    arena = "self->arena_bytes" if api.arena_varies else f"{M}_ARENA_BYTES"
    entries = ", ".join(f"&{e.name}_gpu_entry" for e in api.entries)
    tables = f"""extern const sdk_gpu_code_t {m}_gpu_codes[];
static const sdk_gpu_upload_t {m}_gpu_uploads[] = {{
{",".join(f"{chr(10)}{row}" for row in uploads).lstrip()},
}};
static const uint64_t {m}_gpu_regions[] = {{{", ".join(f"{n}u" for n in sizes)}}};
static const sdk_gpu_entry_t *const {m}_gpu_entries[] = {{{entries}}};

static int {m}_gpu_reset(void *self)
{{
    return {m}_reset(self);
}}

static const sdk_gpu_plans_t {m}_gpu_plans = {{
    {quoted(m)}, {M}_MODEL_HASH, {m}_gpu_codes, {m}_gpu_uploads, {m}_gpu_regions, {m}_gpu_entries,
    {len(made.codes)}u, {len(places.places)}u, {len(sizes)}u, {len(api.entries)}u, {m}_gpu_reset,
}};"""
    checks = _arena_checks(api)
    init = f"""int {m}_init_gpu({m}_t *self, sdk_gpu_t *gpu, void (*told)(const char *line))
{{
    if (self == NULL || self->model != &{m}_mark) {{
        return {M}_E_STATE;
    }}
    if (gpu == NULL || self->gpu != NULL) {{
        return {M}_E_ARG;
    }}
{checks}    return sdk_gpu_model_open(gpu, &{m}_gpu_plans, self, self->arena, {arena}, self->state, {state},
                              {"self->weights" if weights.file else "NULL"}, told, &self->gpu);
}}"""
    close = f"""void {m}_close_gpu({m}_t *self)
{{
    if (self != NULL && self->model == &{m}_mark) {{
        sdk_gpu_model_close(self->gpu);
        self->gpu = NULL;
    }}
}}"""
    return [tables, init, close]


def _arena_checks(api: Interface) -> str:
    """The proof runs each entry with dims of its own, for which there must be room."""
    if not api.arena_varies:
        return ""
    lines: list[str] = []
    for e in api.entries:
        given = ["&self->init_dims"] if e.init else []
        given += [f"(const {e.name}_dims *)(const void *){e.name}_gpu_dims"] if e.all_dims else []
        lines += [
            f"    if (self->arena_bytes < {e.name}_arena_bytes({', '.join(given)})) {{",
            f"        return {api.prefix.upper()}_E_ARENA;",
            "    }",
        ]
    return "".join(f"{line}\n" for line in lines)
