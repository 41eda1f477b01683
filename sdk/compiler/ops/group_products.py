"""Products with weights in groups of a few bits, over the very bytes of a model's file: ``quantize_groups`` makes 8-bit
activations, ``dense_groups`` multiplies by rows of blocks, ``lookup_groups`` takes single rows as floats.

Activations are quantised in groups of 32 (or ``group``): ``d = max|x| / 127``, each to the nearest multiple of ``d``,
halves to even. A group without an element of 2**-100 at least counts as zeros; one with an infinity or a NaN makes
every result of its row NaN. With ``half`` scales are rounded to f16. Products within a group are summed exactly, in
integers; groups are scaled and summed in f32, in an order of the schedule's own. The reference sums in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.intrinsics import cast, imm, op
from sdk.compiler.ir.loops import Alloc, Block, Buffer, Let, Load, Loops, Ref, Stmt, Store, ValueExpr
from sdk.compiler.ir.types import BOOL, F16, F32, I8, I32, I64, U8, U16, U32, TensorType
from sdk.compiler.ops.build import Nest, function, loop, nest, param, variable
from sdk.compiler.ops.group_formats import FORMATS, GROUP, Bits, Format, Reader, Run, Scales, format_of, literal
from sdk.compiler.ops.positions import guarded, known, position, require_indices, resolve, unproved
from sdk.compiler.ops.registry import OpDef, define, sample
from sdk.compiler.ops.shapes import require_equal
from sdk.compiler.ops.traits import OPAQUE
from sdk.compiler.sym import Dim, Var, ceildiv
from sdk.errors import BuildError

__all__ = [
    "Held", "Place", "blocks_of", "lookup_loops", "named_fields", "number_at", "number_of", "products_loops",
    "reader_of", "rows_loops", "scaled_sums",
]  # fmt: skip

Array = NDArray[Any]
Types = Sequence[TensorType]
Place = Callable[[int, Dim], Load]  # byte ``first`` of a block, and so many behind it
_MAX_GROUP: Final = 1 << 16
_MIN_ACTIVATION: Final = 2.0**-100  # of the largest activation of a group: what is below counts as zeros
_MIN_BITS: Final = (127 - 100) << 23
_INFINITE: Final = 0x7F800000  # the bits of infinity; those of NaN are above
_MAGNITUDE: Final = 0x7FFFFFFF  # all bits but the sign
_MOVED: Final = 1.5 * 2.0**23
_MOVED_BITS: Final = 0x4B400000


# --- activations --------------------------------------------------------------------------------------------------


def _quantize_infer(
    x: TensorType, *, run: int, zero: int, group: int = GROUP, half: bool = False
) -> tuple[TensorType, ...]:
    if not 1 <= group <= _MAX_GROUP:
        raise BuildError(f"quantize_groups makes groups of up to {_MAX_GROUP}, not of {group}")
    if x.dtype != F32 or x.rank != 2 or not isinstance(x.shape[1], int) or x.shape[1] % group:
        raise BuildError(f"quantize_groups takes f32[m, k] with k a multiple of {group}, not {x.dtype}{list(x.shape)}")
    if run < 1 or group % run or not 0 <= zero <= 128:
        raise BuildError(f"quantize_groups makes sums of up to {group} elements by up to 128, not of {run} by {zero}")
    rows, columns = x.shape
    sums = TensorType(I32 if zero else F32, (rows, columns // run))
    return TensorType(I8, x.shape), TensorType(F32, (rows, columns // group)), sums


def _quantize_ref(x: Array, *, run: int, zero: int, group: int = GROUP, half: bool = False) -> tuple[Array, ...]:
    rows, columns = x.shape
    groups = x.reshape(rows, columns // group, group)
    maximum = np.abs(groups).max(axis=2, initial=np.float32(0))
    good = np.isfinite(groups).all(axis=2)
    used = good & (maximum >= np.float32(_MIN_ACTIVATION))
    inverse = np.where(used, np.float32(127) / maximum, np.float32(0)).astype(np.float32)
    scale = np.where(used, maximum / np.float32(127), np.float32(0)).astype(np.float32)
    scale = np.where(good, scale, np.float32(np.nan))
    scale = scale.astype(np.float16).astype(np.float32) if half else scale
    whole = np.nan_to_num(np.rint(groups * inverse[:, :, None]), nan=0.0).astype(np.int8)
    sums = whole.reshape(rows, columns // run, run).astype(np.int32).sum(axis=2, dtype=np.int32)
    scaled = sums.astype(np.float32) * np.repeat(scale, group // run, axis=1)
    return whole.reshape(rows, columns), scale, -zero * sums if zero else scaled


def _quantize_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """For each group: its largest magnitude, then its elements, by runs.

    C compilers make lanes of integers, not of comparisons of floats: magnitudes compare as their bits do, and to round
    is to add a number whose last bit is worth 1.
    """
    run, zero, group = given["run"], given["zero"], given.get("group", GROUP)
    rows, columns = types[0].shape
    assert isinstance(columns, int)
    over = nest((rows, columns // group))
    m, g = over.index
    j, r, k = variable("j", group), variable("r", group // run), variable("k", run)
    size = op("and", op("bits", Load("x", (m, g * group + j.expr), F32), dtype=I32), imm(_MAGNITUDE))
    maximum, total = (Load(n, (), I32) for n in ("maximum", "total"))
    at = g * group + r.expr * run + k.expr
    sum_at = g * (group // run) + r.expr
    last: ValueExpr = op("mul", total, imm(-zero)) if zero else op("mul", cast(total, F32), Ref("scale", F32))
    largest, used = Ref("largest", F32), Ref("used", BOOL)
    # what is left of itself is 0, or NaN where it is not finite
    scale = op("select", used, op("tdiv", largest, imm(127.0, F32)), op("sub", largest, largest), dtype=F32)
    moved = op("add", op("mul", Load("x", (m, at), F32), Ref("inverse", F32)), imm(_MOVED, F32))
    whole = op("and", op("sub", op("bits", moved, dtype=I32), imm(_MOVED_BITS)), Ref("kept", I32))
    body = over.around(
        Alloc(Buffer("maximum", I32, (), "register")),
        Store("maximum", (), imm(0)),
        loop(j, group, Store("maximum", (), op("max", maximum, size))),
        Let("largest", op("bits", maximum, dtype=F32)),
        Let("used", op("and", op("ge", maximum, imm(_MIN_BITS)), op("lt", maximum, imm(_INFINITE)))),
        Let("kept", op("select", used, imm(-1), imm(0), dtype=I32)),
        Let("inverse", op("select", used, op("tdiv", imm(127.0, F32), largest), imm(0.0, F32), dtype=F32)),
        Let("scale", cast(cast(scale, F16), F32) if given.get("half") else scale),
        Store("o1", (m, g), Ref("scale", F32)),
        loop(
            r, group // run,
            Alloc(Buffer("total", I32, (), "register")),
            Store("total", (), imm(0)),
            loop(
                k, run,
                Let("whole", whole),
                Store("o0", (m, at), cast(Ref("whole", I32), I8)),
                Store("total", (), op("add", total, Ref("whole", I32))),
            ),
            Store("o2", (m, sum_at), last),
        ),
    )  # fmt: skip
    writes = [param(f"o{k}", t, "write") for k, t in enumerate(outs)]
    return function(name, [param("x", types[0]), *writes], [body], over.rows)


# --- blocks -------------------------------------------------------------------------------------------------------


def number_of(run: Run, byte: Any) -> ValueExpr:
    """The number, ``zero`` too large, that a run has at the place that ``byte(bits)`` reads, an unsigned byte."""
    low = _part(run.low, byte(run.low.first))
    if run.high is None:
        return low
    return op("or", low, _shifted("shl", _part(run.high, byte(run.high.first)), run.low.bits))


def _part(bits: Bits, byte: ValueExpr) -> ValueExpr:
    shifted = _shifted("shr", byte, bits.shift)
    return shifted if bits.shift + bits.bits == 8 else op("and", shifted, literal((1 << bits.bits) - 1, byte))


def _shifted(name: str, value: ValueExpr, bits: int) -> ValueExpr:
    return op(name, value, literal(bits, value)) if bits else value


def _in_rows(row: Dim, block: Dim) -> Place:
    """Bytes of a block that begins at a byte of a row, as files have them."""
    return lambda first, more: Load("w", (row, block + first + more), U8)


def reader_of(place: Place) -> Reader:
    """Numbers of a block of bytes."""

    def read(first: int, count: int) -> ValueExpr:
        kind = U16 if count == 2 else U32
        value: ValueExpr = cast(place(first, 0), kind)
        for k in range(1, count):
            byte = cast(place(first + k, 0), kind)
            value = op("or", value, op("shl", byte, imm(8 * k, kind)))
        return value

    return read


def named_fields(form: Format, read: Reader) -> tuple[list[Stmt], Reader]:
    """The fields of a block as scalars, and what reads these."""
    fields = ((first + k * unit, unit) for first, count, unit in form.fields for k in range(count))
    names = {at: f"f{at[0]}" for at in fields}
    lets: list[Stmt] = [Let(name, read(*at)) for at, name in names.items()]
    kinds = {at: read(*at).dtype for at in names}
    return lets, lambda first, count: Ref(names[first, count], kinds[first, count])


def _runs_of(form: Format, group: int) -> Iterator[tuple[int, Run]]:
    """The runs of a group, each with the place of its first weight in the block."""
    at = group * GROUP
    for run in form.runs[group * form.per_group : (group + 1) * form.per_group]:
        yield at, run
        at += run.count


def number_at(form: Format, run: Run, place: Place, j: Dim) -> ValueExpr:
    """The number of a weight, ``zero`` too large, as i32."""
    value = number_of(run, lambda first: place(first, j))
    return cast(op("xor", value, imm(form.zero, U8)) if form.signed else value, I32)


# --- products -----------------------------------------------------------------------------------------------------


def _products_infer(x: TensorType, scale: TensorType, sums: TensorType, w: TensorType, *, format: str) -> TensorType:
    form = format_of(format)
    if x.dtype != I8 or scale.dtype != F32 or x.rank != 2 or w.rank != 2 or w.dtype != U8:
        raise BuildError("dense_groups takes what quantize_groups makes, and bytes u8[n, bytes]")
    rows, nbytes = w.shape
    if not isinstance(nbytes, int) or not isinstance(rows, int):
        raise BuildError("weights of dense_groups have a fixed shape")
    columns = form.columns(nbytes)
    require_equal("columns of dense_groups", x.shape[1], columns)
    wanted = TensorType(I32 if form.zero else F32, (x.shape[0], columns // form.run))
    if (sums.dtype, sums.shape, scale.shape) != (wanted.dtype, wanted.shape, (x.shape[0], columns // GROUP)):
        hint = f"quantize_groups with run={form.run}, zero={form.zero}"
        raise BuildError(f"scales and sums of dense_groups are not those for {format}", hint=hint)
    return TensorType(F32, (x.shape[0], rows))


def _products_ref(x: Array, scale: Array, sums: Array, w: Array, *, format: str) -> Array:
    form = format_of(format)
    numbers, steps, minimum = form.parts(w)
    wide = scale.astype(np.float64)
    products = (x * np.repeat(wide, GROUP, axis=1)) @ (numbers * np.repeat(steps, form.run, axis=1)).T
    rest = (sums * np.repeat(wide, GROUP // form.run, axis=1)) @ steps.T if form.zero else sums @ minimum.T
    return np.asarray(products + rest).astype(np.float32)


def products_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """rows m { n { acc = 0; blocks { groups { total = sums; { total += x * number } acc += scale * step * total } } } }

    An element is stored twice: fusion then leaves the nest as it is, which rules know by its form.
    """
    form, nbytes = format_of(given["format"]), types[3].shape[1]
    assert isinstance(nbytes, int)
    over = nest(outs[0].shape)
    m, n = over.index
    b = variable("b", nbytes // form.nbytes)
    lets, read = named_fields(form, reader_of(_in_rows(n, b.expr * form.nbytes)))
    acc = Load("acc", (), F32)
    body: list[Stmt] = []
    for g, scales in enumerate(form.scales(read)):
        more = Store("acc", (), op("add", acc, scaled_sums(form, g, scales, m, b.expr)))
        body.append(Block((*_group(form, g, m, n, b), more)))
    blocks = loop(b, nbytes // form.nbytes, *lets, *body)
    first = Alloc(Buffer("acc", F32, (), "register")), Store("acc", (), imm(0.0, F32))
    params = [param(k, t) for k, t in zip(("x", "scale", "sums", "w"), types, strict=True)]
    rows = over.around(Store("o", (m, n), imm(0.0, F32)), *first, blocks, Store("o", (m, n), acc))
    return function(name, [*params, param("o", outs[0], "write")], [rows], over.rows)


def _group(form: Format, g: int, m: Dim, n: Dim, b: Var) -> Iterator[Stmt]:
    """The sums of the products of a group: one, or one for each run where these are apart."""
    totals = form.per_group if form.apart else 1
    for k in range(totals):
        yield Alloc(Buffer(f"total{k}", I32, (), "register"))
        start = b.expr * (form.size // form.run) + g * totals + k
        yield Store(f"total{k}", (), Load("sums", (m, start), I32) if form.zero else imm(0))
    for k, (at, run) in enumerate(_runs_of(form, g)):
        name, j = f"total{k if form.apart else 0}", variable(f"j{k}", run.count)
        number = number_at(form, run, _in_rows(n, b.expr * form.nbytes), j.expr)
        x = cast(Load("x", (m, b.expr * form.size + at + j.expr), I8), I32)
        yield loop(j, run.count, Store(name, (), op("add", Load(name, (), I32), op("mul", x, number))))


def scaled_sums(form: Format, g: int, scales: Scales, m: Dim, block: Dim) -> ValueExpr:
    """The sums of group ``g`` of a block of row ``m``, ``total0`` and so on, scaled."""
    at = block * form.groups + g
    sums: list[ValueExpr] = [cast(Load(f"total{k}", (), I32), F32) for k in range(form.per_group if form.apart else 1)]
    if form.apart:
        sums = [op("mul", total, factor) for total, factor in zip(sums, scales.factors, strict=True)]
    total = sums[0] if len(sums) == 1 else op("add", *sums)
    value = op("mul", op("mul", Load("scale", (m, at), F32), scales.step), total)
    if scales.minimum is None:
        return value
    return op("add", value, op("mul", Load("sums", (m, at), F32), scales.minimum))


# --- rows as floats -----------------------------------------------------------------------------------------------


def _lookup_infer(w: TensorType, indices: TensorType, *, format: str) -> TensorType:
    require_indices("lookup_groups", indices.dtype)
    form = format_of(format)
    if w.dtype != U8 or w.rank != 2 or not isinstance(w.shape[1], int):
        raise BuildError(f"lookup_groups takes bytes u8[n, bytes], not {w.dtype}{list(w.shape)}")
    return TensorType(F32, (*indices.shape, form.columns(w.shape[1])))


def _lookup_ref(w: Array, indices: Array, *, format: str) -> Array:
    form = format_of(format)
    if not len(w):
        return np.zeros((*indices.shape, form.columns(w.shape[1])), np.float32)
    at, inside = resolve(indices, len(w))
    rows = form.decode(w[at.reshape(-1)]).astype(np.float32)
    return np.where(inside[..., None], rows.reshape(*indices.shape, -1), np.float32(0))


def rows_loops(name: str, types: Types, outs: Types, given: Mapping[str, Any]) -> Loops:
    """Rows that lie as files have them."""
    form = format_of(given["format"])
    return lookup_loops(name, types, outs, form, Held(1, 1, lambda row, _, b, __: _in_rows(row, b * form.nbytes)))


@dataclass(frozen=True, slots=True)
class Held:
    """How rows of blocks lie: in panels of ``rows``, a power of two, of which ``blocks`` are one record.
    ``place(panel, row, record, k)`` has the bytes of block ``k`` of a record, for the row ``row`` of a panel."""

    rows: int
    blocks: int
    place: Callable[[Dim, Dim, Dim, int], Place]

    def cut(self, at: Dim) -> tuple[list[Stmt], Dim, Dim]:
        """The panel of the row named ``at``, and the row in it, with what names them where panels have several."""
        if self.rows == 1:
            return [], at, 0
        row, (panel, lane) = Ref("at", I32), (Var(name, *I32.limits).expr for name in ("panel", "lane"))
        lets: list[Stmt] = [Let("panel", op("shr", row, imm(self.rows.bit_length() - 1)))]
        return [*lets, Let("lane", op("and", row, imm(self.rows - 1)))], panel, lane


def lookup_loops(name: str, types: Types, outs: Types, form: Format, held: Held) -> Loops:
    """For each index: its position, then the weights of that row, record by record."""
    w, indices = types
    columns = outs[0].shape[-1]
    assert isinstance(columns, int)
    over = nest(outs[0].shape, inner=1)
    names, at = position("at", Load("indices", over.index, indices.dtype), w.shape[0])
    cut, panel, lane = held.cut(at)
    checks = [(at, w.shape[0]), *([(panel, ceildiv(w.shape[0], held.rows)), (lane, held.rows)] if cut else [])]
    steps = columns // form.size // held.blocks
    b, c = variable("b", steps), variable("c", columns)
    body: list[Stmt] = []
    for k in range(held.blocks):
        here = held.place(panel, lane, b.expr, k)
        lets, read = named_fields(form, reader_of(here))
        block: list[Stmt] = [*lets]
        for g, scales in enumerate(form.scales(read)):
            for n, (first, run) in enumerate(_runs_of(form, g)):
                to = (b.expr * held.blocks + k) * form.size + first
                block.append(_weights(form, run, scales, n, over, here, to))
        body += block if held.blocks == 1 else [Block(tuple(block))]
    copy = loop(b, steps, *body)
    clear = loop(c, columns, Store("o", (*over.index, c.expr), imm(0.0, F32)))
    inside = unproved(checks, known(over))
    params = [param("w", w), param("indices", indices), param("o", outs[0], "write")]
    whole = over.around(*names, *cut, guarded(inside, copy, clear))
    return function(name, params, [whole], over.rows)


def _weights(form: Format, run: Run, scales: Scales, k: int, over: Nest, place: Place, first: Dim) -> Stmt:
    """The weights of a run, the one numbered ``k`` of its group, as floats from ``first`` on."""
    j = variable("j", run.count)
    number = number_at(form, run, place, j.expr)
    value: ValueExpr = cast(op("sub", number, imm(form.zero)) if form.zero else number, F32)
    step = op("mul", scales.step, scales.factors[k]) if scales.factors else scales.step
    value = op("mul", Ref("step", F32), value)
    value = value if scales.minimum is None else op("add", value, Ref("minimum", F32))
    lets = [Let("step", step), *([] if scales.minimum is None else [Let("minimum", scales.minimum)])]
    return Block((*lets, loop(j, run.count, Store("o", (*over.index, first + j.expr), value))))


# --- samples ------------------------------------------------------------------------------------------------------


def blocks_of(name: str, rows: int, columns: int) -> Any:
    """Rows of blocks for a sample: random bits, scales of ordinary size."""

    def make(rng: np.random.Generator) -> Array:
        form = FORMATS[name]
        blocks = rng.integers(0, 256, (rows * columns // form.size, form.nbytes), dtype=np.uint8)
        for first, count, unit in form.fields:
            if unit == 2:
                halves = (rng.standard_normal((len(blocks), count)) / 16).astype("<f2")
                blocks[:, first : first + 2 * count] = halves.view(np.uint8).reshape(len(blocks), -1)
        return blocks.reshape(rows, -1)

    return make


def _products_sample(name: str, m: Dim, n: int, k: int) -> Any:
    form = FORMATS[name]
    types = _T(I8, (m, k)), _T(F32, (m, k // GROUP)), _T(I32 if form.zero else F32, (m, k // form.run))
    values = {3: blocks_of(name, n, k)}
    if isinstance(m, int):  # of the size that they are of
        values |= {1: lambda rng: rng.random((m, k // GROUP)) / 64}
        values[2] = lambda rng: rng.integers(-4064, 4065, (m, k // form.run)) * (form.zero or 1 / 64)
    return sample(*types, _T(U8, (n, k // form.size * form.nbytes)), values=values, format=name)


def _lookup_sample(name: str, n: int, k: int, indices: TensorType, values: Any) -> Any:
    form = FORMATS[name]
    bytes_ = _T(U8, (n, k // form.size * form.nbytes))
    return sample(bytes_, indices, values={0: blocks_of(name, n, k), 1: values}, format=name)


_T = TensorType
_M: Dim = Var("m", 0, 5).expr
define(
    OpDef(
        "quantize_groups",
        ("x",),
        _quantize_infer,
        _quantize_ref,
        _quantize_loops,
        samples=(
            sample(_T(F32, (_M, 96)), run=32, zero=8),
            sample(_T(F32, (2, 64)), run=16, zero=32),
            sample(_T(F32, (1, 32)), run=32, zero=0),
            sample(_T(F32, (_M, 12)), run=6, zero=0, group=6),
            sample(_T(F32, (2, 32)), run=32, zero=0, half=True),
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "dense_groups",
        ("x", "scale", "sums", "w"),
        _products_infer,
        _products_ref,
        products_loops,
        samples=tuple(
            _products_sample(name, m, n, max(k, FORMATS[name].size))
            for name, m, n, k in (
                ("Q8_0", _M, 5, 96), ("Q4_0", 2, 3, 64), ("Q4_1", 1, 17, 32), ("Q4_Z", 1, 2, 96), ("Q4_K", 3, 3, 512),
                ("Q5_K", 1, 5, 256), ("Q6_K", 2, 3, 256), ("Q5_0T", 2, 3, 64), ("Q5_1T", 1, 17, 32),
            )
        ),
        kind=OPAQUE,
    )
)
define(
    OpDef(
        "lookup_groups",
        ("w", "indices"),
        _lookup_infer,
        _lookup_ref,
        rows_loops,
        samples=tuple(
            _lookup_sample(name, 5, FORMATS[name].size * 2, indices, values)
            for (name, indices, values) in zip(
                FORMATS,
                (
                    _T(I64, (4,)), _T(I32, (1, 2)), _T(I64, ()), _T(I32, (3,)), _T(I32, (3,)), _T(I64, (1,)),
                    _T(I64, (2,)), _T(U8, (3,)), _T(I32, (2,)),
                ),
                (
                    lambda rng: rng.integers(-5, 5, 4), lambda rng: rng.integers(-7, 9, (1, 2)), lambda rng: 3,
                    lambda rng: rng.integers(0, 5, 3), lambda rng: rng.integers(0, 5, 3), lambda rng: np.array([-2]),
                    lambda rng: np.array([7, -1]), lambda rng: rng.integers(0, 7, 3),
                    lambda rng: rng.integers(0, 5, 2),
                ),
                strict=True,
            )
        ),
        kind=OPAQUE,
    )
)  # fmt: skip
