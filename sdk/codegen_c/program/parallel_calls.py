"""Calls whose rows threads may share: a record of the arguments, and the function that runs one part of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdk.codegen_c.functions.function import CFunction
from sdk.codegen_c.functions.names import scalar_name
from sdk.compiler.ir.loops import Loops
from sdk.compiler.memory.scratch import scratch_layout, scratch_share

__all__ = ["Parts", "parts_of"]


@dataclass(frozen=True)
class Parts:
    """What a kernel needs to run in parts: ``text`` defines the record ``<name>_t`` and the function ``name``."""

    name: str
    text: str
    prefix: str

    def call(self, kernel: CFunction, args: Sequence[str], granule: int, work: str) -> list[str]:
        """Statements of a call with ``args``, the last two of which are the row range, which starts at 0."""
        rows = args[-1]
        return [
            "{",
            f"    const int32_t parts = {self.prefix}_parts(self, {rows}, {granule}, {work});",
            "    if (parts < 2) {",
            f"        {kernel.name}({', '.join(args)});",
            "    } else {",
            f"        {self.name}_t call = {{{', '.join([*args[:-2], rows])}, {granule}, parts}};",
            f"        self->parallel(self->parallel_user, parts, {self.name}, &call);",
            "    }",
            "}",
        ]


def parts_of(kernel: CFunction, loops: Loops, prefix: str) -> Parts:
    """The parts of a kernel that has rows."""
    name = f"{kernel.name}_part"
    members = [
        (f"{'const ' if p.mode == 'read' else ''}{scalar_name(p.buffer.dtype)} *", f"a{k}", f"call->a{k}")
        for k, p in enumerate(loops.params)
    ]
    if kernel.scratch:
        share = scratch_share(scratch_layout(loops).bytes)
        members.append(("uint8_t *", "scratch", f"call->scratch + (size_t)worker * {share}u"))
    members += [("int32_t ", f"d{k}", f"call->d{k}") for k in range(len(loops.dims))]
    fields = "".join(f"    {type}{member};\n" for type, member, _ in members)
    passed = ", ".join(text for _, _, text in members)
    unused = "" if kernel.scratch else "    (void)worker;\n"
    text = f"""typedef struct {{
{fields}    int32_t rows;
    int32_t granule;
    int32_t parts;
}} {name}_t;

static void {name}(void *arg, int32_t index, int32_t worker)
{{
    const {name}_t *const call = arg;
    const int32_t lo = {prefix}_part_start(call->rows, call->granule, call->parts, index);
    const int32_t hi = {prefix}_part_start(call->rows, call->granule, call->parts, index + 1);
{unused}    {kernel.name}({passed}, lo, hi);
}}"""
    return Parts(name, text, prefix)
