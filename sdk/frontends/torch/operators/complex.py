"""ATen operators on complex numbers: their parts, arithmetic, functions, Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.sym import Dim, product
from sdk.frontends.moves import part, spread, swap_axes
from sdk.frontends.spectra import spectrum
from sdk.frontends.torch.complex import Complex, on_complex, parts_of, zeros
from sdk.frontends.torch.context import OPERATORS, TorchNode, aten

__all__: list[str] = []
_WITHIN: Final = ("greater", "less_equal")
One = TypeVar("One", bound=Callable[..., Any])


def _only(*names: str) -> Callable[[One], One]:
    """Registers what is known for complex numbers, or makes them: the same whether an argument is one or not."""

    def register(function: One) -> One:
        aten(*names)(function)
        return on_complex(*names)(function)

    return register


def _pair(node: TorchNode, given: Any) -> tuple[Value, Value | None]:
    """The parts of a tensor or a number, in the result's type; None for an imaginary one that is not there."""
    re, im = parts_of(given)
    return node.tensor(re, node.kind), None if im is None else node.tensor(im, node.kind)


def _whole(node: TorchNode, re: Value, im: Value | None) -> Complex:
    return Complex(re, zeros(node, re) if im is None else im)


def _sum(node: TorchNode, op: str, a: Value | None, b: Value | None) -> Value | None:
    """a + b or a - b of what there is."""
    if b is None:
        return a
    if a is None:
        return node.call("neg", b) if op == "sub" else b
    return node.call(op, a, b)


# --- parts --------------------------------------------------------------------------------------------------------


@_only("complex.default")
def complex_(node: TorchNode, re: Value, im: Value) -> Complex:
    """Numbers of given parts, which broadcast."""
    return Complex(*(spread(node, v, node.out.shape) for v in (re, im)))


@_only("polar.default")
def polar(node: TorchNode, size: Value, angle: Value) -> Complex:
    """Numbers of given absolute values and angles."""
    return Complex(*(node.call("mul", size, node.call(f, angle)) for f in ("cos", "sin")))


@_only("view_as_complex.default", "view_as_complex_copy.default")
def view_as_complex(node: TorchNode, x: Value) -> Complex:
    """The last axis, of two, as parts."""
    last, shape = x.type.rank - 1, x.type.shape[:-1]
    return Complex(*(node.call("reshape", part(node, x, last, k, 1), shape=shape) for k in (0, 1)))


@_only("view_as_real.default", "view_as_real_copy.default")
def view_as_real(node: TorchNode, x: Complex) -> Value:
    """Parts as a last axis of two."""
    shape = (*x.type.shape, 1)
    return node.call("concat", *(node.call("reshape", v, shape=shape) for v in (x.re, x.im)), axis=len(shape) - 1)


@_only("real.default")
def real(node: TorchNode, x: Value | Complex) -> Value:
    """The real part."""
    return x.re if isinstance(x, Complex) else x


@_only("imag.default")
def imag(node: TorchNode, x: Complex) -> Value:
    """The imaginary part."""
    return x.im


@_only("_conj.default", "_conj_physical.default", "conj.default", "conj_physical.default")
def conj(node: TorchNode, x: Value | Complex) -> Value | Complex:
    """The conjugate."""
    return Complex(x.re, node.call("neg", x.im)) if isinstance(x, Complex) else x


@_only("resolve_conj.default", "resolve_neg.default")
def resolved(node: TorchNode, x: Value | Complex) -> Value | Complex:
    """The same: nothing is put off here."""
    return x


@on_complex("_to_copy.default", "to.dtype", "to.dtype_layout", "to.device", "to.other")
def cast(node: TorchNode, x: Value | Complex, *_: Any, **__: Any) -> Any:
    """From one of the types to another."""
    re, im = _pair(node, x)
    return _whole(node, re, im) if node.complex else re


# --- arithmetic ---------------------------------------------------------------------------------------------------


def _bilinear(node: TorchNode, times: Callable[[Value, Value], Value], x: Any, y: Any) -> Complex:
    """What a product of reals makes of complex numbers."""
    (a, b), (c, d) = _pair(node, x), _pair(node, y)
    re = _sum(node, "sub", times(a, c), None if b is None or d is None else times(b, d))
    im = _sum(node, "add", None if d is None else times(a, d), None if b is None else times(b, c))
    assert re is not None
    return _whole(node, re, im)


@on_complex("mul.Tensor", "mul.Scalar")
def mul(node: TorchNode, a: Any, b: Any) -> Complex:
    """A product."""
    return _bilinear(node, lambda x, y: node.call("mul", x, y), a, b)


@on_complex("square.default")
def square(node: TorchNode, x: Complex) -> Complex:
    """The square."""
    return mul(node, x, x)


def _inverted(node: TorchNode, re: Value, im: Value) -> Complex:
    """1 / z, scaled by the larger part first, so that no square overflows."""
    largest = node.call("maximum", node.call("abs", re), node.call("abs", im))
    a, b = (node.call("div", v, largest) for v in (re, im))
    total = node.call("add", node.call("mul", re, a), node.call("mul", im, b))
    return Complex(node.call("div", a, total), node.call("neg", node.call("div", b, total)))


@on_complex("div.Tensor", "div.Scalar")
def div(node: TorchNode, a: Any, b: Any) -> Complex:
    """A quotient."""
    c, d = _pair(node, b)
    if d is None:
        re, im = _pair(node, a)
        return _whole(node, node.call("div", re, c), None if im is None else node.call("div", im, c))
    return mul(node, a, _inverted(node, c, d))


@on_complex("reciprocal.default")
def reciprocal(node: TorchNode, x: Complex) -> Complex:
    """1 / x."""
    return _inverted(node, x.re, x.im)


@on_complex("pow.Tensor_Scalar")
def power(node: TorchNode, x: Complex, exponent: Any) -> Any:
    """A whole power from 1 to 16, by squares."""
    if not isinstance(exponent, (int, float)) or exponent != int(exponent) or not 1 <= exponent <= 16:
        node.fail(f"complex numbers to the power of {exponent} are not supported", hint="use a power from 1 to 16")
    found, base = None, x
    for k in range(int(exponent).bit_length()):
        base = square(node, base) if k else base
        if int(exponent) >> k & 1:
            found = base if found is None else mul(node, found, base)
    return found


@on_complex("matmul.default", "mm.default", "bmm.default", "mv.default", "dot.default")
def matmul(node: TorchNode, a: Any, b: Any) -> Complex:
    """A product of matrices."""
    return _bilinear(node, lambda x, y: _made(OPERATORS[node.target](node, x, y)), a, b)


@on_complex("linear.default")
def linear(node: TorchNode, x: Any, w: Any, bias: Any = None) -> Complex:
    """x @ w.T + bias."""
    y = _bilinear(node, lambda a, b: _made(OPERATORS["aten.linear.default"](node, a, b)), x, w)
    if bias is None:
        return y
    re, im = _pair(node, bias)
    return Complex(node.call("add", y.re, re), y.im if im is None else node.call("add", y.im, im))


def _made(found: Value | tuple[Value, ...]) -> Value:
    assert isinstance(found, Value)
    return found


# --- functions ----------------------------------------------------------------------------------------------------


@on_complex("abs.default")
def absolute(node: TorchNode, x: Complex) -> Value:
    """The absolute value, from parts divided by the larger one, so that no square overflows."""
    a, b = (node.call("abs", v) for v in (x.re, x.im))
    largest, limits = node.call("maximum", a, b), (0.0, float(np.finfo(node.kind.numpy.name).max))
    above, finite = (node.call(op, largest, node.scalar(v, node.kind)) for op, v in zip(_WITHIN, limits, strict=True))
    by = node.call("where", node.call("and", above, finite), largest, node.scalar(1.0, node.kind))
    a, b = (node.call("div", v, by) for v in (a, b))
    root = node.call("sqrt", node.call("add", node.call("mul", a, a), node.call("mul", b, b)))
    return node.call("mul", largest, root)


@_only("angle.default")
def angle(node: TorchNode, x: Value | Complex) -> Value:
    """The angle from the positive real axis."""
    if not isinstance(x, Complex):
        x = node.cast(x, node.kind)
        none, half = node.scalar(0.0, node.kind), node.scalar(math.pi, node.kind)
        above = node.call("where", node.call("equal", x, x), none, x)  # NaN stays
        return node.call("where", node.call("less", x, none), half, above)
    return _made(OPERATORS["aten.atan2.default"](node, x.im, x.re))


@on_complex("exp.default")
def exp(node: TorchNode, x: Complex) -> Complex:
    """e to the power of x."""
    return polar(node, node.call("exp", x.re), x.im)


@on_complex("log.default")
def log(node: TorchNode, x: Complex) -> Complex:
    """The natural logarithm, its angle from -pi to pi."""
    return Complex(node.call("log", absolute(node, x)), angle(node, x))


# --- Fourier transforms -------------------------------------------------------------------------------------------


def _factor(count: int, normalization: int, inverse: bool) -> float:
    """What a transform of ``count`` numbers is multiplied with, where inverse ones are divided by their count."""
    by = {0: 1.0, 1: 1.0 / math.sqrt(count), 2: 1.0 / count}[normalization]
    return by * count if inverse else by


def _line(node: TorchNode, x: Value | Complex, axis: int, length: Dim, inverse: bool, half: bool) -> Any:
    """Transforms along one axis; ``half``: of real numbers, or to them, of which half a spectrum is enough."""
    if not isinstance(length, int):
        node.fail("the axis of a Fourier transform has an open size", hint="leave this size fixed: pad to a length")
    values = (x.re, x.im) if isinstance(x, Complex) else (x,)
    order = [k for k in range(x.type.rank) if k != axis] + [axis]
    lead = tuple(x.type.shape[k] for k in order[:-1])
    lines = [
        node.call("reshape", swap_axes(node, v, order), shape=(product(lead), 1, v.type.shape[axis])) for v in values
    ]
    rows = lines[0] if len(lines) == 1 else node.call("concat", *lines, axis=1)
    y = spectrum(node, rows, length, inverse, half)
    back = [order.index(k) for k in range(x.type.rank)]
    found = [
        swap_axes(node, node.call("reshape", part(node, y, 1, k, 1), shape=(*lead, y.type.shape[2])), back)
        for k in range(1 if inverse and half else 2)
    ]
    return found[0] if len(found) == 1 else Complex(*found)


def _times(node: TorchNode, x: Any, factor: float) -> Any:
    if factor == 1.0:
        return x
    if isinstance(x, Complex):
        return Complex(_times(node, x.re, factor), _times(node, x.im, factor))
    return node.call("mul", x, node.scalar(factor, x.type))


def _lengths(node: TorchNode, shape: Sequence[Dim], axes: Sequence[int]) -> int:
    """How many numbers a transform over some axes has."""
    sizes = [shape[k] for k in axes]
    if not all(isinstance(s, int) for s in sizes):
        node.fail("the axis of a Fourier transform has an open size", hint="leave this size fixed: pad to a length")
    return math.prod(int(str(s)) for s in sizes)


@_only("_fft_r2c.default")
def fft_r2c(node: TorchNode, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """The spectrum of real numbers; of the last axis half of it where that is all that is wanted."""
    axes = [node.axis(k, x.type.rank) for k in dim]
    count = _lengths(node, x.type.shape, axes)
    y = _line(node, x, axes[-1], x.type.shape[axes[-1]], inverse=False, half=onesided)
    for axis in axes[:-1]:
        y = _line(node, y, axis, x.type.shape[axis], inverse=False, half=False)
    return _times(node, y, _factor(count, normalization, inverse=False))


@_only("_fft_c2c.default")
def fft_c2c(node: TorchNode, x: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    """The spectrum of complex numbers, or back."""
    axes = [node.axis(k, x.type.rank) for k in dim]
    count = _lengths(node, x.type.shape, axes)
    y: Any = x
    for axis in axes:
        y = _line(node, y, axis, x.type.shape[axis], inverse=not forward, half=False)
    return _times(node, y, _factor(count, normalization, not forward))


@_only("_fft_c2r.default")
def fft_c2r(node: TorchNode, x: Complex, dim: Sequence[int], normalization: int, last: int) -> Any:
    """Real numbers of half a spectrum."""
    axes = [node.axis(k, x.type.rank) for k in dim]
    count = _lengths(node, x.type.shape, axes[:-1]) * last
    y: Any = x
    for axis in axes[:-1]:
        y = _line(node, y, axis, x.type.shape[axis], inverse=True, half=False)
    return _times(node, _line(node, y, axes[-1], last, inverse=True, half=True), _factor(count, normalization, True))
