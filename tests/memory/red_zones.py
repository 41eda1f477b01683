"""Runs of generated C in which, around every operation, AddressSanitizer forbids all memory but its own buffers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from plan_bytes import points, touched

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan, PlanCall, walk_plan
from sdk.compiler.memory.dims_of_run import some_run
from sdk.compiler.sym import Dim, Var, evaluate_grid
from sdk.driver.options import BuildOptions
from sdk.driver.sources import as_files, write_files
from sdk.driver.targets import capabilities

FLAGS = ("-std=gnu11", "-O0", "-g", "-fsanitize=address", "-fno-omit-frame-pointer")
HARNESS = Path(__file__).with_name("red_zones.c")
REGIONS = {"arena": 0, "state": 1}
HAVE = load_board("host").capabilities
# AddressSanitizer looks at the masked stores of AVX-512, but not at those of AVX: without the former, it is given none.
ISA = None if "avx512f" in HAVE else "+".join(sorted(n for n in HAVE if not n.startswith(("avx", "fma", "f16c"))))
Env = Mapping[Var, int]


@dataclass(frozen=True)
class Entry:
    """An entry of the C code: its plan, the index of its first operation, the modulus of the random values of each of
    its inputs, which are integers of 64 bits."""

    plan: Plan
    first: int
    values: tuple[int, ...]

    def written(self) -> list[int]:
        """Where the words of a case hold the end of what an operation writes whole, in bytes of its own: its last
        argument."""
        out, at = [], 1
        calls = {2 * s.index + 1: s.args[-1] for s in walk_plan(self.plan.body) if isinstance(s, PlanCall)}
        for slot, names in enumerate(self.slots):
            held = [n for n in sorted(names) if self.plan.region(self.plan.buffer(n).region).kind in REGIONS]
            last = calls.get(slot, "")
            if last in held and not self.plan.buffer(last).alias:
                out.append(at + 1 + 3 * held.index(last) + 2)
            at += 1 + 3 * len(held)
        return out

    @property
    def slots(self) -> list[set[str]]:
        """The buffers in use before the first operation, in it, between it and the next, and so on."""
        out: list[set[str]] = [set()]
        for stmt in walk_plan(self.plan.body):
            if isinstance(stmt, PlanCall):
                out += [set(touched(stmt)), set()]
            else:
                out[-1].update(touched(stmt))
        return out


def build(module: Module, prefix: str, folder: Path, values: Mapping[str, tuple[int, ...]]) -> dict[str, Entry]:
    """Compiles a planned module with the harness to ``folder``/harness; its entries."""
    board = load_board("host")
    have = capabilities(board, BuildOptions(isa=ISA))
    files = as_files(get_backend("c99").emit(module, prefix, isa=have, options=EmitOptions(board="host")).files)
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder, files)
    entries, first = {}, 0
    for name, plan in module.plans.items():
        entries[name] = Entry(plan, first, values[name])
        first += sum(isinstance(s, PlanCall) for s in walk_plan(plan.body))
    (folder / "entries.h").write_text(_entries_h(module, prefix, entries), encoding="utf-8")
    macro = prefix.upper()
    (folder / "hooks.h").write_text(
        "extern void zone(int slot);\n"
        f"#define {macro}_HOOK_BEGIN(self, index) ((void)(self), zone(2 * (index) + 1))\n"
        f"#define {macro}_HOOK_END(self, index) zone(2 * (index) + 2)\n",
        encoding="utf-8",
    )
    sources = [str(folder / f) for f in files if f.endswith((".c", ".S"))]
    isa = [f"-m{name}" for name in sorted(have) if name.startswith(("avx", "sse", "ssse", "fma", "f16c"))]
    command = ["clang", *FLAGS, *isa, f'-D{macro}_HOOKS="hooks.h"', f"-I{folder}", *sources, str(HARNESS)]
    done = subprocess.run([*command, "-o", str(folder / "harness")], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return entries


def _entries_h(module: Module, prefix: str, entries: Mapping[str, Entry]) -> str:
    """What the harness needs to know of the model, as C."""
    macro, many = prefix.upper(), len(entries) > 1
    init = sorted({v.name for p in entries.values() for v in p.plan.dims} & _init_names(module))
    lines = [
        f'#include "{prefix}.h"',
        f"typedef {prefix}_t model_t;",
        f"#define ARENA {macro}_ARENA_BYTES",
        f"#define STATE {macro}_STATE_BYTES",
        f"#define THREADS {macro}_THREADS",
    ]
    given = f", &({prefix}_init_dims){{{', '.join(f'dims[{k}]' for k in range(len(init)))}}}" if init else ""
    size = f"{prefix}_state_bytes({given[2:]})" if init else "STATE"
    lines.append(f"static size_t state_bytes(const int32_t *dims) {{ (void)dims; return {size}; }}")
    lines.append(
        "static int bind(model_t *m, void *arena, void *state, size_t bytes, const int32_t *dims) {\n"
        f"    (void)dims; return {prefix}_init(m, arena, ARENA, state, bytes{given});\n}}"
    )
    lines.append(
        "static int share(model_t *m, int32_t threads) {\n"
        f"    return {prefix}_set_parallel(m, threads > 1 ? parallel : NULL, NULL, threads);\n}}\n"
        "static void alone(model_t *m, int slot) {\n"
        "    open_all();\n    memset(memory[0], 0x5A, room[0]);\n    share(m, 1);\n    zone(slot);\n}"
    )
    for k, (name, entry) in enumerate(entries.items()):
        lines.append(_run_c(f"{prefix}_{name}" if many else prefix, k, entry, init))
    calls = "".join(f"    case {k}: return run{k}(m, dims);\n" for k in range(len(entries)))
    head = "static int run(model_t *m, int entry, int32_t *dims) {"
    lines.append(f"{head}\n    switch (entry) {{\n{calls}    }}\n    return 1;\n}}")
    return "\n".join(lines) + "\n"


def _init_names(module: Module) -> set[str]:
    return {v.name for state in module.states.values() for d in state.type.shape for v in getattr(d, "free", ())}


def _run_c(name: str, k: int, entry: Entry, init: Sequence[str]) -> str:
    """A C function that runs an entry on random values, in buffers of the exact sizes, and once more on one thread and
    in an arena of other contents: the results are the same."""
    plan = entry.plan
    own = [v.name for v in plan.dims if v.name not in init]
    at = {v: f"dims[{(init.index(v) if v in init else len(init) + own.index(v))}]" for v in [*init, *own]}

    def count(buffer: str) -> str:
        type = plan.buffer(buffer).type
        return " * ".join(["(size_t)1", *(f"(size_t)({_c(d, at)})" for d in type.shape)])

    lines = [f"static int run{k}(model_t *m, int32_t *dims) {{", "    (void)dims;"]
    frees = [f"in{n}" for n in range(len(plan.inputs))]
    for n, (buffer, maximum) in enumerate(zip(plan.inputs, entry.values, strict=True)):
        lines.append(f"    int64_t *in{n} = fill({count(buffer)}, {maximum});")
    for n, buffer in enumerate(plan.outputs):
        bytes = plan.buffer(buffer).type.dtype.nbytes
        lines += [
            f"    size_t size{n} = {count(buffer)} * {bytes};",
            f"    void *out{n} = malloc(size{n}), *again{n} = malloc(size{n});",
        ]
        frees += [f"out{n}", f"again{n}"]
    inputs = ", ".join(f"in{n}" for n in range(len(plan.inputs)))
    outputs, again = (", ".join(f"{w}{n}" for n in range(len(plan.outputs))) for w in ("out", "again"))
    differ = " || ".join(f"memcmp(out{n}, again{n}, size{n}) != 0" for n in range(len(plan.outputs)))
    bound = f"&({name.rsplit('_', 1)[0]}_init_dims){{{', '.join(at[i] for i in init)}}}, " if init else ""
    lines += [
        f"    {name}_in in = {{{inputs}}};",
        f"    {name}_out out = {{{outputs}}}, second = {{{again}}};",
        f"    {name}_dims given = {{{', '.join(at[v] for v in own)}}};",
        f"    if ({name}_arena_bytes({bound}&given) != arena_bytes) return 100;",
        f"    zone({2 * entry.first});",
        f"    int status = {name}_run(m, &in, &out, &given);",
        f"    alone(m, {2 * entry.first});",
        f"    status = status != 0 ? status : {name}_run(m, &in, &second, &given);",
        f"    status = status != 0 ? status : ({differ}) ? 101 : 0;",
        *(f"    free({what});" for what in frees),
        "    return status;\n}",
    ]
    return "\n".join(lines)


def _c(dim: Dim, at: Mapping[str, str]) -> str:
    """A size that is a number or a dim, as C."""
    text = str(dim)
    assert text.isdigit() or text in at, text
    return at.get(text, text)


def cases(entry: Entry, envs: Sequence[Env], expected: np.ndarray) -> list[np.ndarray]:
    """What the harness reads of each run: the arena's bytes, then for each slot its intervals (region, from, to)."""
    plan = entry.plan
    known = dict(points(envs))
    for var, value in plan.places:
        known[var] = evaluate_grid(value, known)
    spans = {}
    for b in plan.buffers:
        if plan.region(b.region).kind in REGIONS:
            at = np.broadcast_to(evaluate_grid(b.offset, known), len(envs))
            size = np.broadcast_to(evaluate_grid(b.type.nbytes, known), len(envs))
            spans[b.name] = np.stack([np.full(len(envs), REGIONS[plan.region(b.region).kind]), at, at + size])
    rows = []
    for names in entry.slots:
        held = [spans[n] for n in sorted(names) if n in spans]
        rows.append(np.full((1, len(envs)), len(held)))
        rows += held
    table = np.concatenate(rows).astype(np.int32)
    room = np.broadcast_to(expected, len(envs)).astype(np.int32)
    inside = np.array([s[2] for n, s in spans.items() if plan.region(plan.buffer(n).region).kind == "arena"])
    assert (inside.max(axis=0) <= room).all()
    return [np.concatenate([room[k : k + 1], table[:, k]]) for k in range(len(envs))]


def run(folder: Path, stream: Sequence[np.ndarray]) -> subprocess.CompletedProcess[str]:
    """Runs the harness on a stream of runs: each entry, whether its instance is new, its dims and its case."""
    path = folder / "runs.bin"
    path.write_bytes(np.concatenate([*stream, np.array([-1], dtype=np.int32)]).astype(np.int32).tobytes())
    return subprocess.run([str(folder / "harness"), str(path)], capture_output=True, text=True)


def dims_of(plan: Plan, rng: Random, given: Env) -> dict[Var, int]:
    """Random dims of a run, half of the time small ones, with some of them given."""
    found = some_run(plan, rng)
    assert found is not None
    if rng.random() < 0.5:
        found = {v: min(n, v.minimum + (n - v.minimum) // 8 // v.multiple * v.multiple) for v, n in found.items()}
    return {**found, **given}
