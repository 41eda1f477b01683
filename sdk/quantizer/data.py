"""Calibration data: arrays by the name of the input, their first axis samples, checked against the model."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from sdk.errors import UsageError
from sdk.files import read_regular
from sdk.frontends.onnx.reader import element_name, element_type
from sdk.quantizer.net import Array

__all__ = ["Samples", "checked", "labels_of", "read_npz"]

MAX_BYTES: Final = 1 << 31  # of all arrays together, unpacked
_HEADERS: Final[dict[tuple[int, int], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0
}  # fmt: skip
BATCH: Final = 16  # samples run at once where the model takes any number


# What zipfile and numpy raise of damaged files.
_DAMAGE: Final = (
    zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError, TypeError, SyntaxError,
    struct.error, OverflowError,
)  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """Samples for a model.

    Attributes:
        arrays: by the name of the input, [samples, ...] with the axes of one sample behind.
        shapes: what each input has in a run of ``batch`` samples.
        batch: samples of a run.
        batched: whether the first axis of the inputs counts samples; else each run has one sample, as the input is.
        count: samples that are used: as many as whole runs hold.
    """

    arrays: Mapping[str, Array]
    shapes: Mapping[str, tuple[int, ...]]
    batch: int
    batched: bool
    count: int

    def runs(self, maximum: int | None = None) -> Iterator[dict[str, Array]]:
        """The inputs of each run; of the first ``maximum`` samples or so, spread evenly."""
        starts = list(range(0, self.count, self.batch))
        wanted = len(starts) if maximum is None else max(min(-(-maximum // self.batch), len(starts)), 1)
        for k in range(wanted):
            at = starts[k * len(starts) // wanted]
            yield {
                name: array[at : at + self.batch] if self.batched else array[at]
                for name, array in self.arrays.items()
            }

    def run_count(self, maximum: int | None = None) -> int:
        """How many runs ``runs`` has."""
        total = self.count // self.batch
        return total if maximum is None else max(min(-(-maximum // self.batch), total), 1)


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file.

    Raises:
        UsageError: it cannot be read, is damaged or too large, or holds what is no array of numbers.
    """
    hint = 'np.savez("calib.npz", INPUT=array) writes one, arrays by the names of the inputs'
    where = f"{path}"
    try:
        with zipfile.ZipFile(io.BytesIO(read_regular(path, MAX_BYTES))) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
            if total > MAX_BYTES:
                why = f"{total:,} bytes once unpacked, at most {MAX_BYTES:,} are read"
                raise UsageError("the file of samples is too large", where=where, why=why, hint="give fewer samples")
            return {entry.removesuffix(".npy"): _array(archive.read(entry)) for entry in archive.namelist()}
    except OSError as error:
        raise UsageError(f"cannot read {path}", why=error.strerror or str(error), hint=hint) from None
    except _DAMAGE as error:
        raise UsageError(f"{path} is no .npz file of arrays", why=str(error), hint=hint) from None


def _array(data: bytes) -> Array:
    """An array of numbers, of as many bytes as its header says."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"an array of version {version}")
    shape, by_column, kind = _HEADERS[version](file)
    if kind.kind not in "biuf":
        raise ValueError(f"an array of {kind}")
    rest = data[file.tell() :]
    if any(n < 0 for n in shape) or math.prod(shape) * kind.itemsize != len(rest):
        raise ValueError(f"{len(rest)} bytes for an array of {kind}{list(shape)}")
    found = np.frombuffer(rest, kind)
    return found.reshape(shape[::-1]).T if by_column else found.reshape(shape)


def labels_of(arrays: Mapping[str, Array], name: str) -> Array:
    """The labels among the arrays: a whole number for each sample.

    Raises:
        UsageError: there are none of that name, or they are no labels.
    """
    found = arrays.get(name)
    if found is None:
        hint = f"it has {', '.join(arrays) or 'none'}"
        raise UsageError(f"the data has no array {name}", where="--labels", hint=hint)
    flat = found.reshape(-1)
    if found.size != len(found) or flat.dtype.kind not in "iu" or (flat.size and int(flat.min()) < 0):
        raise UsageError(
            f"{name} is {found.dtype}{list(found.shape)}", where="--labels",
            why="labels are whole numbers from 0, one for each sample",
            hint="give the classes' numbers, not one-hot rows",
        )  # fmt: skip
    return flat.astype(np.int64)


def checked(model: onnx.ModelProto, given: Mapping[str, Any], labels: str | None) -> Samples:
    """The samples of all inputs of a model.

    Raises:
        UsageError: one is missing, of another shape or type, or holds what is no number.
    """
    constants = {t.name for t in model.graph.initializer}
    wanted = {p.name: p for p in model.graph.input if p.name not in constants}
    if not wanted:
        raise UsageError("the model has no inputs", hint="give the model that computes something of inputs")
    arrays = {name: np.asarray(value) for name, value in given.items() if name != labels}
    _check_names(wanted, arrays)
    ranks = {name: len(p.type.tensor_type.shape.dim) for name, p in wanted.items()}
    batched = all(arrays[name].ndim == ranks[name] and ranks[name] for name in wanted)
    if not batched and not all(arrays[name].ndim == ranks[name] + 1 for name in wanted):
        name = next((n for n in wanted if arrays[n].ndim not in (ranks[n], ranks[n] + 1)), next(iter(wanted)))
        raise _misfit(name, arrays[name], wanted[name])
    counts = {name: len(array) for name, array in arrays.items()}
    count = min(counts.values())
    if max(counts.values()) != count or count == 0:
        found = ", ".join(f"{name} {n}" for name, n in counts.items())
        raise UsageError("every input needs as many samples as the others", why=found, hint="cut them to one number")
    batch = _batch(wanted, count) if batched else 1
    shapes, cast = {}, {}
    for name, proto in wanted.items():
        shapes[name] = (batch, *arrays[name].shape[1:]) if batched else arrays[name].shape[1:]
        _check_shape(name, arrays[name], proto, shapes[name])
        cast[name] = _cast(name, arrays[name], proto)
    if count < batch:
        why = f"{count} samples, and a run takes {batch}"
        raise UsageError("there are fewer samples than a run of the model takes", why=why, hint="give more samples")
    return Samples(cast, shapes, batch, batched, count // batch * batch)


def _check_names(wanted: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    missing, unknown = sorted(wanted.keys() - arrays.keys()), sorted(arrays.keys() - wanted.keys())
    if missing or unknown:
        said = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise UsageError(
            "the arrays of the data are not the inputs of the model", why="; ".join(said),
            hint=f"inputs: {', '.join(wanted)}; an array of labels is named with --labels",
        )  # fmt: skip


def _batch(wanted: Mapping[str, Any], count: int) -> int:
    """Samples of a run: as many as the file fixes."""
    firsts = [p.type.tensor_type.shape.dim[0] for p in wanted.values()]
    fixed = [int(d.dim_value) for d in firsts if d.HasField("dim_value")]
    return max(fixed[0], 1) if fixed else next(n for n in range(min(BATCH, count), 0, -1) if count % n == 0 or n == 1)


def _check_shape(name: str, array: Array, proto: Any, shape: tuple[int, ...]) -> None:
    dims = proto.type.tensor_type.shape.dim
    if any(d.HasField("dim_value") and d.dim_value != n for d, n in zip(dims, shape, strict=True)) or 0 in shape:
        raise _misfit(name, array, proto)


def _misfit(name: str, array: Array, proto: Any) -> UsageError:
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in proto.type.tensor_type.shape.dim]
    text = ", ".join(map(str, dims))
    return UsageError(
        f"the samples of {name} have the shape {list(array.shape)}, the model wants [{text}]",
        why="the first axis counts samples: it takes the place of the input's first, or stands before all of them",
        hint="np.stack the samples as the model takes them",
    )


def _cast(name: str, array: Array, proto: Any) -> Array:
    """The samples in the type of the input; of numbers alone."""
    known = element_type(proto.type.tensor_type.elem_type)
    if known is None:
        found = element_name(proto.type.tensor_type.elem_type)
        raise UsageError(f"the input {name} has elements of type {found}", hint="give a model of numbers")
    kind = known.numpy
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(
            f"the samples of {name} hold NaN or infinities", why=f"first in sample {_first_bad(array)}",
            hint="leave such samples out",
        )  # fmt: skip
    fits = array.dtype == kind or (kind.kind == "f" and array.dtype.kind in "fiu") or (
        kind.kind in "iu" and array.dtype.kind in "iu" and np.can_cast(array.dtype, np.int64)
    )
    if not fits:
        raise UsageError(
            f"the samples of {name} are {array.dtype}, the model wants {kind}", hint=f"array.astype(np.{kind})"
        )
    cast = array.astype(kind)
    if kind.kind in "iu" and not np.array_equal(cast, array):
        raise UsageError(f"samples of {name} leave the range of {kind}", hint="give values that fit the type")
    return cast


def _first_bad(array: Array) -> int:
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    return int(bad.argmax())
