"""Checkpoints of AWQ and GPTQ: matrices that are stored as columns of 4 or 8 bits in words, as rows of our groups. Each
number stays what it was: scale * (bits - zero point)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk.errors import BuildError
from sdk.frontends.tensors import Tensor
from sdk.llm.architectures.base import Given
from sdk.llm.weights import FORMATS, Weight

__all__ = ["PARTS", "Packing", "packing_of", "unpacked"]

Bytes = NDArray[np.uint8]
_GROUP: Final = 32
_AWQ_ORDER: Final = (0, 4, 1, 5, 2, 6, 3, 7)  # where in a word the bits of each of eight columns are
PARTS: Final = ("qweight", "qzeros", "scales", "g_idx")


@dataclass(frozen=True)
class Packing:
    """How a checkpoint is packed: ``method`` awq or gptq, ``bits`` of a number, how many inputs have a scale in common
    (0: all), and whether zero points are stored less one."""

    method: str
    bits: int
    group: int
    less_one: bool


def packing_of(config: Mapping[str, Any]) -> Packing:
    """The packing by ``quantization_config`` of config.json.

    Raises:
        BuildError: it is another one than AWQ's (gemm, 4 bits) and GPTQ's (4 and 8 bits).
    """
    given = Given(config)
    method = str(given.choice("quant_method", "?"))[:20]
    if method not in ("awq", "gptq"):
        raise BuildError(
            f"the checkpoint is quantised by {method}, which is not read",
            hint="give the checkpoint it was made from with --quantize, or a GGUF file",
        )
    bits, group = given.integer("bits", 4), given.integer("group_size", 128)
    version = str(given.choice("version", "gemm")).lower()
    known = bits in ((4,) if method == "awq" else (4, 8))
    if not known or (method == "awq" and version != "gemm"):
        raise BuildError(
            f"the checkpoint is packed by {method} with {bits} bits" + (f", {version[:20]}" if method == "awq" else ""),
            why="read are awq with 4 bits, gemm, and gptq with 4 or 8 bits", hint="give a GGUF file of the model",
        )  # fmt: skip
    if group != -1 and (group < _GROUP or group % _GROUP):
        raise BuildError(f"the checkpoint has groups of {group}", why=f"groups are multiples of {_GROUP}, or -1",
                         hint="give a GGUF file of the model")  # fmt: skip
    return Packing(method, bits, max(group, 0), method == "gptq" and given.choice("checkpoint_format") != "gptq_v2")


def unpacked(packing: Packing, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Weight]]:
    """The matrices of a checkpoint, by the name that each would have if it were not packed. Names of ``tensors`` that
    end in qweight, qzeros, scales and g_idx are used.

    Raises:
        BuildError: parts are missing or do not fit, or groups are not of inputs that follow each other.
    """
    for stem in (name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")):
        parts = {part: tensors[f"{stem}.{part}"] for part in PARTS if f"{stem}.{part}" in tensors}
        try:
            yield f"{stem}.weight", _Matrix(packing, parts).weight(f"{stem}.weight")
        except BuildError as error:
            error.where = error.where or stem[:80]
            raise


class _Matrix:
    def __init__(self, packing: Packing, parts: Mapping[str, Tensor]) -> None:
        self.packing = packing
        missing = [part for part in PARTS[:3] if part not in parts]
        if missing:
            raise BuildError(f"a packed matrix has no {missing[0]}", hint="fetch the whole checkpoint again")
        shapes = [parts[part].shape for part in PARTS[:3]]
        self.words, self.zeros = self.ints(parts["qweight"]), self.ints(parts["qzeros"])
        per = 32 // packing.bits
        if any(len(shape) != 2 for shape in shapes):
            raise self.misfit(shapes)
        rows, columns = shapes[0]
        self.inputs, self.outputs = (rows, columns * per) if packing.method == "awq" else (rows * per, columns)
        size = packing.group or self.inputs
        groups = -(-self.inputs // size)
        if (
            self.inputs % _GROUP
            or self.inputs % size
            or shapes[1] != (groups, self.outputs // per)
            or shapes[2] != (groups, self.outputs)
            or self.outputs % per
        ):
            raise self.misfit(shapes)
        self.scales = self.halves(parts["scales"])
        self.repeats = size // _GROUP
        if "g_idx" in parts and not np.array_equal(self.ints(parts["g_idx"]), np.arange(self.inputs) // size):
            raise BuildError(
                "the groups of a packed matrix are not of inputs that follow each other",
                why="it was made with desc_act, which reorders the inputs of each matrix",
                hint="take a checkpoint that was made without desc_act, or a GGUF file of the model",
            )

    def misfit(self, shapes: list[tuple[int, ...]]) -> BuildError:
        shown = ", ".join(str(list(shape)) for shape in shapes)
        return BuildError("the parts of a packed matrix do not fit", why=f"qweight, qzeros and scales are {shown}",
                          hint="fetch the whole checkpoint again")  # fmt: skip

    def ints(self, tensor: Tensor) -> NDArray[np.int32]:
        if tensor.kind != "I32":
            raise BuildError(f"a part of a packed matrix has elements of {tensor.kind} instead of I32")
        return np.frombuffer(tensor.data, "<i4").reshape(tensor.shape)

    def halves(self, tensor: Tensor) -> NDArray[np.float16]:
        """Scales as f16."""
        if tensor.kind not in ("F16", "BF16", "F32"):
            raise BuildError(f"the scales of a packed matrix are {tensor.kind}", hint="give a GGUF file of the model")
        floats = Weight.of("", FORMATS[tensor.kind], tensor.shape, np.frombuffer(tensor.data, np.uint8)).floats()
        with np.errstate(over="ignore"):
            made = floats.astype("<f2")
        if not np.array_equal(made.astype(np.float32), floats):
            raise BuildError(
                "the scales of a packed matrix are no numbers of f16", hint="give a GGUF file of the model"
            )
        return made

    def numbers(self) -> Bytes:
        """The bits of each number, [outputs, inputs]."""
        if self.packing.method == "awq":
            return np.ascontiguousarray(_columns(self.words, 4, _AWQ_ORDER).T)
        per = 32 // self.packing.bits
        words = self.words.reshape(-1, self.outputs)
        split = _columns(words.reshape(-1, 1), self.packing.bits, range(per)).reshape(len(words), self.outputs, per)
        return np.ascontiguousarray(split.transpose(1, 0, 2)).reshape(self.outputs, self.inputs)

    def zero_points(self) -> NDArray[np.uint16]:
        """Zero points, [outputs, groups]."""
        order = _AWQ_ORDER if self.packing.method == "awq" else range(32 // self.packing.bits)
        stored = _columns(self.zeros, self.packing.bits, order).T.astype(np.uint16)
        return stored + np.uint16(self.packing.less_one)

    def weight(self, name: str) -> Weight:
        """The matrix in groups of 32, [outputs, inputs]."""
        numbers = self.numbers().reshape(-1, _GROUP)
        scales = np.repeat(self.scales.T, self.repeats, axis=1).reshape(-1, 1)
        zeros = np.repeat(self.zero_points(), self.repeats, axis=1).reshape(-1, 1)
        heads = [np.ascontiguousarray(scales).view(np.uint8)]
        if self.packing.bits == 8:
            if (zeros != 128).any():
                raise BuildError("a packed matrix of 8 bits has zero points other than 128",
                                 hint="give a GGUF file of the model")  # fmt: skip
            body, format = numbers ^ np.uint8(128), FORMATS["Q8_0"]  # less 128, in two's complement
        else:
            heads.append(np.ascontiguousarray(zeros).astype("<u2").view(np.uint8))
            body, format = numbers[:, :16] | numbers[:, 16:] << np.uint8(4), FORMATS["Q4_Z"]
        blocks = np.concatenate((*heads, body), axis=1)
        return Weight.of(name, format, (self.outputs, self.inputs), blocks.reshape(-1))


def _columns(words: NDArray[np.int32], bits: int, order: tuple[int, ...] | range) -> Bytes:
    """Words [rows, n] as the numbers in them, [rows, n * 32 / bits]; ``order``: where in a word each one is."""
    data = np.ascontiguousarray(words).view(np.uint8).reshape(*words.shape, 4)
    if bits == 4:
        data = np.stack((data & np.uint8(15), data >> np.uint8(4)), axis=-1).reshape(*words.shape, 8)
    return data[..., list(order)].reshape(len(words), -1)
