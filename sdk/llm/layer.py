"""The C around the entries of a language model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sdk.resources import data_dir
from sdk.templates import render

__all__ = ["gpu_files", "layer_files", "pool_files"]

_ACCESSOR: Final = re.compile(r"\b(\w+_(?:in|out)_[a-z]+)\(const \w+_t \*self(, const \w+ \*dims)?\);")


def layer_files(info: Mapping[str, Any], prefix: str, header: str = "") -> dict[str, str]:
    """NAME_llm.c and NAME_llm.h of what model.json says. Those of a build for a GPU, whose tensors lie in the arena,
    need the ``header`` of the model, which tells which of these lie elsewhere for other dims."""
    found = {name.removeprefix(f"{prefix}_"): ", &dims" * bool(dims) for name, dims in _ACCESSOR.findall(header)}
    values = {
        "gpu": info.get("gpu", ""), "taken": found,
        "m": prefix, "M": prefix.upper(), "context": info["context"], "vocabulary": info["vocabulary_size"],
        "verify": info["verify"], "kept": info["kept"], "file": "weights" in info,
    }  # fmt: skip
    return {f"{prefix}_llm.{kind}": render(f"llm/llm.{kind}", **values) for kind in ("c", "h")}


def gpu_files(prefix: str, gpu: str) -> dict[str, str]:
    """The C that puts a conversation on a GPU, for an interface; none without."""
    return {f"{prefix}_llm_gpu.c": render("llm/llm_gpu.c", m=prefix, gpu=gpu)} if gpu else {}


def pool_files(prefix: str, threads: int) -> dict[str, str]:
    """The C of threads, where runs can be shared."""
    if threads == 1:
        return {}
    pool = data_dir("c_runtime") / "port" / "posix" / "pool.c"
    mine = render("llm/llm_threads.c", m=prefix, M=prefix.upper())
    return {f"{prefix}_llm_threads.c": mine, "sdk_rt_pool.c": pool.read_text(encoding="utf-8")}
