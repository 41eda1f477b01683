"""What a file is that is no model, told from its first bytes, its name or its contents, and what to do with it."""

from __future__ import annotations

import io
import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sdk.errors import UsageError

__all__ = ["foreign", "no_model", "refuse_folder"]

Other = tuple[str, str | None]  # what a file is, and what to do with it
_LOAD: Final = {
    "Keras": "from_keras_model(tf.keras.models.load_model({path}))",
    "SavedModel": "from_saved_model({path})",
}
_TORCH: Final = (
    "an archive of PyTorch without an exported program",
    "export it where the network is defined: torch.export.save(torch.export.export(model, inputs), 'model.pt2')",
)
_PAGE: Final = ("a web page", "download the file itself: the link named raw or download, not the page that shows it")
_ARRAY: Final = ("an array of numpy", "arrays are inputs: sdk run MODEL --input NAME={path}")
_LFS: Final = ("a Git LFS pointer, which stands for the file", "git lfs pull --include {name}")
_GZIP: Final = ("a gzip archive", "gunzip {path}, or tar -xf {path}")
_PICKLE: Final = ("a Python pickle", _TORCH[1])
_STARTS: Final[Mapping[bytes, Other]] = {
    b"version https://git-lfs": _LFS,
    b"<!doctype html": _PAGE,
    b"<html": _PAGE,
    b"\x93NUMPY": _ARRAY,
    b"\x1f\x8b": _GZIP,
    b"\x80\x02": _PICKLE,
    b"\x80\x03": _PICKLE,
    b"\x80\x04": _PICKLE,
    b"\x80\x05": _PICKLE,
    b"GGUF": ("weights of llama.cpp", "export the network to ONNX from where it came from"),
}
_SUFFIXES: Final[Mapping[str, Other]] = {
    ".pt": _TORCH,
    ".pth": _TORCH,
    ".safetensors": ("weights without a network", _TORCH[1]),
    ".pb": ("a graph of TensorFlow", "make a .tflite of its SavedModel folder with TensorFlow"),
}


def no_model(path: Path, other: Other | None, readable: str) -> UsageError:
    """The error for a file that no frontend reads, of ``other`` contents as far as those are known; ``readable`` says
    what is read."""
    what, hint = other or (None, None)
    hint = hint or f"what is read: {readable}"
    return UsageError(
        f"{path.name} is not a model this version reads",
        where=str(path),
        why=what and f"it is {what}",
        hint=hint.replace("{path}", shlex.quote(str(path))).replace("{name}", shlex.quote(path.name)),
    )


def foreign(path: Path, data: bytes, suffixes: Sequence[str]) -> Other | None:
    """What a file that no frontend knows is instead, by its contents; by its name where that has none of
    ``suffixes``, the endings of files that are read. None when nothing tells."""
    suffix = path.suffix.lower()
    if data.startswith(b"\x89HDF\r\n\x1a\n"):
        return "a Keras or HDF5 file", _convert("Keras", path)
    if data.startswith(b"PK\x03\x04"):
        return _archive(path, data, suffixes)
    start = data[:512].lstrip().lower()
    for magic, found in _STARTS.items():
        if data.startswith(magic) or (magic.islower() and start.startswith(magic)):
            return found
    if suffix in suffixes:
        return None
    return _SUFFIXES.get(suffix) or (("text", None) if data and _is_text(data[:512]) else None)


def _archive(path: Path, data: bytes, suffixes: Sequence[str]) -> Other:
    """What a zip archive holds."""
    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except zipfile.BadZipFile:
        names = []
    if path.suffix.lower() == ".keras" or {"config.json", "metadata.json"} <= set(names):
        return "a Keras model", _convert("Keras", path)
    if path.suffix.lower() in (".pt", ".pth") or any(name.endswith("data.pkl") for name in names):
        return _TORCH
    models = [name for name in names if name.lower().endswith(tuple(suffixes))]
    return "a zip archive", f"unzip {{path}}, and give {models[0] if models else 'the model in it'}"


def _is_text(start: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\n\r\f" for byte in start)


def _convert(kind: str, path: Path) -> str:
    """The command by which TensorFlow makes a .tflite file of a Keras model or a SavedModel, for a shell."""
    loaded = _LOAD[kind].format(path=json.dumps(str(path)))
    out = json.dumps(f"{path.stem or 'model'}.tflite")
    code = f'import tensorflow as tf; open({out}, "wb").write(tf.lite.TFLiteConverter.{loaded}.convert())'
    return shlex.join(["python", "-c", code])


def refuse_folder(path: Path, suffixes: Sequence[str], readable: str) -> UsageError:
    """The error for a folder in the place of a model file: it names what in the folder may have been meant."""
    why, hint = "it is a folder", f"what is read: {readable}"
    models = sorted(str(p) for p in path.iterdir() if p.suffix.lower() in suffixes)
    if (path / "saved_model.pb").is_file():
        why, hint = "it is a SavedModel of TensorFlow", _convert("SavedModel", path)
    elif (path / "manifest.json").is_file():
        why, hint = "it is a folder that sdk build made", "give the model file that it was built from"
    elif models:
        hint = f"give a file in it: {', '.join(models[:3])}"
    return UsageError(f"{path} is not a model this version reads", why=why, hint=hint)
