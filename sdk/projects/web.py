"""The further files of an npm package: the model as WebAssembly, its constants, golden cases, licences; and what its
JavaScript has to know of the interface."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sdk.codegen_c.js import js_dim
from sdk.compiler.sym import free_vars
from sdk.driver.built import BuiltEntry
from sdk.driver.targets import target_of
from sdk.errors import BuildError, UsageError
from sdk.projects.golden import golden_cases, golden_files
from sdk.projects.interface import Entry, Port
from sdk.projects.making import Added, Making
from sdk.projects.web_modules import web_modules
from sdk.text import printable, wire_name

__all__ = ["compiler_licences", "package_name", "web_files"]

_ARRAYS: Final = {
    "I8": "Int8Array", "U8": "Uint8Array", "I16": "Int16Array", "U16": "Uint16Array", "I32": "Int32Array",
    "U32": "Uint32Array", "I64": "BigInt64Array", "U64": "BigUint64Array", "F16": "Uint16Array",
    "F32": "Float32Array", "F64": "Float64Array", "BOOL": "Uint8Array",
}  # fmt: skip
# The parts of the C compiler that a module may hold functions of, with the files of their licences beside it.
_LICENCES: Final = {
    "zig.txt": "LICENSE", "musl.txt": "lib/libc/musl/COPYRIGHT", "wasi-libc.txt": "lib/libc/wasi/LICENSE",
    "wasi-libc-mit.txt": "lib/libc/wasi/LICENSE-MIT",
}  # fmt: skip
# What a page has to have for use without a network, beside the model's own code (_SCRIPTS) and what that keeps itself.
_PAGE: Final = (
    *(f"demo/{name}" for name in ("app.js", "features.js", "inputs.js", "offline.js", "style.css")),
    "golden/cases.bin", "golden/cases.json",
)  # fmt: skip
_SCRIPTS: Final = (
    "calls", "engine", "errors", "golden", "helper", "index", "instance", "interface", "parts", "port", "session",
    "worker",
)  # fmt: skip
_GPU_SCRIPTS: Final = ("gpu", "gpu_plans")


def web_files(making: Making) -> Added:
    """The module, its constants and the golden cases of a project, and the values ``web`` and ``licences`` for its
    templates.

    Raises:
        UsageError: the board is no WebAssembly engine.
        BuildError: the model cannot be compiled for it.
    """
    board, options, built = making.board, making.options, making.built
    if not target_of(board, options).wasm:
        raise UsageError(
            f"{board.name} is no WebAssembly engine", why="a page and Node run nothing else",
            hint="leave --board out, or name one that extends the board of this kind of project",
        )  # fmt: skip
    m = built.sources.prefix
    files, plain, relaxed = web_modules(making)
    cases, tensors = golden_files(golden_cases(making.file, options, built))
    licences = compiler_licences()
    web = {
        **plain, "relaxed": relaxed, "gpu": making.gpu,
        "engines": " | ".join(
            f"'{one}'" for one in (*(("webgpu",) if making.gpu else ()), *(k["engine"] for k in (plain, relaxed) if k))
        ),
        "package": package_name(m), "page": _PAGE, "scripts": (*_SCRIPTS, *(_GPU_SCRIPTS if making.gpu else ())),
        "licences": sorted(licences), "golden_bytes": len(tensors.data),
        "init": _bound(str(built.sources.agent[f"{m}_glue.c"]), m),
        "entries": [
            _entry(own, entry, key) for (key, own), entry in zip(built.entries.items(), _in_order(making), strict=True)
        ],
    }  # fmt: skip
    files |= {
        "golden/cases.json": cases, "golden/cases.bin": tensors,
        **{f"LICENSES/{name}": text for name, text in licences.items()},
    }  # fmt: skip
    return Added(files, {"web": web, "model": printable(making.file.path.name)})  # in comments, which a newline ends


def _in_order(making: Making) -> list[Entry]:
    """The entries as the build has them."""
    by_name = {entry.name: entry for entry in making.entries}
    return [by_name[own.name] for own in making.built.entries.values()]


def _bound(glue: str, m: str) -> list[int]:
    """The values of the dims that are bound when an instance is made, as the agent has them: their upper bounds."""
    found = re.search(rf"const {m}_init_dims dims = \{{ ([\d, ]+) \}};", glue)
    return [int(value) for value in found[1].split(", ")] if found else []


def _entry(own: BuiltEntry, entry: Entry, key: str) -> dict[str, Any]:
    """An entry for the templates: symbols of the module, dims, and tensors with their shapes."""
    names = {printable(wire_name(name)).encode("ascii", "backslashreplace").decode(): name for name in own.shapes}
    outputs = [port for port in entry.outputs if _told(port) in names]  # the others are sizes that a run computes
    return {
        "key": key, "symbol": entry.name,
        "dims": [{"name": v.name, "lo": v.lo, "hi": v.hi, "multiple": v.multiple,
                  "js": f"{json.dumps(v.name)}: {v.maximum}"} for v in own.dims],
        "fresh": [{"name": v.name, "lo": v.lo, "hi": v.hi} for v in own.fresh],
        "inputs": [_port(port, names[_told(port)], own) for port in entry.inputs],
        "outputs": [_port(port, names[_told(port)], own) for port in outputs],
    }  # fmt: skip


def _told(port: Port) -> str:
    """The name of a tensor as the agent tells it, out of the C that spells it."""
    plain = port.name.replace(r"\?", "?")
    return str(json.loads(f'"{plain}"'))


def _port(port: Port, name: str, own: BuiltEntry) -> dict[str, Any]:
    shape = own.shapes[name]
    fresh = any(var in own.fresh for dim in shape for var in free_vars(dim))
    return {
        "key": port.field, "name": printable(name), "type": port.kind.lower(), "array": _ARRAYS[port.kind],
        "shape": [js_dim(dim) for dim in shape], "text": ", ".join(map(str, shape)), "maximum": port.elements,
        "computed": fresh, "scale": port.scale, "zero": int(port.zero) if port.scale else 0, "meaning": port.meaning,
        "example": port.elements, "fixed": not any(free_vars(dim) for dim in shape),
    }  # fmt: skip


def package_name(m: str) -> str:
    """What npm calls the package of a model."""
    return re.sub(r"[^a-z0-9_-]+", "-", m.lower())


def compiler_licences() -> Mapping[str, str]:
    """The licences of what the C compiler may put into a module, as it came with them.

    Raises:
        BuildError: the compiler's package lacks one.
    """
    spec = find_spec("ziglang")
    root = Path(spec.origin).parent if spec and spec.origin else Path()
    try:
        return {name: (root / path).read_text(encoding="utf-8") for name, path in _LICENCES.items()}
    except OSError as error:
        raise BuildError("the C compiler's package lacks a licence", where=error.filename, why=error.strerror) from None
