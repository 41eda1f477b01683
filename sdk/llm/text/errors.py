"""The one way in which a tokenizer is refused."""

from __future__ import annotations

from sdk.errors import BuildError

__all__ = ["refusal"]


def refusal(what: str, *, where: str, why: str | None = None) -> BuildError:
    """The error for a part of a tokenizer that cannot be compiled."""
    return BuildError(
        f"a tokenizer has {what}, which cannot be compiled for a device",
        where=where,
        why=why,
        hint="tokenize on the host with the package tokenizers, or convert the tokenizer (sdk help llm)",
    )
