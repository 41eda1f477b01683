"""A network as plain data: inputs, layers that name what they read and make, and attributes that hold no shapes.

Shapes, scales and weights follow from the layers when a file is written, so that a layer can be taken out or made
smaller and what comes after it adapts (or no longer fits, which is ``Unfit``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

__all__ = ["KINDS", "Layer", "Network", "Spec", "Unfit", "layer"]

TFLITE = ("int8", "int16", "uint8", "float")  # kinds of .tflite files
KINDS = (*TFLITE, "onnx-float", "onnx-qdq", "onnx-integer")


class Unfit(Exception):
    """A layer cannot follow what it reads, or the network would be too large."""


@dataclass(frozen=True)
class Spec:
    """What flows between layers: its shape, its type and, of quantised .tflite tensors, what its values mean.

    ``exact`` says that every engine has the same bits there, so that a layer that jumps (Round, ArgMax, Less) may
    follow; ``minimum`` and ``maximum`` bound integers that are positions or lengths.
    """

    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero: int = 0
    exact: bool = True

    @property
    def elements(self) -> int:
        count = 1
        for d in self.shape:
            count *= d
        return count

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return text if self.scale is None else f"{text} * {self.scale:.7g} from {self.zero}"


@dataclass(frozen=True)
class Layer:
    """One layer: an operator, or a few that make sense together only (a variable, a QDQ group)."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    def __getitem__(self, name: str) -> Any:
        return dict(self.attrs)[name]

    def get(self, name: str, default: Any = None) -> Any:
        return dict(self.attrs).get(name, default)

    def having(self, **given: Any) -> Layer:
        """The same layer with other attributes."""
        return replace(self, attrs=tuple(sorted({**dict(self.attrs), **given}.items())))

    def __str__(self) -> str:
        given = " ".join(f"{k}={_short(v)}" for k, v in self.attrs)
        return f"{', '.join(self.outputs)} = {self.op}({', '.join(self.inputs)}) {given}".rstrip()


def layer(op: str, inputs: Sequence[str], outputs: Sequence[str], **given: Any) -> Layer:
    """A layer with its attributes in order of their names."""
    return Layer(op, tuple(inputs), tuple(outputs), tuple(sorted(given.items())))


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(map(_short, value)) + ")"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Network:
    """A whole model. ``seed`` only tells where it came from; ``steps`` is how many runs make a case."""

    kind: str
    seed: int
    inputs: tuple[tuple[str, Spec], ...]
    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]
    steps: int = 1

    @property
    def suffix(self) -> str:
        return ".tflite" if self.kind in TFLITE else ".onnx"

    @property
    def name(self) -> str:
        return f"{self.kind.replace('-', '_')}_{self.seed}"

    def data(self) -> bytes:
        """The bytes of the file.

        Raises:
            Unfit: the layers do not fit each other.
        """
        return self.built()[0]

    def specs(self) -> dict[str, Spec]:
        """What each name stands for."""
        return self.built()[1]

    def built(self) -> tuple[bytes, dict[str, Spec]]:
        """The file and what each name in it stands for."""
        data, specs = _built(self)
        return data, dict(specs)

    def operators(self) -> tuple[str, ...]:
        """The operators in the file, each as often as it is there."""
        from .builders import operators_in

        return operators_in(self.data(), self.suffix)

    def text(self) -> str:
        """One line per input, layer and output."""
        specs = self.specs()
        lines = [f"# {self.kind}, seed {self.seed}, {self.steps} step{'s' * (self.steps > 1)}"]
        lines += [f"input {name}: {spec}" for name, spec in self.inputs]
        for one in self.layers:
            lines.append(f"{one}  -> {'; '.join(str(specs[name]) for name in one.outputs)}")
        return "\n".join([*lines, f"outputs {', '.join(self.outputs)}"])


@lru_cache(maxsize=256)
def _built(network: Network) -> tuple[bytes, dict[str, Spec]]:
    from .builders import builder_of

    made = builder_of(network.kind)
    for name, spec in network.inputs:
        made.input(name, spec)
    for one in network.layers:
        made.apply(one)
    return made.finish(network.outputs, network.name), made.specs
