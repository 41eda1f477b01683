"""What is asked of the quantiser: which integers, how ranges are chosen, what stays in floats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from sdk.errors import UsageError
from sdk.quantizer.ranges import Grid, How

__all__ = ["TARGETS", "WEIGHTS_ONLY", "QuantizeOptions", "Target"]

Target = Literal["int8", "int16x8", "w8", "w4"]
TARGETS: Final[tuple[str, ...]] = get_args(Target)
WEIGHTS_ONLY: Final = {"w8": 8, "w4": 4}  # bits of a weight; activations stay floats
_RANGES: Final[tuple[str, ...]] = get_args(How)


@dataclass(frozen=True)
class QuantizeOptions:
    """How a model is quantised.

    Attributes:
        to: "int8": activations and weights of 8 bits; "int16x8": activations of 16; "w8", "w4": weights alone.
        range: how the limits of activations follow from the samples: "minmax", "percentile", "mse".
        percentile: of the elements that lie within the limits, in percent, above 50, at most 100.
        group: inputs of a product that share a scale, with "w8" and "w4": a power of two from 16 to 1024.
        keep: names of layers that stay in floats, or patterns of names (``block1*``).
        keep_above: layers stay in floats whose error alone is above this, in dB of the outputs (-30: an SQNR of 30).
        sensitivity: whether to measure the error of each layer alone.
        equalise: whether neighbouring layers are scaled to weights of like ranges first.
        correct_bias: whether the mean error of each channel is taken off the biases.
        integer_io: whether inputs and outputs of the model become integers.
        labels: name of the array of labels.
    """

    to: Target = "int8"
    range: How = "minmax"
    percentile: float = 99.99
    group: int = 32
    keep: tuple[str, ...] = ()
    keep_above: float | None = None
    sensitivity: bool = False
    equalise: bool = False
    correct_bias: bool = True
    integer_io: bool = False
    labels: str | None = None

    def __post_init__(self) -> None:
        """Checks what can be checked without a model.

        Raises:
            UsageError: a value is none of those it may have.
        """
        for name, value, known in (("to", self.to, TARGETS), ("range", self.range, _RANGES)):
            if value not in known:
                raise UsageError(f"{name} cannot be {value!r}", hint=f"one of {', '.join(known)}")
        if not 50 < self.percentile <= 100:
            raise UsageError(f"a percentile of {self.percentile}", hint="give one above 50, at most 100: 99.99")
        if self.group not in (16, 32, 64, 128, 256, 512, 1024):
            raise UsageError(f"groups of {self.group} weights", hint="a power of two from 16 to 1024: 32")
        if self.keep_above is not None and not math.isfinite(self.keep_above):
            raise UsageError(f"{self.keep_above} is no number of dB", hint="-30 keeps layers of an SQNR below 30 dB")
        if self.weights_only:
            self._refuse_of_activations()

    def _refuse_of_activations(self) -> None:
        """Refuses what means nothing where activations stay floats."""
        for name, given in (
            ("equalise", self.equalise), ("integer_io", self.integer_io), ("range", self.range != "minmax")
        ):  # fmt: skip
            if given:
                raise UsageError(f"{name} is for activations, {self.to} quantises weights alone", hint="leave it out")

    @property
    def weights_only(self) -> bool:
        """Whether activations stay floats."""
        return self.to in WEIGHTS_ONLY

    @property
    def kind(self) -> np.dtype:
        """The type that activations are stored in."""
        return np.dtype(np.int16 if self.to == "int16x8" else np.int8)

    @property
    def grid(self) -> Grid:
        """The integers of activations."""
        return Grid(-32767, 32767, True) if self.to == "int16x8" else Grid(-128, 127, False)

    @property
    def opset(self) -> int:
        """The oldest opset that has what is written."""
        return 13 if self.to == "int8" else 21
