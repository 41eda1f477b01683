"""A fixed random draw of the cases of ONNX's own backend tests."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from sdk.frontends.onnx.reader import WIDER_TYPES

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
SEED, COUNT = 20261121, 200


@dataclass(frozen=True)
class Case:
    """A model, and inputs with the outputs they must give."""

    name: str
    model: onnx.ModelProto
    runs: tuple[tuple[list[Any], list[Any]], ...]
    rtol: float
    atol: float


@lru_cache(maxsize=1)
def everything() -> dict[str, TestCase]:
    """Every case of the kinds above by name, unread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX computes what it expects with overflow and division by zero
        found = [case for kind in KINDS for case in load_model_tests(kind=kind)]
    return {f"{c.kind}/{c.name}": c for c in sorted(found, key=lambda c: (c.kind, c.name))}


def drawn() -> list[str]:
    """The names of the draw."""
    return random.Random(SEED).sample(sorted(everything()), COUNT)


def read(name: str) -> Case:
    """A case with its data."""
    case = everything()[name]
    if case.model is not None:
        runs = tuple((list(map(_given, i)), list(map(_value, o))) for i, o in case.data_sets)
        return Case(name, case.model, runs, case.rtol, case.atol)
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = sorted(folder.glob("test_data_set_*"))
    graph = model.graph
    runs = tuple((list(map(_given, _row(s, "input", graph.input))), _row(s, "output", graph.output)) for s in sets)
    return Case(name, model, runs, case.rtol, case.atol)


def _row(folder: Path, kind: str, types: Sequence[Any]) -> list[Any]:
    """The tensors of a folder, lists of them where the model says so."""
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
    found = []
    for file, type in zip(files, types, strict=False):
        if type.type.WhichOneof("value") == "sequence_type":
            sequence = onnx.SequenceProto()
            sequence.ParseFromString(file.read_bytes())
            found.append(numpy_helper.to_list(sequence))
            continue
        tensor = onnx.TensorProto()
        tensor.ParseFromString(file.read_bytes())
        found.append(_value(tensor))
    return found


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, (np.generic, np.ndarray)) else value


def _given(value: Any) -> Any:
    """An input as the model takes it: a narrow type in the one that stands for it."""
    value = _value(value)
    if isinstance(value, list):
        return [*map(_given, value)]
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OSU":
        return value
    wider = WIDER_TYPES.get(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))
    return value if wider is None else value.astype(wider.numpy)
