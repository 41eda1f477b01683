"""Subgraphs imported in the place of operators that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sdk.budget import NESTING, NODES, check_limit
from sdk.errors import BuildError
from sdk.frontends.names import identifier
from sdk.frontends.tflite.context import LIST, Argument, Builder, OpNode, fits
from sdk.frontends.tflite.reader import Subgraph

__all__ = ["Inliner", "keep_variables"]


def keep_variables(builder: Builder) -> None:
    """Remembers the states of the variable tensors of the subgraph that the builder is at."""
    builder.kept[builder.graph.index] = {k: v for k, v in builder.state_names.items() if isinstance(k, int)}


@dataclass
class Inliner:
    """Imports the operators of a subgraph by ``import_one`` where the builder is; its results."""

    builder: Builder
    import_one: Callable[[OpNode], None]
    depth: int = 0

    def __call__(self, index: int, args: tuple[Argument, ...]) -> tuple[Argument, ...]:
        """The results of a subgraph for arguments.

        Raises:
            BuildError: there is none of that number, it has other inputs, or cannot be imported.
        """
        graphs = self.builder.subgraphs
        if not 0 <= index < len(graphs):
            raise BuildError(f"the subgraph {index} does not exist")
        with self._at(graphs[index]):
            self._bind(graphs[index], args)
            for operator in graphs[index].operators:
                # each counts, whether or not it leaves a node: calls of calls multiply
                self.builder.budget.spend(NODES, 1, f"subgraph {index}")
                try:
                    self.import_one(OpNode(self.builder, operator))
                except BuildError as error:
                    if not error.message.startswith("subgraph "):  # the innermost says where
                        error.message = f"subgraph {index}, node {operator.index} {operator.name}: {error.message}"
                    raise
            return tuple(self._result(number) for number in graphs[index].outputs)

    @contextmanager
    def _at(self, graph: Subgraph) -> Iterator[None]:
        """Has the builder see the tensors of ``graph``, and then those of now again."""
        builder = self.builder
        check_limit(NESTING, self.depth + 1, f"subgraph {graph.index}")
        outer = builder.graph, builder.values, builder.lowered, builder.handles
        names = {identifier(outer[0].tensors[k].name) for k in outer[0].outputs} - builder.names
        builder.names |= names  # results of the model keep theirs, whatever tensors of subgraphs are called
        keep_variables(builder)
        self._enter(graph)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            builder.names -= names
            keep_variables(builder)
            self._enter(outer[0])
            _, builder.values, builder.lowered, builder.handles = outer

    def _enter(self, graph: Subgraph) -> None:
        builder = self.builder
        builder.graph, builder.values, builder.lowered, builder.handles = graph, {}, {}, {}
        resources: dict[str | int, str] = {k: v for k, v in builder.state_names.items() if isinstance(k, str)}
        builder.state_names = resources | builder.kept.get(graph.index, {})

    def _bind(self, graph: Subgraph, args: tuple[Argument, ...]) -> None:
        builder = self.builder
        if len(args) != len(graph.inputs):
            raise BuildError(f"subgraph {graph.index} has {len(graph.inputs)} inputs, it is given {len(args)}")
        for number, value in zip(graph.inputs, args, strict=True):
            tensor = graph.tensors[number]
            if number in builder.values or number in builder.handles or tensor.data is not None:
                raise BuildError(f"subgraph {graph.index} has its input {tensor.title} twice, or as a constant")
            if isinstance(value, str):
                builder.handles[number] = value
                continue
            same = value.type.dtype == tensor.dtype and fits(value.type.shape, tensor)
            if not (tensor.type_name == LIST if value.name in builder.sequences else same):
                raise BuildError(
                    f"the input {tensor.title} of subgraph {graph.index} is {tensor.type_name.lower()}"
                    f"{list(tensor.shape)}, it is given {value.type.dtype}{list(value.type.shape)}"
                )
            builder.values[number] = value

    def _result(self, number: int) -> Argument:
        builder = self.builder
        if number in builder.handles:
            return builder.handles[number]
        tensor, found = builder.graph.tensors[number], builder.value(number)
        if found is not None:
            return found
        if tensor.data is None:
            raise BuildError(f"the output {tensor.title} of subgraph {builder.graph.index} is never computed")
        return builder.const(tensor.title, tensor.data)
