"""Networks of floats written layer by layer, as converters write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tflite_files import ModelFile

__all__ = ["LINEAR", "RELU", "RELU6", "SAME", "VALID", "Net"]

LINEAR, RELU, RELU6 = 0, 1, 3
SAME, VALID = 0, 1
# Operators of one input and a result like it: their options, and what is in these.
ALIKE: dict[str, tuple[str, dict[str, Any]]] = {
    "SOFTMAX": ("SoftmaxOptions", {"Beta": 1.0}), "LEAKY_RELU": ("LeakyReluOptions", {"Alpha": 0.2}),
    "LOGISTIC": ("", {}), "TANH": ("", {}), "HARD_SWISH": ("", {}), "RELU": ("", {}), "RELU6": ("", {}),
    "RSQRT": ("", {}), "L2_NORMALIZATION": ("L2NormOptions", {}),
}  # fmt: skip
PAIRS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "SQUARED_DIFFERENCE": "", "MAXIMUM": "",
         "MINIMUM": ""}  # fmt: skip


@dataclass
class Net(ModelFile):
    """A file that is written layer by layer: every method gives the number of the tensor that it makes."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(9))

    def shape(self, x: int) -> tuple[int, ...]:
        return self.tensors[x].shape

    def image(self, *shape: int) -> int:
        return self.input("x", shape, "float32", signature=(-1, *shape[1:]))

    def made(self, op: str, inputs: list[int], shape: Sequence[int], options: str = "", dtype: str = "float32",
             **fields: Any) -> int:  # fmt: skip
        open_ = tuple(-1 if k == 0 else n for k, n in enumerate(shape)) if dtype == "float32" and shape else None
        result = self.tensor(f"t{len(self.tensors)}", shape, dtype, signature=open_)
        self.op(op, inputs, [result], options, **fields)
        return result

    def weights(self, *shape: int, taps: int = 0) -> int:
        """Numbers that keep the size of what they are multiplied with, of which a result sums ``taps``."""
        maximum = 0.5 if not taps else float(np.sqrt(5 / taps))
        return self.const(f"w{len(self.tensors)}", self.rng.uniform(-maximum, maximum, shape), "float32")

    def numbers(self, *values: int) -> int:
        """Integers: axes, sizes, places."""
        return self.const(f"n{len(self.tensors)}", list(values))

    def halves(self, *shape: int) -> int:
        """Weights of half precision, as converters write them: the runtime makes them floats."""
        stored = self.const(f"h{len(self.tensors)}", self.rng.uniform(-0.5, 0.5, shape), "float16")
        found = self.tensor(f"t{len(self.tensors)}", shape, "float32")
        self.op("DEQUANTIZE", [stored], [found])
        return found

    def _window(self, x: int, size: tuple[int, int], stride: int, padding: int, dilation: int) -> tuple[int, int]:
        """Rows and columns of what windows over an image give."""
        sides = zip(self.shape(x)[1:3], size, strict=True)
        reach = [(n, (k - 1) * dilation + 1) for n, k in sides]
        rows, columns = (-(-n // stride) if padding == SAME else (n - k) // stride + 1 for n, k in reach)
        return rows, columns

    def conv(
        self, x: int, channels: int, size: int | tuple[int, int] = 3, stride: int = 1, act: int = RELU,
        dilation: int = 1, padding: int = SAME, halves: bool = False,
    ) -> int:  # fmt: skip
        n, _, _, c = self.shape(x)
        kernel = (size, size) if isinstance(size, int) else size
        shape = (channels, *kernel, c)
        taps = self.halves(*shape) if halves else self.weights(*shape, taps=kernel[0] * kernel[1] * c)
        side = self._window(x, kernel, stride, padding, dilation)
        return self.made("CONV_2D", [x, taps, self.weights(channels)], (n, *side, channels), "Conv2DOptions",
                         FusedActivationFunction=act, Padding=padding, StrideH=stride, StrideW=stride,
                         DilationHFactor=dilation, DilationWFactor=dilation)  # fmt: skip

    def depthwise(self, x: int, size: int = 3, stride: int = 1, act: int = RELU6, dilation: int = 1,
                  multiplier: int = 1) -> int:  # fmt: skip
        n, _, _, c = self.shape(x)
        out, side = c * multiplier, self._window(x, (size, size), stride, SAME, dilation)
        taps = self.weights(1, size, size, out, taps=size * size)
        return self.made("DEPTHWISE_CONV_2D", [x, taps, self.weights(out)], (n, *side, out), "DepthwiseConv2DOptions",
                         DepthMultiplier=multiplier, FusedActivationFunction=act, Padding=SAME, StrideH=stride,
                         StrideW=stride, DilationHFactor=dilation, DilationWFactor=dilation)  # fmt: skip

    def up(self, x: int, channels: int, stride: int = 2) -> int:
        """A transposed convolution to a larger image."""
        n, h, w, c = self.shape(x)
        shape = (n, h * stride, w * stride, channels)
        taps = self.weights(channels, 2, 2, c, taps=4 * c)
        return self.made("TRANSPOSE_CONV", [self.numbers(*shape), taps, x], shape, "TransposeConvOptions",
                         Padding=SAME, StrideH=stride, StrideW=stride)  # fmt: skip

    def dense(self, x: int, channels: int, act: int = LINEAR, keep: bool = False, halves: bool = False) -> int:
        *outer, inner = self.shape(x)
        taps = self.halves(channels, inner) if halves else self.weights(channels, inner, taps=inner)
        return self.made("FULLY_CONNECTED", [x, taps, self.weights(channels)], (*outer, channels),
                         "FullyConnectedOptions", FusedActivationFunction=act, KeepNumDims=keep)  # fmt: skip

    def alike(self, op: str, x: int) -> int:
        options, fields = ALIKE[op]
        return self.made(op, [x], self.shape(x), options, **fields)

    def pair(self, op: str, x: int, y: int | float, act: int = LINEAR) -> int:
        if isinstance(y, float):
            y = self.const(f"k{len(self.tensors)}", np.float32(y), "float32")
        shape = np.broadcast_shapes(self.shape(x), self.shape(y))
        fields = {"FusedActivationFunction": act} if PAIRS[op] and op != "SQUARED_DIFFERENCE" else {}
        return self.made(op, [x, y], shape, PAIRS[op], **fields)

    def prelu(self, x: int) -> int:
        slopes = self.const(f"w{len(self.tensors)}", self.rng.uniform(0, 0.5, (1, 1, self.shape(x)[-1])), "float32")
        return self.made("PRELU", [x, slopes], self.shape(x))

    def pool(self, op: str, x: int, size: int = 2, stride: int = 2, padding: int = SAME) -> int:
        n, _, _, c = self.shape(x)
        side = self._window(x, (size, size), stride, padding, 1)
        return self.made(op, [x], (n, *side, c), "Pool2DOptions", Padding=padding, StrideH=stride, StrideW=stride,
                         FilterHeight=size, FilterWidth=size)  # fmt: skip

    def reduced(self, op: str, x: int, axes: Sequence[int], keep: bool = False) -> int:
        shape = [1 if k in axes else n for k, n in enumerate(self.shape(x)) if keep or k not in axes]
        return self.made(op, [x, self.numbers(*axes)], shape, "ReducerOptions", KeepDims=keep)

    def resized(self, op: str, x: int, rows: int, columns: int, **fields: bool) -> int:
        n, _, _, c = self.shape(x)
        name = "ResizeBilinearOptions" if op == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
        return self.made(op, [x, self.numbers(rows, columns)], (n, rows, columns, c), name, **fields)

    def joined(self, *xs: int, axis: int = 3) -> int:
        shape = list(self.shape(xs[0]))
        shape[axis] = sum(self.shape(x)[axis] for x in xs)
        return self.made("CONCATENATION", list(xs), shape, "ConcatenationOptions", Axis=axis)

    def reshaped(self, x: int, *shape: int) -> int:
        """The first extent is what is left, as the batch may be open."""
        return self.made("RESHAPE", [x, self.numbers(-1, *shape[1:])], shape, "ReshapeOptions")

    def transposed(self, x: int, *order: int) -> int:
        return self.made("TRANSPOSE", [x, self.numbers(*order)], [self.shape(x)[k] for k in order])

    def padded(self, x: int, *pads: tuple[int, int], mirror: bool = False) -> int:
        shape = [lo + n + hi for n, (lo, hi) in zip(self.shape(x), pads, strict=True)]
        table = self.const(f"n{len(self.tensors)}", pads)
        if mirror:
            return self.made("MIRROR_PAD", [x, table], shape, "MirrorPadOptions", Mode=0)
        return self.made("PAD", [x, table], shape)

    def split(self, x: int, count: int) -> list[int]:
        """Parts of the last axis."""
        *outer, inner = self.shape(x)
        axis = self.const(f"n{len(self.tensors)}", len(outer))
        parts = [self.tensor(f"t{len(self.tensors)}", (*outer, inner // count), "float32") for _ in range(count)]
        self.op("SPLIT", [axis, x], parts, "SplitOptions", NumSplits=count)
        return parts

    def product(self, x: int, y: int, second: bool = False) -> int:
        """Of matrices; of the transposed ``second``."""
        shape = (*self.shape(x)[:-1], self.shape(y)[-2 if second else -1])
        return self.made("BATCH_MATMUL", [x, y], shape, "BatchMatMulOptions", AdjX=False, AdjY=second)

    def embedded(self, words: int, count: int, width: int) -> int:
        """A row of a table for each of ``words``, numbers below ``count``."""
        table = self.weights(count, width)
        return self.made("GATHER", [table, words], (*self.shape(words), width), "GatherOptions", Axis=0)

    def best(self, x: int) -> int:
        """The place of the largest of the last axis."""
        axis = self.const(f"n{len(self.tensors)}", len(self.shape(x)) - 1)
        return self.made("ARG_MAX", [x, axis], self.shape(x)[:-1], "ArgMaxOptions", "int32", OutputType=2)

    def flat(self, x: int) -> int:
        """Keras' Flatten: the batch out of the shape, packed with -1."""
        shape = self.shape(x)
        sizes = self.made("SHAPE", [x], (len(shape),), "ShapeOptions", "int32", OutType=2)
        ends = [self.const(f"e{k}", [v]) for k, v in enumerate((0, 1, 1))]
        batch = self.made("STRIDED_SLICE", [sizes, *ends], (), "StridedSliceOptions", "int32", ShrinkAxisMask=1)
        rest = self.const("rest", int(np.prod(shape[1:])))
        wanted = self.made("PACK", [batch, rest], (2,), "PackOptions", "int32", Axis=0, ValuesCount=2)
        return self.made("RESHAPE", [x, wanted], (shape[0], int(np.prod(shape[1:]))), "ReshapeOptions")

    def ended(self, *results: int) -> Net:
        self.outputs[:] = results
        return self

    def finished(self, *results: int) -> bytes:
        return self.ended(*results).build()
