"""Complex tensors of an exported program: pairs of real ones. What an operator does with them, where it takes any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import TensorType
from sdk.frontends.moves import spread
from sdk.frontends.torch.context import OPERATORS, Converter, TorchNode

__all__ = [
    "PART_TYPES", "Complex", "converted", "has_complex", "is_complex", "on_complex", "parts_of", "zeros",
]  # fmt: skip


@dataclass(frozen=True)
class Complex:
    """A tensor of complex numbers as two of real ones, of one type."""

    re: Value
    im: Value

    @property
    def type(self) -> TensorType:
        """The type of each part."""
        return self.re.type


PART_TYPES: Final = {"complex64": "float32", "complex128": "float64"}
One = TypeVar("One", bound=Callable[..., Any])

# Operators that do the same to both parts: which of their arguments are the numbers.
_BY_PARTS: Final[Mapping[str, tuple[int, ...]]] = {
    f"aten.{name}": places
    for places, names in {
        (0,): (
            "_reshape_copy.default", "_unsafe_view.default", "alias.default", "cat.default", "chunk.default",
            "clone.default", "constant_pad_nd.default", "contiguous.default", "cumsum.default", "detach.default",
            "diagonal.default", "expand.default", "expand_as.default", "expand_copy.default", "flatten.using_ints",
            "flip.default", "gather.default", "index.Tensor", "index_select.default", "lift_fresh_copy.default",
            "mT.default", "mean.default", "mean.dim", "movedim.int", "movedim.intlist", "narrow.default",
            "neg.default", "numpy_T.default", "pad.default", "permute.default", "permute_copy.default",
            "ravel.default", "repeat.default", "reshape.default", "reshape_as.default", "roll.default",
            "select.int", "select_copy.int", "slice.Tensor", "slice_copy.Tensor", "split.Tensor", "split.sizes",
            "split_with_sizes.default", "split_with_sizes_copy.default", "squeeze.default", "squeeze.dim",
            "squeeze.dims", "squeeze_copy.dims", "stack.default", "sum.default", "sum.dim_IntList",
            "swapaxes.default", "t.default", "tensor_split.sections", "transpose.int", "transpose_copy.int",
            "tril.default", "triu.default", "unbind.int", "unflatten.int", "unfold.default", "unfold_copy.default",
            "unsafe_split.Tensor", "unsqueeze.default", "unsqueeze_copy.default", "view.default", "view_as.default",
            "view_copy.default",
        ),
        (0, 1): ("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "copy.default", "slice_scatter.default",
                 "select_scatter.default"),
        (1, 2): ("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"),
        (0, 2): ("masked_fill.Scalar", "masked_fill.Tensor", "index_put.default"),
    }.items() for name in names
}  # fmt: skip
# Operators that make tensors of one number, and the argument that is this number (None: it is in the name).
_FULL: Final[Mapping[str, int | None]] = {
    "aten.full.default": 1, "aten.full_like.default": 1, "aten.new_full.default": 2, "aten.new_ones.default": None,
    "aten.new_zeros.default": None, "aten.ones.default": None, "aten.ones_like.default": None,
    "aten.scalar_tensor.default": 0, "aten.zeros.default": None, "aten.zeros_like.default": None,
}  # fmt: skip
_COMPLEX: Final[dict[str, Callable[..., Any]]] = {}  # operators that complex numbers have their own rules for


def is_complex(tensor: Any) -> bool:
    """Whether a tensor of PyTorch is one of complex numbers."""
    return str(getattr(tensor, "dtype", "")).removeprefix("torch.") in PART_TYPES


def on_complex(*names: str) -> Callable[[One], One]:
    """Registers what operators of ATen do where an argument or their result is complex."""

    def register(function: One) -> One:
        _COMPLEX.update((f"aten.{name}", function) for name in names)
        return function

    return register


def has_complex(found: Any) -> bool:
    """Whether an argument is complex, or a list with something that is."""
    if isinstance(found, (list, tuple)):
        return any(map(has_complex, found))
    return isinstance(found, (Complex, complex))


def parts_of(given: Any) -> tuple[Any, Any]:
    """The real part of a tensor or number and the imaginary one, None for what has none."""
    if isinstance(given, Complex):
        return given.re, given.im
    if isinstance(given, complex):
        return given.real, given.imag
    return given, None


def zeros(node: TorchNode, like: Value) -> Value:
    """A tensor of zeros of a type."""
    return spread(node, node.scalar(0, like.type), like.type.shape)


def converted(node: TorchNode, target: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator with complex numbers in its arguments or its result.

    Raises:
        BuildError: it is not known for complex numbers.
    """
    if target in _COMPLEX:
        return _COMPLEX[target](node, *args, **kwargs)
    if target in _BY_PARTS and not has_complex([*kwargs.values()]):
        return _by_parts(node, OPERATORS[target], _BY_PARTS[target], args, kwargs)
    if target in _FULL:
        return _full(node, OPERATORS[target], _FULL[target], args, kwargs)
    node.fail(
        "it is not supported for complex numbers",
        hint="compute with real and imaginary parts: torch.view_as_real",
    )


def _by_parts(
    node: TorchNode, convert: Converter, places: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The operator on real parts, and on imaginary ones."""
    if any(has_complex(a) for k, a in enumerate(args) if k not in places):
        node.fail("it is not supported with complex numbers in this place")
    real, imaginary = ([_chosen(node, a, j) if k in places else a for k, a in enumerate(args)] for j in (0, 1))
    return _joined(convert(node, *real, **kwargs), convert(node, *imaginary, **kwargs))


def _chosen(node: TorchNode, given: Any, which: int) -> Any:
    """One part of an argument, or of each in a list."""
    if isinstance(given, (list, tuple)):
        return [_chosen(node, one, which) for one in given]
    part = parts_of(given)[which]
    if part is not None:
        return node.cast(part, node.kind) if isinstance(part, Value) else part
    return zeros(node, node.cast(given, node.kind)) if isinstance(given, Value) else 0.0


def _joined(re: Any, im: Any) -> Any:
    if isinstance(re, tuple):
        return tuple(Complex(a, b) for a, b in zip(re, im, strict=True))
    return Complex(re, im)


def _full(
    node: TorchNode, convert: Converter, place: int | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Complex:
    """A tensor of one complex number; its shape may be that of a complex tensor."""
    re, im = parts_of(args[place]) if place is not None else (None, None)
    real = [re if k == place else parts_of(a)[0] for k, a in enumerate(args)]
    imaginary = [im if k == place else parts_of(a)[0] for k, a in enumerate(args)]
    first = convert(node, *real, **kwargs)
    assert isinstance(first, Value)
    second = zeros(node, first) if im is None else convert(node, *imaginary, **kwargs)
    assert isinstance(second, Value)
    return Complex(first, second)
