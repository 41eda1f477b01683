"""Exported programs in files, read by PyTorch once ``screen`` has seen them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from sdk.errors import BuildError, SdkError
from sdk.frontends.torch.layers import declared
from sdk.frontends.torch.library import first_line, quiet, torch_package
from sdk.frontends.torch.names import NAMES, read_names
from sdk.frontends.torch.screen import screened

__all__ = ["load"]


def load(data: bytes) -> tuple[Any, Mapping[str, Any]]:
    """The exported program in the bytes of a file, and the names that were stored with it. Nothing in them is run.

    Raises:
        BuildError: they hold none, one of another version, or what only code of theirs could read.
        MissingToolError: torch is not installed.
    """
    torch = torch_package()
    declared()
    extra = {NAMES: ""}
    try:
        with quiet(), _remembering():
            program = torch.export.load(io.BytesIO(screened(data)), extra_files=extra)
    except SdkError:
        raise
    except Exception as err:  # its errors share no base
        raise BuildError(
            "the file is not a valid exported program", why=f"torch {torch.__version__}: {first_line(err)}",
            hint="write it with torch.export.save of the same version",
        ) from None  # fmt: skip
    return program, read_names(extra[NAMES])


@contextmanager
def _remembering() -> Iterator[None]:
    """PyTorch parses the same sizes and asks for the same fields at each tensor: three quarters of the time to read
    a program: here once. A version whose reader is built otherwise reads as it does."""
    reader = import_module("torch._export.serde.serialize")
    parse = getattr(getattr(reader, "GraphModuleDeserializer", None), "_parse_sym_expr", None)
    typing = getattr(reader, "typing", None)
    if parse is None or typing is None:
        yield
        return
    sizes: dict[Any, Any] = {}
    fields: dict[Any, Any] = {}

    def parsed(self: Any, text: str, hint: Any = None) -> Any:
        key = (id(self), text, hint)
        if key not in sizes:
            sizes[key] = parse(self, text, hint)
        return sizes[key]

    def hints(kind: Any, **given: Any) -> Any:
        if kind not in fields:
            fields[kind] = typing.get_type_hints(kind, **given)
        return fields[kind]

    names = SimpleNamespace(**{**vars(typing), "get_type_hints": hints})
    with patch.object(reader.GraphModuleDeserializer, "_parse_sym_expr", parsed), patch.object(reader, "typing", names):
        yield
