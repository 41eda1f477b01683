"""Translation validation of schedules: a scheduled nest is run beside the plain one, on random arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.interp.loops import Allowance, DefinedMachine, Exhausted, NoMeaning, run_loops
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.packing import pack_array
from sdk.compiler.ir.text.printer import print_module
from sdk.compiler.schedules.group_activations import activations
from sdk.compiler.schedules.group_panels import format_of_products
from sdk.compiler.sym import Var, evaluate
from sdk.errors import BuildError

__all__ = ["Candidate", "Check", "described", "differing"]

Array = NDArray[Any]
Check = Literal["sample", "full"]
BUDGET: Final = 2_400  # operations that the sampled checks of one build may take
SHARES: Final = ((True, 8), (False, 2))  # of what is left of them that all rows of one function, or some, may take
BITS: Final = (31, 20, 12, 8)  # of the wide integers among the arguments of each try to have all operations defined
CLOSE: Final = {64: 1e-9, 32: 1e-4, 16: 2e-2}  # how far floats of so many bits may be apart, of the largest
STEPS: Final = 20  # by how many of its multiples a dim may be above its least value
LARGEST: Final = 1 << 24  # elements of an array that is made up


@dataclass(frozen=True)
class Candidate:
    """A function before and after it was scheduled, and the constants that a call gives it, by parameter;
    ``quantised``: its activations are those of ``quantize_groups``, as of a nest."""

    plain: Loops
    scheduled: Loops
    constants: Mapping[str, Array]
    quantised: bool = False


def differing(candidates: Mapping[str, Candidate], check: Check) -> dict[str, str]:
    """What differs between the results of both, by the name of the function; those that agree are left out.

    ``check`` "full" compares all results of all functions, "sample" rows of some functions within a budget of
    operations, which ones by their text.
    """
    left, found = float(BUDGET), {}
    for name in sorted(candidates, key=lambda n: crc32(f"{n} {candidates[n].scheduled.trace}".encode())):
        one = candidates[name]
        if one.scheduled is one.plain:
            continue
        rng = np.random.default_rng(crc32(name.encode()))
        for whole, share in SHARES:
            allowance = Allowance() if check == "full" else Allowance(left // share)
            given = allowance.left
            try:
                what = _differs(one, rng, whole, allowance)
            except Exhausted:
                continue
            finally:
                left -= 0 if check == "full" else given - allowance.left
            if what:
                found[name] = what
            break
    return found


def _dims(one: Candidate, rng: np.random.Generator) -> dict[str, int]:
    """Small values of the dims, the least now and then."""
    return {v.name: _upward(v, int(rng.integers(STEPS)) * int(rng.integers(2))) for v in one.plain.dims}


def _upward(var: Var, steps: int) -> int:
    return max(min(var.maximum, var.minimum + steps * var.multiple), var.minimum)


def _differs(one: Candidate, rng: np.random.Generator, whole: bool, allowance: Allowance) -> str:
    """What differs after a run on some arguments; "" where nothing does, or no arguments were found that make sense.

    Raises:
        Exhausted: the runs take more than they may.
    """
    for bits in BITS:
        dims = _dims(one, rng)
        try:
            arrays = {p.buffer.name: _argument(one, p.buffer.name, dims, rng, bits) for p in one.plain.params}
            if one.quantised and (form := format_of_products(one.plain)):
                arrays |= activations(form, arrays["x"], rng)
        except (MemoryError, OverflowError):
            continue
        rows = None if whole else _rows(one, dims, rng)
        if not whole and rows is None:
            return ""
        plain = {name: array.copy() for name, array in arrays.items()}
        packed = {name: pack_array(arrays[name], layout, arrays) for name, layout in one.scheduled.layouts.items()}
        try:
            run_loops(one.plain, plain, dims, rows, DefinedMachine, allowance)
        except (NoMeaning, BuildError):
            continue  # no run of the model has these arguments
        done = {**arrays, **packed}
        try:
            # lanes that nothing reads may hold what has no meaning
            run_loops(one.scheduled, done, dims, rows, allowance=allowance)
        except BuildError as error:
            return f"only the schedule ends with: {error}"
        for p in one.plain.params:
            if p.mode != "read" and (what := _other(done[p.buffer.name], plain[p.buffer.name])):
                return f"{p.buffer.name}{what}, dims {dims}, rows {rows or 'all'}"
        return ""
    return ""


def _rows(one: Candidate, dims: Mapping[str, int], rng: np.random.Generator) -> tuple[int, int] | None:
    """One row or two of both functions, the first or the last more often than others; None where they have not the
    same rows."""
    plain, scheduled = one.plain.rows, one.scheduled.rows
    if plain is None or scheduled is None or plain.extent != scheduled.extent:
        return None
    extent = evaluate(plain.extent, {v: dims[v.name] for v in one.plain.dims})
    if extent < 1:
        return None
    lo = (0, extent - 1, int(rng.integers(extent)))[int(rng.integers(3))]
    return lo, min(lo + int(rng.integers(1, 3)), extent)


def _argument(one: Candidate, name: str, dims: Mapping[str, int], rng: np.random.Generator, bits: int) -> Array:
    """The constant of a parameter, or numbers over the range of its type, wide ones within ``bits``."""
    buffer = one.plain.param(name).buffer
    shape = tuple(evaluate(d, {v: dims[v.name] for v in one.plain.dims}) for d in buffer.shape)
    given = one.constants.get(name)
    if given is not None and given.shape == shape:
        return given.copy(order="C")  # of rank 0 too
    if np.prod(shape, dtype=np.float64) > LARGEST:
        raise OverflowError
    kind = buffer.dtype
    if kind.is_float:
        return rng.standard_normal(shape).astype(kind.numpy)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind.numpy)
    lo, hi = kind.limits
    if kind.bits > 8:
        lo, hi = max(lo, -(1 << bits)), min(hi, 1 << bits)
    drawn = np.uint64 if kind.kind == "u" else np.int64
    return rng.integers(lo, hi, shape, dtype=drawn, endpoint=True).astype(kind.numpy)


def _other(got: Array, wanted: Array) -> str:
    """Where two results differ: floats by more than the order of sums explains."""
    if got.dtype.kind == "f":
        both = np.isnan(got) & np.isnan(wanted)
        finite = wanted[np.isfinite(wanted)]
        scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
        with np.errstate(invalid="ignore"):
            wrong = ~(both | (got == wanted) | (np.abs(got - wanted) <= CLOSE[got.dtype.itemsize * 8] * scale))
    else:
        wrong = got != wanted
    if not wrong.any():
        return ""
    at = tuple(int(k[0]) for k in np.nonzero(wrong))
    return f"[{', '.join(map(str, at))}] is {got[at]}, not {wanted[at]} ({int(wrong.sum())} of {wrong.size} differ)"


def described(one: Candidate) -> str:
    """Both functions as text."""
    pair = {"plain": replace(one.plain, name="plain"), "scheduled": replace(one.scheduled, name="scheduled")}
    return print_module(Module(one.plain.name, "scheduled", loops=pair))
