"""What the entries of a model share: symbolic sizes, constants and states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.module import Const, State
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
        self.claim(name, {**self.consts, **self.states}, "constant")
        array = np.asarray(data)
        kind = dtype or dtype_of(array, where=f"constant {name}")
        made = self.consts[name] = Const(name, TensorType(kind, array.shape), array.astype(kind.numpy))
        return Tensor(Value(name, made.type, const=True), None)

    def state(
        self, name: str, dtype: DType, shape: Iterable[Dim], *, init: int | Tensor | None = 0,
        layout: Literal["plain", "ring"] = "plain", axis: int = 0,
    ) -> StateRef:
        """A tensor that keeps its contents from run to run.

        Args:
            name: of the state.
            dtype: of an element.
            shape: numbers, and dims that are then bound when the model is initialised.
            init: what every element starts from, or a constant of the same type; None where it does not matter, since
                only what was written is used: a reset takes no time then.
            layout: "ring" lets rows be written at any position: they lie modulo the extent of ``axis``.
            axis: the axis that ``at`` of ``Entry.write`` counts on.

        Raises:
            BuildError: the name is taken, or there is no such axis.
        """
        self.claim(name, {**self.consts, **self.states}, "state")
        type_ = TensorType(dtype, tuple(shape))
        if not 0 <= axis < max(type_.rank, 1):
            raise BuildError(f"axis {axis} of a tensor of rank {type_.rank}", where=f"state {name}")
        start = init.value.name if isinstance(init, Tensor) else init
        self.states[name] = State(name, type_, start, layout, axis)
        return StateRef(self.states[name], self)

    def claim(self, name: str, taken: Iterable[str], what: str) -> None:
        """Checks that a name is free.

        Raises:
            BuildError: it is not, or it is empty.
        """
        if not name or name in taken:
            raise BuildError(f"{what} {name!r} exists already" if name else f"a {what} needs a name")
