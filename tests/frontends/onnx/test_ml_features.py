"""Operators of ai.onnx.ml but for trees, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Array, agree, one_node, record, run
from onnx import TensorProto, helper, numpy_helper

from sdk.errors import SdkError
from sdk.frontends.base import ModelFile
from sdk.frontends.onnx import FRONTEND
from sdk.frontends.onnx.engine import OnnxRuntime
from sdk.frontends.onnx.importer import import_onnx

RNG = np.random.default_rng(9)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def compare(
    op: str, inputs: dict[str, Array], kinds: dict[str, Any] | None = None, version: int = 1, **how: Any
) -> None:
    """Compares one node with onnxruntime; ``kinds`` are the element types of outputs that are not f32."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    outputs = how.pop("outputs", ("y",))
    model = one_node(op, inputs, outputs=outputs, domain="ai.onnx.ml", **how)
    model.opset_import[1].version = version
    for info in model.graph.output:
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(
            np.dtype((kinds or {}).get(info.name, np.float32))
        )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {p.name: inputs[p.name] for p in model.graph.input}
    wanted = session.run(None, given)
    _, got = run(model, inputs)
    record(model, inputs, wanted)
    for name, want in zip(outputs, wanted, strict=True):
        agree(got[name], want)


def refused(op: str, inputs: dict[str, Array], message: str, **how: Any) -> None:
    model = one_node(op, inputs, domain="ai.onnx.ml", **how)
    with pytest.raises(SdkError, match=message):
        import_onnx(model, "m")


def test_scaling() -> None:
    for given in ({"offset": [0.5], "scale": [2.0]}, {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 1.0, -2.0]}):
        compare("Scaler", {"x": reals(4, 3)}, **given)
        compare("Scaler", {"x": RNG.integers(-9, 9, (4, 3))}, **given)
    refused("Scaler", {"x": reals(4, 3)}, "2 offsets", offset=[1.0, 2.0], scale=[1.0])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_by_their_norm(norm: str) -> None:
    x = np.abs(reals(5, 4)) if norm == "MAX" else reals(5, 4)
    x[2] = 0
    compare("Normalizer", {"x": x}, norm=norm)


def test_thresholds_and_missing_values() -> None:
    compare("Binarizer", {"x": reals(4, 3)}, threshold=0.25)
    x = reals(4, 3)
    x[1, 2] = x[3, 0] = np.nan
    compare("Imputer", {"x": x}, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    compare("Imputer", {"x": np.round(reals(4, 3))}, imputed_value_floats=[7.0], replaced_value_float=1.0)
    compare(
        "Imputer",
        {"x": RNG.integers(0, 3, (4, 3))},
        {"y": np.int64},
        imputed_value_int64s=[5, 6, 7],
        replaced_value_int64=2,
    )


def test_columns() -> None:
    compare("FeatureVectorizer", {"a": reals(4, 3), "b": reals(4, 2)}, inputdimensions=[3, 2])
    compare("ArrayFeatureExtractor", {"x": reals(4, 5), "i": np.array([[3, 0]])}, constants=["i"])
    compare("ArrayFeatureExtractor", {"x": reals(2, 4, 5), "i": np.array([4])}, constants=["i"])


def test_categories() -> None:
    compare("OneHotEncoder", {"x": np.array([[1, 7], [9, 3]])}, cats_int64s=[7, 1, 3])
    compare("OneHotEncoder", {"x": np.array([1.0, 7.0, 2.0], np.float32)}, cats_int64s=[7, 1, 3])
    refused("OneHotEncoder", {"x": np.array([1])}, "text", cats_strings=["a"])


@pytest.mark.parametrize("span", [1, 1000000])
def test_labels(span: int) -> None:
    keys = [3 * span, -2 * span, 7 * span, 0]
    x = np.array([[3, 0, 5], [-2, 7, 9]]) * span
    compare(
        "LabelEncoder", {"x": x}, {"y": np.int64}, 2, keys_int64s=keys, values_int64s=[10, 20, 30, 40], default_int64=-7
    )
    compare("LabelEncoder", {"x": x}, None, 2, keys_int64s=keys, values_floats=[1.5, 2.5, 3.5, 4.5], default_float=0.25)
    real = x.astype(np.float32)
    real[0, 2] = np.nan
    given = {"keys_floats": [float(k) for k in keys[:3]] + [float("nan")], "values_int64s": [1, 2, 3, 4]}
    for version in (2, 4):
        compare("LabelEncoder", {"x": real}, {"y": np.int64}, version, **given)
    tensors = {
        "keys_tensor": numpy_helper.from_array(np.array(keys), "k"),
        "values_tensor": numpy_helper.from_array(np.arange(4.0), "v"),
        "default_tensor": numpy_helper.from_array(np.array([-3.5]), "d"),
    }  # fmt: skip
    model = one_node("LabelEncoder", {"x": x}, domain="ai.onnx.ml", **tensors)  # onnxruntime has no doubles for values
    model.opset_import[1].version = 4
    want = [[dict(zip(keys, np.arange(4.0), strict=True)).get(int(v), -3.5) for v in row] for row in x]
    agree(run(model, {"x": x})[1]["y"], np.array(want))
    refused("LabelEncoder", {"x": x}, "text", keys_int64s=[1], values_strings=["a"])


def test_scores_of_labels(tmp_path: Any) -> None:
    """A list of maps becomes a matrix; what is compared with onnxruntime is the same."""
    x = np.abs(reals(4, 3))
    model = one_node("ZipMap", {"x": x}, domain="ai.onnx.ml", classlabels_int64s=[2, 5, 9])
    model.graph.output[0].CopyFrom(
        helper.make_value_info(
            "y",
            helper.make_sequence_type_proto(
                helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
            ),
        )
    )
    graph = import_onnx(model, "m").graphs["main"]
    file = ModelFile(tmp_path / "m.onnx", model.SerializeToString(), FRONTEND)
    agree(OnnxRuntime(file, graph).step({"x": x}, {})["y"], run(model, {"x": x})[1]["y"])
    refused("ZipMap", {"x": x}, "ascending", classlabels_int64s=[5, 2, 9])


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_linear_models(transform: str) -> None:
    weights = reals(3, 4).reshape(-1).tolist()
    compare(
        "LinearRegressor",
        {"x": reals(5, 4)},
        coefficients=weights,
        intercepts=[1.0, 0.5, 0.0],
        targets=3,
        post_transform=transform,
    )
    given = {"classlabels_ints": [2, 4, 8], "outputs": ("label", "y"), "kinds": {"label": np.int64}}
    compare(
        "LinearClassifier",
        {"x": reals(5, 4)},
        coefficients=weights,
        intercepts=[1.0, 0.5, 0.0],
        post_transform=transform,
        **given,
    )
    given["classlabels_ints"] = [3, 6]
    compare(
        "LinearClassifier",
        {"x": reals(5, 4)},
        coefficients=weights[:4],
        intercepts=[0.5],
        post_transform=transform,
        **given,
    )
    compare(
        "LinearClassifier",
        {"x": reals(5, 4)},
        coefficients=weights[:8],
        intercepts=[0.5, 0.1],
        post_transform=transform,
        **given,
    )


def test_probit() -> None:
    compare(
        "LinearRegressor",
        {"x": RNG.uniform(0.05, 0.95, (6, 1)).astype(np.float32)},
        coefficients=[1.0],
        intercepts=[0.0],
        post_transform="PROBIT",
    )


KERNELS = [
    ("LINEAR", [0.0, 0.0, 0.0]),
    ("POLY", [0.5, 1.0, 3.0]),
    ("RBF", [0.7, 0.0, 0.0]),
    ("SIGMOID", [0.3, 0.1, 0.0]),
]


@pytest.mark.parametrize(("kernel", "params"), KERNELS)
def test_support_vectors(kernel: str, params: list[float]) -> None:
    flat = {"kernel_type": kernel, "kernel_params": params}
    vectors = reals(6, 3).reshape(-1).tolist()
    for one in (0, 1):
        compare(
            "SVMRegressor",
            {"x": reals(5, 3)},
            n_supports=6,
            support_vectors=vectors,
            coefficients=reals(6).tolist(),
            rho=[0.25],
            one_class=one,
            **flat,
        )
    for labels, sizes in (([1, 4], [2, 4]), ([0, 1, 2], [2, 1, 3])):
        pairs = len(labels) * (len(labels) - 1) // 2
        compare(
            "SVMClassifier",
            {"x": reals(7, 3)},
            {"label": np.int64},
            outputs=("label", "y"),
            classlabels_ints=labels,
            vectors_per_class=sizes,
            support_vectors=vectors,
            coefficients=reals((len(labels) - 1) * 6).tolist(),
            rho=reals(pairs).tolist(),
            **flat,
        )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_probabilities_of_support_vectors(transform: str) -> None:
    for labels, sizes in (([3, 7], [2, 3]), ([4, 2, 9], [2, 1, 3]), ([0, 1, 2, 3, 4], [1, 2, 1, 1, 2])):
        pairs, total = len(labels) * (len(labels) - 1) // 2, sum(sizes)
        given = {
            "classlabels_ints": labels,
            "vectors_per_class": sizes,
            "support_vectors": reals(total, 3).reshape(-1).tolist(),
            "coefficients": reals((len(labels) - 1) * total).tolist(),
            "rho": reals(pairs).tolist(),
            "kernel_type": "RBF",
            "kernel_params": [0.4, 0.0, 3.0],
            "outputs": ("label", "y"),
            "post_transform": transform,
        }
        sigmoids = {"prob_a": (-np.abs(reals(pairs))).tolist(), "prob_b": reals(pairs).tolist()}
        compare("SVMClassifier", {"x": reals(40, 3)}, {"label": np.int64}, **given, **sigmoids)
        if transform != "PROBIT":  # of scores, which are no probabilities
            compare("SVMClassifier", {"x": reals(9, 3)}, {"label": np.int64}, **given)


def test_support_vectors_that_are_refused() -> None:
    given = {
        "classlabels_ints": [0, 1],
        "vectors_per_class": [1, 1],
        "support_vectors": [0.0] * 4,
        "coefficients": [1.0, -1.0],
        "rho": [0.0],
        "outputs": ("label", "y"),
    }
    refused("SVMClassifier", {"x": reals(5, 2)}, "sigmoids", prob_a=[1.0, 2.0], prob_b=[0.0], **given)
    refused("SVMClassifier", {"x": reals(5, 2)}, "the kernel OTHER", kernel_type="OTHER", **given)
