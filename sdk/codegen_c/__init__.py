"""Backends: a planned module becomes source text; one folder each."""

from __future__ import annotations

from sdk.codegen_c.base import Backend, backend_names, get_backend

__all__ = ["Backend", "backend_names", "get_backend"]
