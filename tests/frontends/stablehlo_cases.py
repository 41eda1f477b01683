"""Models of one operator: those of StableHLO that LiteRT has, windows, gaps, tables, and what is rare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from real_cases import SAME, VALID, Case, Const, Held, binary, unary, weights

__all__ = ["RARE"]

MEANING = (0.05, 0)


def long(*numbers: int) -> np.ndarray:
    return np.asarray(numbers, np.int64)


def pair(op: str, kind: str, shape: tuple[int, ...] = (2, 5), **by: Any) -> Case:
    return binary(op, kind, shape, shape, **by)


def shifted(kind: str) -> Case:
    return pair("STABLEHLO_SHIFT_LEFT", kind, right={"minimum": 0, "maximum": 7})


def padded(x: Held, low: Sequence[int], high: Sequence[int], gaps: Sequence[int], fill: Any = None) -> Case:
    fields = {"EdgePaddingLow": long(*low), "EdgePaddingHigh": long(*high), "InteriorPadding": long(*gaps)}
    value = Held((), x.dtype, x.minimum, x.maximum) if fill is None else Const(fill, x.dtype)
    return Case("STABLEHLO_PAD", (x, value), (x.dtype,), "StablehloPadOptions", fields)


def dilated(x: Held, *steps: int, fill: Any = None) -> Case:
    value = Held((), x.dtype, x.minimum, x.maximum) if fill is None else Const(fill, x.dtype)
    return Case("DILATE", (x, Const(steps), value), (x.dtype,), "DilateOptions")


def windows(
    x: Held, how: int, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], first: Any
) -> Case:  # fmt: skip
    value = Held((), x.dtype, x.minimum, x.maximum) if first is None else Const(first, x.dtype)
    consts = (Const(n, "int64") for n in (kernel, stride, dilation))
    return Case("REDUCE_WINDOW", (x, value, *consts), (x.dtype,), "ReduceWindowOptions", {"ReduceFunction": how})


def reduced(
    x: Held, body: str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], spread: Sequence[int],
    border: Sequence[int], first: Any = None,
) -> Case:  # fmt: skip
    value = Held((), x.dtype, x.minimum, x.maximum) if first is None else Const(first, x.dtype)
    fields = {"WindowDimensions": long(*kernel), "WindowStrides": long(*stride), "WindowDilations": long(*dilation),
              "BaseDilations": long(*spread), "Padding": long(*border), "BodySubgraphIndex": 1}  # fmt: skip
    return Case(
        "STABLEHLO_REDUCE_WINDOW", (x, value), (x.dtype,), "StablehloReduceWindowOptions", fields, body=body
    )


def gathered(
    shape: tuple[int, ...], at: Held | Const, sizes: Sequence[int], maps: Sequence[int], collapsed: Sequence[int],
    offsets: Sequence[int], vector: int, kind: str = "float32",
) -> Case:  # fmt: skip
    fields = {"OffsetDims": long(*offsets), "CollapsedSliceDims": long(*collapsed), "StartIndexMap": long(*maps),
              "SliceSizes": long(*sizes), "IndexVectorDim": vector}  # fmt: skip
    batch = [d for k, d in enumerate(np.shape(at.data) if isinstance(at, Const) else at.shape) if k != vector]
    kept = [d for k, d in enumerate(sizes) if k not in collapsed]
    out = tuple(kept.pop(0) if k in offsets else batch.pop(0) for k in range(len(batch) + len(kept)))
    return Case("STABLEHLO_GATHER", (Held(shape, kind), at), (kind,), "StablehloGatherOptions", fields, shape=out)


def scattered(
    shape: tuple[int, ...], at: Held | Const, updates: tuple[int, ...], windows: Sequence[int], inserted: Sequence[int],
    maps: Sequence[int], vector: int, body: str, kind: str = "float32",
) -> Case:  # fmt: skip
    fields = {"UpdateWindowDims": long(*windows), "InsertedWindowDims": long(*inserted),
              "ScatterDimsToOperandDims": long(*maps), "IndexVectorDim": vector,
              "UpdateComputationSubgraphIndex": 1}  # fmt: skip
    inputs = (Held(shape, kind), at, Held(updates, kind))
    return Case("STABLEHLO_SCATTER", inputs, (kind,), "StablehloScatterOptions", fields, body=body)


def transposed(
    image: tuple[int, ...], kernel: tuple[int, ...], out: tuple[int, ...], padding: int, stride: tuple[int, ...],
    dilation: tuple[int, ...] = (1, 1, 1), bias: bool = False, act: int = 0, held: bool = False,
) -> Case:  # fmt: skip
    taps = Held(kernel) if held else weights(*kernel)
    inputs = (Const(out), taps, Held(image), *([weights(kernel[3])] if bias else []))
    fields = {f"Stride{c}": s for c, s in zip("DHW", stride, strict=True)}
    fields |= {f"Dilation{c}Factor": d for c, d in zip("DHW", dilation, strict=True)}
    fields |= {"Padding": padding, "FusedActivationFunction": act}
    return Case("CONV_3D_TRANSPOSE", inputs, options="Conv3DOptions", fields=fields)


def dense(at: Held | Const, shape: Sequence[int], values: Held, fill: Any = 0) -> Case:
    default = Held((), values.dtype, values.minimum, values.maximum) if fill is None else Const(fill, values.dtype)
    return Case("SPARSE_TO_DENSE", (at, Const(shape), values, default), (values.dtype,), "SparseToDenseOptions",
                {"ValidateIndices": False})  # fmt: skip


def sparse_rows(how: int, shape: Sequence[int] = (3, 2)) -> Case:
    places = [[0, 0], [0, 1], [2, 0], [2, 1]] if len(shape) == 2 else [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]]
    weighed = Const([1.5, 2.0, 0.5, 3.0], "float32")
    inputs = (Held((4,), "int32", 0, 4), Const(places), Const(shape), weighed, Held((5, 3)))
    return Case("EMBEDDING_LOOKUP_SPARSE", inputs, options="EmbeddingLookupSparseOptions", fields={"Combiner": how})


def looked_up(value: Held, keys: Sequence[int]) -> Case:
    inputs = (Held((6,), "int32", -2, 6), Const(keys), value)
    return Case("HASHTABLE_LOOKUP", inputs, (value.dtype, "uint8"))


F = (2, 3, 5)
RARE = {
    **{f"{op} {k}": pair(op, k, **({"left": {"minimum": -9, "maximum": 9}} if k != "float32" else {}))
       for op in ("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")
       for k in ("float32", "int32", "int64", "int8", "bool")},
    "STABLEHLO_ADD int16": pair("STABLEHLO_ADD", "int16", left={"minimum": -30000, "maximum": 30000}),
    **{f"STABLEHLO_AND {k}": pair("STABLEHLO_AND", k) for k in ("int32", "bool", "int8")},
    **{f"STABLEHLO_SHIFT_LEFT {k}": shifted(k) for k in ("int32", "int16", "int8")},
    "STABLEHLO_PAD": padded(Held(F), (0, 1, 2), (1, 0, 3), (0, 0, 0), 1.5),
    "STABLEHLO_PAD gaps": padded(Held(F), (0, 1, -1), (1, -1, 0), (1, 2, 0), -2.0),
    "STABLEHLO_PAD computed": padded(Held(F), (1, 0, -2), (0, 2, -1), (0, 1, 1)),
    "STABLEHLO_PAD cut": padded(Held((4, 7), "int32"), (-1, -4), (-1, -5), (0, 2), 9),
    "STABLEHLO_PAD bool": padded(Held((4, 7), "bool"), (1, 0), (0, 2), (1, 0), True),
    "STABLEHLO_PAD int8": padded(Held((5,), "int8", -99, 99), (1,), (2,), (3,), -128),
    "DILATE": dilated(Held(F), 1, 2, 3, fill=-1.5),
    "DILATE computed": dilated(Held(F), 3, 1, 1),
    "DILATE one": dilated(Held((4,), "int32"), 1, fill=2),
    "DILATE int8": dilated(Held((2, 3), "int8", -99, 99), 2, 2, fill=-128),
    **{f"REDUCE_WINDOW {how} {k}": windows(Held((4, 6, 5), k, -3, 3), how, (2, 1, 3), (1, 2, 1), (2, 1, 1), first)
       for how, first in ((1, 0), (2, 1), (3, None), (4, -2)) for k in ("float32", "int32")},
    **{f"REDUCE_WINDOW {how} bool": windows(Held((4, 6), "bool"), how, (1, 2), (1, 1), (1, 3), first)
       for how, first in ((5, True), (6, False), (6, None))},
    "REDUCE_WINDOW int8": windows(Held((4, 6), "int8", -99, 99), 1, (2, 3), (2, 3), (1, 1), 5),
    **{f"STABLEHLO_REDUCE_WINDOW {body}": reduced(Held((2, 5, 6)), body, (1, 2, 3), (1, 1, 2), (1, 2, 1), (1, 2, 1),
       (0, 0, 1, -1, 0, 2), first) for body, first in (("STABLEHLO_ADD", 0.0), ("STABLEHLO_MULTIPLY", 1.0),
       ("STABLEHLO_MAXIMUM", -100.0), ("STABLEHLO_MINIMUM", None), ("ADD", None), ("MAXIMUM", 0.5))},
    "STABLEHLO_REDUCE_WINDOW pool": reduced(Held((1, 5, 6, 2)), "STABLEHLO_MAXIMUM", (1, 3, 3, 1), (1, 2, 2, 1),
                                            (1,) * 4, (1,) * 4, (0, 0, 1, 1, 0, 1, 0, 0), -np.inf),
    "STABLEHLO_REDUCE_WINDOW bool": reduced(Held((4, 6), "bool"), "LOGICAL_OR", (2, 2), (1, 1), (1, 1), (1, 1),
                                            (1, 0, 0, 1), False),
    "STABLEHLO_REDUCE_WINDOW int32": reduced(Held((3, 6), "int32", -9, 9), "STABLEHLO_ADD", (1, 6), (1, 1), (1, 1),
                                             (1, 1), (0, 0, 5, 0), 0),
    "STABLEHLO_GATHER rows": gathered((5, 4, 3), Held((2, 1), "int32", -2, 7), (1, 4, 3), (0,), (0,), (1, 2), 1),
    "STABLEHLO_GATHER parts": gathered((5, 4, 3), Held((3, 2), "int32", -1, 5), (2, 1, 3), (1, 0), (1,), (0, 2), 1),
    "STABLEHLO_GATHER first axis": gathered((5, 6), Held((2, 4), "int64", -2, 7), (2, 3), (0, 1), (), (0, 2), 0),
    "STABLEHLO_GATHER last": gathered((4, 6), Held((3, 1), "int32", 0, 6), (4, 2), (1,), (), (0, 1), 1, "int32"),
    "STABLEHLO_GATHER int8": gathered((4, 6), Const([[1, 2], [3, 0]]), (1, 2), (0, 1), (0,), (1,), 1, "int8"),
    **{f"STABLEHLO_SCATTER {body or 'update'}": scattered((6, 4), Held((3, 1), "int32", -1, 7), (3, 4), (1,),
       (0,), (0,), 1, body) for body in ("", *(f"STABLEHLO_{k}" for k in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")))},
    "STABLEHLO_SCATTER parts": scattered((5, 6), Held((2, 2), "int32", -1, 6), (2, 2, 3), (1, 2), (), (1, 0),
                                         1, "STABLEHLO_ADD"),
    "STABLEHLO_SCATTER across": scattered((5, 6, 2), Held((2, 3), "int64", -1, 6), (4, 3, 2), (0, 2), (0,), (1, 0), 0,
                                          "STABLEHLO_ADD"),
    "STABLEHLO_SCATTER int": scattered((7,), Held((9, 1), "int32", 0, 6), (9,), (), (0,), (0,), 1, "STABLEHLO_ADD",
                                       "int32"),
    "ATAN2": pair("ATAN2", "float32", (4, 33)),
    "BITCAST float": unary("BITCAST", out="int32", options="BitcastOptions"),
    "BITCAST to float": unary(
        "BITCAST", "int32", out="float32", options="BitcastOptions", minimum=1 << 28, maximum=1 << 30
    ),
    "BITCAST narrower": unary("BITCAST", "int32", out="int8", options="BitcastOptions", minimum=-99999, maximum=99999),
    "BITCAST halves": unary("BITCAST", "int64", out="int16", options="BitcastOptions", minimum=-99999, maximum=99999),
    "BITCAST wider": unary("BITCAST", "int8", (3, 4), out="int32", options="BitcastOptions", minimum=-128, maximum=127),
    "BITCAST widest": unary("BITCAST", "uint8", (3, 8), out="int64", options="BitcastOptions", minimum=0, maximum=255),
    "BITCAST bool": unary("BITCAST", "bool", out="int8", options="BitcastOptions"),
    "FAKE_QUANT": unary("FAKE_QUANT", options="FakeQuantOptions", Min=-1.3, Max=2.2, NumBits=8, NarrowRange=False),
    "FAKE_QUANT coarse": unary("FAKE_QUANT", options="FakeQuantOptions", Min=0.0, Max=3.0, NumBits=3,
                               NarrowRange=False),
    "SPARSE_TO_DENSE": dense(Const([[0, 1], [2, 0], [2, 3]]), (3, 4), Held((3,))),
    "SPARSE_TO_DENSE one": dense(Const([1, 3]), (5,), Held(()), -1.5),
    "SPARSE_TO_DENSE scalar": dense(Const(2, "int64"), (5,), Held((1,), "int32"), None),
    "SPARSE_TO_DENSE held": dense(Held((2, 3), "int32", 0, 1), (2, 3, 2), Held((2,), "int64")),
    "EMBEDDING_LOOKUP_SPARSE sum": sparse_rows(0),
    "EMBEDDING_LOOKUP_SPARSE mean": sparse_rows(1),
    "EMBEDDING_LOOKUP_SPARSE root": sparse_rows(2, (2, 2, 3)),
    "HASHTABLE_LOOKUP": looked_up(Held((4, 3)), (-1, 0, 3, 5)),
    "HASHTABLE_LOOKUP int": looked_up(Held((3,), "int32"), (1, 2, 4)),
    "CONV_3D_TRANSPOSE": transposed((1, 2, 3, 4, 2), (2, 3, 3, 3, 2), (1, 4, 6, 8, 3), SAME, (2, 2, 2)),
    "CONV_3D_TRANSPOSE valid": transposed((2, 2, 3, 2, 2), (2, 3, 2, 3, 2), (2, 4, 5, 4, 3), VALID, (2, 1, 2),
                                          bias=True, act=1),
    "CONV_3D_TRANSPOSE dilated": transposed((1, 3, 3, 3, 2), (2, 2, 2, 1, 2), (1, 5, 5, 6, 1), VALID, (1, 1, 2),
                                            (2, 2, 1), bias=True),
    "CONV_3D_TRANSPOSE computed": transposed((1, 2, 3, 4, 2), (2, 3, 3, 3, 2), (1, 4, 6, 8, 3), SAME, (2, 2, 2),
                                             held=True),
}  # fmt: skip
