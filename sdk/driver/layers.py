"""Finding the operator whose results depart from the reference: models run with intermediate tensors as outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sdk import steps
from sdk.boards import Board
from sdk.compiler.interp.graph import init_values
from sdk.compiler.ir.graph import Graph, ReadState, node_args, node_outs
from sdk.compiler.ir.module import Module
from sdk.compiler.passes.fuse import Fuse
from sdk.compiler.passes.pipeline import run_pipeline
from sdk.driver.execute import SEED, connect, difference, step, verify
from sdk.driver.externs import add_patterns
from sdk.driver.files import read_model_file
from sdk.driver.importing import import_model
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes
from sdk.driver.prefix import prefix_of
from sdk.driver.reference import Interp, case_inputs, entry_graph, random_dims, try_out
from sdk.errors import BuildError, UsageError
from sdk.frontends.base import ModelFile, Reference
from sdk.frontends.outline import Layer, values_as_layers
from sdk.report import LayerRow, LayersReport

__all__ = ["verify_layers"]

Array = NDArray[Any]
INTERP: Final = "interp"


def verify_layers(
    model: Path | ModelFile,
    board: Board,
    options: BuildOptions,
    against: str,
    cases: int,
    at: Mapping[str, int] | None = None,
    entry: str | None = None,
) -> LayersReport:
    """``sdk verify --layers``: ``cases`` inputs as ``verify`` draws them, through the build as it is, and then through
    builds with intermediate tensors as outputs too, as many at a time as the board holds; one that is too much alone is
    computed by our interpreter. Tensors that the build keeps are so compared as it computes them; those that it fuses
    away need builds of their own, which compute more by parts.

    Raises:
        SdkError: as ``verify`` does; a UsageError where the reference does not tell intermediate tensors.
    """
    plain = verify(model, board, None, options, against, cases, at, entry)
    options = options.read()
    file = read_model_file(model, options.importers, options.tensors)
    hunt = _Hunt(file, board, options, against, cases, at or {}, entry)
    reference = hunt.reference(hunt.layers).name
    return LayersReport(plain, reference, tuple(hunt.all()))


class _Hunt:
    def __init__(
        self, file: ModelFile, board: Board, options: BuildOptions, against: str, cases: int, at: Mapping[str, int],
        entry: str | None,
    ) -> None:  # fmt: skip
        self.file, self.board, self.options, self.cases, self.at = file, board, options, cases, at
        prefix, own = prefix_of(file, options), file.frontend.layers
        if own is not None:
            self.module, self.layers = own(file, prefix, options.dims, entry)
        else:
            self.module = import_model(file, options, prefix)
            self.layers = values_as_layers(entry_graph(self.module, entry))
        self.graph = entry_graph(self.module, entry)
        self.layers = _new(self.graph, self.layers)
        self.engine = _engine(file, self.graph, against, self.layers)

    def all(self) -> list[LayerRow]:
        """Every layer, in the order of the source model."""
        kept = _kept(self.module, self.graph.name, self.board, self.options)
        found: dict[str, LayerRow] = {}
        groups: dict[tuple[str, bool], list[Layer]] = {}
        for one in self.layers:  # where floats are outputs, what quantises them is not made integer arithmetic
            ran = "build" if one.value.name in kept else "apart"
            groups.setdefault((ran, ran == "apart" and one.value.type.dtype.is_float), []).append(one)
        for (ran, _), layers in groups.items():
            found |= zip((one.value.name for one in layers), self.rows(layers, ran), strict=True)
        return [found[one.value.name] for one in self.layers]

    def rows(self, layers: Sequence[Layer], ran: str) -> list[LayerRow]:
        """What became of each layer, in their order: all in one build, or half of them in each of two."""
        if not layers:
            return []
        try:
            return self.compiled(layers, ran)
        except BuildError:  # of a model that is compiled without them: they are too much for the board
            if len(layers) == 1:
                return self.interpreted(layers)
            half = len(layers) // 2
            return self.rows(layers[:half], ran) + self.rows(layers[half:], ran)

    def compiled(self, layers: Sequence[Layer], ran: str) -> list[LayerRow]:
        """Layers run on the board."""
        reference = self.reference(layers)
        session, built, _ = connect(_tapped(self.file, self.graph.name, layers), self.board, None, self.options)
        held = {var.name for var in init_values(self.module)}
        with session, steps.step(f"comparing {len(layers)} tensors"):
            session.reset(0)

            def ours(inputs: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
                given = {name: value for name, value in dims.items() if name not in held}
                return step(session, built, inputs, given, self.graph.name)[0]

            return self.compared(layers, reference, ours, ran)

    def interpreted(self, layers: Sequence[Layer]) -> list[LayerRow]:
        """Layers run by our interpreter."""
        own = Interp(_with_results(self.module, self.graph.name, layers), self.graph.name)
        return self.compared(layers, self.reference(layers), own.step, INTERP)

    def reference(self, layers: Sequence[Layer]) -> Reference:
        """What tells these layers, in its first state."""
        for engine in self.file.frontend.engines:
            if engine.name == self.engine and engine.layers is not None:
                return engine.layers(self.file, self.graph, [layer.key for layer in layers])
        return Interp(_with_results(self.module, self.graph.name, layers), self.graph.name)

    def compared(self, layers: Sequence[Layer], reference: Reference, ours: Any, ran: str) -> list[LayerRow]:
        """The largest differences over the cases."""
        rng, held = np.random.default_rng(SEED), {v.name: n for v, n in init_values(self.module).items()}
        worst = [(0.0, 0.0, True)] * len(layers)
        for case in range(self.cases):
            steps.update(f"comparing with {reference.name}: case {case + 1} of {self.cases}")
            dims = random_dims(self.graph, rng, case, {**self.at, **held})
            inputs, _ = case_inputs(self.graph, rng, dims, case)
            want, got = reference.step(inputs, dims), ours(inputs, dims)
            for k, layer in enumerate(layers):
                there = want[layer.value.name if self.engine == INTERP else layer.key]
                here = got[layer.value.name]
                if self.engine != INTERP and layer.above:
                    there = there.astype(np.int64) - layer.above
                found = difference(here, there.astype(here.dtype))  # engines may hold numbers in a wider type
                worst[k] = (max(worst[k][0], found[0]), max(worst[k][1], found[1]), worst[k][2] and found[2])
        return [_row(layer, found, ran) for layer, found in zip(layers, worst, strict=True)]


def _engine(file: ModelFile, graph: Graph, against: str, layers: Sequence[Layer]) -> str:
    """The name of the reference that tells intermediate tensors; "auto" is the first that suits the model and takes it,
    the interpreter where none does."""
    able = [engine for engine in file.frontend.engines if engine.layers is not None]
    if against == "auto":
        for engine in able:
            if engine.suits(graph) and engine.layers is not None:
                with suppress(BuildError, UsageError):
                    try_out(engine.layers(file, graph, [layer.key for layer in layers]), graph)
                    return engine.name
        return INTERP
    if against != INTERP and against not in [engine.name for engine in able]:
        raise UsageError(f"{against} does not tell intermediate tensors", hint="use --against interp")
    return against


def _kept(module: Module, entry: str, board: Board, options: BuildOptions) -> set[str]:
    """The values of an entry that a build computes as such, and does not fuse into others."""
    passes = default_passes(board, options)
    end = next(k for k, one in enumerate(passes) if one.name == Fuse.name)
    fused = run_pipeline(replace(add_patterns(module, options.libraries), stage="typed"), passes[: end + 1])
    return {out.name for node in fused.graphs[entry].body for out in node_outs(node)}


def _new(graph: Graph, layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers without those that are the same value as one before, or that only constants make."""
    moving = {value.name for value in graph.params}
    for node in graph.body:
        if isinstance(node, ReadState) or any(a.name in moving for a in node_args(node)):
            moving.update(out.name for out in node_outs(node))
    found: dict[str, Layer] = {}
    for layer in layers:
        if layer.value.name in moving:
            found.setdefault(layer.value.name, layer)
    return tuple(found.values())


def _with_results(module: Module, entry: str, layers: Sequence[Layer]) -> Module:
    """The module with these layers as results of an entry, after its own."""
    graph = module.graphs[entry]
    own = {value.name for value in graph.results}
    more = tuple(layer.value for layer in layers if layer.value.name not in own)
    return replace(module, graphs={**module.graphs, entry: replace(graph, results=(*graph.results, *more))})


@dataclass(frozen=True)
class _Taps:
    """What tells a model with layers as results from the model itself."""

    digest: str


def _tapped(file: ModelFile, entry: str, layers: Sequence[Layer]) -> ModelFile:
    """The file of a model whose results are these layers too."""

    def load(_: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], refusals: Any) -> Module:
        return _with_results(file.frontend.load(file, name, dims, refusals), entry, layers)

    names = "\n".join([file.digest, entry, *(layer.value.name for layer in layers)])
    taps = _Taps(hashlib.sha256(names.encode()).hexdigest())
    return replace(file, frontend=replace(file.frontend, load=load), beside=taps)


def _row(layer: Layer, found: tuple[float, float, bool], ran: str) -> LayerRow:
    type = layer.value.type
    shape = tuple(d if isinstance(d, int) else str(d) for d in type.shape)
    return LayerRow(layer.operator, layer.name, str(type.dtype), shape, *found, ran)
