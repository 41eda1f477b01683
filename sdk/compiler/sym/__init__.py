"""Symbolic dims, their bounds and proofs."""

from sdk.compiler.sym.contents import evaluate, evaluate_mixed, flat_index, free_vars, product, substitute
from sdk.compiler.sym.dim import (
    Dim,
    Expr,
    Func,
    Var,
    ceildiv,
    dmax,
    dmin,
    floordiv,
    interval,
    mod,
    show,
)
from sdk.compiler.sym.linear import linear, only_unknown, slope
from sdk.compiler.sym.prove import (
    bounds,
    evaluate_grid,
    max_value,
    min_value,
    prove_eq,
    prove_ge,
    prove_lt,
    values,
)

__all__ = [
    "Dim",
    "Expr",
    "Func",
    "Var",
    "bounds",
    "ceildiv",
    "dmax",
    "dmin",
    "evaluate",
    "evaluate_grid",
    "evaluate_mixed",
    "flat_index",
    "floordiv",
    "free_vars",
    "interval",
    "linear",
    "max_value",
    "min_value",
    "mod",
    "only_unknown",
    "product",
    "prove_eq",
    "prove_ge",
    "prove_lt",
    "show",
    "slope",
    "substitute",
    "values",
]
