"""The drawing of a model file: of what was imported, or of the file as it is where that cannot be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final

from sdk.compiler.ir.module import Module
from sdk.driver.files import read_model_file
from sdk.driver.importing import import_model
from sdk.driver.options import BuildOptions
from sdk.driver.plots.drawing import Drawing, DrawnGraph, DrawnNode, Tensor, draw_module
from sdk.driver.plots.families import family_of_words
from sdk.driver.prefix import prefix_of
from sdk.errors import SdkError
from sdk.frontends.base import ModelFile, OpenSizesError
from sdk.frontends.outline import Outline, OutlineNode, OutlineTensor, Refusal

__all__ = ["draw"]

ASSUMED: Final = (1, 64)  # bounds of sizes that were given none


def draw(model: Path | ModelFile, options: BuildOptions) -> tuple[Drawing, SdkError | None]:
    """The drawing of a model, and the error with which a build of it would end.

    A model that cannot be imported is drawn as its file says, what is not supported with the reason.

    Raises:
        SdkError: not even that can be read.
    """
    refusals: list[Refusal] = []
    file = read_model_file(model, options.importers, options.tensors)
    try:
        module, unbounded = _imported(file, options, refusals)
        drawing = draw_module(module, file.name, file.frontend.name, unbounded)
        return replace(drawing, parameters=_parameters(file, module)), None
    except SdkError as error:
        outline = _outline(file)
        if outline is None:
            raise
        graph = _graph(outline, {r.index: r for r in reversed(refusals)})
        held = [t for t in outline.tensors if t.constant is not None]
        why = "" if refusals else "\n".join(filter(None, (error.where, error.why)))
        drawing = Drawing(
            file.name, (graph,), weights=sum(t.constant or 0 for t in held), problem=error.message, why=why,
            hint=error.hint or "", format=file.frontend.name, parameters=sum(map(_elements, held)),
        )  # fmt: skip
        return drawing, error


def _imported(file: ModelFile, options: BuildOptions, refusals: list[Refusal]) -> tuple[Module, tuple[str, ...]]:
    """The module of a file, and the open sizes of it that have no bounds: whatever these will be, what is drawn of
    the model is the same, so some are assumed.

    Raises:
        SdkError: it cannot be imported; an ``OpenSizesError`` where it may be with other bounds than those assumed.
    """
    prefix = prefix_of(file, options)
    try:
        return import_model(file, options, prefix, refusals), ()
    except OpenSizesError as error:
        assumed = replace(options, dims={**options.dims, **dict.fromkeys(error.names, ASSUMED)})
        try:
            return import_model(file, assumed, prefix, refusals), error.names
        except SdkError:
            if refusals:
                raise
            raise error from None


def _parameters(file: ModelFile, module: Module) -> int:
    """Elements of the constants of a file that was imported."""
    if file.frontend.constants is not None:
        return file.frontend.constants(file.data)
    return sum(a.size for c in module.constants for a in c.arrays)


def _elements(tensor: OutlineTensor) -> int:
    return prod(d for d in tensor.shape or () if isinstance(d, int))


def _outline(file: ModelFile) -> Outline | None:
    """The outline of a file; None where it is not one that has an outline."""
    try:
        return None if file.frontend.outline is None else file.frontend.outline(file.data)
    except SdkError:
        return None  # the first error says it better


def _graph(outline: Outline, refusals: Mapping[int, Refusal]) -> DrawnGraph:
    nodes: list[DrawnNode] = []
    edges: dict[tuple[int, int, int], None] = {}
    maker: dict[int, tuple[int, int]] = {}
    hidden: set[int] = set()  # tensors that follow from something refused
    for k in outline.inputs:
        maker[k] = len(nodes), 0
        nodes.append(_end("input", outline.tensors[k]))
    for node in outline.nodes:
        refusal = refusals.get(node.index)
        if node.index in outline.folded and refusal is None:
            continue
        edges |= {(*maker[k][:1], len(nodes), maker[k][1]): None for k in node.inputs if k in maker}
        for which, k in enumerate(node.outputs):
            maker[k] = len(nodes), which
        below = not outline.checks_all and not hidden.isdisjoint(node.inputs)
        hidden.update(node.outputs if refusal or below else ())
        nodes.append(_node(outline, node, refusal, not below))
    for k in outline.outputs:
        if k in maker:
            edges[maker[k][0], len(nodes), maker[k][1]] = None
        nodes.append(_end("output", outline.tensors[k]))
    names = {str(d) for k in outline.inputs for d in outline.tensors[k].shape or () if isinstance(d, str)}
    return DrawnGraph("main", tuple(nodes), tuple(edges), dict.fromkeys(sorted(names - {"?"})), {})


def _tensor(tensor: OutlineTensor) -> Tensor:
    return Tensor(tensor.name, tensor.dtype, tensor.shape, tensor.quant)


def _end(side: str, tensor: OutlineTensor) -> DrawnNode:
    return DrawnNode(side, tensor.name, side, (_tensor(tensor),))


def _node(outline: Outline, node: OutlineNode, refusal: Refusal | None, checked: bool) -> DrawnNode:
    weights = sum(outline.tensors[k].constant or 0 for k in node.inputs)
    outputs = tuple(_tensor(outline.tensors[k]) for k in node.outputs)
    why, hint = (refusal.why, refusal.hint or "") if refusal else ("", "")
    return DrawnNode(
        node.kind, node.name, family_of_words(node.kind), outputs, weights=weights, why=why, hint=hint, checked=checked
    )
