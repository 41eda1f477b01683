"""What programs of people call of a model: its entries with the shapes of their tensors, and golden cases."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.boards import Setting, load_board
from sdk.boards.table import suggest
from sdk.compiler.sym import Dim, Func, Var
from sdk.driver.artifact import build_sources
from sdk.driver.built import Built, BuiltEntry
from sdk.errors import UsageError
from sdk.projects.app_gpu import gpu_build
from sdk.projects.golden import Case, golden_cases
from sdk.projects.interface import Entry, Port, entries_of
from sdk.projects.kinds import Kind
from sdk.projects.making import Added, Making
from sdk.projects.weights import HASH_DIGITS, weights_bytes, weights_files
from sdk.text import GENERATED, printable, wire_name
from sdk.toolchains import Blob
from sdk.version import VERSION

__all__ = [
    "app_files", "app_settings", "codes_of", "errors_of", "kotlin_text", "module_name", "set_choices", "swift_text",
]  # fmt: skip

# Of the instances around a model: between the codes of all models and those of dims.
SESSION_ERRORS: Final = (
    ("MEMORY", -8, "there is no memory for an instance"),
    ("ENTRY", -9, "the model has no entry of this number"),
    ("SIZE", -10, "a buffer holds other bytes than its shape says"),
    ("ALIGN", -11, "a buffer does not begin at a multiple of its element's size"),
    ("OVERLAP", -12, "an output shares memory with another buffer"),
)
GPU_ERROR: Final = ("GPU", -13, "the GPU failed or is gone: open the model anew")
_CODE: Final = re.compile(r"^    (\w+) = (-\d+),?\s+/\* (.*) \*/$", re.MULTILINE)
_SECTION: Final = re.compile(r"^/\* ---- (.*) ---- \*/$", re.MULTILINE)  # of an entry, in the order of its records
_WIDTHS: Final = {"8": 1, "16": 2, "32": 4, "64": 8, "OOL": 1}


@dataclass(frozen=True)
class AppPort:
    """An input or output: its name in the model, that in C, its type as sdk_rt.h calls it, bytes of an element, and how
    its stored numbers mean real ones (scale 0: they are these). ``shape`` is for people, ``maximum`` at the upper
    bounds, ``c_shape`` computes it in C from ``dims``. ``constant`` is a name that no other port of the model has."""

    name: str
    field: str
    kind: str
    c_type: str
    width: int
    shape: str
    maximum: tuple[int, ...]
    c_shape: tuple[str, ...]
    scale: float
    zero: int
    constant: str = ""


@dataclass(frozen=True)
class AppDim:
    """A dim of a run: its name in the model, an identifier, its bounds, and the code of a value that breaks them."""

    label: str
    field: str
    lo: int
    hi: int
    multiple: int
    code: int


@dataclass(frozen=True)
class AppEntry:
    """An entry: its number, its name in the model, what its C begins with, and a name for classes."""

    number: int
    label: str
    name: str
    title: str
    inputs: tuple[AppPort, ...]
    outputs: tuple[AppPort, ...]
    dims: tuple[AppDim, ...]
    fresh: tuple[AppDim, ...]
    errors: tuple[tuple[int, str], ...]

    @property
    def ports(self) -> tuple[AppPort, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)


@dataclass(frozen=True)
class App:
    """A model for programs: its entries, whether it keeps a state from run to run, its codes with their meaning, the
    bytes of its weights, and the functions that its shapes are computed by."""

    entries: tuple[AppEntry, ...]
    stateful: bool
    errors: tuple[tuple[int, str], ...]
    weights_bytes: int
    functions: tuple[str, ...]

    @cached_property
    def max_tensors(self) -> int:
        """The most tensors that an entry has."""
        return max(len(e.ports) for e in self.entries)

    @cached_property
    def max_rank(self) -> int:
        """The highest rank of a tensor, at least 1."""
        return max([1, *(len(p.c_shape) for e in self.entries for p in e.ports)])

    def values(self) -> dict[str, Any]:
        """What templates may name of it."""
        return {
            "app": self.entries, "stateful": self.stateful, "errors": self.errors, "functions": self.functions,
            "max_tensors": self.max_tensors, "max_rank": self.max_rank, "session_errors": SESSION_ERRORS,
            "weights_bytes": self.weights_bytes,
            "max_dims": max([1, *(len(e.dims) + len(e.fresh) for e in self.entries)]),
        }  # fmt: skip


def app_of(built: Built) -> App:
    """What a build tells programs of its model.

    Raises:
        UsageError: the model wants sizes that are chosen when it starts, or threads of the caller's.
    """
    m, header = built.sources.prefix, str(built.sources.model[f"{built.sources.prefix}.h"])
    for mark, what in ((f"{m}_init_dims", "sizes of its state are chosen at its start"),):
        if mark in header:
            raise UsageError(
                f"{built.report.model} cannot be put into an app yet", why=what,
                hint="give such dims one value: --dim NAME=N:N",
            )  # fmt: skip
    entries = entries_of(str(built.sources.agent[f"{m}_glue.c"]))
    first, *sections = _SECTION.split(header)
    labels, codes = sections[::2], [codes_of(section) for section in sections[1::2]]
    made = [
        _entry(k, entry, label, built.entries[label], own)
        for k, (entry, label, own) in enumerate(zip(entries, labels, codes, strict=True))
    ]
    made = _distinct(made)
    state = re.search(r"_STATE_BYTES (\d+)u", header)
    assert state is not None
    texts = " ".join(text for e in made for p in e.ports for text in p.c_shape)
    functions = tuple(sorted(set(re.findall(r"session_(\w+)\(", texts))))
    own_codes = tuple((code, text) for _, code, text in SESSION_ERRORS)
    return App(tuple(made), state[1] != "0", (*codes_of(first), *own_codes), weights_bytes(built), functions)


def _distinct(entries: Sequence[AppEntry]) -> list[AppEntry]:
    """The entries with titles and constants that are distinct in capitals too."""
    taken: set[str] = set()

    def free(name: str) -> str:
        while name.upper() in taken:
            name += "2"
        taken.add(name.upper())
        return name

    def named(entry: AppEntry, ports: Sequence[AppPort], direction: str) -> tuple[AppPort, ...]:
        own = f"{direction}_{entry.label}" if len(entries) > 1 else direction
        return tuple(replace(p, constant=free(f"{own}_{p.field}").upper()) for p in ports)

    return [
        replace(e, title=free(e.title), inputs=named(e, e.inputs, "in"), outputs=named(e, e.outputs, "out"))
        for e in entries
    ]


def codes_of(text: str) -> tuple[tuple[int, str], ...]:
    """The errors of a part of a header: codes and meanings."""
    return tuple((code, what) for _, code, what in errors_of(text))


def errors_of(text: str) -> tuple[tuple[str, int, str], ...]:
    """The same with their names, from E_ on."""
    return tuple((name[name.rindex("_E_") + 1 :], int(code), what) for name, code, what in _CODE.findall(text))


def _entry(
    number: int, entry: Entry, label: str, told: BuiltEntry, errors: tuple[tuple[int, str], ...]
) -> AppEntry:
    """An entry of the C interface with the shapes that the build knows."""
    every = (*told.dims, *told.fresh)
    at = {var: f"dims[{k}]" for k, var in enumerate(every)}
    shapes = {_told(name): (name, shape) for name, shape in told.shapes.items()}
    count = len(entry.outputs) - len(told.fresh)  # an agent tells computed dims as outputs too
    inputs = tuple(_port(p, shapes, at) for p in entry.inputs)
    outputs = tuple(_port(p, shapes, at) for p in entry.outputs[:count])
    taken = {p.field for p in (*inputs, *outputs)}
    dims = tuple(_dims(every, taken, [code for code, _ in errors]))
    title = "".join(part[:1].upper() + part[1:] for part in label.split("_"))
    given = len(told.dims)
    return AppEntry(
        number, label, entry.name, title, inputs, outputs, dims[:given], dims[given:], errors
    )  # fmt: skip


def _port(port: Port, shapes: Mapping[str, tuple[str, tuple[Dim, ...]]], at: Mapping[Var, str]) -> AppPort:
    name, shape = shapes[_unquoted(port.name)]
    width = next(size for end, size in _WIDTHS.items() if port.kind.endswith(end))
    text = f"{port.kind.lower()}[{', '.join(map(str, shape))}]"
    maximum = tuple(int(n) for n in port.shape.strip("[]").split(",") if n.strip())
    c_shape = tuple(_c(d, at) for d in shape)
    zero = int(port.zero.rstrip("uU"))
    field = port.field if port.field.strip("_") else f"v{port.field}"  # some languages have no names of _ alone
    return AppPort(name, field, port.kind, port.c_type, width, text, maximum, c_shape, port.scale, zero)


def _dims(every: Sequence[Var], taken: set[str], codes: Sequence[int]) -> Iterator[AppDim]:
    """The dims of a run, with identifiers that no tensor and no other dim has; an entry's first codes are theirs."""
    for var, code in zip(every, codes, strict=False):
        field = re.sub(r"\W", "_", var.name, flags=re.ASCII)
        field = field if field[:1].isalpha() else f"d_{field}"
        while field in taken:
            field += "_"
        taken.add(field)
        yield AppDim(var.name, field, var.lo, var.hi, var.multiple, code)


def _told(name: str) -> str:
    """A name as an agent tells it."""
    return printable(wire_name(name)).encode("ascii", "backslashreplace").decode("ascii")


def _unquoted(text: str) -> str:
    """What a string of generated C stands for, without its quotes: JSON's escapes, and one that trigraphs need."""
    return str(json.loads(f'"{text}"'.replace("\\?", "?")))


def _c(dim: Dim, at: Mapping[Var, str]) -> str:
    """A dim in C, of variables as they are called there; functions are those of the session."""
    if isinstance(dim, int):
        return str(dim)
    terms = []
    for factors, times in dim.terms:
        parts = [_factor(one, at) for one, power in factors for _ in range(power)]
        terms.append(" * ".join([*parts, *([str(times)] if times != 1 else [])]))
    return " + ".join([*terms, *([str(dim.const)] if dim.const else [])])


def _factor(factor: Var | Func, at: Mapping[Var, str]) -> str:
    if isinstance(factor, Var):
        return at[factor]
    return f"session_{factor.name}({_c(factor.a, at)}, {_c(factor.b, at)})"


def app_files(making: Making) -> Added:
    """The C of each instruction set, golden cases, and what templates of apps may name.

    Raises:
        UsageError: the board is not that of the kind, a setting is wrong, or the model does not suit apps.
        BuildError: the model cannot be compiled for an instruction set.
    """
    kind, options = making.kind, making.options
    if making.board.name != kind.board:
        why = f"a project has the C of {', '.join(kind.sets.values())}"
        raise UsageError("apps have boards of their own", why=why, hint=f"leave out --board {making.board.name}")
    if options.threads > 1:
        raise UsageError("apps run a model in one thread", where="--threads", hint="leave out --threads")
    place = app_settings(kind, making.built.sources.prefix, making.settings)
    app = app_of(making.built)
    outside = options.weights == "file"  # which newer cores' code would want in an order of its own
    builds = {
        name: build_sources(making.file, load_board(board), options, also=() if outside else kind.also.get(name, ()))
        for name, board in kind.sets.items()
    }
    m = making.built.sources.prefix
    module = module_name(m)
    root = kind.sources.replace("TITLE", module)
    gpu = gpu_build(making)
    sources: dict[str, dict[str, str | Blob]] = {
        folder: {
            name: text
            for name, text in [*built.sources.model.items(), *(gpu.files(folder).items() if gpu else ())]
            if not (outside and name.endswith(".bin"))
        }
        for folder, built in builds.items()
    }
    files = {f"{root}/{folder}/{name}": text for folder, own in sources.items() for name, text in own.items()}
    stored = [*builds.values(), *(gpu.builds.values() if gpu else ())] if outside else []
    beside = weights_files(kind, stored)
    beside = {name.replace("TITLE", module): data for name, data in beside.items()}
    files |= beside
    cases = golden_cases(making.file, options, making.built)
    files[kind.golden.replace("TITLE", module)] = _packed(cases, app)
    compiled = {folder: sorted(one for one in own if one.endswith((".c", ".S"))) for folder, own in sources.items()}
    if kind.choices:
        files |= {f"{root}/{name}": text for name, text in set_choices(kind, compiled, m)}
    words: dict[str, object] = {"kotlin": kotlin_text, "swift": swift_text, "module": module, "weights_file": outside}
    words |= {"hash_digits": HASH_DIGITS, "weights_pack": any(name.startswith(f"{kind.pack}/") for name in beside)}
    words |= {"weights_names": sorted(beside), "gpu": gpu}
    words |= {"session_errors": (*SESSION_ERRORS, GPU_ERROR), "errors": (*app.errors, GPU_ERROR[1:])} if gpu else {}
    return Added(files, {**app.values(), **words, "place": place, "app_sources": compiled})


def module_name(m: str) -> str:
    """What a package is called."""
    return "".join(part[:1].upper() + part[1:] for part in m.split("_")) + "Kit"


def set_choices(kind: Kind, sources: Mapping[str, Sequence[str]], m: str) -> Iterator[tuple[str, str]]:
    """Files that include those of the machine's set, by name."""
    macro = m.upper()
    for name in sorted({name for own in sources.values() for name in own}):
        lines = [f"/* {name} of this machine's set. {GENERATED} {VERSION}. Do not edit. */"]
        for folder, condition in kind.choices.items():
            if name in sources[folder]:
                place = [f"#define {macro}_WEIGHTS_BIN {macro}_{folder.upper()}_BIN"] if name.endswith(".S") else []
                lines += [f"#if {condition}", *place, f'#include "{folder}/{name}"', "#endif"]
        yield name, "\n".join([*lines, ""])


def app_settings(kind: Kind, prefix: str, settings: Mapping[str, str]) -> dict[str, Setting]:
    """The settings of an app: those of its kind, as the user changed them.

    Raises:
        UsageError: there is none of a name, or a value is not what it has to look like.
    """
    for name in settings:
        if name not in kind.defaults:
            has = f"it has {', '.join(kind.defaults)}" if kind.defaults else "leave it out"
            near = suggest(name, kind.defaults) or has
            raise UsageError(f"no setting is called {name!r}", where="--set", hint=near)
    own = prefix.lower()
    found = {name: text.replace("NAME", own) for name, text in kind.defaults.items()} | dict(settings)
    for name, pattern in kind.patterns.items():
        if not re.fullmatch(pattern, found[name], re.ASCII):
            hint = f"--set {name}={kind.defaults[name].replace('NAME', 'model')}"
            raise UsageError(f"not a {name}: {found[name]!r}", where="--set", hint=hint)
    return {**found}


def kotlin_text(text: str) -> str:
    """A string of Kotlin, in which $ begins a variable."""
    return json.dumps(text).replace("$", "\\$")


def swift_text(text: str) -> str:
    """A string of Swift; a backslash, which begins what is inserted, is escaped."""
    return json.dumps(printable(text), ensure_ascii=False)


def _packed(cases: Sequence[Case], app: App) -> Blob:
    """Cases as little-endian words of 32 bits and bytes: how many there are; of each its entry and dims, then of each
    tensor, inputs first, how many bytes it takes, and these."""
    numbers = {entry.label: entry for entry in app.entries}
    out = [struct.pack("<i", len(cases))]
    for case in cases:
        entry = numbers[case.entry]
        dims = [case.dims[dim.label] for dim in entry.dims] + [0] * len(entry.fresh)
        out.append(struct.pack(f"<{1 + len(dims)}i", entry.number, *dims))
        out += [_tensor(array) for array in (*case.inputs, *case.outputs)]
    return Blob(b"".join(out))


def _tensor(array: NDArray[Any]) -> bytes:
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return struct.pack("<i", len(data)) + data
