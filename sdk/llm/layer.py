"""The C around the entries of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdk.resources import data_dir
from sdk.templates import render

__all__ = ["layer_files", "pool_files"]


def layer_files(info: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """NAME_llm.c and NAME_llm.h of what model.json says."""
    values = {
        "m": prefix, "M": prefix.upper(), "context": info["context"], "vocabulary": info["vocabulary_size"],
        "verify": info["verify"], "kept": info["kept"], "file": "weights" in info,
    }  # fmt: skip
    return {f"{prefix}_llm.{kind}": render(f"llm/llm.{kind}", **values) for kind in ("c", "h")}


def pool_files(prefix: str, threads: int) -> dict[str, str]:
    """The C of threads, where runs can be shared."""
    if threads == 1:
        return {}
    pool = data_dir("c_runtime") / "port" / "posix" / "pool.c"
    mine = render("llm/llm_threads.c", m=prefix, M=prefix.upper())
    return {f"{prefix}_llm_threads.c": mine, "sdk_rt_pool.c": pool.read_text(encoding="utf-8")}
