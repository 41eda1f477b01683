"""Cases of one operator on one choice of element types: a table of operators, swept over every type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["KINDS", "Single", "everything", "model_of"]

Array = np.ndarray[Any, Any]
KINDS: Final[dict[str, Any]] = {
    "bool": np.bool_, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
    "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
FLOATS, SIGNED = ("f16", "f32", "f64"), ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = (*SIGNED, *UNSIGNED)
IR_VERSION, OPSET = 10, 21
SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 127.5, -129.0, 300.0, 70000.0, -3e9, 1e30, np.inf, -np.inf, np.nan)


@dataclass(frozen=True)
class Single:
    """One node: the arrays it is given (None for an input left out), which of them are constants of the model, its
    attributes and how many outputs it has."""

    name: str
    op: str
    inputs: tuple[Array | None, ...]
    fixed: frozenset[int]
    attributes: Mapping[str, Any]
    outputs: int
    opset: int


Draw = Callable[[np.random.Generator, Any, tuple[int, ...]], Array]


@dataclass(frozen=True)
class _Arg:
    """An input: of the type variable ``var`` drawn into a shape, or an array as it stands; ``fixed`` is a constant."""

    var: str = ""
    shape: tuple[int, ...] = ()
    draw: Draw | None = None
    array: Array | None = None
    fixed: bool = False


def small(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Array:
    """Numbers that no operation takes out of range: -4..4, or 0..4; floats of a normal distribution."""
    if np.issubdtype(kind, np.floating):
        return rng.standard_normal(shape).astype(kind)
    low = -4 if np.issubdtype(kind, np.signedinteger) else 0
    return rng.integers(low, 5, shape).astype(kind) if kind != np.bool_ else rng.integers(0, 2, shape).astype(bool)


def wide(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Array:
    """The whole range of an integer type with its ends; of floats special values among others."""
    size = int(np.prod(shape))
    if np.issubdtype(kind, np.floating):
        found = np.concatenate([np.array(SPECIAL), rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)])
        with np.errstate(over="ignore"):
            return rng.permutation(found[: max(size, 0)]).astype(kind).reshape(shape)
    if kind == np.bool_:
        return small(rng, kind, shape)
    ends = np.iinfo(kind)
    drawn = rng.integers(ends.min, ends.max, shape, dtype=kind, endpoint=True)
    flat = drawn.reshape(-1)
    flat[: min(4, size)] = np.array([ends.min, ends.max, 0, 1], dtype=kind)[: min(4, size)]
    return rng.permutation(flat).reshape(shape)


def reals(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Array:
    """As ``wide``, without NaN, whose place among numbers engines see differently."""
    found = wide(rng, kind, shape)
    return np.nan_to_num(found, nan=7, posinf=np.inf, neginf=-np.inf) if found.dtype.kind == "f" else found


def finite(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Array:
    """As ``wide``, of floats only finite ones that an i32 holds."""
    found = wide(rng, kind, shape)
    return np.nan_to_num(found, nan=7, posinf=9, neginf=-9).clip(-30000, 60000) if found.dtype.kind == "f" else found


def unit(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Array:
    """Numbers within 0..1."""
    return rng.uniform(0, 1, shape).astype(kind)


def above(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Array:
    """Numbers from 1 on; divisors, exponents."""
    return (1 + np.abs(small(rng, kind, shape))).astype(kind)


def T(*shape: int, draw: Draw | None = None, fixed: bool = False, var: str = "T") -> _Arg:
    """An input of the first type variable; the draws of the row where none is given."""
    return _Arg(var, shape, draw, None, fixed)


def U(*shape: int, draw: Draw | None = None, fixed: bool = False) -> _Arg:
    """An input of the second type variable."""
    return T(*shape, draw=draw, fixed=fixed, var="U")


def given(array: Any, kind: str = "i64", fixed: bool = True) -> _Arg:
    """An input that is the same for all types."""
    return _Arg(array=np.asarray(array, KINDS[kind]), fixed=fixed)


LEFT_OUT: Final = _Arg()
BOTH: Final = (small, wide)


@dataclass(frozen=True)
class Row:
    """An operator, its inputs and attributes; ``kinds`` are what T runs through, ``others`` what U does."""

    op: str
    args: tuple[_Arg, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    kinds: Sequence[str] = tuple(KINDS)
    others: Sequence[str] = ("",)
    draws: Sequence[Draw] = (small,)
    outputs: int = 1
    opset: int = OPSET
    by_type: Callable[[str, str], Mapping[str, Any]] | None = None  # attributes that depend on T and U


def _row(op: str, *args: _Arg, **more: Any) -> Row:
    names = ("kinds", "others", "draws", "outputs", "opset", "by_type")
    own = {k: v for k, v in more.items() if k in names}
    return Row(op, args, {k: v for k, v in more.items() if k not in names}, **own)


_FUNCTIONS = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Cos", "Cosh", "Dropout",
    "Elu", "Erf", "Exp", "Flatten", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN",
    "LeakyRelu", "Log", "Mish", "Neg", "NonZero", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shape", "Sigmoid",
    "Sin", "Sinh", "Size", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Transpose",
)  # fmt: skip
_OF_NUMBERS = ("Hardmax", "LogSoftmax", "Sign", "Softmax")  # of NaN onnxruntime makes one thing or another
_PAIRS = (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual", "Less",
    "LessOrEqual", "Max", "Mean", "Min", "Mul", "Or", "Sub", "Sum", "Xor",
)  # fmt: skip
_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
_POSITIONS = [[0, 2], [1, -1]]
_CODES: Final = {k: helper.np_dtype_to_tensor_dtype(np.dtype(v)) for k, v in KINDS.items()}


def _to(_: str, other: str) -> Mapping[str, Any]:
    return {"to": _CODES[other]}


def _value(kind: str, _: str) -> Mapping[str, Any]:
    return {"value": helper.make_tensor("value", _CODES[kind], [1], np.ones(1, KINDS[kind]).tolist())}


def _filler(kind: str, _: str) -> Mapping[str, Any]:
    return {"dtype": _CODES[kind]}


def rows() -> Iterator[Row]:
    """The table."""
    yield from _elementwise()
    yield from _along_axes()
    yield from _moving()
    yield from _picking()
    yield from _windows()
    yield from _quantised()
    yield from _signals()


def _elementwise() -> Iterator[Row]:
    for op in _FUNCTIONS:
        yield _row(op, T(3, 20), draws=BOTH, opset=24 if op == "Swish" else OPSET)
    for op in _OF_NUMBERS:
        yield _row(op, T(3, 20), draws=(small, finite))
    for op in _PAIRS:
        yield _row(op, T(3, 20), T(20), draws=BOTH)
        yield _row(op, T(2, 3), T(2, 1), T(1, 3), kinds=INTEGERS + FLOATS) if op in ("Max", "Min", "Sum", "Mean") else (
            _row(op, T(2, 1, 3), T(4, 1))
        )
    for fmod in (0, 1):
        yield _row("Mod", T(3, 20), T(20, draw=above), fmod=fmod)
        # onnxruntime takes the rest of doubles, which know 53 bits
        kinds = [k for k in INTEGERS if not fmod or k not in ("i64", "u64")]
        yield _row("Mod", T(4, 5), T(5, draw=above), fmod=fmod, draws=(wide,), kinds=kinds)
    for way in ("LEFT", "RIGHT"):
        yield _row("BitShift", T(3, 20), T(20, draw=above), direction=way, draws=BOTH)
    yield _row("Pow", T(3, 20, draw=above), U(20, draw=above), others=tuple(KINDS))
    yield _row("Pow", T(3, 20), U(20, draw=above), others=INTEGERS)
    yield _row("Pow", T(3, 5), U(1, draw=above, fixed=True), others=tuple(KINDS))
    for maximum in (0, 1):
        limit = (LEFT_OUT, T(draw=small)) if maximum else (T(draw=small),)
        yield _row("Clip", T(3, 20), *limit, draws=(small, finite))
    yield _row("Clip", T(3, 20), given(0, "i8"), given(2, "i8"), kinds=("i8",), draws=BOTH)
    for kind in INTEGERS + FLOATS:
        yield _row("Clip", T(3, 20), given(1, kind), given(3, kind), kinds=(kind,), draws=BOTH)
    yield _row("PRelu", T(2, 3, 4), T(3, 1))
    yield _row("Shrink", T(3, 20), lambd=1.0, bias=1.0)
    yield _row("Shrink", T(3, 20), lambd=1.0, bias=1.0, draws=(wide,), kinds=("i8", "u8", "i16", "u16", *FLOATS))
    yield _row("Where", given([[True, False, True]], "bool", fixed=False), T(2, 3), T(2, 1), draws=BOTH)
    rest = [k for k in KINDS if k != "u32"]
    yield _row("Cast", T(3, 20), others=rest, draws=BOTH, by_type=_to)
    # onnxruntime agrees with itself, whole vectors and what is left over, within -2**31..2**32
    yield _row("Cast", T(3, 20), others=("u32",), draws=(small, finite), by_type=_to)
    yield _row("CastLike", T(3, 20), U(1), others=tuple(KINDS))
    yield _row("BitCast", T(3, 4), others=tuple(KINDS), by_type=_to, opset=26)


def _along_axes() -> Iterator[Row]:
    for op in _REDUCTIONS:
        axes = given([1]), given([0, -1])
        yield _row(op, T(3, 4, 5), axes[0], keepdims=0)
        yield _row(op, T(3, 4, 5), keepdims=1)
        yield _row(op, T(3, 4, 5), axes[1])
        # onnxruntime sums and multiplies 64 bits as doubles
        kinds = tuple(KINDS) if op in ("ReduceMax", "ReduceMin", "ReduceProd") else ("i8", "u8", "i32", *FLOATS)
        for which in axes if op not in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp") else ():
            yield _row(op, T(3, 4, 5), which, kinds=kinds, draws=(reals,))
        yield _row(op, T(3, 4), given(np.zeros(0)), noop_with_empty_axes=1)
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            yield _row(op, T(3, 20), axis=1, keepdims=0, select_last_index=last)
        yield _row(op, T(3, 4, 5), axis=0, draws=(small, reals))
    for op in ("CumSum", "CumProd"):
        for flag in (0, 1):
            yield _row(op, T(3, 5), given(1), exclusive=flag, reverse=1 - flag, opset=OPSET if op == "CumSum" else 26)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield _row(op, T(3, 5, 2), axis=1)
        yield _row(op, T(3, 5, 2), axis=1, opset=11)
    yield _row("TopK", T(3, 20), given([3]), outputs=2)
    yield _row("TopK", T(3, 5), given([2]), axis=0, largest=0, outputs=2)
    yield _row("LpNormalization", T(3, 5), axis=1, p=2)
    yield _row("MeanVarianceNormalization", T(2, 3, 4, 4))
    yield _row("LayerNormalization", T(2, 3, 8), T(8), T(8))
    yield _row("RMSNormalization", T(2, 3, 8), T(8), opset=23)
    yield _row("GroupNormalization", T(2, 4, 5), T(4), T(4), num_groups=2)
    yield _row("InstanceNormalization", T(2, 3, 5), T(3), T(3))
    yield _row("BatchNormalization", T(2, 3, 5), T(3), T(3), T(3), T(3, draw=unit))
    yield _row("LRN", T(1, 5, 3, 3), size=3)
    yield _row("Det", T(2, 3, 3), opset=22)
    yield _row("Einsum", T(2, 3), T(3, 4), equation="ij,jk->ik")
    yield _row("Einsum", T(2, 3), T(2, 3), equation="ij,ij->i")


def _moving() -> Iterator[Row]:
    yield _row("Transpose", T(2, 3, 4), perm=[1, 0, 2], draws=BOTH)
    yield _row("Transpose", T(2, 3, 4), perm=[2, 0, 1])
    yield _row("Transpose", T(17, 33))
    yield _row("Concat", T(2, 3), T(2, 1), T(2, 4), axis=1, draws=BOTH)
    yield _row("Concat", T(2, 3), T(1, 3), axis=0)
    yield _row("Split", T(2, 6), axis=1, num_outputs=3, outputs=3)
    yield _row("Split", T(5, 2), given([2, 3]), axis=0, outputs=2)
    yield _row("Slice", T(5, 6), given([0, 1]), given([5, 6]), given([0, 1]), given([2, 3]), draws=BOTH)
    yield _row("Slice", T(5, 6), given([-1]), given([-9]), given([1]), given([-2]))
    for mode in ("constant", "edge", "reflect", "wrap"):
        yield _row("Pad", T(3, 4), given([1, 0, 2, 1]), *((T(fixed=True),) if mode == "constant" else ()), mode=mode)
    yield _row("Pad", T(3, 4), given([-1, 0, 2, -1]))
    yield _row("Tile", T(2, 3), given([2, 3]))
    yield _row("Expand", T(3, 1), given([2, 1, 4]))
    yield _row("Reshape", T(3, 4), given([2, -1]))
    yield _row("Flatten", T(2, 3, 4), axis=2)
    yield _row("Squeeze", T(1, 3, 1), given([0]))
    yield _row("Squeeze", T(1, 3, 1))
    yield _row("Unsqueeze", T(3, 4), given([0, 2]))
    for upper in (0, 1):
        yield _row("Trilu", T(4, 5), given(1), upper=upper)
    yield _row("EyeLike", T(3, 4), k=1)
    yield _row("EyeLike", T(3, 4), others=tuple(KINDS), by_type=lambda _, other: _filler(other, ""))
    yield _row("DepthToSpace", T(1, 8, 2, 3), blocksize=2)
    yield _row("DepthToSpace", T(1, 8, 2, 3), blocksize=2, mode="CRD")
    yield _row("SpaceToDepth", T(1, 2, 4, 6), blocksize=2)
    yield _row("CenterCropPad", T(3, 6), given([5, 4]))
    yield _row("ReverseSequence", T(4, 3), given([1, 4, 2], fixed=False), time_axis=0, batch_axis=1)
    yield _row("ConstantOfShape", given([2, 3]), kinds=tuple(KINDS), by_type=_value)
    yield _row("Range", T(draw=lambda *a: a[1](2)), T(draw=lambda *a: a[1](20)), T(draw=lambda *a: a[1](3)))
    yield _row("Range", *(given(n, "i64") for n in (2, 20, 3)), kinds=("i64",))
    for mode in ("nearest", "linear", "cubic"):
        yield _row("Resize", T(1, 2, 4, 5), LEFT_OUT, given([1, 1, 2, 2], "f32"), mode=mode)
        yield _row("Resize", T(1, 2, 4, 5), LEFT_OUT, LEFT_OUT, given([1, 2, 3, 3]), mode=mode)
    yield _row("Upsample", T(1, 2, 2, 3), given([1, 1, 2, 2], "f32"), opset=9)


def _picking() -> Iterator[Row]:
    for kind in ("i32", "i64"):
        yield _row("Gather", T(3, 4), given(_POSITIONS, kind, fixed=False), axis=1, draws=BOTH)
        yield _row("GatherElements", T(3, 4), given([[0, -1, 2, 1]], kind, fixed=False), axis=0)
        updates = given([[1, 0, 2, 1]], kind, fixed=False)
        for how in ("none", "add", "mul", "max", "min"):
            yield _row("ScatterElements", T(3, 4), updates, T(1, 4), axis=0, reduction=how)
    yield _row("Gather", T(3, 4), given(1, fixed=False), axis=0)
    yield _row("GatherND", T(3, 4), given([[0, 1], [2, -1]], fixed=False))
    for how in ("none", "add", "mul", "max", "min"):
        yield _row("ScatterND", T(3, 4), given([[0], [2]], fixed=False), T(2, 4), reduction=how)
    flags = given([True, False, True], "bool", fixed=False)
    yield _row("Compress", T(3, 4), flags, axis=0)
    yield _row("Compress", T(3, 4), flags)
    yield _row("Unique", T(12), outputs=4)
    places = _Arg("T", (5,), lambda rng, kind, shape: np.array([0, 1, 2, 3, 1]).astype(kind))
    below = _Arg("T", (5,), lambda rng, kind, shape: np.array([0, -1, 7, -4, -5]).astype(kind))
    depth = given([4], "i64")
    for axis in (-1, 0):
        numbers = INTEGERS + FLOATS
        yield _row("OneHot", places, depth, U(2), axis=axis, kinds=numbers, others=tuple(KINDS))
        yield _row("OneHot", below, depth, U(2), axis=axis, kinds=SIGNED + FLOATS, others=tuple(KINDS))
    halves = _Arg("T", (5,), lambda rng, kind, shape: np.array([0.4, 1.6, -0.5, -1.5, 2.9]).astype(kind))
    yield _row("OneHot", halves, depth, U(2), kinds=FLOATS, others=("f32", "i64"))
    for kind in KINDS:
        yield _row("OneHot", given([0, 2, 3]), given([4], kind), U(2), kinds=("i64",), others=("f32",))


def _windows() -> Iterator[Row]:
    image, taps = T(1, 2, 5, 6), {"kernel_shape": [2, 3]}
    yield _row("MaxPool", image, **taps)
    yield _row("MaxPool", image, **taps, outputs=2, strides=[2, 2], pads=[1, 1, 0, 1], draws=(small, reals))
    yield _row("AveragePool", image, **taps, pads=[1, 1, 1, 1])
    yield _row("LpPool", image, **taps)
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield _row(op, image)
    yield _row("Conv", image, T(3, 2, 2, 2), T(3))
    yield _row("Conv", image, T(4, 1, 3, 3, fixed=True), group=2, pads=[1, 1, 1, 1])
    yield _row("ConvTranspose", image, T(2, 3, 2, 2), T(3), strides=[2, 1])
    yield _row("Gemm", T(3, 4), T(4, 5), T(5))
    yield _row("Gemm", T(4, 3), T(5, 4), T(1, 5), transA=1, transB=1, alpha=2.0, beta=3.0)
    yield _row("MatMul", T(2, 3, 4), T(4, 5))
    yield _row("MatMul", T(3, 4), T(4), draws=BOTH, kinds=INTEGERS)
    yield _row("Col2Im", T(1, 8, 6), given([3, 4]), given([2, 2]))
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        weights = T(1, gates * 3, 2), T(1, gates * 3, 3), T(1, 2 * gates * 3)
        yield _row(op, T(4, 2, 2), *weights, hidden_size=3, outputs=2)


def _quantised() -> Iterator[Row]:
    for floats in ("f32", "f16"):
        scale = given(0.05, floats)
        real = _Arg("", (), None, np.linspace(-20, 20, 60).reshape(3, 20).astype(KINDS[floats]))
        yield _row("QuantizeLinear", real, scale, T(fixed=True), kinds=INTEGERS)
        yield _row("DequantizeLinear", T(3, 20), scale, T(fixed=True), kinds=INTEGERS, draws=BOTH)
    for a in ("i8", "u8"):
        yield _row("MatMulInteger", given(np.arange(12).reshape(3, 4), a, fixed=False), T(4, 5), kinds=("i8", "u8"))
        image = given(np.arange(18).reshape(1, 1, 3, 6), a, fixed=False)
        yield _row("ConvInteger", image, T(2, 1, 2, 2), kinds=("i8", "u8"))
    kinds, scales = ("i8", "u8"), (given(0.053, "f32"), given(0.101, "f32"), given(0.317, "f32"))
    a, b, y = scales
    zero = T(fixed=True, draw=small)
    yield _row("QLinearMatMul", T(3, 4, draw=wide), a, zero, T(4, 5, draw=wide), b, zero, y, zero, kinds=kinds)
    image, taps = T(1, 2, 5, 6, draw=wide), T(3, 2, 2, 2, draw=wide, fixed=True)
    yield _row("QLinearConv", image, a, zero, taps, b, T(fixed=True, draw=lambda *g: g[1](0)), y, zero, kinds=kinds)


def _signals() -> Iterator[Row]:
    for mode in ("linear", "nearest"):
        yield _row("GridSample", T(1, 2, 4, 5), U(1, 3, 3, 2, draw=unit), others=FLOATS, mode=mode, opset=20)
    boxes = T(2, 4, draw=lambda rng, kind, shape: np.cumsum(unit(rng, kind, shape), axis=1))
    yield _row("RoiAlign", T(1, 2, 6, 6, draw=above), boxes, given([0, 0]), output_width=2, sampling_ratio=2)
    corners = np.array([[0, 0, 0, 3, 3], [0, 1, 2, 5, 4]])
    regions = T(2, 5, draw=lambda rng, kind, shape: corners.astype(unit(rng, kind, shape).dtype))
    yield _row("MaxRoiPool", T(1, 2, 6, 6), regions, pooled_shape=[2, 2])
    yield _row("DeformConv", T(1, 2, 5, 5), T(3, 2, 2, 2), T(1, 8, 4, 4), opset=22)
    yield _row("DFT", T(2, 16, 1), opset=20)  # onnxruntime is inexact at other lengths than powers of 2
    yield _row("STFT", T(1, 40, 1), given(5), LEFT_OUT, given(12))
    yield _row("MelWeightMatrix", given(6), given(64), given(8000), T(draw=unit, fixed=True), T(draw=_high, fixed=True))
    yield _row("SimplifiedLayerNormalization", T(3, 20), T(20, draw=unit))


def _high(rng: np.random.Generator, kind: Any, shape: tuple[int, ...]) -> Array:
    """A frequency below half of 8000 Hz."""
    return np.full(shape, min(3000, np.iinfo(kind).max if np.issubdtype(kind, np.integer) else 3000)).astype(kind)


def everything() -> Iterator[Single]:
    """Every case of the table, in order; the same each time."""
    rng = np.random.default_rng(20261122)
    for number, row in enumerate(rows()):
        for kind in row.kinds:
            for other in row.others:
                for draw in row.draws:
                    yield _single(rng, number, row, {"T": kind, "U": other}, draw)


def _single(rng: np.random.Generator, number: int, row: Row, kinds: Mapping[str, str], draw: Draw) -> Single:
    arrays: list[Array | None] = []
    for arg in row.args:
        if arg.array is not None:
            arrays.append(arg.array)
        elif arg.var:
            arrays.append(np.asarray((arg.draw or draw)(rng, KINDS[kinds[arg.var]], arg.shape)))
        else:
            arrays.append(None)
    more = row.by_type(kinds["T"], kinds["U"]) if row.by_type else {}
    types = "".join(f" {k}" for k in kinds.values() if k)
    fixed = frozenset(k for k, a in enumerate(row.args) if a.fixed)
    name = f"{row.op} #{number}{types} {draw.__name__}"
    return Single(name, row.op, tuple(arrays), fixed, {**row.attributes, **more}, row.outputs, row.opset)


def model_of(singles: Sequence[Single]) -> tuple[onnx.ModelProto, list[Array]]:
    """A model with a node for each case (all of one opset), and the arrays of its inputs in order."""
    nodes, inputs, outputs, constants, arrays = [], [], [], [], []
    for k, single in enumerate(singles):
        names = [f"n{k}_i{j}" if a is not None else "" for j, a in enumerate(single.inputs)]
        for j, (name, array) in enumerate(zip(names, single.inputs, strict=True)):
            if array is None:
                continue
            if j in single.fixed:
                constants.append(numpy_helper.from_array(array, name))
            else:
                code = helper.np_dtype_to_tensor_dtype(array.dtype)
                inputs.append(helper.make_tensor_value_info(name, code, array.shape))
                arrays.append(array)
        made = [f"n{k}_o{j}" for j in range(single.outputs)]
        nodes.append(helper.make_node(single.op, names, made, **single.attributes))
        outputs += [onnx.ValueInfoProto(name=name) for name in made]
    graph = helper.make_graph(nodes, "cases", inputs, outputs, constants)
    opset = [helper.make_opsetid("", singles[0].opset)]
    return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION), arrays
