"""Complex numbers: tensors of floats with a last axis of two, the real and the imaginary part."""

from __future__ import annotations

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32
from sdk.compiler.ops.shapes import same_extent
from sdk.compiler.sym import Dim, product
from sdk.errors import BuildError
from sdk.frontends.moves import padded, part
from sdk.frontends.spectra import spectrum
from sdk.frontends.tflite.context import OpNode, Table
from sdk.frontends.tflite.operators.real.common import axis_of

__all__ = ["COMPLEX", "OF_COMPLEX", "TABLE", "complex_abs", "imaginary", "keep_complex", "real"]

COMPLEX = "COMPLEX64"  # as the schema calls it


def _input(node: OpNode, k: int = 0) -> Value:
    """Input ``k`` as f32[.., 2].

    Raises:
        BuildError: it is not complex, or is not computed before.
    """
    tensor = node.tensor(k)
    found = node.builder.value(tensor.index)
    if tensor.type_name != COMPLEX or found is None:
        raise BuildError(f"input {k} ({tensor.title}) has type {tensor.type_name}, wanted: {COMPLEX}, computed")
    return found


def keep_complex(node: OpNode, value: Value) -> None:
    """Makes f32[.., 2] the complex output.

    Raises:
        BuildError: the file says another type or shape of it.
    """
    tensor, shape = node.output(), value.type.shape[:-1]
    stated = len(tensor.shape) == len(shape) and all(
        not isinstance(d, int) or d == s for d, s in zip(shape, tensor.shape, strict=True)
    )
    if tensor.type_name != COMPLEX or (tensor.ranked and not stated):
        found = f"complex{list(map(str, shape))}"
        raise BuildError(f"output {tensor.title} is {found}, the file says {tensor.type_name}{list(tensor.shape)}")
    node.bind(0, value)


def rfft2d(node: OpNode) -> None:
    """RFFT2D: inputs (x [.., h, w], lengths of both transforms): the half of the spectrum that says all of it."""
    x, lengths = node.input(0, F32), node.integers(1)
    if x.type.rank < 2 or len(lengths) != 2 or lengths[0] < 1 or lengths[1] < 2:
        raise BuildError(f"transforms of lengths {list(lengths)} of a tensor of rank {x.type.rank}")
    emit, lead = node.emitter, x.type.shape[:-2]
    count = product(lead)
    x = emit.call("reshape", x, shape=(count, *x.type.shape[-2:]))
    for axis, length in enumerate(lengths, 1):  # cut, or with zeros at the end
        have = x.type.shape[axis]
        if not isinstance(have, int):
            raise BuildError(f"the open extent {have} cannot be transformed")
        x = part(emit, x, axis, 0, min(have, length))
        x = padded(emit, x, [(0, max(length - have, 0)) if k == axis else (0, 0) for k in range(3)], value=0.0)
    height, width = lengths
    bins = width // 2 + 1
    rows = spectrum(emit, emit.call("reshape", x, shape=(count * height, 1, width)), width, False, True)
    y = emit.call("reshape", rows, shape=(count, height, 2, bins))
    if height == 1:
        y = emit.call("transpose", y, perm=(0, 1, 3, 2))
    else:
        columns = emit.call("reshape", emit.call("transpose", y, perm=(0, 3, 2, 1)), shape=(count * bins, 2, height))
        full = spectrum(emit, columns, height, False, False)
        y = emit.call("transpose", emit.call("reshape", full, shape=(count, bins, 2, height)), perm=(0, 3, 1, 2))
    keep_complex(node, emit.call("reshape", y, shape=(*lead, height, bins, 2)))


def _parts(node: OpNode) -> tuple[Value, Value]:
    emit, x = node.emitter, _input(node)
    real, imaginary = (
        emit.call("reshape", part(emit, x, x.type.rank - 1, k, 1), shape=x.type.shape[:-1]) for k in (0, 1)
    )
    return real, imaginary


def real(node: OpNode) -> None:
    """REAL: the real parts."""
    found, _ = _parts(node)
    node.call("reshape", found, shape=found.type.shape)


def imaginary(node: OpNode) -> None:
    """IMAG: the imaginary parts."""
    _, found = _parts(node)
    node.call("reshape", found, shape=found.type.shape)


def complex_abs(node: OpNode) -> None:
    """COMPLEX_ABS: the distances from 0."""
    emit = node.emitter
    squares = (emit.call("mul", v, v) for v in _parts(node))
    node.call("sqrt", emit.call("add", *squares))


def _reshaped(node: OpNode, x: Value, shape: tuple[Dim, ...]) -> None:
    if not same_extent(product(shape), product(x.type.shape[:-1])):
        raise BuildError(f"{list(map(str, x.type.shape[:-1]))} elements do not fit the shape {list(map(str, shape))}")
    keep_complex(node, node.emitter.call("reshape", x, shape=(*shape, 2)))


def reshape(node: OpNode) -> None:
    """RESHAPE of complex numbers, to a shape known at import, in which -1 is what is left."""
    x = _input(node)
    given = node.dims(1) if node.has(1) else tuple(int(d) for d in node.option("NewShapeAsNumpy"))
    open_ = [k for k, d in enumerate(given) if isinstance(d, int) and d == -1]
    shape = given
    if len(open_) == 1:
        rest = product(tuple(d for k, d in enumerate(given) if k != open_[0]))
        total = product(x.type.shape[:-1])
        if not isinstance(rest, int) or not isinstance(total, int) or rest < 1 or total % rest:
            raise BuildError(f"{total} elements do not fit the shape {list(map(str, given))}")
        shape = tuple(total // rest if k == open_[0] else d for k, d in enumerate(given))
    _reshaped(node, x, shape)


def expand_dims(node: OpNode) -> None:
    """EXPAND_DIMS of complex numbers."""
    x = _input(node)
    (axis,) = node.integers(1) or (0,)
    at = axis_of(axis, x.type.rank)  # one more than its axes: as many as the result has
    _reshaped(node, x, (*x.type.shape[:at], 1, *x.type.shape[at:-1]))


def squeeze(node: OpNode) -> None:
    """SQUEEZE of complex numbers."""
    x = _input(node)
    shape = x.type.shape[:-1]
    given = tuple(node.option("SqueezeDimsAsNumpy")) if "SqueezeDimsAsNumpy" in node.operator.options else ()
    axes = {axis_of(int(a), len(shape)) for a in given} or {k for k, d in enumerate(shape) if d == 1}
    _reshaped(node, x, tuple(d for k, d in enumerate(shape) if k not in axes))


# What makes complex numbers, or floats of them.
TABLE: Table = {"COMPLEX_ABS": complex_abs, "IMAG": imaginary, "REAL": real, "RFFT2D": rfft2d}
# All that takes complex numbers: operators that take others too have importers of their own for them.
OF_COMPLEX: Table = {
    "COMPLEX_ABS": complex_abs, "EXPAND_DIMS": expand_dims, "IMAG": imaginary, "REAL": real, "RESHAPE": reshape,
    "SQUEEZE": squeeze,
}  # fmt: skip
