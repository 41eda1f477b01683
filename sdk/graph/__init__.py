"""Models written in Python: ``ModuleBuilder`` makes modules, its entries call any op (docs/graph.md)."""

from sdk.compiler.ir.types import BOOL as boolean
from sdk.compiler.ir.types import F16 as f16
from sdk.compiler.ir.types import F32 as f32
from sdk.compiler.ir.types import F64 as f64
from sdk.compiler.ir.types import I8 as i8
from sdk.compiler.ir.types import I16 as i16
from sdk.compiler.ir.types import I32 as i32
from sdk.compiler.ir.types import I64 as i64
from sdk.compiler.ir.types import U8 as u8
from sdk.graph.builder import ModuleBuilder
from sdk.graph.entry import Entry
from sdk.graph.shared import StateRef
from sdk.graph.tensor import Tensor

__all__ = [
    "Entry", "ModuleBuilder", "StateRef", "Tensor", "boolean", "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8",
]  # fmt: skip
