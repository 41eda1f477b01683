"""States in which statements of a kernel may start: values of dims and variables, contents of memory and registers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.addresses import Cell
from sdk.compiler.interp.loops import DefinedMachine, Machine
from sdk.compiler.ir.loops import Alloc, Buffer, For, If, Let, Loops, ValueExpr
from sdk.compiler.ir.types import DType
from sdk.compiler.memory.rings import stored_type
from sdk.compiler.sym import Dim, Var, evaluate, product

__all__ = ["Around", "Branch", "KernelCall", "Start", "start"]

Array = NDArray[Any]
MAX_BYTES: Final = 1 << 22  # of all parameters together
GAP: Final = 64  # bytes between buffers that belong to nothing


@dataclass(frozen=True, slots=True)
class Branch:
    """The statements are in one arm of a condition."""

    stmt: If
    taken: bool


Around = For | Alloc | Let | Branch


@dataclass(frozen=True)
class KernelCall:
    """What a call gives its function: values of its dims, and by parameter the arguments that are constants."""

    dims: tuple[int, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)


@dataclass
class Start:
    """A state: ``machine`` runs statements from it on ``memory``, in which the parameters and scratch buffers lie at
    ``places``; ``spans`` are the addresses (from, to) that belong to a buffer."""

    machine: Machine
    memory: bytearray
    places: dict[str, int]
    spans: list[tuple[int, int]]

    def number(self, dim: Dim) -> int:
        """The value of a dim."""
        return self.machine.scalar(dim)

    def word(self, value: ValueExpr) -> int:
        """The bits of a value, as a number."""
        return int.from_bytes(self.machine.value(value).reshape(-1).tobytes(), "little")

    def register(self, buffer: str, index: tuple[int, ...]) -> int:
        """What an element of a buffer of 32-bit integers holds."""
        cell = self.machine.cells[buffer]
        return int(cell.data[int(np.ravel_multi_index(index, cell.shape)) if index else 0])


def start(
    loops: Loops,
    scratch: Mapping[str, int],
    call: KernelCall | None,
    around: Sequence[Around],
    rng: np.random.Generator,
    bits: int,
) -> Start | None:
    """A random state before statements that lie in ``around``, from the outermost in; None where these values of the
    dims and variables do not reach them. ``bits`` bounds contents of more than 8 bits that are no constants.

    Raises:
        NoMeaning, BuildError: no run has this state: made-up values gave an index outside its buffer.
    """
    env = _dims(loops, call, rng)
    if env is None:
        return None
    made = _placed(loops, scratch, around, env, call, rng, bits)
    if loops.rows is not None:
        extent = evaluate(loops.rows.extent, env)
        if extent < 1:
            return None
        lo = _one(rng, 0, extent - 1)
        made.machine.env |= {loops.rows.lo: lo, loops.rows.hi: int(rng.integers(lo, extent)) + 1}
    for item in around:
        if not _entered(made, item, rng, bits):
            return None
    return made


def _dims(loops: Loops, call: KernelCall | None, rng: np.random.Generator) -> dict[Var, int] | None:
    """The values of a call, or any; None where its arguments are too large to be made up."""
    if call is not None:
        env = dict(zip(loops.dims, call.dims, strict=True))
    elif loops.instances:
        env = dict(zip(loops.dims, loops.instances[int(rng.integers(len(loops.instances)))], strict=True))
    else:
        env = {v: _any(v, rng) for v in loops.dims}
    return env if sum(_bytes(p.buffer, env) for p in loops.params) <= MAX_BYTES else None


def _any(var: Var, rng: np.random.Generator) -> int:
    lo, hi, step = var.minimum, var.maximum, var.multiple
    middle = min(hi, lo + step * int(rng.integers(1, 33)))
    return int(rng.choice([lo, min(hi, 1 << 20), middle]))


def _one(rng: np.random.Generator, lo: int, hi: int) -> int:
    """A number of lo..hi, both included: most often an end."""
    return (lo, hi, int(rng.integers(lo, hi, endpoint=True)))[int(rng.integers(3))]


def _bytes(buffer: Buffer, env: Mapping[Var, int]) -> int:
    type = stored_type(buffer.type, buffer.ring)
    return evaluate(product(type.shape), env) * type.dtype.nbytes


# --- memory ---------------------------------------------------------------------------------------------------


def _placed(
    loops: Loops,
    scratch: Mapping[str, int],
    around: Sequence[Around],
    env: dict[Var, int],
    call: KernelCall | None,
    rng: np.random.Generator,
    bits: int,
) -> Start:
    """Parameters, scratch and arrays in one memory, with contents. A parameter has the alignment of its type alone,
    unless it is a constant."""
    constants = call.constants if call is not None else {}
    places: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    end = GAP
    sizes = {p.buffer.name: _bytes(p.buffer, env) for p in loops.params}
    for p in loops.params:
        name, size = p.buffer.name, sizes[p.buffer.name]
        unit = p.buffer.dtype.scalar.nbytes
        shift = 0 if name in constants or p.layout.steps or unit >= 4 else unit * int(rng.integers(4 // unit))
        fit = (q for q in places if q not in constants and sizes[q] >= size and places[q] % unit == 0)
        seen = [] if shift or p.mode == "read" else list(fit)
        if seen and not rng.integers(4):  # a call may give one address for what is read and what is written
            places[name] = places[seen[-1]]
            spans.append((places[name], places[name] + size))
            continue
        places[name] = end + shift
        spans.append((places[name], places[name] + size))
        end = _aligned(places[name] + size + GAP)
    buffers = [item.buffer for item in around if isinstance(item, Alloc) and item.buffer.space != "register"]
    base = end
    for buffer in buffers:
        places[buffer.name] = base + scratch[buffer.name] if buffer.space == "scratch" else _aligned(end + GAP)
        spans.append((places[buffer.name], places[buffer.name] + buffer.type.max_bytes))
        end = max(end, spans[-1][1])
    memory = bytearray(rng.bytes(_aligned(end + GAP)))
    machine = DefinedMachine(loops, {**env}, {})
    made = Start(machine, memory, places, spans)
    for p in loops.params:
        shape = tuple(evaluate(d, env) for d in stored_type(p.buffer.type, p.buffer.ring).shape)
        _cell(made, p.buffer, shape, constants.get(p.buffer.name), rng, bits)
    return made


def _aligned(at: int) -> int:
    return -(-at // 16) * 16


def _cell(
    made: Start, buffer: Buffer, shape: tuple[int, ...], given: Array | None, rng: np.random.Generator, bits: int
) -> None:
    """The storage of a buffer in memory, with what is ``given``, or anything."""
    count, at = math.prod(shape) * buffer.dtype.lanes, made.places[buffer.name]
    size = count * buffer.dtype.scalar.nbytes
    if given is not None and given.nbytes == size:
        made.memory[at : at + size] = np.ascontiguousarray(given).tobytes()
    else:
        made.memory[at : at + size] = _contents(buffer.dtype, count, rng, bits).tobytes()
    data = np.frombuffer(made.memory, buffer.dtype.numpy, count, at) if count else np.zeros(1, buffer.dtype.numpy)
    made.machine.cells[buffer.name] = Cell(buffer, shape, data)


def _contents(dtype: DType, count: int, rng: np.random.Generator, bits: int) -> Array:
    """Numbers over the whole range of bytes, others within ``bits``; sometimes nothing but ends of the range."""
    if dtype.is_float:
        return rng.standard_normal(count).astype(dtype.numpy)
    raw = np.frombuffer(rng.bytes(count * dtype.scalar.nbytes), dtype.numpy if dtype.kind != "b" else np.uint8)
    if dtype.kind == "b":
        return (raw & 1).astype(dtype.numpy)
    values = raw if dtype.bits == 8 else raw >> max(dtype.bits - 1 - bits, 0)
    if count and not rng.integers(3):
        values = np.where(values & 1, values.min(), values.max())
    return np.asarray(values)


# --- what is around -------------------------------------------------------------------------------------------


def _entered(made: Start, item: Around, rng: np.random.Generator, bits: int) -> bool:
    """Goes into one thing more; whether these values lead there."""
    machine = made.machine
    match item:
        case For():
            lo, hi = made.number(item.lo), made.number(item.hi)
            if lo >= hi:
                return False
            machine.env[item.var] = _one(rng, lo, hi - 1)
        case Let():
            machine.let(item)
        case Branch(stmt, taken):
            return bool(machine.value(stmt.cond).all()) == taken
        case Alloc(buffer):
            shape = tuple(made.number(d) for d in buffer.shape)
            if buffer.space != "register":
                _cell(made, buffer, shape, None, rng, bits)
            else:
                count = math.prod(shape) * buffer.dtype.lanes
                machine.cells[buffer.name] = Cell(buffer, shape, _contents(buffer.dtype, count, rng, bits).copy())
    return True

