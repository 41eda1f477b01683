"""Quantising a model: from a float model and samples to an ONNX file with integers, and a report on it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sdk import steps
from sdk.compiler.ir.types import F32, TensorType
from sdk.errors import UsageError
from sdk.files import replacing
from sdk.frontends.base import ModelFile
from sdk.quantizer.bias import correct_biases
from sdk.quantizer.data import Samples, checked, labels_of, read_npz
from sdk.quantizer.engine import tensor_types
from sdk.quantizer.equalise import equalise
from sdk.quantizer.fold_channels import fold_channels
from sdk.quantizer.net import Net
from sdk.quantizer.options import WEIGHTS_ONLY, QuantizeOptions, Target
from sdk.quantizer.place import MOVES, Placement, layer_name, place
from sdk.quantizer.prepare import plain_products, prepared
from sdk.quantizer.quality import compared, sensitivities
from sdk.quantizer.ranges import How, Seen, calibrate, chosen, merged
from sdk.quantizer.report import LayerRow, QuantizeReport
from sdk.quantizer.source import float_model, model_file
from sdk.quantizer.weights import bits_of, weight_layers, write_weights
from sdk.quantizer.write import write

__all__ = ["Quantized", "quantize", "quantize_path"]


@dataclass(frozen=True)
class Quantized:
    """A quantised model, an ONNX model that any engine runs, and the report on it."""

    model: onnx.ModelProto
    report: QuantizeReport

    def save(self, path: str | Path) -> None:
        """Writes the model as a file, whole or not at all.

        Raises:
            UsageError: it cannot be written.
        """
        try:
            with replacing(Path(path)) as file:
                file.write(self.model.SerializeToString())
        except OSError as error:
            hint = "name a file in a folder that exists and is yours"
            raise UsageError(f"cannot write {path}", why=error.strerror, hint=hint) from None


def quantize(
    model: Any,
    data: Mapping[str, Any] | str | Path,
    to: Target = "int8",
    *,
    example: Any = None,
    range: How = "minmax",
    percentile: float = 99.99,
    group: int = 32,
    keep: Sequence[str] = (),
    keep_above: float | None = None,
    sensitivity: bool = False,
    equalise: bool = False,
    correct_bias: bool = True,
    integer_io: bool = False,
    labels: str | None = None,
    dims: Mapping[str, tuple[int, ...]] | None = None,
) -> Quantized:
    """Quantises a float model after training.

    Args:
        model: a .onnx, .tflite or .pt2 file of floats, an ``onnx.ModelProto``, an exported program of PyTorch, or a
            module of it with an ``example``.
        data: samples: arrays by the name of the input, whose first axis counts samples, or an .npz file of them.
        to: "int8", "int16x8" (activations of 16 bits), or weights alone: "w8", "w4".
        example: inputs that a module of PyTorch is exported with.
        dims: bounds of open sizes of a .tflite or .pt2 file, as ``sdk.compile`` takes them.

    The others are those of ``QuantizeOptions``.

    Raises:
        SdkError: the model or the data is not usable; see docs/quantize.md.
    """
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    options = QuantizeOptions(
        to, range, percentile, group, keep, keep_above, sensitivity, equalise, correct_bias, integer_io, labels
    )
    arrays: Any = read_npz(Path(data)) if isinstance(data, (str, Path)) else data
    if not isinstance(arrays, Mapping):
        hint = 'data={"x": array} or the path of an .npz'
        raise UsageError(f"samples are arrays by name, not a {type(arrays).__name__}", hint=hint)
    return _quantized(model_file(model, example), arrays, options, dims or {})


def quantize_path(
    model: Path, data: Path, options: QuantizeOptions, dims: Mapping[str, tuple[int, ...]]
) -> Quantized:
    """``sdk quantize``: the same for files.

    Raises:
        SdkError: as above.
    """
    return _quantized(model_file(model), read_npz(data), options, dims)


def _quantized(
    file: ModelFile, arrays: Mapping[str, Any], options: QuantizeOptions, dims: Mapping[str, tuple[int, ...]]
) -> Quantized:
    with steps.step("quantising"):
        source = float_model(file, dims)
        samples = checked(source, arrays, options.labels)
        tensor_types(source, samples.shapes)  # a file that is damaged is refused before anything is done to it
        net = prepared(source, options.opset)
        types = tensor_types(net.proto(), samples.shapes)
        plain_products(net)
        fold_channels(net, types)
        before = net.proto()
        work = _Work(net, types, samples, options)
        made, rows, notes = work.weights_alone() if options.weights_only else work.integers()
        labels = None if options.labels is None else labels_of(arrays, options.labels)
        if labels is not None and len(labels) < samples.count:
            raise UsageError(
                f"{len(labels)} labels for {samples.count} samples", where="--labels", hint="give one for each sample"
            )
        sqnr, accuracy = compared(before, made, samples, labels)
        if options.integer_io:
            made = work.with_integer_io()
    weights = (_constant_bytes(before), _constant_bytes(made))
    report = QuantizeReport(
        file.name, options.to, options.range, samples.count, tuple(rows), sqnr, weights, accuracy, tuple(notes)
    )
    return Quantized(made, report)


@dataclass
class _Work:
    """A prepared net, the types of its tensors, and what is asked."""

    net: Net
    types: Mapping[str, TensorType]
    samples: Samples
    options: QuantizeOptions
    seen: Mapping[str, Seen] | None = None
    placement: Placement | None = None

    # -- activations and weights ------------------------------------------------------------------------------------

    def integers(self) -> tuple[onnx.ModelProto, list[LayerRow], list[str]]:
        """The model with activations and weights as integers, what became of its layers, and notes."""
        notes = []
        every = self.placed()
        if not any(one.counts for one in every.layers):
            raise UsageError("no layer of the model has integer kernels", hint="--to w8 quantises weights alone")
        kept = self.kept([layer_name(node) for node in self.net.nodes])
        if self.options.equalise:
            scaled = equalise(self.net, self.types, self.samples)
            notes.append(f"{scaled} pairs of layers were equalised")
        self.calibrate()
        alone = self.alone(every)
        kept |= self.too_far(alone)
        self.placement = self.placed(kept)
        if self.options.correct_bias:
            wide = self.options.to != "int8"
            count = correct_biases(self.net, self.placement, self.steps_of(self.placement), self.samples, wide)
            notes.append(f"the biases of {count} layers were corrected")
            self.placement = self.placed(kept)
        return self.written(self.placement), self.rows(every, self.placement, alone), notes

    def placed(self, skipped: Iterable[str] = (), only: str | None = None) -> Placement:
        """Where integers begin and end; with ``only`` those of one layer."""
        tables = self.options.to == "int8"
        if only is None:
            return place(self.net, self.types, skipped, tables=tables)
        return place(self.net, self.types, skipped, tables=tables, only=lambda layer: layer.name == only)

    def calibrate(self) -> None:
        """Sees the ranges of all tensors that may be stored, whichever layers are kept."""
        there = {*self.net.inputs, *self.net.makers()}
        real = [name for name, kind in self.types.items() if name in there and kind.dtype == F32]
        self.seen = calibrate(self.net.proto(), self.samples, real, self.options.range)

    def written(self, placement: Placement, integer_io: bool = False) -> onnx.ModelProto:
        """The model with a placement's layers on integers."""
        return write(self.net, placement, self.steps_of(placement), self.options.kind, integer_io)

    def steps_of(self, placement: Placement) -> dict[str, tuple[float, int]]:
        """Scale and zero point of each group of tensors, by its first."""
        options, found = self.options, {}
        assert self.seen is not None
        for leader in dict.fromkeys(placement.groups.values()):
            members = [name for name, first in placement.groups.items() if first == leader]
            one = merged(self.seen[name] for name in members)
            found[leader] = options.grid.step(*chosen(one, options.range, options.percentile, options.grid))
        return found

    def with_integer_io(self) -> onnx.ModelProto:
        """The model whose inputs and outputs are the integers that they are stored as."""
        assert self.placement is not None
        return self.written(self.placement, integer_io=True)

    def alone(self, every: Placement) -> dict[str, float]:
        """The error of each layer alone, where it is asked for."""
        if not self.options.sensitivity and self.options.keep_above is None:
            return {}
        names = list(dict.fromkeys(one.name for one in every.layers if one.counts))
        return sensitivities(
            self.net.proto(), names, lambda name: self.written(self.placed(only=name)), self.samples
        )

    def too_far(self, alone: Mapping[str, float]) -> set[str]:
        """The layers whose error alone is above the limit."""
        limit = self.options.keep_above
        return set() if limit is None else {name for name, sqnr in alone.items() if -sqnr > limit}

    def kept(self, names: Sequence[str]) -> set[str]:
        """The layers that are to stay in floats by name.

        Raises:
            UsageError: no layer has such a name.
        """
        found: set[str] = set()
        for pattern in self.options.keep:
            matching = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
            if not matching:
                near = difflib.get_close_matches(pattern, names, 3)
                hint = f"did you mean {', '.join(near)}?" if near else "--sensitivity lists the layers"
                raise UsageError(f"the model has no layer {pattern}", where="--keep", hint=hint)
            found |= matching
        return found

    def rows(self, every: Placement, final: Placement, alone: Mapping[str, float]) -> list[LayerRow]:
        """Every layer that computes, in order."""
        able = {one.node: one for one in every.layers}
        inside = {k for one in every.layers for k in one.folded}
        chosen_nodes = {one.node for one in final.layers}
        found = []
        for k, node in enumerate(self.net.nodes):
            one, name = able.get(k), layer_name(node)
            if k in inside or (one is not None and not one.counts):
                continue
            if one is None:
                real = any(out in self.types and self.types[out].dtype.is_float for out in node.output)
                if real and node.op_type not in MOVES:
                    found.append(LayerRow(name, node.op_type, "float", "no integer kernel"))
            elif k in chosen_nodes:
                found.append(LayerRow(name, node.op_type, self.options.to, None, alone.get(name)))
            else:
                found.append(LayerRow(name, node.op_type, "float", "kept", alone.get(name)))
        return found

    # -- weights alone ----------------------------------------------------------------------------------------------

    def weights_alone(self) -> tuple[onnx.ModelProto, list[LayerRow], list[str]]:
        """The model with weights as integers, what became of its layers, and notes."""
        bits, group = WEIGHTS_ONLY[self.options.to], self.options.group
        every = weight_layers(self.net)
        if not every:
            hint = "give a model with MatMul, Gemm or Conv"
            raise UsageError("no layer of the model has constant weights", hint=hint)
        called = {one.node: layer_name(self.net.nodes[one.node]) for one in every}
        kept = self.kept(list(called.values()))
        alone: dict[str, float] = {}
        if self.options.sensitivity or self.options.keep_above is not None:
            by_name = {called[one.node]: one for one in every}
            alone = sensitivities(
                self.net.proto(), list(by_name),
                lambda name: write_weights(self.net, [by_name[name]], bits, group), self.samples,
            )  # fmt: skip
        kept |= self.too_far(alone)
        layers = [one for one in every if called[one.node] not in kept]
        chosen_nodes = {one.node: f"w{bits_of(one, bits)}" for one in layers}
        rows = []
        for one in every:
            name, op = called[one.node], self.net.nodes[one.node].op_type
            why = None if one.node in chosen_nodes else "kept"
            rows.append(LayerRow(name, op, chosen_nodes.get(one.node, "float"), why, alone.get(name)))
        return write_weights(self.net, layers, bits, group), rows, []


def _constant_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all constants."""
    return sum(_tensor_bytes(t) for t in model.graph.initializer)


def _tensor_bytes(tensor: onnx.TensorProto) -> int:
    count = int(np.prod(tensor.dims, dtype=np.int64))
    if tensor.data_type == onnx.TensorProto.INT4:
        return -(-count // 2)
    return count * np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
