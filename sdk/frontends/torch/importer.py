"""From an exported program of PyTorch to a module of stage "imported"."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sdk.budget import NESTING, NODES, check_limit
from sdk.compiler.ir.graph import Call, Graph, Node, ReadState, Value, WriteState, node_args
from sdk.compiler.ir.module import Module, State
from sdk.compiler.ir.types import TensorType, dtype
from sdk.compiler.sym import Dim, Var, free_vars, prove_eq
from sdk.errors import BuildError, SdkError
from sdk.frontends.builder import Builder, contents_of
from sdk.frontends.failures import OUT_OF_MEMORY, UNSUPPORTED, Failure, check_sizes, report
from sdk.frontends.loops import check_passes
from sdk.frontends.names import identifier
from sdk.frontends.outline import Refusal
from sdk.frontends.results import named
from sdk.frontends.torch.complex import PART_TYPES, Complex, converted, has_complex, is_complex
from sdk.frontends.torch.context import TorchNode
from sdk.frontends.torch.control import HIGHER, LOOPS
from sdk.frontends.torch.inputs import Bounds, bounded
from sdk.frontends.torch.library import quiet
from sdk.frontends.torch.loading import load
from sdk.frontends.torch.lowering import CHECKS, functional_name, is_number, lowered
from sdk.frontends.torch.names import is_computed, output_names
from sdk.frontends.torch.operators import OPERATORS
from sdk.frontends.torch.refused import REFUSED
from sdk.frontends.torch.symbols import SizeError, free_symbols, is_symbolic, real_of, size_of

__all__ = ["import_exported", "import_torch"]

# What a converter can stumble over in arguments that no exporter writes.
_DAMAGE: Final = (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, AssertionError)
_OPERATORS: Final = "write the module with other operators; sdk help torch says what is imported"
_SIZES: Final = "sizes that must agree need one torch.export.Dim; its bounds, or --dim n=LO:HI:MULTIPLE, narrow one"
_TYPES: Final = {
    "bool": "bool", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16",
    "float32": "f32", "float64": "f64", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip
_COMPLEX: Final = "give real and imaginary parts as tensors of their own: torch.view_as_real"
_ITEMS: Final = ("aten._local_scalar_dense.default", "aten.item.default")
_TURNING: Final = ("aten.linear.default",)  # what turns its weights round at import
_FAILED: Final = object()  # in the place of what a node that was refused would have given


def import_torch(
    data: bytes,
    name: str,
    *,
    dims: Mapping[str, Bounds] | None = None,
    refusals: list[Refusal] | None = None,
    tensors: dict[str, tuple[str, Value]] | None = None,
) -> Module:
    """The module of the bytes of a ``.pt2`` file; see ``import_exported``."""
    program, names = load(data)
    return import_exported(program, name, dims=dims, names=names, refusals=refusals, tensors=tensors)


def import_exported(
    program: Any,
    name: str,
    *,
    dims: Mapping[str, Bounds] | None = None,
    names: Mapping[str, Any] | None = None,
    refusals: list[Refusal] | None = None,
    tensors: dict[str, tuple[str, Value]] | None = None,
) -> Module:
    """The module of a ``torch.export.ExportedProgram``: one graph ``main``, its mutated buffers as states.

    Args:
        program: what ``torch.export.export`` gives.
        name: name of the module (made an identifier).
        dims: inclusive bounds (lo, hi), with what it is a multiple of (lo, hi, multiple), or a number, for each size
            that the program leaves open and does not bound; within the program's own bounds, where it has some.
        names: of dims, by input and axis, as ``archive`` stores them.
        refusals: where given, what cannot be imported is put here, beside the error.
        tensors: where given, what each operator makes is put here by its name, with what the operator is called.

    Raises:
        BuildError: nodes cannot be imported (all of them are reported at once), or the program changes its inputs.
        UsageError: ``dims`` lacks a size without bounds, or names one that the program does not have.
    """
    with quiet():
        plain = lowered(program)
    importer = _Importer(plain, [] if refusals is None else refusals)
    module = importer.run(name, dims or {}, names or {})
    if tensors is not None:
        tensors |= importer.made()
    return module


class _Importer:
    def __init__(self, program: Any, refusals: list[Refusal]) -> None:
        self.program = program
        self.signature = program.graph_signature
        self.refusals = refusals
        self.builder = Builder(names={"main"})
        self.env: dict[Any, Any] = {}
        self.scope: dict[str, Dim] = {}
        self.reals: dict[str, Value] = {}  # symbols that are the element of a tensor
        self.failures: list[Failure] = []
        self.states: dict[str, State] = {}
        self.reads: list[Node] = []
        self.renamed: dict[str, Value] = {}  # results as the graph calls them
        self.depth = 0  # of parts inside one another
        self.kept: set[str] = set()  # constants that are read as they are

    def run(self, name: str, dims: Mapping[str, Bounds], names: Mapping[str, Any]) -> Module:
        self._check_signature()
        graph = self.program.graph
        specs = {s.arg.name: s for s in self.signature.input_specs if hasattr(s.arg, "name")}
        holders = [n for n in graph.nodes if n.op == "placeholder"]
        inputs = [n for n in holders if specs[n.name].kind.name == "USER_INPUT" and _is_tensor(n)]
        loops = any(functional_name(n.target) in LOOPS for n in self._all_nodes())
        sizes = [(n.name, n.meta["val"]) for n in inputs]
        found = bounded(self.program, sizes, dims, names, self.builder.passes if loops else None)
        self.scope = {symbol: v.expr if isinstance(v, Var) else v for symbol, v in found.items()}
        params = self._inputs(inputs)
        labels = output_names(self.program)
        self.builder.names.update(labels)  # no constant takes an output's name
        self._held(holders, specs)
        for index, node in enumerate(graph.nodes):
            if node.op not in ("placeholder", "output"):
                self._node(node, index)
        if self.failures:
            raise report(self.failures, _OPERATORS, _SIZES)
        check_passes(self.builder.passes, [v.name for v in found.values() if isinstance(v, Var)])
        return self._module(name, params, labels)

    def _all_nodes(self) -> Iterator[Any]:
        """The nodes of the program and of its parts."""
        for part in self.program.graph_module.modules():
            if hasattr(part, "graph"):
                yield from part.graph.nodes

    def _check_signature(self) -> None:
        changed = [s for s in self.signature.output_specs if s.kind.name == "USER_INPUT_MUTATION"]
        if changed:
            raise BuildError(
                f"the program changes its inputs: {', '.join(s.target for s in changed)}",
                hint="return what is new, or keep it in a buffer: register_buffer",
            )
        kinds = {s.kind.name for s in (*self.signature.input_specs, *self.signature.output_specs)}
        other = sorted(kinds & _OTHER_KINDS)
        if other:
            raise BuildError(f"the program has {', '.join(other).lower()}, which is not supported")

    # -- inputs, constants, states ------------------------------------------------------------------------------

    def _inputs(self, inputs: list[Any]) -> tuple[Value, ...]:
        found = []
        for node in inputs:
            value = Value(self.builder.value_name(node.name), self._type(node.meta["val"], f"the input {node.name}"))
            self.env[node] = value
            found.append(value)
        used = {v for p in found for d in p.type.shape for v in free_vars(d)}
        self.builder.dims = {v.name: v for v in sorted(used, key=lambda v: v.name)}
        return tuple(found)

    def _held(self, holders: list[Any], specs: Mapping[str, Any]) -> None:
        """Parameters and buffers: constants, or states where the program writes them."""
        written = {s.target for s in self.signature.output_specs if s.kind.name in _WRITTEN}
        for node in holders:
            spec = specs[node.name]
            if node in self.env:
                continue
            if spec.kind.name == "USER_INPUT":  # a number or None, which the export has built in
                self.env[node] = node.meta.get("val")
                continue
            tensor = self._stored(spec.target)
            if is_complex(tensor) and spec.target not in written:
                self.env[node] = self._pair(spec.target, tensor)
                continue
            try:
                value = self.builder.const(identifier(spec.target), _array(tensor))
            except BuildError as err:
                err.where = f"the tensor {spec.target}"
                raise
            if any(str(user.target) not in _TURNING for user in node.users):
                self.kept.add(value.name)
            self.env[node] = self._state(spec.target, value) if spec.target in written and node.users else value
            if spec.target in written and not node.users:
                self._state(spec.target, value)

    def _pair(self, target: str, tensor: Any) -> Complex:
        """A tensor of complex numbers as constants."""
        name, whole = identifier(target), tensor.detach().cpu().resolve_conj()
        return Complex(*(self.builder.const(f"{name}_{k}", _array(getattr(whole, k))) for k in ("real", "imag")))

    def _stored(self, target: str) -> Any:
        if target in self.program.state_dict:
            return self.program.state_dict[target]
        return self.program.constants[target]

    def _state(self, target: str, value: Value) -> Value:
        """The state of a buffer that starts with the contents of a constant, as it is read."""
        name = self.builder.value_name(f"{identifier(target)}_state")
        data = self.builder.consts[value.name].data
        init: str | int = value.name if np.any(np.asarray(data)) else 0
        self.states[target] = State(name, value.type, init)
        out = Value(self.builder.value_name(identifier(target)), value.type)
        self.reads.append(ReadState(out, name, f"buffer {target}"))
        return out

    # -- types and arguments ------------------------------------------------------------------------------------

    def _type(self, value: Any, where: str) -> TensorType:
        """The type of a tensor."""
        return self._type_of(value, str(value.dtype).removeprefix("torch."), where)

    def _type_of(self, value: Any, name: str, where: str) -> TensorType:
        kind = _TYPES.get(name)
        if kind is None:
            raise _no_such_type(f"{where} has elements", value.dtype)
        return TensorType(dtype(kind), tuple(size_of(d, self.scope) for d in value.shape))

    def _argument(self, given: Any, node: TorchNode) -> Any:
        """An argument of a node as a value, a dim, a number, or what it is."""
        if type(given).__name__ in ("list", "tuple", "immutable_list"):
            return [self._argument(g, node) for g in given]
        if hasattr(given, "op") and hasattr(given, "users"):
            found = self.env[given]
            return real_of(node, found, self.scope, self.reals) if is_symbolic(found) else found
        if type(given).__module__ == "torch" and type(given).__name__ == "dtype":
            return _TYPES.get(str(given).removeprefix("torch."))
        return size_of(given, self.scope) if is_symbolic(given) else given

    # -- nodes --------------------------------------------------------------------------------------------------

    def _node(self, node: Any, index: int) -> None:
        """Imports one node; a failure is noted, and its results are left unknown."""
        target = functional_name(node.target)
        if target in CHECKS and not node.users:
            return
        try:
            broken = any(self.env.get(a, _FAILED) is _FAILED for a in node.all_input_nodes)
            if broken:
                self.env[node] = _FAILED
                if _is_operator(node) and target not in OPERATORS and not is_number(node):
                    raise _unsupported(target)
            else:
                self.env[node] = self._converted(node, target)
        except SdkError as error:
            why = error.message + (f" ({error.why})" if error.why else "")
            self._failed(node, index, why, error.hint)
        except _DAMAGE as error:
            self._failed(node, index, f"its arguments are not as expected ({type(error).__name__}: {error})")
        except MemoryError:
            self._failed(node, index, OUT_OF_MEMORY)

    def _failed(self, node: Any, index: int, why: str, hint: str | None = None) -> None:
        self.env[node] = _FAILED
        target = functional_name(node.target).removeprefix("aten.")
        self.failures.append(Failure(target, f"{node.name}, {target}{_line(node)}", why, hint))
        self.refusals.append(Refusal(index, why, hint))

    def _converted(self, node: Any, target: str) -> Any:
        if node.op == "get_attr":
            found = getattr(node.graph.owning_module, node.target)
            if is_complex(found):
                return self._pair(node.name, found)
            return found if hasattr(found, "graph") else self.builder.const(identifier(node.name), _array(found))
        if node.target is operator.getitem:
            if not node.users:
                return None  # a result that nothing reads, which may not be made
            return self.env[node.args[0]][node.args[1]]
        if is_number(node):
            value = node.meta["val"]
            if type(value).__name__ == "SymFloat":
                if target in _ITEMS:
                    self.reals[str(value.node.expr)] = self.env[node.args[0]]
                return value  # computed where a tensor needs it
            try:
                return size_of(value, self.scope) if is_symbolic(value) else value
            except SizeError:
                if node.users and not all(str(u.target) in CHECKS or is_number(u) for u in node.users):
                    raise
                return None  # of a check, or of a number that is told by itself
        if target in HIGHER and not _is_operator(node):
            return self._higher(node, target)
        if target not in OPERATORS:
            raise _unsupported(target)
        return self._call(node, target)

    def _higher(self, node: Any, target: str) -> Any:
        """An operator that takes parts of the program: its results."""
        context = TorchNode(self.builder, f"{target} {node.name}", identifier(node.name), target, ())
        given = [self._argument(a, context) for a in node.args]
        self.depth += 1
        check_limit(NESTING, self.depth, node.name)
        found = tuple(HIGHER[target](context, self._inline, *given, **node.kwargs))
        self.depth -= 1
        return found

    def _inline(self, part: Any, given: Sequence[Any]) -> list[Any]:
        """What a part of the program gives for its arguments.

        Raises:
            BuildError: an operator in it cannot be imported; the failure itself is noted.
        """
        arguments = iter(given)
        before = len(self.failures)
        for index, node in enumerate(part.graph.nodes):
            if node.op == "placeholder":
                self.env[node] = next(arguments)
            elif node.op == "output":
                (results,) = node.args
                all_ = results if isinstance(results, (list, tuple)) else [results]
                found = [self.env[r] if hasattr(r, "users") else r for r in all_]
            else:
                self._node(node, index)
        if len(self.failures) > before:
            raise BuildError("a part of it cannot be imported")
        return found

    def _call(self, node: Any, target: str) -> Any:
        self.builder.budget.spend(NODES, 1, node.name)
        given = node.meta["val"]
        metas = list(given) if isinstance(given, (list, tuple)) else [given]
        tensors = [v if hasattr(v, "dtype") and hasattr(v, "shape") else None for v in metas]
        counted = [v is not None and self._is_counted(v) for v in tensors]
        results = tuple(None if v is None or new else self._part(v) for v, new in zip(tensors, counted, strict=True))
        pairs = [is_complex(v) for v in tensors]
        title = f"{target.removeprefix('aten.').split('.')[0]} {node.name}"
        context = TorchNode(
            self.builder, title, identifier(node.name), target, results, all(map(_in_order, node.all_input_nodes)),
            frozenset(self.kept), pairs[:1] == [True],
        )  # fmt: skip
        args, kwargs = _bound(node)
        by_name = {k: self._argument(v, context) for k, v in kwargs.items()}
        by_place = [self._argument(a, context) for a in args]
        if any(pairs) or has_complex([*by_place, *by_name.values()]):
            found = converted(context, target, by_place, by_name)
        else:
            found = OPERATORS[target](context, *by_place, **by_name)
        values = found if isinstance(found, tuple) else (found,)
        check_sizes([v for value in values for v in ((value.re, value.im) if isinstance(value, Complex) else (value,))])
        for value, wanted, tensor, new, pair in zip(values, results, tensors, counted, pairs, strict=False):
            if isinstance(value, Complex) != pair:
                context.fail("its result is of complex numbers here or in PyTorch only")
            if new:
                self._count(context, value, tensor)
            _check_type(context, value, wanted)
        wanted_places = {u.args[1] for u in node.users if u.target is operator.getitem and u.users}
        if isinstance(given, (list, tuple)) and wanted_places and max(wanted_places) >= len(values):
            context.fail(f"its result {max(wanted_places)} is not supported")
        return values if isinstance(given, (list, tuple)) else values[0]

    def _part(self, tensor: Any) -> TensorType:
        """The type of a result; of complex numbers that of each part."""
        name = str(tensor.dtype).removeprefix("torch.")
        return self._type_of(tensor, PART_TYPES.get(name, name), "the result")

    def _is_counted(self, tensor: Any) -> bool:
        """Whether a size of a result is a symbol of its own, which the run finds."""
        return any(symbol not in self.scope for size in tensor.shape for symbol in free_symbols(size))

    def _count(self, node: TorchNode, value: Value | Complex, tensor: Any) -> None:
        """Makes sizes of a result, which follow from data, known to what comes after.

        Raises:
            BuildError: the result is another one than PyTorch's.
        """
        for own, size in zip(value.type.shape, tensor.shape, strict=True):
            if is_symbolic(size) and size.node.expr.is_Symbol:
                self.scope.setdefault(str(size.node.expr), own)
        _check_type(node, value, self._part(tensor))

    def made(self) -> dict[str, tuple[str, Value]]:
        """What each operator of the program has made, by its name: its own, and the tensor."""
        return {
            node.name: (functional_name(node.target).split(".")[1], self.renamed.get(found.name, found))
            for node, found in self.env.items() if _is_operator(node) and isinstance(found, Value)
        }  # fmt: skip

    # -- results ------------------------------------------------------------------------------------------------

    def _module(self, name: str, params: tuple[Value, ...], labels: list[str]) -> Module:
        by_name = {n.name: n for n in self.program.graph.nodes}
        writes: list[tuple[str, Value]] = []
        found: list[Value] = []
        for spec in self.signature.output_specs:
            if spec.kind.name in _WRITTEN:
                value = self.builder.materialize(self.env[by_name[spec.arg.name]], f"buffer {spec.target}")
                writes.append((self.states[spec.target].name, value))
            elif is_computed(spec.arg):
                found.append(self._result(by_name[spec.arg.name]))
        if not found:
            raise BuildError("the program has no output", hint="return a tensor")
        body, results, _ = named(self.builder, params, found, labels)
        self.renamed = renamed = {a.name: b for node, other in zip(self.builder.body, body, strict=True)
                   for a, b in zip(_outs(node), _outs(other), strict=True)}  # fmt: skip
        after = tuple(WriteState(state, renamed.get(v.name, v), f"state {state}") for state, v in writes)
        whole = (*self.reads, *body, *after)
        main = Graph("main", tuple(self.builder.dims.values()), params, whole, results)
        used = {v.name for node in whole for v in node_args(node) if v.const} | {v.name for v in results if v.const}
        used |= {s.init for s in self.states.values() if isinstance(s.init, str)}
        consts = {k: c for k, c in self.builder.consts.items() if k in used}
        states = {s.name: s for s in self.states.values()}
        return Module(identifier(name), "imported", consts=consts, states=states, graphs={"main": main})

    def _result(self, node: Any) -> Value:
        value = self.env[node]
        if isinstance(value, Complex):
            raise _no_such_type(f"the output {node.name} has elements", node.meta["val"].dtype)
        if not isinstance(value, Value):  # a size of an input
            value = self.builder.known(contents_of([value], dtype("i64"), ()), node.name)
        return self.builder.materialize(value, f"output {node.name}")


_OTHER_KINDS: Final = frozenset(
    {"CUSTOM_OBJ", "TOKEN", "LOSS_OUTPUT", "GRADIENT_TO_PARAMETER", "GRADIENT_TO_USER_INPUT"}
)
_WRITTEN: Final = frozenset({"BUFFER_MUTATION", "PARAMETER_MUTATION"})


def _outs(node: Node) -> tuple[Value, ...]:
    return node.outs if isinstance(node, Call) else ()


def _unsupported(target: str) -> BuildError:
    if target in REFUSED:
        why, hint = REFUSED[target]
        return BuildError(why, hint=hint)
    return BuildError(f"{UNSUPPORTED} {target}")


def _is_tensor(node: Any) -> bool:
    value = node.meta.get("val")
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _in_order(node: Any) -> bool:
    """Whether a tensor's elements are known to lie in memory in order, from its beginning on."""
    if not _is_tensor(node):
        return True
    value = node.meta["val"]
    try:
        return bool(value.is_contiguous()) and not is_symbolic(at := value.storage_offset()) and at == 0
    except RuntimeError:  # PyTorch's: sizes that follow from data decide
        return False


def _is_operator(node: Any) -> bool:
    """Whether a node calls an operator of PyTorch, or of a library."""
    return hasattr(node.target, "_schema")


def _array(tensor: Any) -> np.ndarray:
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind not in _TYPES:
        raise _no_such_type("it has elements", tensor.dtype)
    return np.array(tensor.detach().cpu().resolve_neg().resolve_conj().numpy(), order="C")


def _no_such_type(what: str, kind: Any) -> BuildError:
    name = str(kind).removeprefix("torch.")
    hint = _COMPLEX if name.startswith("complex") else "convert the module first: module.float()"
    return BuildError(f"{what} of type {name}, which is not supported", hint=hint)


def _bound(node: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call by its schema: positional ones in order with their defaults, the others as given."""
    given = dict(node.kwargs)
    args = list(node.args)
    for argument in node.target._schema.arguments[len(args) :]:
        if argument.kwarg_only:
            break
        args.append(given.pop(argument.name, argument.default_value))
    return args, given


def _check_type(node: TorchNode, value: Value | Complex, wanted: TensorType | None) -> None:
    """Refuses a result of another type than PyTorch found: nothing wrong is compiled in silence."""
    if wanted is None:
        return
    own = value.type  # of complex numbers that of both parts
    same = own.dtype == wanted.dtype and own.rank == wanted.rank
    if not same or any(prove_eq(a, b) is False for a, b in zip(own.shape, wanted.shape, strict=True)):
        node.fail(f"its result is {own.dtype}{_text(own)}, in PyTorch {wanted.dtype}{_text(wanted)}")


def _text(type_: TensorType) -> str:
    return f"[{', '.join(map(str, type_.shape))}]"


def _line(node: Any) -> str:
    """Where the module's source calls it."""
    found = re.findall(r'File "([^"]+)", line (\d+), in \w+\s*\n\s*(\S.*)', node.meta.get("stack_trace") or "")
    if not found:
        return ""
    path, line, code = found[-1]
    return f" ({path}:{line}: {code.strip()})"
