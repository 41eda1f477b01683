"""Networks as .tflite files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import (
    tflite_elementwise,
    tflite_moves,
    tflite_places,
    tflite_products,
    tflite_quantised,
    tflite_reals,
    tflite_recurrent,
    tflite_states,
)
from .builders import FileBuilder, Op, share_tests_folder
from .fills import Fill, integers
from .network import Spec, Unfit

share_tests_folder()
from tflite_files import ModelFile  # noqa: E402

__all__ = ["TfliteBuilder"]

SCALES = (2.0**-40, 2.0**30)
_ALL = {
    **tflite_products.TABLE, **tflite_elementwise.TABLE, **tflite_moves.TABLE, **tflite_states.TABLE,
    **tflite_quantised.TABLE, **tflite_recurrent.TABLE,
}  # fmt: skip

# Layers that move reals as they move integers.
MOVES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V")
REALS = {**{op: _ALL[op] for op in MOVES}, **tflite_reals.TABLE, **tflite_places.TABLE}


class TfliteBuilder(FileBuilder):
    """A .tflite file: ``index`` maps names to numbers of tensors; ``init`` is the subgraph of first values."""

    table: Mapping[str, Op] = _ALL

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.table = REALS if kind == "float" else _ALL
        if kind == "uint8":
            # LiteRT, which alone runs these, refuses variables without first values, and rounds dense layers of any
            # type in double precision: those are in test_unsigned.py
            left = (*tflite_states.STATEFUL, *tflite_recurrent.RECURRENT, *tflite_quantised.SIGNED, "FULLY_CONNECTED")
            self.table = {op: _ALL[op] for op in _ALL if op not in left}
        self.file, self.init = ModelFile(), ModelFile()
        self.index: dict[str, int] = {}
        self.consts = 0

    def quantised(self, spec: Spec) -> bool:
        """Whether layers compute with it: LiteRT, the reference of u8, does with u8, tflite-micro with the others."""
        return spec.dtype == "uint8" if self.kind == "uint8" else spec.dtype in ("int8", "int16")

    def is_image(self, spec: Spec) -> bool:
        return self.quantised(spec) and len(spec.shape) == 4

    def input(self, name: str, spec: Spec) -> None:
        self.make(name, spec)
        self.file.inputs.append(self.index[name])

    def make(self, name: str, spec: Spec) -> int:
        """A tensor that an operator (or the caller) fills."""
        if spec.scale is not None and not SCALES[0] <= spec.scale <= SCALES[1]:
            raise Unfit(f"a scale of {spec.scale}")
        self.now_has(name, spec)
        self.index[name] = self.hidden(name, spec)
        return self.index[name]

    def hidden(self, name: str, spec: Spec, file: ModelFile | None = None, **given: Any) -> int:
        """A tensor that no layer of the network sees."""
        return (file or self.file).tensor(name, spec.shape, spec.dtype, spec.scale, spec.zero, **given)

    def const(self, data: Any, dtype: str = "int32", **given: Any) -> int:
        self.consts += 1
        return self.file.const(f"c{self.consts}", data, dtype, **given)

    def filled(self, spec: Spec, fill: Fill) -> int:
        """A constant of the meaning ``spec``."""
        data = integers(spec.shape, fill, *limits(spec.dtype))
        self.counted(weights=data.size * (2 if spec.dtype == "int16" else 1))
        return self.const(data, spec.dtype, scale=spec.scale, zero=spec.zero)

    def op(self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **fields: Any) -> None:
        if fields.get("FusedActivationFunction") and self.file.tensors[outputs[0]].scales:
            scale = self.file.tensors[outputs[0]].scales[0]
            if 6 / scale > 1 << 30:  # tflite-micro refuses a limit that leaves 32 bits
                raise Unfit(f"limits of an activation at a scale of {scale}")
        self.file.op(name, inputs, outputs, options, **fields)

    def finish(self, outputs: Sequence[str], name: str) -> bytes:
        self.file.outputs[:] = [self.index[o] for o in outputs]
        if set(self.file.inputs) & set(self.file.outputs):
            raise Unfit("an input is an output")
        if not self.init.operators:
            return self.file.build()
        self.file.op("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
        self.file.operators.insert(0, self.file.operators.pop())
        return self.file.build(self.init)


def limits(dtype: str) -> tuple[int, int]:
    return {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}[dtype]
