"""Tokenizers of checkpoints: read from a tokenizer.json, used on the host, compiled for devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sdk.errors import BuildError
from sdk.llm.text.package import tokenizers_package

__all__ = ["load_tokenizer"]

_MAX_BYTES: Final = 256 << 20  # those of known models have under 40 MB


def load_tokenizer(path: Path) -> Any:
    """The ``tokenizers.Tokenizer`` of a tokenizer.json or of a folder with one. It neither truncates nor pads.

    Raises:
        BuildError: there is none, it is larger than 256 MB, or it is damaged.
        MissingToolError: the package ``tokenizers`` is not installed.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise BuildError("there is no tokenizer.json", where=str(file), hint="download it with the checkpoint")
    if file.stat().st_size > _MAX_BYTES:
        raise BuildError("the tokenizer.json has more than 256 MB", where=str(file), hint="use the original file")
    package = tokenizers_package()
    try:
        tokenizer = package.Tokenizer.from_str(file.read_text(encoding="utf-8"))
    except Exception as error:  # the package has no class of errors
        raise BuildError(
            "the tokenizer.json cannot be read", where=str(file), why=str(error)[:300], hint="download it again"
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
