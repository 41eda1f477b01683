"""Archives of exported programs made safe to load: PyTorch's own reader runs code that a file brings along.

What ``torch.export.load`` reads of an archive may be pickles (tensors of classes, objects, example inputs), names of
any function of PyTorch to call, Python expressions for sizes and guards, and names that end up in generated code. An
archive as ``torch.export.save`` writes it needs none of that: its tensors are raw bytes, the rest is JSON. So a file is
read here, everything in it is held against what may stand there, and a new archive of that alone is what is loaded.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from typing import Any, Final

from sdk.budget import FOLDED, Budget
from sdk.errors import BuildError
from sdk.frontends.torch.expressions import check_expression
from sdk.frontends.torch.library import torch_package
from sdk.frontends.torch.names import NAMES
from sdk.frontends.torch.widening import widen, widen_tensors

__all__ = ["archive_files", "archive_of", "screened"]

_MODEL: Final = "models/model.json"
_TENSORS: Final = {  # folder: the description of its tensors, and what their files are called
    "data/weights/": ("model_weights_config.json", re.compile(r"weight_\d+")),
    "data/constants/": ("model_constants_config.json", re.compile(r"tensor_\d+")),
}
_EXAMPLE: Final = "data/sample_inputs/model.pt"
_KEPT: Final = ("archive_format", "archive_version", "byteorder", ".data/version", f"extra/{NAMES}")
_NAME: Final = re.compile(r"-?[\w.@]*")
_FREE: Final = frozenset({"as_string", "as_strings", "torch_version", "hint"})  # text that is only ever text
_DEVICES: Final = frozenset({"device", "as_device"})
_CPU: Final = {"type": "cpu", "index": None}
_TRUST: Final = (
    "if you trust it: torch.export.load(path) in Python, and give sdk.compile the program that this returns"
)
_HIGHER: Final = frozenset({
    "associative_scan", "cond", "map_impl", "scan", "while_loop", "wrap_with_autocast", "wrap_with_set_grad_enabled",
})  # fmt: skip
_ON_SIZES: Final = {
    "_operator": "abs add and_ eq floordiv ge getitem gt le lt mod mul ne neg or_ pos pow sub truediv",
    "math": "ceil floor sqrt trunc",
    "torch": "_sym_sqrt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum",
}


def screened(data: bytes) -> bytes:
    """The archive of the program alone.

    Raises:
        BuildError: the file holds something else: what, and what to do.
        ValueError, KeyError, TypeError, zipfile.BadZipFile and the like: it is damaged.
    """
    files = archive_files(data)
    made = {name: files[name] for name in _KEPT if name in files}
    model = json.loads(files[_MODEL])
    _check(model, "")
    widen(model)
    model["guards_code"] = []  # Python; what it would check, the entries of a compiled model check
    made[_MODEL] = json.dumps(model).encode()
    for folder, (config, _) in _TENSORS.items():
        made |= _tensors(files, folder, config)
    made[_EXAMPLE] = b""
    return archive_of(made)


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """An archive of files by their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(f"model/{name}"), content)
    return out.getvalue()


def archive_files(data: bytes) -> dict[str, bytes]:
    """The files of an archive by their names in its one folder, no larger than the archive itself."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if sum(e.file_size for e in entries) > len(data) or any(e.compress_type != zipfile.ZIP_STORED for e in entries):
            raise BuildError("the archive is compressed, which torch.export.save never does", hint=_TRUST)
        parts = [e.filename.partition("/") for e in entries]
        if len({p[0] for p in parts}) != 1 or len({p[2] for p in parts}) != len(parts):
            raise BuildError("the archive has several folders, or a file twice", hint=_TRUST)
        known = {_MODEL, *_KEPT, *(f"{folder}{config}" for folder, (config, _) in _TENSORS.items())}
        wanted = {
            e: name for e, (_, _, name) in zip(entries, parts, strict=True)
            if name in known or any(name.startswith(folder) for folder in _TENSORS)
        }  # fmt: skip
        return {name: archive.read(entry) for entry, name in wanted.items()}


def _tensors(files: Mapping[str, bytes], folder: str, config: str) -> dict[str, bytes]:
    """The description of the tensors in a folder and their bytes; ones of one element spread over many are counted."""
    described = json.loads(files[folder + config])
    made: dict[str, bytes] = {}
    budget = Budget()
    for name, one in described["config"].items():
        path = one["path_name"]
        if one["use_pickle"] or _TENSORS[folder][1].fullmatch(path) is None:
            raise BuildError(
                f"the tensor {name[:80]} is an object of Python, and reading it runs what the file says",
                hint=_TRUST,
            )
        content = files[folder + path]
        count = math.prod(int(size["as_int"]) for size in one["tensor_meta"]["sizes"])
        if count > len(content):
            budget.spend(FOLDED, count, f"the tensor {name[:80]}")
        made[folder + path] = content
    _check(described, "")
    widen_tensors(described, made, folder)
    made[folder + config] = json.dumps(described).encode()
    return made


def _check(found: Any, key: str) -> None:
    """Holds a part of a description against what may stand there; devices become this processor, notes on nodes go but
    for the lines of source."""
    if isinstance(found, dict):
        for name, value in list(found.items()):
            if not _NAME.fullmatch(name):
                raise _odd(name)
            if name == "metadata":
                found[name] = {k: v for k, v in value.items() if k == "stack_trace" and isinstance(v, str)}
            elif name in _DEVICES and isinstance(value, dict):
                found[name] = dict(_CPU)
            else:
                _check(value, name)
    elif isinstance(found, list):
        for value in found:
            _check(value, key)
    elif isinstance(found, str) and key not in _FREE:
        _check_text(found, key)


def _check_text(text: str, key: str) -> None:
    if key in ("target", "as_operator"):
        _check_target(text)
    elif key == "expr_str":
        check_expression(text)
    elif key in ("in_spec", "out_spec"):
        _check_tree(json.loads(text)[1])
    elif key in ("name", "as_name"):
        if text and not text.isidentifier():
            raise _odd(text)
    elif key != "guards_code" and _NAME.fullmatch(text) is None:
        raise _odd(text)


def _odd(text: str) -> BuildError:
    return BuildError(f"{text[:80]!r} stands where a name is expected", hint=_TRUST)


def _check_target(text: str) -> None:
    """Refuses to call what is neither an operator nor arithmetic on sizes."""
    torch = torch_package()
    *path, last = text.split(".")
    if last in _ON_SIZES.get(".".join(path), "").split():
        return
    if path == ["torch", "ops", "higher_order"] and last in _HIGHER:
        return
    if path[:2] == ["torch", "ops"] and len(path) == 4 and all(word.isidentifier() for word in path):
        packet = getattr(getattr(torch.ops, path[2]), path[3], None)
        if isinstance(getattr(packet, last, None), torch._ops.OpOverload):
            return
    raise BuildError(
        f"the program calls {text[:80]}, which is no operator that is known here",
        hint="import what registers the operator first, or export the module without it",
    )


def _check_tree(tree: Any) -> None:
    """Refuses a tree of inputs or outputs with keys that are members of enumerations: reading them imports modules."""
    context = tree["context"]
    if context is not None and "__enum__" in json.dumps(json.loads(context), ensure_ascii=False):
        raise BuildError("inputs or outputs by members of an enumeration are not supported", hint="use text as keys")
    for child in tree["children_spec"]:
        _check_tree(child)
