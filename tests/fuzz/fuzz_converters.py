"""Nodes of every operator that has a converter, of all domains, with the attributes that its module reads.

Where ``fuzz_shapes`` knows what an operator expects, this knows only what the converter asks for: kinds, counts and
sizes of inputs are anything, and some axes are far longer than memory.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import numpy as np
import onnx
from fuzz_shapes import Draw, constant_numbers, one_model, param
from onnx import helper, numpy_helper

from sdk.frontends.onnx.operators import OPERATORS

_ASKED = re.compile(r'node\.(ints?|floats?|texts?)\(\s*"(\w+)"')
_READ = re.compile(r"node\.(?:x|raw|type|data|dims|optional|given_input)\((\d)\)")
# Texts are those that the module names, among them what it compares with.
_WORDS = re.compile(r'"(\w+)"')
_LONG = ((1 << 20,), (1 << 24, 1), (1, 1 << 31), (2, 1 << 40, 1), (1 << 16, 1 << 16), (1, 3, 1 << 20, 1 << 20))
_KINDS = ("float32", "float32", "float32", "float32", "int64", "uint8", "int8", "int32", "bool", "float16")


@functools.cache
def words(op: str) -> tuple[str, ...]:
    """The texts in the module of a converter."""
    return tuple(sorted(set(_WORDS.findall(_text(op)))))


@functools.cache
def attributes(op: str) -> tuple[tuple[str, str], ...]:
    """Kind and name of each attribute that the module of a converter reads."""
    return tuple(sorted(set(_ASKED.findall(_text(op)))))


@functools.cache
def _text(op: str) -> str:
    module = inspect.getmodule(inspect.unwrap(OPERATORS[op]))
    assert module is not None
    return inspect.getsource(module)


def converted(rng: np.random.Generator) -> tuple[bytes, str]:
    """A file of one node, and its operator."""
    while True:
        try:
            model = any_operator(Draw(rng))
            return model.SerializeToString(), model.graph.node[0].op_type
        except (ValueError, TypeError, OverflowError):
            continue  # what protobuf itself does not let anyone write


@functools.cache
def arity(op: str) -> tuple[int, int]:
    """The fewest and most inputs: of the schema, else by what its module reads."""
    domain, _, name = op.rpartition("::")
    if onnx.defs.has(name, domain):
        schema = onnx.defs.get_schema(name, domain)
        return schema.min_input, min(schema.max_input, 8)
    return 1, 1 + max((int(k) for k in _READ.findall(_text(op))), default=2)


def any_operator(draw: Draw) -> onnx.ModelProto:
    """One node of any operator that is converted."""
    key = draw.of(sorted(OPERATORS))
    domain, _, op = key.rpartition("::")
    kind, shape = draw.of(_KINDS), _shape(draw)
    params, constants, names = [param("x", shape, kind)], [], ["x"]
    fewest, most = arity(key)
    count = draw.of((fewest, most, *range(fewest, most + 1))) if draw.rng.random() < 0.95 else draw.of((0, 8))
    for k in range(1, count):
        name = f"i{k}"
        names.append("" if draw.rng.random() < 0.1 else name)
        match draw.of(("like", "like", "other", "constant", "numbers", "number", "floats")):
            case "like":
                params.append(param(name, shape, kind))
            case "other":
                params.append(param(name, _shape(draw), draw.of(_KINDS)))
            case "constant":
                constants.append(numpy_helper.from_array(draw.array(draw.shape(), draw.of(_KINDS)), name))
            case "numbers":
                constant_numbers(draw, "I", name, params, constants)
            case "number":
                constant_numbers(draw, "s", name, params, constants)
            case _:
                constant_numbers(draw, "F", name, params, constants)
    chosen = {name: _attribute(draw, how, key) for how, name in attributes(key) if draw.rng.random() < 0.5}
    outputs = [f"y{k}" for k in range(draw.of((1,) * 12 + (2, 3)))]
    node = helper.make_node(op, names, outputs, domain=domain, **chosen)
    model = one_model(draw, [node], params, outputs, constants)
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, draw.of((1, 1, 2, 3))))
    return model


def _shape(draw: Draw) -> tuple[int, ...]:
    long: tuple[int, ...] = draw.of(_LONG)
    return long if draw.rng.random() < 0.15 else draw.shape()


def _attribute(draw: Draw, how: str, key: str) -> Any:
    match how:
        case "int" | "ints":
            return draw.attribute("i" if how == "int" else "I")
        case "float" | "floats":
            return draw.attribute("f" if how == "float" else "F")
        case "text":
            return draw.of(words(key))
    return [draw.of(words(key)) for _ in range(draw.of((1, 2, 3)))]
