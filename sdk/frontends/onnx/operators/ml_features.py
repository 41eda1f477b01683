"""Operators of ai.onnx.ml that prepare features: scaling, missing values, categories, columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sdk.compiler.ir.graph import Value
from sdk.compiler.ir.types import F32, I32, I64
from sdk.frontends.moves import part
from sdk.frontends.onnx.context import OnnxNode, onnx_op
from sdk.frontends.onnx.operators.ml_common import DOMAIN, real_matrix, single

__all__: list[str] = []

Array = np.ndarray[Any, Any]
DENSE: Final = 1 << 16  # keys of a table that has a row for each number between the smallest and the largest


@onnx_op("Scaler", domain=DOMAIN)
def scaler(node: OnnxNode) -> Value:
    """(x - offset) * scale, of columns or all alike."""
    x = single(node, node.x(0))
    offset, scale = (np.array(node.floats(name, ()), np.float32) for name in ("offset", "scale"))
    width = x.type.shape[-1] if x.type.rank else 1
    if not all(v.size in (0, 1) or v.size == width for v in (offset, scale)):
        node.fail(f"{offset.size} offsets and {scale.size} scales for {width} columns")
    if offset.size:
        x = node.call("sub", x, node.const(offset, "offset"))
    return node.call("mul", x, node.const(scale, "scale")) if scale.size else x


@onnx_op("Normalizer", domain=DOMAIN)
def normalizer(node: OnnxNode) -> Value:
    """Rows by their largest element, the sum of their magnitudes, or the root of the sum of their squares."""
    x, norm = single(node, node.x(0)), node.text("norm", "MAX")
    axis = (x.type.rank - 1,)
    if norm == "MAX":
        by = node.call("reduce_max", x, axes=axis)
    elif norm == "L1":
        by = node.call("reduce_sum", node.call("abs", x), axes=axis)
    elif norm == "L2":
        by = node.call("sqrt", node.call("reduce_sum", node.call("mul", x, x), axes=axis))
    else:
        node.fail(f"the norm {norm} is not supported")
    is_zero = node.call("equal", by, node.scalar(0.0, F32))
    return node.call("div", x, node.call("where", is_zero, node.scalar(1.0, F32), by))


@onnx_op("Binarizer", domain=DOMAIN)
def binarizer(node: OnnxNode) -> Value:
    """1 above a threshold, else 0."""
    x = node.x(0)
    above = node.call("greater", x, node.scalar(node.float("threshold", 0.0), x.type))
    return node.call("cast", above, to=str(x.type.dtype))


@onnx_op("Imputer", domain=DOMAIN)
def imputer(node: OnnxNode) -> Value:
    """What stands for a missing value, NaN too, replaced by a number of its column."""
    x = node.x(0)
    real = x.type.dtype.is_float
    values = np.array(node.floats("imputed_value_floats", ()) if real else node.ints("imputed_value_int64s", ()))
    missing = node.float("replaced_value_float", 0.0) if real else node.int("replaced_value_int64", 0)
    if values.size not in (1, x.type.shape[-1]):
        node.fail(f"{values.size} values for {x.type.shape[-1]} columns")
    is_missing = (
        node.call("is_nan", x) if real and missing != missing else (node.call("equal", x, node.scalar(missing, x.type)))
    )
    return node.call("where", is_missing, node.const(values.astype(x.type.dtype.numpy), "values"), x)


@onnx_op("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(node: OnnxNode) -> Value:
    """Columns of several matrices side by side, of each as many as the node says; 0 where it has fewer."""
    sizes = node.ints("inputdimensions", ())
    if len(sizes) != node.count:
        node.fail(f"{len(sizes)} sizes for {node.count} inputs")
    parts = []
    for k, size in enumerate(sizes):
        x = single(node, real_matrix(node, node.x(k)))
        width = x.type.shape[1]
        if not isinstance(width, int):
            node.fail(f"input {k} has an open number of columns")
        x = part(node, x, 1, 0, min(size, width))
        parts.append(x if size <= width else node.call("pad", x, pads=((0, 0), (0, size - width)), value=0.0))
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=1)


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(node: OnnxNode) -> Value:
    """Some columns; of a row a matrix of one row."""
    x, places = node.x(0), node.x(1)
    flat = node.call("reshape", places, shape=(places.type.size,))
    y = node.call("gather", x, flat, axis=x.type.rank - 1)
    return node.call("reshape", y, shape=(1, *y.type.shape)) if x.type.rank == 1 else y


@onnx_op("ZipMap", domain=DOMAIN)
def zip_map(node: OnnxNode) -> Value:
    """The scores as they are: a list of maps has no static form, and a column for each label holds the same."""
    labels = node.ints("classlabels_int64s", ()) or node.texts("classlabels_strings", ())
    if len(labels) != node.type(0).shape[-1]:
        node.fail(f"{len(labels)} labels for {node.type(0).shape[-1]} columns")
    if list(labels) != sorted(set(labels)):
        node.fail("its labels are not in ascending order", hint="export the model without ZipMap (zipmap=False)")
    return node.x(0)


# --- categories ---------------------------------------------------------------------------------------------------


@onnx_op("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(node: OnnxNode) -> Value:
    """A new last axis, 1 where the number is that category; all 0 for one that is none."""
    if node.texts("cats_strings", ()):
        node.fail("categories that are text are not supported", hint="encode them before the model")
    x, categories = node.x(0), np.array(node.ints("cats_int64s", ()), np.int64)
    if x.type.dtype != I64:
        x = node.call("cast", x, to=str(I64))
    wide = node.call("reshape", x, shape=(*x.type.shape, 1))
    return node.call("cast", node.call("equal", wide, node.const(categories, "categories")), to=str(F32))


def _pairs(node: OnnxNode) -> tuple[Array, Array, Any]:
    """Keys and values of a LabelEncoder as arrays, and what others become."""
    if any(node.texts(f"{what}_strings", ()) for what in ("keys", "values")) or node.text("classes_strings", None):
        node.fail("labels that are text are not supported", hint="encode them before the model")
    found: dict[str, Array] = {}
    for what in ("keys", "values"):
        tensor = node.array(f"{what}_tensor")
        if tensor is not None:
            found[what] = tensor.reshape(-1)
        elif node.has(f"{what}_int64s"):
            found[what] = np.array(node.ints(f"{what}_int64s"), np.int64)
        else:
            found[what] = np.array(node.floats(f"{what}_floats", ()), np.float32)
    keys, values = found["keys"], found["values"]
    if keys.size != values.size or not keys.size or not all(v.dtype.kind in "iuf" for v in (keys, values)):
        node.fail(f"{keys.size} keys for {values.size} values, which must be numbers")
    default = node.array("default_tensor")
    if default is not None:
        return keys, values, default.reshape(-1)[0]
    return (
        keys,
        values,
        node.int("default_int64", -1) if values.dtype.kind != "f" else node.float("default_float", -0.0),
    )


@onnx_op("LabelEncoder", domain=DOMAIN)
def label_encoder(node: OnnxNode) -> Value:
    """Numbers that stand for numbers, by a table."""
    keys, values, default = _pairs(node)
    x = node.x(0)
    first = np.unique(keys, return_index=True)[1] if keys.dtype.kind != "f" else np.arange(keys.size)
    keys, values = keys[first], values[first]
    rest = np.append(values, np.asarray(default, values.dtype))
    low, span = (int(keys.min()), int(keys.max()) - int(keys.min()) + 1) if keys.dtype.kind != "f" else (0, DENSE + 1)
    if span <= max(DENSE // 64, 4 * keys.size) and span <= DENSE:
        table = np.full(span + 1, rest[-1], values.dtype)
        table[keys - low] = values
        wide = node.call("sub", x if x.type.dtype == I64 else node.call("cast", x, to=str(I64)), node.scalar(low, I64))
        outside = node.call("or", node.call("less", wide, node.scalar(0, I64)),
                            node.call("greater_equal", wide, node.scalar(span, I64)))  # fmt: skip
        at = node.call("where", outside, node.scalar(span, I64), wide)
        return node.call("gather", node.const(table, "table"), at, axis=0)
    return node.call("gather", node.const(rest, "table"), _which(node, x, keys), axis=0)


def _which(node: OnnxNode, x: Value, keys: Array) -> Value:
    """The number of the first key that each element is; their count for none. NaN is NaN since version 4."""
    shape = x.type.shape
    wide = node.call("reshape", x, shape=(*shape, 1))
    same = node.call("equal", wide, node.const(keys.astype(x.type.dtype.numpy), "keys"))
    if node.opset >= 4 and x.type.dtype.is_float and np.isnan(keys).any():
        is_nan = node.call("and", node.call("is_nan", wide), node.const(np.isnan(keys), "nan"))
        same = node.call("or", same, is_nan)
    places = node.call("where", same, node.const(np.arange(keys.size, dtype=np.int32), "places"),
                       node.scalar(keys.size, I32))  # fmt: skip
    return node.call("reshape", node.call("reduce_min", places, axes=(len(shape),)), shape=shape)
