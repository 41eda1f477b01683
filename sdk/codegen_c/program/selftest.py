"""Golden cases as a C file of their own: reset, run each case, compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sdk.codegen_c.base import GoldenCase
from sdk.codegen_c.functions.unit import Unit
from sdk.codegen_c.program.banner import banner
from sdk.codegen_c.program.interface import Entry, Interface, Port
from sdk.codegen_c.program.weights import array_text
from sdk.compiler.ir.module import Const
from sdk.compiler.ir.types import TensorType
from sdk.errors import UsageError
from sdk.templates import render

__all__ = ["selftest_file"]


def selftest_file(api: Interface) -> str:
    """The text of ``<prefix>_selftest.c``.

    Raises:
        UsageError: a case does not fit its entry.
    """
    known = {e.plan.name for e in api.entries}
    unknown = [c.entry for c in api.options.golden if c.entry not in known]
    if unknown:
        raise UsageError(
            f"a golden case is for entry {unknown[0]!r}", hint=f"the entries are {', '.join(sorted(known))}"
        )
    unit = Unit(api.prefix, frozenset())
    arrays: list[str] = []
    functions = [_function(unit, e, arrays) for e in api.entries if e.golden]
    return render(
        "c99/selftest.c",
        banner=banner(api.options, f"{api.prefix}: golden cases."),
        m=api.prefix,
        M=api.prefix.upper(),
        arrays=arrays,
        helpers=[unit.preamble()],
        functions=functions,
    )


def _array(port: Port, name: str, arrays: Mapping[str, NDArray[Any]], out: list[str]) -> str:
    """Adds the array of a case for ``port``; its name."""
    if port.buffer.name not in arrays:
        raise UsageError(f"a golden case of {port.entry} lacks {port.buffer.name}")
    data = np.array(arrays[port.buffer.name])  # a copy: a Const makes its data read-only
    if data.dtype != port.type.dtype.numpy or data.nbytes > port.bytes:
        raise UsageError(
            f"the golden {port.buffer.name} is {data.dtype}{list(data.shape)}, the model has {port.what}"
        )
    symbol = f"{name}_{port.direction}_{port.c_name}"
    const = Const(symbol, TensorType(port.type.dtype, data.shape), data)
    section = f"{port.prefix.upper()}_SELFTEST_SECTION"
    out.append(array_text(f"{section} static const {port.c_type} {symbol}[{max(data.size, 1)}]", const))
    return symbol


def _function(unit: Unit, entry: Entry, arrays: list[str]) -> str:
    given = f", const {entry.name}_out *out" if entry.caller_outputs else ""
    lines = [f"int status = {entry.prefix}_reset(self);"]
    for k, case in enumerate(entry.golden):
        lines += _case(unit, entry, k, case, arrays)
    macro = entry.prefix.upper()
    body = "\n".join(f"    {line}" for line in lines)
    return (
        f"int {entry.name}_selftest({entry.prefix}_t *self{given})\n{{\n{body}\n"
        f"    int end = {entry.prefix}_reset(self);\n"
        f"    return status == {macro}_OK ? end : status;\n}}\n"
    )


def _case(unit: Unit, entry: Entry, k: int, case: GoldenCase, arrays: list[str]) -> list[str]:
    macro = entry.prefix.upper()
    name = f"golden_{entry.plan_name}_{k}"
    inputs = {p: _array(p, name, case.inputs, arrays) for p in entry.inputs}
    outputs = {p: _array(p, name, case.outputs, arrays) for p in entry.outputs}
    lines = [f"if (status == {macro}_OK) {{"]
    args = ["self"]
    if entry.caller_inputs:
        lines.append(
            f"    const {entry.name}_in in = {{{', '.join(s for p, s in inputs.items() if p.caller)}}};"
        )
        args.append("&in")
    if entry.caller_outputs:
        args.append("out")
    if entry.all_dims:
        values = [str(case.dims[d.var.name]) for d in entry.dims] + ["0"] * len(entry.fresh)
        lines.append(f"    {entry.name}_dims dims = {{{', '.join(values)}}};")
        args.append("&dims")
    for p, symbol in inputs.items():
        if not p.caller:
            lines.append(f"    {unit.helper('copy')}({_place(p)}, {symbol}, sizeof {symbol});")
    lines.append(f"    status = {entry.name}_run({', '.join(args)});")
    for p, symbol in outputs.items():
        same = unit.helper(f"same_{p.type.dtype}" if p.type.dtype.is_float else "same")
        count = f"sizeof {symbol}" + (f" / sizeof {symbol}[0]" if p.type.dtype.is_float else "")
        place = f"out->{p.c_name}" if p.caller else _place(p)
        lines += [f"    if (status == {macro}_OK && !{same}({place}, {symbol}, {count})) {{"]
        lines += [f"        status = {macro}_E_SELFTEST;", "    }"]
    return [*lines, "}"]


def _place(port: Port) -> str:
    return f"{port.accessor}(self{', &dims' if port.varies else ''})"
