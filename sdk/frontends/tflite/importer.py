"""From the bytes of a .tflite file to a module of stage "imported"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sdk.compiler.ir.graph import Graph, Value
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import TensorType
from sdk.compiler.sym import Dim, Var
from sdk.errors import BuildError
from sdk.frontends.base import OpenSizesError, UnknownDimsError
from sdk.frontends.failures import OUT_OF_MEMORY
from sdk.frontends.names import identifier
from sdk.frontends.outline import Refusal
from sdk.frontends.tflite.context import Builder, Importer, OperatorSpec, OpNode, tensor_quant
from sdk.frontends.tflite.entries import Entry, entries_of
from sdk.frontends.tflite.inlining import Inliner, keep_variables
from sdk.frontends.tflite.operators import OPERATORS
from sdk.frontends.tflite.operators.complex import COMPLEX, OF_COMPLEX
from sdk.frontends.tflite.operators.custom import CUSTOM
from sdk.frontends.tflite.operators.custom.complex import TABLE as CUSTOM_OF_COMPLEX
from sdk.frontends.tflite.operators.refused import REFUSED
from sdk.frontends.tflite.reader import Operator, Subgraph, read_model, read_signatures
from sdk.frontends.tflite.unsigned import LOWERED
from sdk.frontends.tflite.verify import malformed
from sdk.text import printable

__all__ = ["import_tflite"]

SHOWN = 20
OF_BLOCKS = ("EMBEDDING_LOOKUP", "FULLY_CONNECTED")  # operators whose weights may have scales for blocks
Results = tuple[Value, ...]


def import_tflite(
    data: bytes,
    name: str,
    *,
    dims: Mapping[str, tuple[int, ...]] | None = None,
    custom_ops: Mapping[str, Importer] | None = None,
    refusals: list[Refusal] | None = None,
    tensors: dict[int, tuple[Value, int]] | None = None,
    told: str | None = None,
) -> Module:
    """The module of a .tflite file: a graph ``main``, or one for each of several signatures; states for its variables.

    Args:
        data: the file.
        name: name of the module (made an identifier).
        dims: inclusive bounds (lo, hi) of open extents, or (lo, hi, what they are a multiple of), by name: input
            ``x`` with an open axis 1 has the dim ``x_1``.
            An open extent that is not named here is 1, or what the file says it was at export. Of several entries
            ``entry.x_1`` is the dim of one.
        custom_ops: how to import custom operators, by their code; tried before our own.
        refusals: where given, what cannot be imported is put here, beside the error.
        tensors: where given, what each tensor of the entry ``told`` (None: of the first) became is put here, by its
            number in its subgraph, with how much higher its numbers are in the file.

    Raises:
        BuildError: the file is damaged, or operators cannot be imported (all of them are reported at once).
        UsageError: ``dims`` names a dim that the model does not have.
    """
    fields = {op: (spec.options, spec.fields) for op, spec in OPERATORS.items()}
    subgraphs = read_model(data, fields)
    entries = entries_of(subgraphs, read_signatures(data, subgraphs))
    shared = _Shared(subgraphs, custom_ops or {}, dims or {}, [] if refusals is None else refusals)
    # those that give variables their first values are first
    order = sorted(entries, key=lambda e: all(operator.name != "CALL_ONCE" for operator in e.graph.operators))
    graphs: dict[str, Graph] = {}
    for entry in order:
        graphs[entry.name] = shared.graph(entry, len(entries) > 1)
        if tensors is not None and entry.name == (told or entries[0].name):
            tensors.update({number: (value, LOWERED) for number, value in shared.builder.lowered.items()})
            tensors.update({number: (value, 0) for number, value in shared.builder.values.items()})
    shared.check_dims()
    ordered = {entry.name: graphs[entry.name] for entry in entries}
    return Module(
        identifier(name), "imported", consts=shared.builder.consts, states=shared.builder.states, graphs=ordered
    )


class _Shared:
    """The entries of a file one after the other, with what they have in common: constants of equal contents, resources,
    and the variable tensors of entries that are one subgraph. ``builder`` is that of the last one."""

    def __init__(
        self, subgraphs: tuple[Subgraph, ...], custom_ops: Mapping[str, Importer],
        dims: Mapping[str, tuple[int, ...]], refusals: list[Refusal],
    ) -> None:  # fmt: skip
        self.custom_ops, self.dims, self.refusals = custom_ops, dims, refusals
        self.builder = Builder(graph=subgraphs[0], subgraphs=subgraphs)
        self.builder.passes.given = dict(dims)
        self.offered: list[str] = []
        self.used: set[str] = set()

    def graph(self, entry: Entry, several: bool) -> Graph:
        """The graph of an entry.

        Raises:
            BuildError: it cannot be imported.
        """
        builder = self.builder = self._begun(entry)
        try:
            params, symbols = self._params(entry, several)
            own = self.refusals if entry.graph.index == 0 else []  # they name operators of the first subgraph
            _import_operators(builder, self.custom_ops, own)
            if not entry.graph.outputs:
                raise malformed("its main subgraph has no output")
            results = tuple(_result(builder, number) for number in entry.graph.outputs)
            if entry.signature is not None:
                results = _signed(builder, params, results, [name for name, _ in entry.signature.outputs])
        except BuildError as error:
            if several:
                error.where = f"entry {entry.name}: {error.where or 'its signature'}"
            raise
        keep_variables(builder)
        return Graph(entry.name, symbols, params, tuple(builder.body), results)

    def _begun(self, entry: Entry) -> Builder:
        """A builder that knows what is there already."""
        last = self.builder
        resources: dict[str | int, str] = {k: v for k, v in last.state_names.items() if isinstance(k, str)}
        builder = Builder(
            graph=entry.graph, subgraphs=last.subgraphs, consts=last.consts, states=last.states, budget=last.budget,
            names={entry.name, *last.consts, *last.states}, initial=last.initial, digests=last.digests,
            state_names=resources | last.kept.get(entry.graph.index, {}), kept=last.kept, passes=last.passes,
        )  # fmt: skip
        builder.inline = Inliner(builder, lambda node: _import_one(node, self.custom_ops))
        return builder

    def _params(self, entry: Entry, several: bool) -> tuple[tuple[Value, ...], tuple[Var, ...]]:
        """Parameters and dims of an entry. What ``dims`` says is for all entries that have such a dim, by
        ``entry.name`` for one."""
        own = {name.removeprefix(f"{entry.name}."): name for name in self.dims if several}
        given = {name: name for name in self.dims if "." not in name or not several} | {
            name: full for name, full in own.items() if name != full
        }
        params, symbols, offered = _params(self.builder, {name: self.dims[full] for name, full in given.items()})
        self.offered += [name for name in offered if name not in self.offered]
        self.used |= {given[var.name] for var in symbols}
        return params, symbols

    def check_dims(self) -> None:
        """Refuses bounds of a dim that no entry has, and loops that data end without any.

        Raises:
            UnknownDimsError: there is no such dim.
            OpenSizesError: loops have no bounds.
        """
        passes = self.builder.passes
        unknown = sorted(set(self.dims) - self.used - passes.used)
        if unknown:
            names = [*self.offered, *sorted(passes.used), *passes.missing]
            hint = f"open dims: {', '.join(names)}" if names else "every extent of this model is fixed"
            raise UnknownDimsError(tuple(unknown), hint)
        if passes.missing:
            raise OpenSizesError((), tuple(passes.missing))


def _signed(builder: Builder, params: Results, results: Results, names: list[str]) -> Results:
    """Results under the names of a signature: a copy of what has another one."""
    taken = {value.name for value in params}
    found: list[Value] = []
    for value, name in zip(results, names, strict=True):
        if value.const or value.name in taken or value.name != identifier(name):
            source = f"output {name}"
            (value,) = builder.emit("reshape", (value,), {"shape": value.type.shape}, (value.type,), (name,), source)
        taken.add(value.name)
        found.append(value)
    return tuple(found)


def _params(builder: Builder, dims: dict[str, tuple[int, ...]]) -> tuple[Results, tuple[Var, ...], list[str]]:
    """Parameters with open extents as symbols where ``dims`` gives bounds, the symbols, and what may be given."""
    params: list[Value] = []
    symbols: dict[str, Var] = {}
    offered: list[str] = []
    for number in builder.graph.inputs:
        tensor = builder.graph.tensors[number]
        if tensor.dtype is None or number in builder.values:
            raise BuildError(
                f"the input {tensor.name} of type {tensor.type_name} cannot be imported",
                hint="inputs of the model must be int8, uint8, int16, int32 or float32",
            )
        if tensor.data is not None:
            raise BuildError(f"the input {tensor.name} has contents in the file: is it given, or a constant?")
        stem = builder.value_name(tensor.name)
        shape: list[Dim] = list(tensor.shape)
        for axis, extent in enumerate(tensor.signature):
            dim = f"{stem}_{axis}"
            if extent == -1:
                offered.append(dim)
                if dim in dims:
                    symbols[dim] = Var(dim, *dims[dim])
                    shape[axis] = symbols[dim].expr
        value = Value(stem, TensorType(tensor.dtype, tuple(shape), tensor_quant(tensor)))
        builder.values[number] = value
        params.append(value)
    builder.names.update(symbols)
    return tuple(params), tuple(symbols.values()), offered


def _result(builder: Builder, number: int) -> Value:
    tensor = builder.graph.tensors[number]
    found = builder.value(number)
    if found is not None:
        known = None if found.const else builder.contents_of(found)
        if known is None or known.numbers is None:
            return builder.materialize(found, f"output {tensor.title}")
        builder.names.discard(found.name)  # it stands nowhere in the graph: the constant has its name
        return builder.const(found.name, known.numbers)
    if tensor.data is not None:
        return builder.const(tensor.name, tensor.data)
    raise BuildError(f"the output {tensor.name} is never computed")


def _import_operators(builder: Builder, custom_ops: Mapping[str, Importer], refusals: list[Refusal]) -> None:
    failures: list[tuple[Operator, str]] = []
    for operator in builder.graph.operators:
        node = OpNode(builder, operator)
        try:
            _import_one(node, custom_ops)
        except BuildError as error:
            failures.append((operator, error.message + (f" ({error.why})" if error.why else "")))
            refusals.append(Refusal(operator.index, failures[-1][1], error.hint))
            _declare_outputs(builder, operator)
    if failures:
        raise _report(builder.graph, failures)


def _import_one(node: OpNode, custom_ops: Mapping[str, Importer]) -> None:
    importer, lower = _importer(node, custom_ops)
    try:
        importer(replace(node, lower=lower))
    except MemoryError:
        raise BuildError(OUT_OF_MEMORY) from None


def _importer(node: OpNode, custom_ops: Mapping[str, Importer]) -> tuple[Importer, frozenset[int]]:
    """The importer of an operator, and which tensors of u8 it sees as i8."""
    operator = node.operator
    if operator.custom and operator.name in custom_ops:
        return custom_ops[operator.name], frozenset()
    if operator.name not in OF_BLOCKS:
        _check_blocks(node)
    spec = (CUSTOM if operator.custom else OPERATORS).get(operator.name)
    if any(k >= 0 and node.builder.graph.tensors[k].type_name == COMPLEX for k in operator.inputs):
        found = (CUSTOM_OF_COMPLEX if operator.custom else OF_COMPLEX).get(operator.name)
        if found is None:
            raise BuildError("it is not supported for complex numbers")
        return found, frozenset()
    if spec is not None:
        _check_inputs(operator, spec)
        return spec.importer(node.dtypes), spec.lower(node)
    raise _unsupported(operator)


def _check_blocks(node: OpNode) -> None:
    """Refuses tensors with scales for blocks: no other kernel reads them, and to this one they would have none."""
    for k in (*node.operator.inputs, *node.operator.outputs):
        if k >= 0 and node.builder.graph.tensors[k].blocks is not None:
            title = node.builder.graph.tensors[k].title
            raise BuildError(f"tensor {title} has scales for blocks; supported in {' and '.join(OF_BLOCKS)}")


def _unsupported(operator: Operator) -> BuildError:
    if operator.custom and operator.name.startswith("Flex"):
        hint = "convert the model without TensorFlow's own operators, or import it by --custom FILE.py"
        return BuildError("it is an operator of TensorFlow, not of TensorFlow Lite", hint=hint)
    if operator.custom:
        return BuildError("unsupported custom operator", hint="import it by --custom FILE.py")
    if operator.name in REFUSED:
        why, hint = REFUSED[operator.name]
        return BuildError("unsupported operator", why=why, hint=hint)
    return BuildError("unsupported operator")


def _check_inputs(operator: Operator, spec: OperatorSpec) -> None:
    """Refuses inputs beyond those an operator has: what they were meant for would be lost."""
    if spec.max_inputs is not None and len(operator.inputs) > spec.max_inputs:
        raise BuildError(f"it has {len(operator.inputs)} inputs, {operator.name} at most {spec.max_inputs}")


def _declare_outputs(builder: Builder, operator: Operator) -> None:
    """Gives the outputs of a failed operator the types of the file, so that later ones are checked too."""
    for number in operator.outputs:
        if number < 0 or number in builder.values or number in builder.lowered:
            continue
        tensor = builder.graph.tensors[number]
        if tensor.dtype is not None:
            type = TensorType(tensor.dtype, tensor.shape, tensor_quant(tensor))
            builder.values[number] = Value(builder.value_name(tensor.name), type)


def _report(graph: Subgraph, failures: list[tuple[Operator, str]]) -> BuildError:
    lines = []
    for operator, why in failures[:SHOWN]:
        outputs = [graph.tensors[k].name.split(";")[0] for k in operator.outputs if k >= 0]
        line = f"node {operator.index} {operator.name} -> {outputs[0] if outputs else '-'}: {why}"
        lines.append(printable(line))  # names may hold ends of lines
    if len(failures) > SHOWN:
        lines.append(f"and {len(failures) - SHOWN} more")
    names = sorted({operator.name for operator, _ in failures})
    count = "1 operator" if len(failures) == 1 else f"{len(failures)} operators"
    return BuildError(
        f"{count} of the model cannot be imported: {', '.join(names[:SHOWN])}",
        where="\n    ".join(lines),
        hint="export the model as int8 with supported operators, or import a custom operator by --custom FILE.py",
    )
