"""From an ONNX model to a module of stage "imported"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from sdk.budget import NESTING, NODES, check_limit
from sdk.compiler.ir.graph import Call, Graph, Node, Value, node_args
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.types import TensorType, dtype_of
from sdk.errors import BuildError, SdkError, UsageError
from sdk.files import read_regular
from sdk.frontends.base import OpenSizesError
from sdk.frontends.builder import Builder, Contents
from sdk.frontends.failures import OUT_OF_MEMORY, Failure, check_sizes, report
from sdk.frontends.loops import check_passes
from sdk.frontends.names import identifier
from sdk.frontends.onnx.context import Converter, OnnxNode
from sdk.frontends.onnx.externals import Externals
from sdk.frontends.onnx.functions import (
    all_nodes,
    check_arity,
    check_expanded,
    local_functions,
    schema_function,
    standard,
)
from sdk.frontends.onnx.inputs import Bounds, elements, parameters, tensor_of
from sdk.frontends.onnx.narrow import check_narrow, narrow_result
from sdk.frontends.onnx.operators import OPERATORS
from sdk.frontends.onnx.reader import (
    WIDER_TYPES,
    Source,
    element_name,
    element_type,
    malformed,
    opset_versions,
    read_model,
)
from sdk.frontends.onnx.refused import refusal
from sdk.frontends.onnx.scope import Scope, attribute_values
from sdk.frontends.onnx.symbols import fold_sizes
from sdk.frontends.outline import Refusal
from sdk.frontends.results import named

__all__ = ["InputsDecideError", "import_onnx"]

DECIDING_ELEMENTS: Final = 64
# What a converter can stumble over in attributes that no exporter writes.
_DAMAGE: Final = (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, AssertionError)
_OPERATORS: Final = (
    'export the model with supported operators, or give an importer of "domain::Name": --custom FILE.py'
)
_SIZES: Final = (
    "sizes that must agree need the same name in the model, or numbers; --dim n=LO:HI or n=LO:HI:MULTIPLE narrows one"
)
# Operators that take values that are no tensors.
_OF_SEQUENCES: Final = frozenset(
    {
        "ConcatFromSequence", "Identity", "If", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement",
        "SequenceAt", "SequenceConstruct", "SequenceErase", "SequenceInsert", "SequenceLength",
    }
)  # fmt: skip
Results = tuple[Value, ...]
Found = tuple[Value | None, ...]  # None for an output that nothing wants


def import_onnx(
    model: bytes | str | Path | Any,
    name: str,
    *,
    dims: Mapping[str, Bounds] | None = None,
    custom_ops: Mapping[str, Converter] | None = None,
    fixed: Mapping[str, NDArray[Any]] | None = None,
    folder: Path | None = None,
    refusals: list[Refusal] | None = None,
    externals: Externals | None = None,
    tensors: dict[str, Value] | None = None,
) -> Module:
    """The module of an ONNX model: one graph ``main``.

    Args:
        model: the path of a file, its bytes, or a ``ModelProto``.
        name: name of the module (made an identifier).
        dims: for each open size of the inputs its inclusive bounds (lo, hi), bounds and what it is a multiple of
            (lo, hi, multiple), or one number. A size without a name is called ``<input>_dim<axis>``.
        custom_ops: converters by "domain::Name" (or "Name"), tried before our own.
        fixed: contents of inputs that become constants of the module, such as axes or a target shape.
        folder: where data outside of the file may lie; for a path, its folder.
        refusals: where given, what cannot be imported is put here, beside the error.
        externals: data outside of the file that was read already; ``folder`` is not looked into then.

        tensors: where given, what each tensor of the main graph became is put here, by its name.

    Raises:
        BuildError: the model is damaged, or nodes cannot be imported (all of them are reported at once); an
            ``InputsDecideError`` where that is for inputs whose contents decide shapes.
        UsageError: ``dims`` lacks an open size, or names one that the model does not have.
    """
    if isinstance(model, (str, Path)):
        path = Path(model)
        try:
            model, folder = read_regular(path), path.parent
        except OSError as error:
            raise BuildError(f"cannot read {path}", why=error.strerror or str(error)) from None
    source = read_model(model, folder, externals)
    importer = _Importer(source, custom_ops or {}, [] if refusals is None else refusals)
    return importer.run(name, dims or {}, fixed or {}, {} if tensors is None else tensors)


class InputsDecideError(BuildError):
    """Nodes need the contents of inputs when the model is built. ``inputs`` are their names in the model."""

    def __init__(self, cause: BuildError, inputs: tuple[str, ...]) -> None:
        names = ", ".join(inputs)
        hint = f"make {names} a constant of the model, or give import_onnx fixed={{{inputs[0]!r}: array}}"
        super().__init__(cause.message, where=cause.where, why=f"the contents of {names} decide shapes", hint=hint)
        self.inputs = inputs


class _Importer:
    def __init__(self, source: Source, custom_ops: Mapping[str, Converter], refusals: list[Refusal]) -> None:
        self.source = source
        self.custom_ops = custom_ops
        self.refusals = refusals
        self.outermost = 0  # the node of the main graph under way
        self.builder = Builder(names={"main"})
        self.functions = local_functions(source.model)
        self.failures: list[Failure] = []
        self.unmet: set[str] = set()

    def run(
        self, name: str, dims: Mapping[str, Bounds], fixed: Mapping[str, NDArray[Any]], tensors: dict[str, Value]
    ) -> Module:
        check_expanded(self.source.model)
        graph = self.source.model.graph
        scope = Scope(self.builder, self.source.opsets, self.source.externals)
        scope.initializers = _initializers(graph)
        wanted = [p for p in graph.input if p.name not in scope.initializers and p.name not in fixed]
        inputs = elements(wanted, dims)
        for given, array in fixed.items():
            _check_fixed(graph, given, array)
            scope.values[given] = self.builder.known(Contents(dtype_of(array), array), given)
        _unique([*(p.name for p in inputs.protos), *inputs.parts], "input")
        _unique([p.name for p in graph.output], "output")
        nodes = [*graph.node, *(node for function in self.functions.values() for node in function.node)]
        loops = any(node.op_type in ("Loop", "Scan") for node in all_nodes(nodes))
        params, symbols = parameters(self.builder, inputs, dims, loops)
        scope.values.update({name: value for name, value in params.items() if not inputs.is_part(name)})
        for sequence, parts in inputs.parts.items():
            scope.values[sequence] = self.builder.sequence(tuple(params[part] for part in parts), sequence)
        self.builder.names.update(identifier(p.name) for p in graph.output)  # no constant takes an output's name
        self._mark_narrow(params, inputs.protos)
        self._nodes(scope, graph.node)
        if self.failures:
            deciding = self._deciding(params, self.unmet)
            error = report(self.failures, _OPERATORS, _SIZES)
            raise InputsDecideError(error, deciding) if deciding else error
        try:
            check_passes(self.builder.passes, [v.name for v in symbols])
        except OpenSizesError as error:
            error.inputs = self._deciding(params, self.builder.passes.asked)
            raise
        found = [one for p in graph.output for one in self._outputs(scope, p.name)]
        if not found:
            raise malformed("the graph has no output")
        names = [name for name, _ in found]
        body, results, renamed = named(self.builder, tuple(params.values()), [v for _, v in found], names)
        of_tensors = {n: v for n, v in scope.values.items() if v is not None and v.name not in self.builder.sequences}
        tensors.update({name: renamed(value) for name, value in of_tensors.items()})
        main = Graph("main", symbols, tuple(params.values()), body, results)
        used = {v.name for node in body for v in _uses(node) if v.const} | {v.name for v in results if v.const}
        consts = {k: c for k, c in self.builder.consts.items() if k in used}
        return Module(identifier(name), "imported", consts=consts, states=self.builder.states, graphs={"main": main})

    def _mark_narrow(self, params: Mapping[str, Value], protos: Sequence[Any]) -> None:
        """Notes which inputs have a type that another stands for."""
        codes = {proto.name: tensor_of(proto).elem_type for proto in protos}
        self.builder.narrow |= {params[name].name: code for name, code in codes.items() if code in WIDER_TYPES}

    def _deciding(self, params: Mapping[str, Value], unmet: set[str]) -> tuple[str, ...]:
        """The inputs whose contents would tell these values, where there are few of them."""
        causes = self._ancestors(unmet)
        return tuple(n for n, v in params.items() if v.name in causes and _may_decide(v))

    def _ancestors(self, names: set[str]) -> set[str]:
        """The values that the named ones are computed from, themselves included."""
        found = set(names)
        for node in reversed(self.builder.body):
            if isinstance(node, Call) and any(v.name in found for v in node.outs):
                found.update(v.name for v in node.args)
        return found

    def _outputs(self, scope: Scope, name: str) -> list[tuple[str, Value]]:
        """What an output of the model is, with its name: of a sequence each element, numbered."""
        try:
            value = scope.lookup(name)
        except BuildError as error:
            raise BuildError(f"the output {name} is never computed", why=error.why or error.message) from error
        if value is None:
            raise BuildError(f"the output {name} is never computed")
        if value.name not in self.builder.sequences:
            return [(name, self.builder.materialize(value, f"output {name}"))]
        parts = self.builder.sequences[value.name]
        if parts is None:
            raise BuildError(f"the output {name} is an optional value that is not there")
        named_parts = ((f"{name}_{k}", part) for k, part in enumerate(parts))
        return [(one, self.builder.materialize(part, f"output {name}")) for one, part in named_parts]

    # -- nodes --------------------------------------------------------------------------------------------------

    def _nodes(self, scope: Scope, nodes: Sequence[Any]) -> None:
        check_limit(NESTING, scope.depth, scope.outer or "the model")
        self.builder.budget.spend(NODES, len(nodes), scope.outer or "the model")
        for index, node in enumerate(nodes):
            self._node(scope, node, index)

    def _node(self, scope: Scope, node: Any, index: int) -> None:
        """Imports one node; a failure is noted, and its results are left unknown."""
        results: Found | None = None
        self.outermost = self.outermost if scope.depth else index
        asked = set(self.builder.asked)  # by the node around
        self.builder.asked.clear()
        before = len(self.failures)
        try:
            names = [scope.present(name) for name in node.input]
            inputs = [scope.lookup(name) if name else None for name in names]
            broken = any(value is None and name for name, value in zip(names, inputs, strict=True))
            if broken:
                self._check_known(scope, node)
            else:
                results = self._convert(scope, node, tuple(inputs))
                check_sizes(results)
        except SdkError as error:
            if len(self.failures) == before:
                why = error.message + (f" ({error.why})" if error.why else "")
                self._failed(scope, node, index, why, error.hint)
        except _DAMAGE as error:
            why = f"its attributes or inputs are malformed ({type(error).__name__}: {error})"
            self._failed(scope, node, index, why)
        except MemoryError:
            self._failed(scope, node, index, OUT_OF_MEMORY)
        self.builder.asked |= asked
        for k, name in enumerate(node.output):
            if name:
                scope.bind(name, results[k] if results is not None else None)

    def _failed(self, scope: Scope, node: Any, index: int, why: str, hint: str | None = None) -> None:
        self.failures.append(Failure(node.op_type, _where(scope, node, index), why, hint))
        inside = f"{node.op_type} inside it: " if scope.depth else ""
        self.refusals.append(Refusal(self.outermost, inside + why, hint))
        self.unmet |= self.builder.asked

    def _check_known(self, scope: Scope, node: Any) -> None:
        """Refuses an operator that could not be imported either, after an earlier failure hid its inputs."""
        if self._converter(node) is None and self._local(node) is None:
            version = _version(scope, node)
            if schema_function(node, version, [None] * len(node.input)) is None:
                raise refusal(_key(node), version, node.domain in ("", "ai.onnx"))

    def _convert(self, scope: Scope, node: Any, inputs: Found) -> Found:
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        version = _version(scope, node)
        protos = _attributes(scope, node)
        converter, body = self._converter(node), self._local(node)
        if converter is None and body is not None:
            return self._expand(scope, node, inputs, protos, body)
        if _key(node) not in self.custom_ops:
            check_arity(node, len(inputs), version)
        if converter is not None and _key(node) not in _OF_SEQUENCES:
            self._check_tensors(inputs)
        context = self._context(scope, node, inputs, protos, version)
        check_narrow(context, self.builder.narrow)
        folded = fold_sizes(context) if not node.domain and _key(node) not in self.custom_ops else None
        if folded is not None:
            return narrow_result(context, (folded,), self.builder.narrow)
        if converter is None:
            resolved, opset = standard(_resolved(node, protos), version)
            found = schema_function(resolved, opset, [self._types(v) for v in inputs])
            if found is None:
                raise refusal(_key(node), version, node.domain in ("", "ai.onnx"))
            return self._expand(scope, node, inputs, {**found[1], **protos}, found[0])
        made = converter(context)
        results = _enough(made if isinstance(made, tuple) else (made,), node)
        if node.op_type in ("Constant", "ConstantOfShape") and "value" in protos:
            code = protos["value"].t.data_type
            self.builder.narrow |= {v.name: code for v in results[:1] if code in WIDER_TYPES}
        return narrow_result(context, results, self.builder.narrow)

    def _types(self, value: Value | None) -> TensorType | list[TensorType] | None:
        """The type of an input; of a sequence those of its elements."""
        if value is None or value.name not in self.builder.sequences:
            return value.type if value else None
        return [part.type for part in self.builder.sequences[value.name] or ()]

    def _check_tensors(self, inputs: Found) -> None:
        """Refuses sequences and optional values that are not there, where a converter takes tensors."""
        if any(v is not None and v.name in self.builder.sequences for v in inputs):
            raise BuildError("one of its inputs is a sequence, or an optional value that is not there")

    def _context(
        self, scope: Scope, node: Any, inputs: Found, protos: Mapping[str, Any], version: int
    ) -> OnnxNode:
        wanted = [name for name in node.output if name]
        title = scope.outer or " ".join([node.op_type, node.name or (wanted[0] if wanted else "")]).strip()

        def inline(graph: Any, args: Results) -> Results:
            return self._subgraph(scope, graph, args)

        return OnnxNode(
            builder=self.builder, op=node.op_type, name=node.name, opset=version, inputs=inputs,
            outputs=len(node.output), given=attribute_values(scope, protos), source=title,
            stem=identifier(wanted[0] if wanted else node.op_type), inline=inline,
        )  # fmt: skip

    def _converter(self, node: Any) -> Converter | None:
        return self.custom_ops.get(_key(node)) or OPERATORS.get(_key(node))

    def _local(self, node: Any) -> Any:
        return self.functions.get((node.domain, node.op_type, node.overload))

    def _subgraph(self, scope: Scope, graph: Any, args: Results) -> Results:
        """Imports the nodes of a sub-graph in place; its results."""
        inner = Scope(
            self.builder, scope.opsets, scope.externals, scope, scope.attributes, scope.outer, scope.depth + 1,
            initializers=_initializers(graph),
        )  # fmt: skip
        if len(args) != len(graph.input):
            raise malformed(f"a sub-graph of {len(graph.input)} inputs is given {len(args)}")
        inner.values.update({p.name: v for p, v in zip(graph.input, args, strict=True)})
        found = self._body(inner, graph.node, [p.name for p in graph.output])
        return tuple(v for v in found if v is not None)

    def _expand(self, scope: Scope, node: Any, inputs: Found, protos: Mapping[str, Any], body: Any) -> Found:
        """Imports the body of a function in place of the node that calls it."""
        title = scope.outer or " ".join([node.op_type, node.name or next(iter(node.output), "")]).strip()
        opsets = {**scope.opsets, **opset_versions(body)}
        attributes = {**{a.name: a for a in body.attribute_proto}, **protos}
        inner = Scope(self.builder, opsets, scope.externals, None, attributes, title, scope.depth + 1)
        if len(inputs) > len(body.input):
            raise malformed(f"the function {node.op_type} of {len(body.input)} inputs is given {len(inputs)}")
        if len(node.output) > len(body.output):
            raise malformed(
                f"the function {node.op_type} of {len(body.output)} outputs is asked for {len(node.output)}"
            )
        for k, name in enumerate(body.input):
            value = inputs[k] if k < len(inputs) else None
            if value is None:
                inner.absent.add(name)
            else:
                inner.values[name] = value
        wanted = [name if own else "" for name, own in zip(body.output, node.output, strict=False)]
        return self._body(inner, body.node, wanted)

    def _body(self, scope: Scope, nodes: Sequence[Any], outputs: list[str]) -> Found:
        before = len(self.failures)
        self._nodes(scope, nodes)
        if len(self.failures) > before:
            raise BuildError("a node inside it cannot be imported")
        return tuple(scope.lookup(name) if name else None for name in outputs)


def _may_decide(value: Value) -> bool:
    """Whether an input may be one that says how other tensors are shaped: a few numbers in a row."""
    return value.type.rank <= 1 and isinstance(value.type.size, int) and value.type.size <= DECIDING_ELEMENTS


def _check_fixed(graph: Any, name: str, array: NDArray[Any]) -> None:
    """Checks that the model has such an input, of the array's type and rank."""
    found = [p for p in graph.input if p.name == name]
    if not found:
        raise UsageError(f"the model has no input {name}", hint=f"it has {', '.join(p.name for p in graph.input)}")
    tensor = found[0].type.tensor_type
    shape = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
    fits = len(shape) == array.ndim and all(s in (-1, n) for s, n in zip(shape, array.shape, strict=True))
    if element_type(tensor.elem_type) != dtype_of(array) or (tensor.HasField("shape") and not fits):
        raise UsageError(f"the input {name} is {element_name(tensor.elem_type)}{shape}, not {array.dtype}{array.shape}")


def _initializers(graph: Any) -> dict[str, Any]:
    if len(graph.sparse_initializer):
        raise BuildError("sparse constants are not supported")
    _unique([t.name for t in graph.initializer], "constant")
    return {t.name: t for t in graph.initializer}


def _unique(names: Sequence[str], what: str) -> None:
    twice = [n for n in dict.fromkeys(names) if names.count(n) > 1] if len(set(names)) != len(names) else []
    if twice or "" in names:
        raise malformed(f"two {what}s are called {twice[0]!r}" if twice else f"an {what} has no name")


def _key(node: Any) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def _version(scope: Scope, node: Any) -> int:
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain not in scope.opsets and not domain:
        raise malformed("it does not say which version of ONNX's operators it uses")
    return scope.opsets.get(domain, 1)


def _attributes(scope: Scope, node: Any) -> dict[str, Any]:
    """The attributes of a node; those that refer to the function around it are looked up there."""
    found = {}
    for proto in node.attribute:
        if not proto.ref_attr_name:
            found[proto.name] = proto
        elif proto.ref_attr_name in scope.attributes:
            found[proto.name] = scope.attributes[proto.ref_attr_name]
    return found


def _resolved(node: Any, protos: Mapping[str, Any]) -> Any:
    """The node with the values of attributes that refer to the function around it."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    found = type(node)()
    found.CopyFrom(node)
    del found.attribute[:]
    for name, proto in protos.items():
        found.attribute.add().CopyFrom(proto)
        found.attribute[-1].name = name
    return found


def _enough(results: Results, node: Any) -> Results:
    missing = [name for name in node.output[len(results) :] if name]
    if missing:
        raise BuildError(f"the output {missing[0]!r} is not supported")
    return results


def _where(scope: Scope, node: Any, index: int) -> str:
    own = f"node {index} {node.op_type} {node.name or ' '.join(n for n in node.output if n)}".rstrip()
    return f"{own} of {scope.outer}" if scope.outer else own


# -- results ----------------------------------------------------------------------------------------------------------


def _uses(node: Node) -> tuple[Value, ...]:
    return node_args(node)
