"""What the compiler knows of a core: one record, with the rules that schedule nests for it in the order of trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from sdk.compiler.analysis.pattern import Kind
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import I32, U8, DType
from sdk.compiler.machines.nest import DEFAULT, Choice, Nest

__all__ = ["NO_FLOATS", "Assembly", "Dot", "FloatUnit", "Machine", "Rule"]


class Rule(Protocol):
    """A way to schedule nests: a frozen dataclass whose fields are the sizes and limits that a machine sets."""

    @property
    def name(self) -> str:
        """What it is called in tests and reports."""

    def applies(self, nest: Nest, machine: Machine) -> bool:
        """Whether the rule is for such nests: by their pattern, types and work, and by the machine."""

    def schedule(self, nest: Nest, machine: Machine) -> Loops:
        """The nest scheduled.

        Raises:
            ScheduleError: an obligation does not hold; the next rule is tried.
        """


@dataclass(frozen=True, slots=True)
class FloatUnit:
    """What computes floats: ``lanes`` of 32 bits in a register (1: one at a time), ``registers`` of them, and whether
    a product is added in one instruction no slower than a product alone (``fma``)."""

    name: str
    needs: frozenset[str]
    lanes: int
    registers: int
    fma: bool


NO_FLOATS: Final = FloatUnit("scalar", frozenset(), 1, 16, False)


@dataclass(frozen=True, slots=True)
class Dot:
    """What an instruction of the core means: it adds ``products`` neighbouring products, of an ``a`` by a ``b`` each,
    to each of ``sums`` 32-bit sums. A backend finds its own for the operation "dot" by ``types``. With ``lane`` it has
    a variant that takes all the ``a`` from one word of a vector."""

    a: DType
    b: DType
    products: int
    sums: int = 1
    lane: bool = False

    @property
    def types(self) -> tuple[DType, ...]:
        """The types of the operation: of its result, of the sums before, of the factors."""
        total, lanes = I32.with_lanes(self.sums), self.sums * self.products
        return total, total, self.a.with_lanes(lanes), self.b.with_lanes(lanes)


@dataclass(frozen=True, slots=True)
class Assembly:
    """How hot loops are written as inline assembly.

    ``maximum`` instructions of a loop of which several iterations are unrolled, ``max_small`` where code is for size;
    ``unroll`` at most; a basic block of ``products`` products, or half as many stores, is worth a statement
    of its own. With ``single_loads`` words are read one by one: the core issues such a read beside a product.
    """

    maximum: int = 80
    max_small: int = 32
    unroll: int = 8
    products: int = 8
    single_loads: bool = False


@dataclass(frozen=True)
class Machine:
    """A kind of core. Cores are told apart by capabilities: ``needs`` are those that the row asks for.

    - ``vector_bytes``: the vector registers for integers, 0 where there are none.
    - ``dot``: its instruction for sums of products of integers, None where products are added one by one.
    - ``tile_rows`` by ``tile_cols``: pixels and channels whose sums are in registers (vectors of channels where a rule
      puts them in lanes).
    - ``float_units``: those that such cores have, the widest first; ``floats`` is the one of this core.
    - ``channel_multiple``: channels that go are kept up to a multiple of this, 0 for the lanes of a vector.
    - ``part_vectors``: reading and writing the first lanes of a vector takes few instructions more than all of them.
    - ``high_word``: one instruction adds to the high word of a product.
    - ``column_tables``: so few registers are free in an inner loop that constants of a channel lie in one table.
    - ``prefetch``: so many bytes ahead code asks memory for weights that it reads once; 0: never.
    - ``assembly``: how hot loops are written as assembly, None where all is C; loops stay rolled in that C.
    - ``rules``: tried in order; the first that applies and raises no ``ScheduleError`` schedules a nest, and where none
      does the plain nest stays.
    - ``candidates``: by kind of nest what rules may choose otherwise, those best for some layer counted in all.
    """

    name: str
    needs: frozenset[str]
    rules: tuple[Rule, ...]
    float_units: tuple[FloatUnit, ...]
    floats: FloatUnit = NO_FLOATS
    vector_bytes: int = 0
    dot: Dot | None = None
    tile_rows: int = 1
    tile_cols: int = 1
    channel_multiple: int = 0
    part_vectors: bool = False
    high_word: bool = False
    column_tables: bool = False
    prefetch: int = 0
    assembly: Assembly | None = None
    candidates: Mapping[Kind, tuple[Choice, ...]] = field(default_factory=dict)

    @property
    def integer_lanes(self) -> int:
        """32-bit integers in a vector; 1 where there are no vectors."""
        return max(self.vector_bytes // 4, 1)

    @property
    def lanes(self) -> int:
        """32-bit elements, integers or floats, in the widest vector; 1 where there are none."""
        return max(self.integer_lanes, self.floats.lanes)

    @property
    def unsigned(self) -> bool:
        """Whether the first factors of its dot instruction are unsigned bytes."""
        return self.dot is not None and self.dot.a == U8

    def tile(self, choice: Choice) -> tuple[int, int]:
        """Rows and columns of a tile for rules that are to make this choice."""
        return choice.rows or self.tile_rows, choice.cols or self.tile_cols

    def choices(self, kind: Kind) -> tuple[Choice, ...]:
        """The candidates for a kind of nest, ``DEFAULT`` first."""
        return (DEFAULT, *self.candidates.get(kind, ()))
