"""Dims as JavaScript."""

from __future__ import annotations

import json
import re
from typing import Any

from sdk.compiler.sym import Dim, Var
from sdk.compiler.sym.dim import Func

__all__ = ["js_dim"]


def js_dim(dim: Dim) -> str:
    """A dim as JavaScript that computes it from the properties of ``d``."""
    if isinstance(dim, int):
        return str(dim)
    terms = [_js_term(term, coefficient) for term, coefficient in dim.terms]
    return " + ".join([*terms, *([str(dim.const)] if dim.const else [])]).replace("+ -", "- ")


def _js_term(term: Any, coefficient: int) -> str:
    factors = [_js_factor(factor) if power == 1 else f"{_js_factor(factor)} ** {power}" for factor, power in term]
    return " * ".join([*([str(coefficient)] if coefficient != 1 else []), *factors])


def _js_factor(factor: Var | Func) -> str:
    if isinstance(factor, Var):
        plain = re.fullmatch(r"[A-Za-z_]\w*", factor.name, re.ASCII)
        return f"d.{factor.name}" if plain else f"d[{json.dumps(factor.name)}]"
    a, b = js_dim(factor.a), js_dim(factor.b)
    return f"Math.floor(({a}) / ({b}))" if factor.name == "floordiv" else f"Math.{factor.name}({a}, {b})"
