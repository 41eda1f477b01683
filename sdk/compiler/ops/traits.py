"""What an op does with elements and with axes, as data: declared once, with the op; passes ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from sdk.compiler.ir.graph import Attr

__all__ = [
    "OPAQUE", "AxisRole", "Combine", "Elementwise", "Movement", "OpKind", "Opaque", "Reduction", "SumOfProducts",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An element of the result is a function of the elements at its place, the same function at every place. Operands
    broadcast as in numpy, but for the last ``tables`` of them, which are read as wholes.

    ``monotone``: of integers, the result never falls when operand 0 grows, as long as nothing leaves its type.
    ``exact``: of floats, generated code computes the bits of the reference.
    ``bitwise``: works on how numbers are stored, so that it means something else in another type.
    """

    tables: int = 0
    monotone: bool = False
    exact: bool = False
    bitwise: bool = False


@dataclass(frozen=True, slots=True)
class Movement:
    """An element of the result is an element of the first operand (of any, where the op is variadic), whatever these
    hold; other operands say which. ``fill`` names the attribute with the value of elements that come from nowhere."""

    fill: str = ""


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """``bias[o] + sum of (x + x_offset) * (weights + w_offset)``, of operands x, weights and, with ``bias``, the bias.

    Channels are the last axis of x and of the result, whose axis of the weights is ``channel``. Boolean attributes
    ``trans_x`` and ``trans_weights`` say that the last two axes of these are exchanged. Weights of a ``window`` slide
    over an image by the attributes stride, dilation and pad, and beyond it read ``pad_value``. ``depthwise``: a channel
    of the result reads one of x, of which ``multiplier`` channels are made. ``partial``: an element of the result sums
    over some of its weights only, as in a transposed convolution.
    """

    channel: int = 0
    bias: bool = True
    trans_x: str = ""
    trans_weights: str = ""
    window: bool = False
    depthwise: bool = False
    partial: bool = False

    def output_axis(self, given: Mapping[str, Attr]) -> int:
        """The axis of the weights that is the channel of the result, 0 or from the end."""
        return self._as_used(self.channel, given)

    def input_axis(self, given: Mapping[str, Attr]) -> int | None:
        """The axis of the weights that is the channel of x, from the end; None where they have none."""
        return None if self.depthwise else self._as_used(-2 if self.channel == -1 else -1, given)

    def _as_used(self, axis: int, given: Mapping[str, Attr]) -> int:
        return -3 - axis if given.get(self.trans_weights, False) else axis


class Combine(Enum):
    """How a reduction makes one element of several."""

    SUM = auto()
    MEAN = auto()
    PRODUCT = auto()
    MAX = auto()
    MIN = auto()

    @property
    def chooses(self) -> bool:
        """Whether the result is one of the elements."""
        return self in (Combine.MAX, Combine.MIN)


@dataclass(frozen=True, slots=True)
class Reduction:
    """Elements along the axes that the attribute ``axes`` names, which stay with extent 1, are combined; where it is
    ``windowed``, those in windows of an image, by the attributes kernel, stride, dilation and pad."""

    combine: Combine
    windowed: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """Anything else: passes leave it alone."""


OpKind = Elementwise | Movement | SumOfProducts | Reduction | Opaque
OPAQUE: Final = Opaque()


class AxisRole(Enum):
    """How an attribute names axes of an op that treats all axes alike but for these."""

    ONE = "the number of one"
    SOME = "the numbers of some, ascending"
    EACH = "an entry for each"
