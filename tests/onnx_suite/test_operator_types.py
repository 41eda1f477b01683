"""Every operator on every element type that onnxruntime takes, compiled to C for this machine, against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from suite_batch import outcomes
from suite_cases import Case
from type_cases import Single, everything, model_of

from sdk.errors import SdkError
from sdk.frontends.onnx.engine import session_options
from sdk.frontends.onnx.importer import import_onnx

Array = np.ndarray[Any, Any]
TOGETHER = 24  # nodes of one model
MODELS = 12  # models of one agent
PARTS = 12
# Why an operator is refused that onnxruntime takes; nothing else may be.
REFUSED = {
    "Range": "must be known when the model is built",
    "ReduceLogSumExp": "ReduceLogSumExp of i",
}
# What differed once, or did not compile; each is always run.
KNOWN = (
    "Cast i8 bool", "Cast f32 u8", "Cast f32 u16", "Cast f64 u32", "Cast f32 u64", "Cast f16 i8", "Cast f64 i64",
    "BitCast bool u8", "BitCast f16 i16", "Pow i32 f32", "Pow i64 f32", "Pow i64 f64", "ReduceProd i32",
    "ReduceProd i64", "ReduceSum i32", "ReduceSumSquare i32", "ReduceL1 i32", "ReduceLogSum i32", "OneHot f32 i64",
    "OneHot f16 i64", "Transpose f16", "Conv f16", "NonZero f16", "ScatterND bool", "Resize u8", "Resize i8",
    "MaxPool u8", "Shrink u8", "LSTM f16", "Det f16",
)  # fmt: skip


def _session(singles: Sequence[Single]) -> list[Array]:
    """What onnxruntime computes without optimisations, all outputs in order."""
    onnxruntime.set_default_logger_severity(4)
    model, arrays = model_of(singles)
    options = session_options(onnxruntime)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {p.name: a for p, a in zip(session.get_inputs(), arrays, strict=True)}
    return [np.asarray(a) for a in session.run(None, given)]


def _wanted(single: Single) -> list[Array] | None:
    """What onnxruntime computes; None where it has no such operator or type."""
    try:
        return _session([single])
    except Exception:  # its errors share no base
        return None


def _refusal(single: Single) -> str:
    """Why the importer refuses a case; "" when it does not."""
    try:
        import_onnx(model_of([single])[0], "case")
    except SdkError as error:
        return f"{error.where} {error.message}"
    return ""


def _batches(found: Iterable[tuple[Single, list[Array]]]) -> Iterator[list[tuple[Single, list[Array]]]]:
    """Cases that one model can hold: of one opset, half floats apart, for they are compared less closely."""
    kinds: dict[tuple[int, bool], list[tuple[Single, list[Array]]]] = {}
    for single, want in found:
        kinds.setdefault((single.opset, _is_half(want)), []).append((single, want))
    for members in kinds.values():
        yield from _groups(members, TOGETHER)


def _groups(items: Iterable[Any], maximum: int) -> Iterator[list[Any]]:
    rest = list(items)
    yield from (rest[k : k + maximum] for k in range(0, len(rest), maximum))


def _is_half(want: Sequence[Array]) -> bool:
    return any(a.dtype == np.float16 for a in want)


def _case(name: str, members: Sequence[tuple[Single, list[Array]]]) -> Case:
    model, arrays = model_of([single for single, _ in members])
    want = [array for _, arrays in members for array in arrays]
    return Case(name, model, ((arrays, want),), 1e-4, 5e-3 if _is_half(want) else 1e-5)


def _differences(singles: Iterable[Single], folder: Path) -> Mapping[str, str]:
    """The cases that are refused without a reason in the table, or whose C gives something else, and what."""
    problems: dict[str, str] = {}
    found = []
    for single in singles:
        want = _wanted(single)
        why = "" if want is None else _refusal(single)
        if why and REFUSED.get(single.op, "?") not in why:
            problems[single.name] = why
        if want is not None and not why:
            found.append((single, want))
    for number, some in enumerate(_groups(_batches(found), MODELS)):
        names = {f"batch {number} {k}": members for k, members in enumerate(some)}
        problems |= _compared(names, folder)
    assert found
    return problems


def _compared(names: Mapping[str, list[tuple[Single, list[Array]]]], folder: Path) -> Mapping[str, str]:
    """Of models that differ, the nodes that do."""
    problems: dict[str, str] = {}
    found = outcomes(list(names), lambda name: _case(name, names[name]), folder)
    for name in (n for n, why in found.items() if why):
        alone = {member[0].name: [member] for member in names[name]}
        culprits = outcomes(list(alone), lambda n, alone=alone: _case(n, alone[n]), folder)  # type: ignore[misc]
        problems |= {n: why for n, why in culprits.items() if why} or {name: f"{found[name]}, each alone does not"}
    return problems


def _is_known(single: Single) -> bool:
    op, _, *kinds = single.name.split()
    return any(k.split() == [op, *kinds[: len(k.split()) - 1]] for k in KNOWN)


def test_some_operators_and_types(tmp_path: Path) -> None:
    """What once differed, and a case in eighty of all others."""
    everyone = list(everything())
    known = {s.name: s for s in everyone if _is_known(s)}
    assert {k for k in KNOWN if not any(_is_known(s) for s in known.values())} == set()
    rest = [s for s in everyone if s.name not in known]
    assert _differences([*known.values(), *rest[::80]], tmp_path) == {}


def test_the_table_covers_the_importer() -> None:
    """Every operator that has a converter stands in the table, but for those without a type of their own."""
    from sdk.frontends.onnx.operators import OPERATORS

    others = {"Constant", "If", "Loop", "Scan", "NonMaxSuppression", "Scatter", "MaxUnpool", "TensorScatter"}
    others |= {"Optional", "OptionalGetElement", "OptionalHasElement", "ConcatFromSequence", "SplitToSequence"}
    others |= {"Bernoulli", "Multinomial", "TfIdfVectorizer", "RandomNormal", "RandomNormalLike", "RandomUniform"}
    others |= {"RandomUniformLike"}
    others |= {f"Sequence{name}" for name in ("At", "Construct", "Empty", "Erase", "Insert", "Length")}
    covered = {s.op for s in everything()}
    assert {name for name in OPERATORS if "::" not in name} - covered <= others


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_operators_and_types(part: int, tmp_path: Path) -> None:
    assert _differences(list(everything())[part::PARTS], tmp_path) == {}
