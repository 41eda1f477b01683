"""Checkpoints: a Hugging Face folder or a GGUF file as a ``Config`` and tensors under one set of names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from sdk.driver.safetensors import read_safetensors
from sdk.errors import BuildError, UsageError
from sdk.frontends.tensors import Tensor
from sdk.llm.architectures import architecture_of
from sdk.llm.architectures.base import Architecture, Given
from sdk.llm.config import Config
from sdk.llm.fifth_bits import with_bytes_of_bits
from sdk.llm.gguf import map_file, open_gguf
from sdk.llm.gguf_config import config_of
from sdk.llm.json_files import read_json
from sdk.llm.packed import PARTS, Packing, packing_of, unpacked
from sdk.llm.shapes import expected
from sdk.llm.weights import FORMATS, Weight

__all__ = ["Checkpoint", "open_checkpoint"]

_KINDS: Final = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Checkpoint:
    """A model as published: its ``config``, its ``weights`` by name, how its file or folder ``path`` is known again
    (``digest``), and what it says of its tokens: ``metadata`` of a GGUF file, ``files`` of a folder."""

    path: Path
    config: Config
    weights: Mapping[str, Weight] = field(repr=False)
    digest: str
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    files: tuple[Path, ...] = ()


def open_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint at ``path``: a folder with config.json and .safetensors files, or a .gguf file.

    Raises:
        UsageError: it cannot be read, is damaged or truncated.
        BuildError: its architecture is not supported, or its tensors are not those of its configuration.
    """
    try:
        found = _folder(path) if path.is_dir() else _gguf(path)
        check_tensors(found)
    except BuildError as error:
        error.where = error.where or str(path)
        raise
    return found


def _gguf(path: Path) -> Checkpoint:
    file = open_gguf(path)
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str):
        raise UsageError(f"{path} does not say what architecture it has", hint="general.architecture is missing")
    architecture = architecture_of(name)
    config = architecture.config(Given(config_of(file)))
    used = (with_bytes_of_bits(w) for n, w in file.tensors.items() if not n.startswith("rope_f"))
    weights = _converted(architecture.convert_gguf, used, config)
    return Checkpoint(path, config, weights, _stamp([path]), file.metadata)


def _converted(change: Any, given: Iterable[Weight], config: Config) -> dict[str, Weight]:
    found: dict[str, Weight] = {}
    for weight in given:
        for made in change(weight, config):
            found[made.name] = made
    return found


def _folder(path: Path) -> Checkpoint:
    values = read_json(path / "config.json")
    packing = _packing(values)
    names = values.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise BuildError("config.json names no single architecture", why=f"architectures is {str(names)[:60]}")
    architecture = architecture_of(names[0])
    if isinstance(values.get("text_config"), Mapping):
        values = {**values["text_config"], "architectures": names}
    config = architecture.config(Given(values))
    files = _tensor_files(path)
    weights = _converted(architecture.convert, _renamed(architecture, files, packing), config)
    if values.get("tie_word_embeddings", architecture.tied):
        weights.pop("output.weight", None)  # the same numbers once more
    tokens = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json",
              "generation_config.json", "chat_template.jinja")  # fmt: skip
    beside = tuple(path / name for name in tokens if (path / name).is_file())
    return Checkpoint(path, config, weights, _stamp([path / "config.json", *files]), values, beside)


def _tensor_files(path: Path) -> list[Path]:
    """The files of tensors: those that the index names, else all there are."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        table = read_json(index).get("weight_map")
        if not isinstance(table, dict) or not all(isinstance(n, str) for n in table.values()):
            raise UsageError(f"{index} has no weight_map", hint="fetch it again")
        names = sorted(set(table.values()))
        strange = [n for n in names if n != Path(n).name or not n.endswith(".safetensors")]
        if strange:
            raise UsageError(f"{index} names {strange[0][:80]!r}", why="files lie in the folder itself")
        missing = [n for n in names if not (path / n).is_file()]
        if missing:
            raise UsageError(f"{path} lacks {missing[0]}", why="the index names it", hint="fetch the whole checkpoint")
        return [path / n for n in names]
    found = sorted(path.glob("*.safetensors"))
    if not found:
        raise UsageError(f"{path} has no .safetensors file", hint="convert it: model.save_pretrained(FOLDER)")
    return found


def _packing(values: Mapping[str, Any]) -> Packing | None:
    """How matrices are packed, if they are."""
    told = values.get("quantization_config")
    return packing_of(told) if isinstance(told, Mapping) else None


def _renamed(architecture: Architecture, files: Iterable[Path], packing: Packing | None) -> Iterable[Weight]:
    parts: dict[str, Tensor] = {}
    for path in files:
        for name, tensor in read_safetensors(map_file(path), str(path)).items():
            if packing is not None and name.rpartition(".")[2] in PARTS:
                parts[name] = tensor
                continue
            here = architecture.here(name)
            if here is None or (packing is not None and name.endswith(".bias") and _is_nothing(tensor)):
                continue
            yield _weight(here, tensor)
    for name, weight in () if packing is None else unpacked(packing, parts):
        here = architecture.here(name)
        if here is not None:
            yield weight.renamed(here)


def _is_nothing(tensor: Tensor) -> bool:
    """Whether a bias is all zeros, as GPTQ writes for matrices without one."""
    return not np.frombuffer(tensor.data, np.uint8).any()


def _weight(name: str, tensor: Tensor) -> Weight:
    if tensor.kind not in _KINDS:
        raise BuildError(f"the tensor {name} has elements of {tensor.kind}", hint=f"supported: {', '.join(_KINDS)}")
    return Weight.of(name, FORMATS[tensor.kind], tensor.shape, np.frombuffer(tensor.data, np.uint8))


def _stamp(paths: Iterable[Path]) -> str:
    """How files are known again without reading all of them: by name, size, time and their first and last bytes."""
    hasher = hashlib.sha256()
    for path in paths:
        about = os.stat(path)
        data = map_file(path)
        hasher.update(f"{path.resolve()}\0{about.st_size}\0{about.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
        hasher.update(data[: 1 << 16])
        hasher.update(data[-(1 << 16) :])
    return hasher.hexdigest()


def check_tensors(found: Checkpoint) -> None:
    """Checks that each tensor of a checkpoint is one that the decoder uses, of the right shape, and none is missing.

    Raises:
        BuildError: one is not; up to eight are named.
    """
    wanted = expected(found.config, found.weights.keys())
    lines = [f"{name}: missing" for name, one in wanted.items() if one.required and name not in found.weights]
    for name, weight in found.weights.items():
        one = wanted.get(name)
        if one is None:
            lines.append(f"{name[:80]}: not known")
        elif weight.shape not in one.shapes:
            lines.append(f"{name}: {list(weight.shape)} instead of {' or '.join(str(list(s)) for s in one.shapes)}")
    if lines:
        more = [f"and {len(lines) - 8} more"] if len(lines) > 8 else []
        raise BuildError(
            f"the tensors of the checkpoint are not those of a {found.config.architecture} of its configuration",
            why="\n".join(lines[:8] + more),
            hint="fetch the whole checkpoint again",
        )
