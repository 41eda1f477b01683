"""What the entries of a model share: symbolic sizes, constants and states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.module import Const, Stack, State, StateLayout
from sdk.compiler.ir.types import DType, TensorType, dtype_of
from sdk.compiler.sym import Dim, Expr, Var
from sdk.errors import BuildError
from sdk.graph.tensor import Tensor

__all__ = ["Shared", "StateRef"]


@dataclass(frozen=True, eq=False)
class StateRef:
    """A state of a module under construction, to be given to ``Entry.read`` and ``Entry.write``."""

    state: State
    module: Shared


class Shared:
    """Dims, constants and states of a model under construction.

    Args:
        name: of the model; the C names of a build start with it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dims: dict[str, Var] = {}
        self.consts: dict[str, Const] = {}
        self.stacks: dict[str, Stack] = {}
        self.states: dict[str, State] = {}

    def dim(self, name: str, lo: int, hi: int, multiple: int = 1) -> Expr:
        """A symbolic size in ``lo..hi`` (both included), bound when a run starts; in a state's shape, at init.

        Raises:
            BuildError: the name is taken.
            SdkError: there is no such number.
        """
        self.claim(name, self.dims, "dim")
        self.dims[name] = Var(name, lo, hi, multiple)
        return self.dims[name].expr

    def const(self, name: str, data: ArrayLike, dtype: DType | None = None) -> Tensor:
        """A constant tensor, of the array's own element type where ``dtype`` gives none.

        Raises:
            BuildError: the name is taken, or the element type is not supported.
        """
        self.claim(name, self._named(), "constant")
        array = np.asarray(data)
        kind = dtype or dtype_of(array, where=f"constant {name}")
        made = self.consts[name] = Const(name, TensorType(kind, array.shape), array.astype(kind.numpy))
        return Tensor(Value(name, made.type, const=True), None)

    def stack(self, name: str, arrays: Sequence[ArrayLike], dtype: DType | None = None) -> Tensor:
        """A constant of a part (``ModuleBuilder.part``) that runs in as many iterations as there are arrays, all of one
        shape: of each iteration the next one.

        Raises:
            BuildError: the name is taken, there are no arrays, they differ, or the element type is not supported.
        """
        self.claim(name, self._named(), "constant")
        found = [np.asarray(array) for array in arrays]
        if not found or any((a.shape, a.dtype) != (found[0].shape, found[0].dtype) for a in found):
            raise BuildError("a stack has arrays of one type and shape, at least one", where=f"constant {name}")
        kind = dtype or dtype_of(found[0], where=f"constant {name}")
        held = tuple(a.astype(kind.numpy, copy=False) for a in found)
        made = self.stacks[name] = Stack(name, TensorType(kind, found[0].shape), held)
        return Tensor(Value(name, made.type, const=True), None)

    def state(
        self, name: str, dtype: DType, shape: Iterable[Dim], *, init: int | Tensor | None = 0,
        layout: StateLayout = "plain", axis: int = 0, iterations: int = 1,
    ) -> StateRef:
        """A tensor that keeps its contents from run to run.

        Args:
            name: of the state.
            dtype: of an element.
            shape: numbers, and dims that are then bound when the model is initialised.
            init: what every element starts from, or a constant of the same type; None where it does not matter, since
                only what was written is used: a reset takes no time then.
            layout: "ring" lets rows be written at any position: they lie modulo the extent of ``axis``. "blocked" is a
                ring whose rows lie in blocks, of as many rows as the last axis has.
            axis: the axis that ``at`` of ``Entry.write`` counts on; that of the blocks.
            iterations: of the part that uses it (``ModuleBuilder.part``): each of its iterations has one of its own.

        Raises:
            BuildError: the name is taken, or there is no such axis.
        """
        self.claim(name, self._named(), "state")
        type_ = TensorType(dtype, tuple(shape))
        if not 0 <= axis < max(type_.rank - (layout == "blocked"), 1):
            why = "the last axis is that of the rows of a block" if layout == "blocked" else None
            raise BuildError(f"axis {axis} of a tensor of rank {type_.rank}", where=f"state {name}", why=why)
        start = init.value.name if isinstance(init, Tensor) else init
        self.states[name] = State(name, type_, start, layout, axis, iterations)
        return StateRef(self.states[name], self)

    def _named(self) -> set[str]:
        """The names of constants and states."""
        return {*self.consts, *self.stacks, *self.states}

    def claim(self, name: str, taken: Iterable[str], what: str) -> None:
        """Checks that a name is free.

        Raises:
            BuildError: it is not, or it is empty.
        """
        if not name or name in taken:
            raise BuildError(f"{what} {name!r} exists already" if name else f"a {what} needs a name")
