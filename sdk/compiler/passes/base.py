"""What a pass is."""

from __future__ import annotations

from typing import Protocol

from sdk.compiler.ir.module import Module

__all__ = ["Pass"]


class Pass(Protocol):
    """A step of the compiler: a frozen dataclass whose fields are its options in the text of a pipeline.

    ``name`` is the stem of its file with dashes. ``run`` is pure: the module given is unchanged, and is the
    one returned where there is nothing to do. It is well formed before and after, not necessarily between.
    """

    @property
    def name(self) -> str:
        """The name in the text of a pipeline."""

    def run(self, module: Module) -> Module:
        """The module after the pass."""
