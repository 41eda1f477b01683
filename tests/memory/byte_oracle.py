"""What a plan computes, by brute force: each byte written is a hash of exactly the bytes that the call reads.

Nothing of the verifier or the planner is used: elements are found by walking the loops, memory is bytes of noise,
scratch is noise before and after its call. Two plans with the same results and states compute the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from touched import Touched, touched

from sdk.compiler.analysis.dependence import row_axis
from sdk.compiler.ir.loops import Buffer, Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Bind, Check, Copy, Plan, PlanBuffer, PlanCall, PlanStmt, Repeat, walk_plan
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.sym import Var, evaluate
from sdk.errors import SdkError

Bytes = NDArray[np.uint8]
Index = NDArray[np.int64]
Result = dict[str, bytes] | str
_known: dict[tuple[object, ...], tuple[Loops, Touched]] = {}


def outcome(
    module: Module, plan: Plan, sound: Plan, env: Mapping[Var, int], seed: int = 0, ordered: bool = False
) -> Result:
    """The bytes of results and states after a run of ``plan`` at ``env`` on inputs that are the same for every plan,
    states where ``sound`` has them; or why it cannot run. ``ordered``: statements of a call run one after the other, so
    what they write over an argument after they read it is right; else only as the sound plan has it."""
    try:
        return _Run(module, plan, sound, env, seed, ordered).run()
    except (SdkError, KeyError, ValueError, IndexError, ZeroDivisionError) as error:
        return f"{type(error).__name__}: {error}"


def _touched(function: Loops, dims: dict[Var, int], rows: tuple[int, int] | None) -> Touched:
    key = (id(function.body), tuple(dims.values()), rows)
    if key not in _known:
        _known[key] = function, touched(function, dims, rows)
    return _known[key][1]


def _taken(sound: Plan, module: Module) -> set[tuple[str, int, int, int]]:
    """Which parameters are written over which others in the sound plan, by whole calls also so many bytes behind."""
    out = set()
    buffers = {b.name: b for b in sound.buffers}
    for call in (s for s in walk_plan(sound.body) if isinstance(s, PlanCall)):
        params = module.loops[call.callee.split("__")[0]].params if call.callee in module.loops else ()
        for k, (p, a) in enumerate(zip(params, call.args, strict=False)):
            for j, b in enumerate(call.args):
                to, of = buffers[a], buffers[b]
                if j != k and p.mode != "read" and to.region == of.region:
                    if to.offset == of.offset:
                        out.add((call.callee, k, j, 0))
                    elif _whole(call) and isinstance(to.offset, int) and isinstance(of.offset, int):
                        out.add((call.callee, k, j, to.offset - of.offset))
    return out


def _whole(call: PlanCall) -> bool:
    return call.rows is None or (call.rows[0] == 0 and isinstance(call.rows[1], int))


def _after(found: Touched, source: Buffer, out: Buffer, behind: int) -> bool:
    """Whether each byte of ``source`` is read for the last time before ``out``, so many bytes behind, covers it."""
    if source.ring is not None or out.ring is not None:
        return False
    last = _by_byte(found.last_read[source.name], source.dtype.nbytes, 0)
    first = _by_byte(found.first_write[out.name], out.dtype.nbytes, behind)
    return all(last[at] <= first[at] for at in last.keys() & first.keys())


def _by_byte(times: Mapping[int, int], width: int, start: int) -> dict[int, int]:
    return {start + width * at + k: time for at, time in times.items() for k in range(width)}


class _Run:
    def __init__(
        self, module: Module, plan: Plan, sound: Plan, env: Mapping[Var, int], seed: int, ordered: bool
    ) -> None:
        self.module, self.plan, self.sound, self.given, self.ordered = module, plan, sound, env, ordered
        rng = np.random.default_rng(seed)
        entry = {v.name: n for v, n in env.items()}
        self.env = plan.placed({v: entry[v.name] for v in plan.dims})
        self.buffers = {b.name: b for b in plan.buffers}
        self.regions = {
            r.name: rng.integers(0, 256, evaluate(r.bytes, self.env)).astype(np.uint8)
            for r in plan.regions
            if r.kind != "const"
        }
        self.rng = rng
        self.bound: list[object] = []
        self.taken = _taken(sound, module)

    def run(self) -> dict[str, bytes]:
        fixed = np.random.default_rng(1)
        for b in self.sound.buffers:
            if b.role in ("input", "state"):
                where = b if b.role == "state" else self.buffers[b.name]
                held = self.held(where, range(evaluate(b.type.nbytes, self.given)))
                self.regions[where.region][held] = fixed.integers(0, 256, held.size)
        self.body(self.plan.body)
        out = {name: self.bytes(name).tobytes() for name in self.plan.outputs}
        for b in self.sound.buffers:
            if b.role == "state":
                held = self.held(b, range(evaluate(b.type.nbytes, self.given)))
                out[b.name] = self.regions[b.region][held].tobytes()
        return {**out, "dims": repr(self.bound).encode()}

    def held(self, buffer: PlanBuffer, bytes: range | Index) -> Index:
        """Addresses in the region of bytes of a buffer, which must be inside."""
        found = np.asarray(bytes, dtype=np.int64) + evaluate(buffer.offset, self.env)
        if found.size and not (found.min() >= 0 and found.max() < self.regions[buffer.region].size):
            raise ValueError(f"{buffer.name} leaves {buffer.region}")
        return found

    def bytes(self, name: str) -> Bytes:
        buffer = self.buffers[name]
        if buffer.region == "const":
            return np.zeros(0, np.uint8)
        size = evaluate(stored_type(buffer.type, buffer.ring).nbytes, self.env)
        return self.regions[buffer.region][self.held(buffer, range(size))]

    def elements(self, name: str, flat: set[int]) -> tuple[PlanBuffer, Index]:
        """Addresses of elements, in order; those of a ring in their slots."""
        buffer = self.buffers[name]
        at = np.asarray(sorted(flat), dtype=np.int64)
        if buffer.ring is not None:
            shape = [evaluate(d, self.env) for d in buffer.type.shape]
            inner = math.prod(shape[row_axis(buffer.type.shape) + 1 :])
            at = at // inner % buffer.ring * inner + at % inner
        width = buffer.type.dtype.nbytes
        return buffer, self.held(buffer, (at[:, None] * width + np.arange(width)).reshape(-1))

    def body(self, body: tuple[PlanStmt, ...]) -> None:
        for stmt in body:
            match stmt:
                case PlanCall():
                    self.call(stmt)
                case Copy():
                    value = self.bytes(stmt.src)
                    buffer = self.buffers[stmt.dst]
                    self.regions[buffer.region][self.held(buffer, range(value.size))] = value
                case Repeat():
                    for k in range(evaluate(stmt.lo, self.env), evaluate(stmt.hi, self.env)):
                        self.env[stmt.var] = k
                        self.body(stmt.body)
                case Bind():
                    self.bind(stmt)
                case Check():
                    if evaluate(stmt.left, self.env) != evaluate(stmt.right, self.env):
                        raise ValueError(f"{stmt.left} is not {stmt.right}")
                case _:
                    pass

    def bind(self, bind: Bind) -> None:
        """A dim from a buffer has the value that the run was given, and counts what it was read from."""
        by_name = {v.name: n for v, n in self.given.items()}
        value = by_name[bind.var.name] if isinstance(bind.value, str) else evaluate(bind.value, self.env)
        if isinstance(bind.value, str):
            self.bound.append(self.bytes(bind.value).tobytes())
        if not bind.var.holds(value):
            raise ValueError(f"{bind.var} is {value}")
        self.env[bind.var] = value
        self.bound.append((bind.var.name, value))

    def call(self, call: PlanCall) -> None:
        function = self.module.loops[call.callee]
        dims = {v: evaluate(d, self.env) for v, d in zip(function.dims, call.dims, strict=True)}
        rows = None
        if call.rows is not None and function.rows is not None:
            rows = evaluate(call.rows[0], self.env), evaluate(call.rows[1], self.env)
            if rows[0] >= rows[1]:
                return
            if rows[0] < 0 or rows[1] > evaluate(function.rows.extent, dims):
                raise ValueError(f"rows {rows}")
        found = _touched(function, dims, rows)
        self.spoil(call)
        digest = hashlib.blake2b(repr((call.callee.split("__")[0], rows, tuple(dims.values()))).encode())
        for p, name in zip(function.params, call.args, strict=True):
            if self.buffers[name].region == "const":
                digest.update(name.encode())
                continue
            buffer, at = self.elements(name, found.reads[p.buffer.name])
            digest.update(self.regions[buffer.region][at].tobytes())
        for k, (p, name) in enumerate(zip(function.params, call.args, strict=True)):
            flat = found.writes[p.buffer.name]
            if flat:
                buffer, at = self.elements(name, flat)
                if self.over_arguments(call, function, found, k, at):
                    digest.update(self.rng.bytes(8))
                noise = np.frombuffer(
                    hashlib.shake_128(digest.digest() + bytes([k])).digest(at.size), np.uint8
                )
                self.regions[buffer.region][at] = noise
        self.spoil(call)

    def over_arguments(self, call: PlanCall, function: Loops, found: Touched, out: int, at: Index) -> bool:
        """Whether what the call writes hits what it reads, in another way than the sound plan has it."""
        to = self.buffers[call.args[out]]
        region, start = to.region, evaluate(to.offset, self.env)
        for k, (p, name) in enumerate(zip(function.params, call.args, strict=True)):
            flat = found.reads[p.buffer.name]
            if k == out or not flat or self.buffers[name].region != region:
                continue
            other = self.elements(name, flat)[1]
            behind = start - evaluate(self.buffers[name].offset, self.env)
            same = (call.callee.split("__")[0], out, k, behind) in self.taken and call.args[out] != name
            same = same and (behind == 0 or _whole(call))
            same = same or (self.ordered and _after(found, p.buffer, function.params[out].buffer, behind))
            if not same and np.intersect1d(at, other).size:
                return True
        return False

    def spoil(self, call: PlanCall) -> None:
        if call.scratch:
            buffer = self.buffers[call.scratch]
            at = self.held(buffer, range(evaluate(buffer.type.nbytes, self.env)))
            self.regions[buffer.region][at] = self.rng.integers(0, 256, at.size)
