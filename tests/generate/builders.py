"""What writers of both kinds of file share: names that are there, limits of size, the table of operators."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .draw import Draw
from .network import KINDS, TFLITE, Layer, Spec, Unfit

__all__ = ["FileBuilder", "Op", "builder_of", "operators_in", "tables"]

# Small enough that hundreds of networks share one image of a microcontroller.
TENSOR_BYTES, WEIGHT_BYTES, PRODUCTS = 5000, 32768, 200_000
WIDTH = {"int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "float16": 2, "int32": 4, "uint32": 4,
         "float32": 4, "int64": 8, "uint64": 8, "float64": 8}  # fmt: skip


@dataclass(frozen=True)
class Op:
    """How a layer is drawn and written. ``draw`` gives None where nothing fits; ``weight`` is how often it is tried."""

    draw: Callable[[Draw, Any], Layer | None]
    emit: Callable[[Any, Layer], None]
    weight: int = 2


class FileBuilder:
    """A file being written. ``specs`` are those of all names so far, ``unread`` those that nothing reads yet."""

    table: Mapping[str, Op] = {}

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.specs: dict[str, Spec] = {}
        self.unread: list[str] = []
        self.weights = self.products = 0

    def input(self, name: str, spec: Spec) -> None:
        raise NotImplementedError

    def finish(self, outputs: Sequence[str], name: str) -> bytes:
        raise NotImplementedError

    def apply(self, one: Layer) -> None:
        """Writes a layer.

        Raises:
            Unfit: it does not fit what it reads.
        """
        if any(name not in self.specs for name in one.inputs):
            raise Unfit(f"{one.op} reads what is not there")
        self.table[one.op].emit(self, one)
        if any(name not in self.specs for name in one.outputs):
            raise Unfit(f"{one.op} does not make all of {one.outputs}")
        self.unread = [n for n in self.unread if n not in one.inputs]

    def now_has(self, name: str, spec: Spec) -> None:
        if spec.elements * WIDTH[spec.dtype] > TENSOR_BYTES or any(d < 1 for d in spec.shape):
            raise Unfit(f"{name} would be {spec}")
        if name in self.specs:
            raise Unfit(f"{name} is there already")
        self.specs[name] = spec
        self.unread.append(name)

    def counted(self, weights: int = 0, products: int = 0) -> None:
        self.weights, self.products = self.weights + weights, self.products + products
        if self.weights > WEIGHT_BYTES or self.products > PRODUCTS:
            raise Unfit(f"{self.weights} bytes of weights, {self.products} products")

    def fresh(self, count: int = 1) -> tuple[str, ...]:
        """Names for new values."""
        taken = len(self.specs)
        found = []
        while len(found) < count:
            if f"t{taken}" not in self.specs:
                found.append(f"t{taken}")
            taken += 1
        return tuple(found)

    def pick(self, d: Draw, fits: Callable[[Spec], bool] = lambda _: True) -> str | None:
        """A name whose spec fits, one that nothing reads yet rather than another."""
        good = [n for n in self.specs if fits(self.specs[n])]
        idle = [n for n in self.unread if n in good]
        if idle and d.chance(0.8):
            return idle[-1] if d.chance(0.7) else d.one(idle)
        return d.one(good) if good else None


def builder_of(kind: str) -> FileBuilder:
    """An empty file of a kind."""
    if kind not in KINDS:
        raise ValueError(f"no kind {kind!r}; there are {', '.join(KINDS)}")
    if kind in TFLITE:
        from .tflite_builder import TfliteBuilder

        return TfliteBuilder(kind)
    from .onnx_builder import OnnxBuilder

    return OnnxBuilder(kind)


def tables(kind: str) -> Mapping[str, Op]:
    """The layers that a kind is drawn from."""
    return builder_of(kind).table


def operators_in(data: bytes, suffix: str) -> tuple[str, ...]:
    """The operators of a file, each as often as it is there."""
    found: Counter[str] = Counter()
    if suffix == ".tflite":
        import tflite

        names = {v: k for k, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
        model = tflite.Model.GetRootAsModel(data, 0)
        for k in range(model.SubgraphsLength()):
            graph = model.Subgraphs(k)
            for n in range(graph.OperatorsLength()):
                found[names[model.OperatorCodes(graph.Operators(n).OpcodeIndex()).BuiltinCode()]] += 1
    else:
        import onnx

        _count_nodes(onnx.load_from_string(data).graph, found)
    return tuple(sorted(found.elements()))


def _count_nodes(graph: Any, found: Counter[str]) -> None:
    for node in graph.node:
        found[node.op_type] += 1
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _count_nodes(attribute.g, found)


def share_tests_folder() -> None:
    """Makes the writer of .tflite files importable, which lies with the tests of its reader."""
    folder = str(Path(__file__).resolve().parents[1] / "frontends")
    if folder not in sys.path:
        sys.path.insert(0, folder)
