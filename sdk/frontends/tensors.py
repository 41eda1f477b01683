"""Tensors by name that are named beside a model: what takes the place of those in its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

import numpy as np

from sdk.errors import UsageError

__all__ = ["KINDS", "Tensor", "Tensors", "matched"]

KINDS: Final[Mapping[str, int]] = {  # element types and their bytes
    "BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8,
    "I64": 8, "F64": 8,
}  # fmt: skip
_SHOWN: Final = 8


@dataclass(frozen=True)
class Tensor:
    """The elements of a tensor in row-major order, little endian; ``kind`` is a key of ``KINDS``."""

    kind: str
    shape: tuple[int, ...]
    data: memoryview = field(repr=False)

    @property
    def text(self) -> str:
        """Its type, as errors write it."""
        return f"{self.kind}[{', '.join(map(str, self.shape))}]"

    def widened(self, kind: str) -> bytes | None:
        """Its elements in another type that holds each of them exactly; None where that does not."""
        if kind == self.kind:
            return bytes(self.data)
        if kind in ("F32", "F64") and self.kind == "BF16":
            wide = np.frombuffer(self.data, "<u2").astype(np.uint32) << np.uint32(16)
            return wide.view(np.float32).astype("<f4" if kind == "F32" else "<f8").tobytes()
        if (self.kind, kind) in (("F16", "F32"), ("F16", "F64"), ("F32", "F64")):
            return np.frombuffer(self.data, f"<f{KINDS[self.kind]}").astype(f"<f{KINDS[kind]}").tobytes()
        return None


@dataclass(frozen=True)
class Tensors:
    """Tensors by name. ``digest`` tells them from others: what is built with others is another model."""

    by_name: Mapping[str, Tensor] = field(repr=False)
    digest: str
    source: str


def matched(
    given: Tensors, known: Mapping[str, tuple[str, tuple[int, ...]]], required: Iterable[str], what: str
) -> dict[str, bytes]:
    """The elements of each given tensor in the type of the model's tensor of that name.

    Args:
        given: the tensors.
        known: element type and shape of each tensor of the model that may be replaced.
        required: names that must be given.
        what: what a tensor of the model is called.

    Raises:
        UsageError: names that the model does not have, or that must be given and are not; other shapes; element types
            that do not hold the values exactly. All of them are named at once.
    """
    unexpected = [name for name in given.by_name if name not in known]
    missing = [name for name in required if name not in given.by_name]
    lines = [_near(name, missing or list(known), what) for name in unexpected]
    lines += [f"{name}: the model has it, the file has not" for name in missing]
    found: dict[str, bytes] = {}
    for name, tensor in given.by_name.items():
        if name not in known:
            continue
        kind, shape = known[name]
        data = tensor.widened(kind) if tensor.shape == shape else None
        if data is not None:
            found[name] = data
        else:
            own = Tensor(kind or "another type", shape, memoryview(b"")).text
            lines.append(f"{name}: {tensor.text} in the file, {own} in the model")
    if lines:
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        raise UsageError(
            f"the tensors of {given.source} are not those of the model", where="\n    ".join(lines[:_SHOWN] + more),
            hint="give the file that was saved of the same model; f16 and bf16 values also fit f32",
        )  # fmt: skip
    return found


def _near(name: str, among: list[str], what: str) -> str:
    close = get_close_matches(name, among, 1)
    return f"{name}: no {what} of the model" + (f"; {close[0]} is" if close else "")
