"""Type rules of value expressions: what each operation takes and gives."""

from __future__ import annotations

from sdk.compiler.ir.intrinsics import INTRINSICS
from sdk.compiler.ir.loops import Op
from sdk.compiler.ir.types import BOOL, I32, I64, DType

__all__ = ["op_error"]


def _alike(first: DType, others: list[DType]) -> bool:
    """Whether all are of one scalar type, with the lanes of the first or none of their own."""
    return all(d.scalar == first.scalar and d.lanes in (first.lanes, 1) for d in others)


def op_error(op: Op) -> str | None:
    """What is wrong with the types of an operation, or None."""
    row = INTRINSICS.get(op.name)
    if row is None:
        return f"operation {op.name} is not in the intrinsic table"
    if len(op.args) != row.arity:
        return f"operation {op.name} takes {row.arity} arguments, got {len(op.args)}"
    types = [a.dtype for a in op.args]
    wrong = _special(op.name, types, op.dtype)
    if wrong is None and op.name not in _SPECIAL:
        wrong = None if _alike(types[0], types[1:]) else "its arguments have different types"
        if row.result == "bool" and op.dtype != BOOL.with_lanes(types[0].lanes):
            wrong = wrong or f"a comparison gives {BOOL.with_lanes(types[0].lanes)}"
    if wrong is None and row.result == "same" and op.dtype != types[0]:
        wrong = "its result has the type of its first argument"
    given = ", ".join(map(str, types))
    return f"{op.name}({given}) as {op.dtype}: {wrong}" if wrong else None


_SPECIAL = frozenset((
    "bits", "broadcast", "cast", "dot", "dot_2x2", "dot_lane", "dot_narrow", "dot_small", "evens", "mac_lane",
    "mac_pair", "mulq64", "odds", "select",
))  # fmt: skip


def _special(name: str, types: list[DType], result: DType) -> str | None:
    match name:
        case "cast":
            return None if types[0].lanes == result.lanes else "a conversion keeps the lanes"
        case "bits":
            fits = types[0].nbytes == result.nbytes
            return None if fits and "b" not in (types[0].kind, result.kind) else "it keeps the bytes, and takes no bool"
        case "evens" | "odds":
            fits = types[0].lanes == 2 * result.lanes and types[0].bits <= result.bits
            return None if fits else "half of the lanes come out, as wide at least"
        case "broadcast":
            fits = types[0].scalar == result.scalar and result.lanes % types[0].lanes == 0
            return None if fits else "the lanes of the result are not those of the argument repeated"
        case "select":
            cond, first, second = types
            if cond.scalar != BOOL or cond.lanes not in (1, result.lanes):
                return "its condition is not a bool per lane"
            return None if _alike(result, [first, second]) else "its arms differ"
        case "mulq64":
            fits = [t.scalar for t in types] == [I64, I32, I32] and result == I32.with_lanes(types[0].lanes)
            return None if fits else "it takes i64, i32, i32 and gives i32"
        case "dot" | "dot_small" | "dot_narrow":
            acc, a, b = types
            fits = a.lanes == b.lanes and a.lanes % acc.lanes == 0 and not a.is_float and a.bits == b.bits
            return None if fits else "its factors must have equal lanes, a multiple of the sum's"
        case "dot_2x2":
            acc, a, b = types
            fits = acc.lanes == 4 and a.lanes == b.lanes and a.lanes % 2 == 0 and not a.is_float and a.bits == b.bits
            return None if fits else "it takes four sums, and two vectors of two rows"
        case "dot_lane":
            acc, a, b, lane = types
            fits = b.lanes % acc.lanes == 0 and a.lanes % (b.lanes // acc.lanes) == 0 and lane.scalar == I32
            fits = fits and not a.is_float and a.bits == b.bits
            return None if fits else "its factors must be words of as many lanes, and the number of one of the first"
        case "mac_lane":
            acc, a, b, lane = types
            fits = acc.lanes == 1 and a.lanes == b.lanes and lane.lanes == 1
            fits = fits and not any(t.is_float for t in types)
            return None if fits else "it takes a sum, two vectors and the number of a lane, all of integers"
        case "mac_pair":
            acc, a, b, *numbers = types
            fits = acc.lanes == 1 and a.lanes == b.lanes == 2 and all(n.scalar == I32 for n in numbers)
            fits = fits and not any(t.is_float for t in types)
            return None if fits else "it takes a sum, two pairs and the number of a lane in each"
    return None
