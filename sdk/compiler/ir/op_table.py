"""What the text form and the verifier ask of the ops, which are declared above the IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sdk.compiler.ir.graph import Attrs
from sdk.compiler.ir.types import TensorType

__all__ = ["OpRow", "OpTable", "SampleRow"]


class SampleRow(Protocol):
    """Arguments an op is checked with."""

    @property
    def attrs(self) -> Attrs:
        """The attributes of the sample."""


class OpRow(Protocol):
    """One op."""

    @property
    def view(self) -> bool:
        """Whether the op moves no bytes."""

    @property
    def samples(self) -> Sequence[SampleRow]:
        """Samples; the attributes they give are those the op has."""


class OpTable(Protocol):
    """Every op: the module ``sdk.compiler.ops`` is one."""

    def infer(self, name: str, types: Sequence[TensorType], given: Attrs, /) -> tuple[TensorType, ...]:
        """Result types of op ``name``; raises an SdkError that says what is wrong."""

    def get_op(self, name: str, /) -> OpRow:
        """The op ``name``; raises an SdkError when there is none."""
