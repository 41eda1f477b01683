"""How far a quantised model is from the float one: signal to noise ratios, and the share of right answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx

from sdk import steps
from sdk.errors import UsageError
from sdk.quantizer.data import Samples
from sdk.quantizer.engine import Engine
from sdk.quantizer.net import Array
from sdk.quantizer.report import Accuracy

__all__ = ["Noise", "compared", "sensitivities"]

SAMPLES: Final = 16  # of the errors of single layers: each is a run of the whole model for every sample


@dataclass
class Noise:
    """Sums of squares of a signal and of what another one departs from it."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, want: Mapping[str, Array], got: Mapping[str, Array]) -> None:
        """Counts outputs of reals."""
        for name, array in want.items():
            if array.dtype.kind == "f":
                wide = array.astype(np.float64)
                self.signal += float(np.sum(wide**2))
                self.noise += float(np.sum((got[name].astype(np.float64) - wide) ** 2))

    @property
    def sqnr_db(self) -> float:
        """The ratio in dB; infinite without noise."""
        if self.noise == 0:
            return math.inf
        return 10.0 * math.log10(self.signal / self.noise) if self.signal else -math.inf


@dataclass
class _Right:
    labels: Array
    float_right: int = 0
    right: int = 0
    at: int = 0

    def add(self, count: int, want: Array, got: Array) -> None:
        if want.size % count:
            raise UsageError(
                f"the first output has {want.size} elements for {count} samples", where="--labels",
                why="labels are compared with the largest element of each sample", hint="leave out --labels",
            )  # fmt: skip
        labels = self.labels[self.at : self.at + count]
        self.float_right += int(np.sum(want.reshape(count, -1).argmax(axis=1) == labels))
        self.right += int(np.sum(got.reshape(count, -1).argmax(axis=1) == labels))
        self.at += count


def compared(
    model: onnx.ModelProto, quantised: onnx.ModelProto, samples: Samples, labels: Array | None
) -> tuple[float, Accuracy | None]:
    """The signal to noise ratio of the outputs over all samples, the quantised model computed as builds compute it, and
    the share of samples whose largest element of the first output is the one of their label."""
    before, after = Engine(model, samples.shapes), Engine(quantised, samples.shapes, integers=True)
    noise, right = Noise(), None if labels is None else _Right(labels[: samples.count])
    first = model.graph.output[0].name
    with steps.step("comparing with floats"):
        for k, inputs in enumerate(samples.runs()):
            steps.update(f"comparing with floats: {k * samples.batch} of {samples.count} samples")
            want, got = before.run(inputs), after.run(inputs)
            noise.add(want, got)
            if right is not None:
                right.add(samples.batch, want[first], got[first])
    if right is None:
        return noise.sqnr_db, None
    return noise.sqnr_db, Accuracy(right.at, right.float_right / right.at, right.right / right.at)


def sensitivities(
    model: onnx.ModelProto, names: Sequence[str], alone: Callable[[str], onnx.ModelProto], samples: Samples
) -> dict[str, float]:
    """The signal to noise ratio of the outputs, in dB, with each layer quantised alone, over some samples."""
    before = Engine(model, samples.shapes)
    runs = [(inputs, before.run(inputs)) for inputs in samples.runs(SAMPLES)]
    found: dict[str, float] = {}
    with steps.step("measuring layers"):
        for k, name in enumerate(names):
            steps.update(f"measuring layers: {k + 1} of {len(names)}, {name}")
            after, noise = Engine(alone(name), samples.shapes), Noise()
            for inputs, want in runs:
                noise.add(want, after.run(inputs))
            found[name] = noise.sqnr_db
    return found
