"""The module: constants, states and functions of three kinds under one set of names; immutable."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sdk.compiler.ir.graph import Graph
from sdk.compiler.ir.layout import ROW_MAJOR, Layout
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.plan import Plan
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var, free_vars
from sdk.errors import BuildError

__all__ = ["STACK_ALIGN", "Const", "Module", "Stack", "Stage", "State", "StateLayout", "init_dims"]

Stage = Literal["imported", "typed", "scheduled", "planned"]
StateLayout = Literal["plain", "ring", "blocked"]
STACK_ALIGN: Final = 64  # bytes: where the constant of each iteration begins


@dataclass(frozen=True, eq=False)
class Const:
    """A constant tensor; with a ``layout`` one of the model's that is stored so, and ``type`` is what is stored.

    Equality is by type, layout and bytes.
    """

    name: str
    type: TensorType
    data: NDArray[np.generic]
    layout: Layout = ROW_MAJOR

    def __post_init__(self) -> None:
        data = self.data
        if not _frozen(data) or data.dtype != self.type.dtype.numpy:
            data = np.array(data, dtype=self.type.dtype.numpy, order="C")  # a copy, rank 0 kept
        if data.shape != self.type.static_shape:
            raise BuildError(f"constant @{self.name} has shape {data.shape}, its type says {self.type.static_shape}")
        data.setflags(write=False)
        object.__setattr__(self, "data", data)

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        """What is stored, as a stack has it."""
        return (self.data,)

    @property
    def nbytes(self) -> int:
        """Bytes as they are stored."""
        return self.data.nbytes

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the bytes."""
        return hashlib.sha256(self.data.reshape(-1).view(np.uint8).data).hexdigest()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Const) and self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.name, self.type, self.layout, self.digest


@dataclass(frozen=True, eq=False)
class Stack:
    """A constant of a graph that is called repeatedly, which is another array in each: in iteration k ``arrays[k]``.
    ``type`` and ``layout`` are those of every one. No pass mistakes it for a constant whose elements it knows.

    Equality is by type, layout and bytes.
    """

    name: str
    type: TensorType
    arrays: tuple[NDArray[np.generic], ...]
    layout: Layout = ROW_MAJOR

    def __post_init__(self) -> None:
        checked = (Const(f"{self.name}[{k}]", self.type, data, self.layout) for k, data in enumerate(self.arrays))
        object.__setattr__(self, "arrays", tuple(const.data for const in checked))

    @property
    def iterations(self) -> int:
        """How many arrays there are."""
        return len(self.arrays)

    @property
    def stride(self) -> int:
        """Bytes from where the array of one iteration begins to where that of the next does."""
        return -(-self.type.max_bytes // STACK_ALIGN) * STACK_ALIGN

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays as they are stored."""
        return self.iterations * self.stride

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the bytes of all arrays, one after the other."""
        found = hashlib.sha256()
        for array in self.arrays:
            found.update(array.reshape(-1).view(np.uint8).data)
        return found.hexdigest()

    def of_iteration(self, iteration: int) -> Const:
        """What it is in one iteration."""
        return Const(f"{self.name}_{iteration}", self.type, self.arrays[iteration], self.layout)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Stack) and self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[object, ...]:
        return self.name, self.type, self.layout, self.iterations, self.digest


def _frozen(data: object) -> bool:
    """Whether an array is in C order and nobody can write to its bytes, so that it can be kept as it is."""
    while isinstance(data, np.ndarray):
        if data.flags.writeable or not data.flags.c_contiguous:
            return False
        data = data.base
    return data is None or isinstance(data, bytes)


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that survives between runs. ``axis`` is the one of which rows are written. In the layouts "ring" and
    "blocked" a row lies modulo how many there are; in a "blocked" one rows lie in blocks: ``axis`` is that of blocks,
    the last axis that of the rows of a block. ``init`` is the constant it starts from, or the value of every element;
    None where what it holds before it is written does not matter, so that nobody clears it. Dims of its type are bound
    at init. With ``iterations`` it is a state of a graph that is called so many times, another one in each."""

    name: str
    type: TensorType
    init: str | int | None = 0
    layout: StateLayout = "plain"
    axis: int = 0
    iterations: int = 1

    @property
    def row_axis(self) -> int:
        """The axis of rows in a value that is written to some: the last one where they lie in blocks."""
        return self.type.rank - 2 if self.layout == "blocked" else self.axis

    @property
    def extent(self) -> Dim:
        """Rows that there are places for."""
        shape = self.type.shape
        return shape[self.axis] * shape[-1] if self.layout == "blocked" else shape[self.axis]

    def rows(self, count: Dim) -> tuple[Dim, ...]:
        """The shape of ``count`` rows."""
        before, after = self.type.shape[: self.axis], self.type.shape[self.axis + 1 :]
        return (*before, *after[:-1], count) if self.layout == "blocked" else (*before, count, *after)


def init_dims(states: Mapping[str, State]) -> tuple[Var, ...]:
    """The dims in the types of states, in order: they are bound when an instance is made, the same for every run."""
    found = (v for s in states.values() for d in s.type.shape for v in sorted(free_vars(d), key=lambda v: v.name))
    return tuple(dict.fromkeys(found))


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
    stacks: Mapping[str, Stack] = field(default_factory=dict)

    @property
    def constants(self) -> tuple[Const | Stack, ...]:
        """All that values called ``@name`` may be."""
        return *self.consts.values(), *self.stacks.values()

    def constant(self, name: str) -> Const | Stack | None:
        """What ``@name`` is as a value, where it is one."""
        return self.consts.get(name) or self.stacks.get(name)

    def with_graph(self, graph: Graph) -> Module:
        """This module with ``graph`` in place of the one of its name; itself when it is the same object."""
        if self.graphs.get(graph.name) is graph:
            return self
        return replace(self, graphs={**self.graphs, graph.name: graph})

    def with_consts(self, *consts: Const) -> Module:
        """This module with constants added or replaced."""
        return replace(self, consts={**self.consts, **{c.name: c for c in consts}}) if consts else self
