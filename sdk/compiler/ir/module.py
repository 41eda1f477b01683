"""The module: constants, states and functions of three kinds under one set of names; immutable."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Graph
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.plan import Plan
from sdk.compiler.ir.types import TensorType
from sdk.errors import BuildError

__all__ = ["Const", "Module", "Stage", "State", "StateLayout"]

Stage = Literal["imported", "typed", "scheduled", "planned"]
StateLayout = Literal["plain", "ring", "paged"]


@dataclass(frozen=True, eq=False)
class Const:
    """A constant tensor. ``packing`` names its layout ("" = dense row-major as typed), so that variants can repack.

    Equality is by type, packing and bytes.
    """

    name: str
    type: TensorType
    data: NDArray[np.generic]
    packing: str = ""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        data = np.array(self.data, dtype=self.type.dtype.numpy, order="C")  # a copy, rank 0 kept
        if data.shape != self.type.static_shape:
            raise BuildError(f"constant @{self.name} has shape {data.shape}, its type says {self.type.static_shape}")
        data.setflags(write=False)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "digest", hashlib.sha256(data.tobytes()).hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.name, self.type, self.packing, self.digest


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that survives between runs. ``axis`` is the ring or page axis; ``init`` the constant it starts from,
    or the value of every element."""

    name: str
    type: TensorType
    init: str | int = 0
    layout: StateLayout = "plain"
    axis: int = 0


@dataclass(frozen=True)
class Module:
    """Everything the compiler knows of a model, by name. ``stage`` says which constructs may remain."""

    name: str
    stage: Stage = "imported"
    consts: Mapping[str, Const] = field(default_factory=dict)
    states: Mapping[str, State] = field(default_factory=dict)
    graphs: Mapping[str, Graph] = field(default_factory=dict)
    loops: Mapping[str, Loops] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)

    def with_graph(self, graph: Graph) -> Module:
        """This module with ``graph`` in place of the one of its name; itself when it is the same object."""
        if self.graphs.get(graph.name) is graph:
            return self
        return replace(self, graphs={**self.graphs, graph.name: graph})

    def with_consts(self, *consts: Const) -> Module:
        """This module with constants added or replaced."""
        return replace(self, consts={**self.consts, **{c.name: c for c in consts}}) if consts else self
