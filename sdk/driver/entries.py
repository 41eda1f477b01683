"""Several models as entries of one: constants of equal contents are stored once, states of one name are one state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sdk.compiler.ir.graph import Call, Graph, Node, ReadState, Value, WriteState, fresh_name, node_args
from sdk.compiler.ir.module import Const, Module, Stack, State
from sdk.driver.files import read_model_file
from sdk.errors import BuildError, SdkError, UsageError
from sdk.frontends.base import Custom, Engine, Frontend, ModelFile, OpenSizesError, Reference, UnknownDimsError
from sdk.frontends.names import identifier
from sdk.frontends.outline import Layer, Refusal, values_as_layers

__all__ = ["JoinedFile", "join_files"]

_Loader = Callable[[str, Mapping[str, tuple[int, ...]]], Module]  # a part's module of a name, with bounds of its sizes
HINT = "name each entry: prefill=a.onnx decode=b.onnx"


@dataclass(frozen=True)
class JoinedFile(ModelFile):
    """Models that are compiled as one, by the names of their entries."""

    parts: Mapping[str, ModelFile] = field(default_factory=dict, kw_only=True, repr=False)

    def with_custom(self, custom: Custom) -> JoinedFile:
        """The same, the custom operators of all parts imported as the user says."""
        return replace(join_files({n: p.with_custom(custom) for n, p in self.parts.items()}), custom=custom)

    @property
    def words(self) -> tuple[str, ...]:
        """What the command is given for it."""
        return tuple(f"{entry}={part.path}" for entry, part in self.parts.items())


def join_files(given: Mapping[str, Path | ModelFile]) -> JoinedFile:
    """The files of several models as one, each an entry of its name.

    Raises:
        UsageError: a file cannot be read, or a name is no identifier.
    """
    for entry in given:
        if entry != identifier(entry):
            raise UsageError(f"{entry!r} is no name of an entry", hint="letters, digits and _, a letter first")
    if not given:
        raise UsageError("no models to join", hint=HINT)
    parts = {entry: read_model_file(path) for entry, path in given.items()}
    # what it is: the name and the contents of each entry
    data = "\n".join(f"{entry} {part.digest}" for entry, part in parts.items()).encode()
    frontend = Frontend(
        name="entries", title="set of models", suffixes=(), sniff=lambda _: True, load=_load, layers=_layers,
        engines=_engines(parts),
    )  # fmt: skip
    return JoinedFile(Path("+".join(parts)), data, frontend, parts=parts)


# --- references ---------------------------------------------------------------------------------------------------


def _engines(parts: Mapping[str, ModelFile]) -> tuple[Engine, ...]:
    """The engines of all parts, each for the entries whose files it runs."""
    known = {engine.name: engine for part in parts.values() for engine in part.frontend.engines}
    return tuple(_dispatched(engine, parts) for engine in known.values())


def _dispatched(engine: Engine, parts: Mapping[str, ModelFile]) -> Engine:
    def own(graph: Graph) -> Engine | None:
        return next((e for e in parts[graph.name].frontend.engines if e.name == engine.name), None)

    def open_part(_: ModelFile, graph: Graph) -> Reference:
        found, part = own(graph), parts[graph.name]
        if found is None:
            raise UsageError(f"{engine.name} does not run {part.name}", hint="use --against interp")
        return found.open(part, graph)

    def suits(graph: Graph) -> bool:
        found = own(graph)
        return found is not None and found.suits(graph)

    def layers(_: ModelFile, graph: Graph, keys: Sequence[str]) -> Reference:
        found, part = own(graph), parts[graph.name]
        if found is None or found.layers is None:
            hint = "use --against interp"
            raise UsageError(f"{engine.name} does not tell intermediate tensors of {part.name}", hint=hint)
        return found.layers(part, graph, keys)

    told = any(e.layers is not None for p in parts.values() for e in p.frontend.engines if e.name == engine.name)
    return Engine(engine.name, engine.distribution, open_part, suits, layers if told else None)


# --- the module ---------------------------------------------------------------------------------------------------


def _load(
    file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], refusals: list[Refusal]
) -> Module:
    """The module of all parts. ``dims`` gives a name for all entries that have it, or ``entry.name`` for one.

    Raises:
        SdkError: a part cannot be imported, or they do not fit together.
    """
    assert isinstance(file, JoinedFile)
    return _joined(file, name, dims, {entry: _loader(part, refusals) for entry, part in file.parts.items()})


def _layers(
    file: ModelFile, name: str, dims: Mapping[str, tuple[int, ...]], entry: str | None
) -> tuple[Module, tuple[Layer, ...]]:
    """The module of all parts, and the tensors that the operators of an entry make, as the part's format tells them.

    Raises:
        SdkError: as of ``_load``; a UsageError where there is no such entry.
    """
    assert isinstance(file, JoinedFile)
    if entry is None or entry not in file.parts:
        raise UsageError("layers are those of one entry", hint=f"name one with --entry: {', '.join(file.parts)}")
    part, found = file.parts[entry], list[tuple[Layer, ...]]()
    loaders = {one: _loader(other, []) for one, other in file.parts.items()}
    if (tell := part.frontend.layers) is not None:

        def load(own: str, bounds: Mapping[str, tuple[int, ...]]) -> Module:
            module, told = tell(part, own, bounds, None)
            found.append(told)
            return module

        loaders[entry] = load
    module = _joined(file, name, dims, loaders)
    return module, found[-1] if found else values_as_layers(module.graphs[entry])


def _loader(part: ModelFile, refusals: list[Refusal]) -> _Loader:
    """What imports a part."""
    return lambda name, bounds: part.frontend.load(part, name, bounds, refusals)


def _joined(
    file: JoinedFile, name: str, dims: Mapping[str, tuple[int, ...]], loaders: Mapping[str, _Loader]
) -> Module:
    """The module of all parts, each as its loader imports it."""
    unbounded: list[str] = []
    loops: dict[str, None] = {}
    unused = dict.fromkeys(dims)
    modules: dict[str, Module] = {}
    for entry, part in file.parts.items():
        try:
            modules[entry], used = _part(entry, part, dims, loaders[entry])
            for one in used:
                unused.pop(one, None)
        except OpenSizesError as error:
            unbounded += [n for n in error.names if n not in unbounded]
            loops.update(dict.fromkeys(error.loops))
    if unbounded:
        raise OpenSizesError(tuple(unbounded), tuple(loops))
    if unused:
        raise UnknownDimsError(tuple(unused), "--dim NAME=LO:HI for all entries that have it, ENTRY.NAME=LO:HI for one")
    return _Joiner(name).run(modules)


def _part(
    entry: str, part: ModelFile, dims: Mapping[str, tuple[int, ...]], load: _Loader
) -> tuple[Module, Sequence[str]]:
    """The module of an entry, and which of ``dims`` it has."""
    own = {n.removeprefix(f"{entry}."): n for n in dims if n.startswith(f"{entry}.")}
    given = {n: n for n in dims if "." not in n} | own
    while True:
        try:
            bounds = {name: dims[full] for name, full in given.items()}
            return load(identifier(entry), bounds), [*given.values()]
        except UnknownDimsError as error:
            mine = [name for name in error.names if name in own]
            if mine or not set(error.names) & set(given):
                error.where = error.where or f"entry {entry}, {part.path}"
                raise
            given = {n: full for n, full in given.items() if n not in error.names}
        except OpenSizesError:
            raise
        except SdkError as error:
            error.where = f"entry {entry}: {error.where or part.path}"
            raise


class _Joiner:
    def __init__(self, name: str) -> None:
        self.name = name
        self.consts: dict[str, Const] = {}
        self.stacks: dict[str, Stack] = {}
        self.states: dict[str, State] = {}
        self.graphs: dict[str, Graph] = {}
        self.loops: dict[str, Any] = {}
        self.same: dict[object, str] = {}  # the name of a constant with these contents

    def run(self, modules: Mapping[str, Module]) -> Module:
        stages = {entry: module.stage for entry, module in modules.items()}
        if len(set(stages.values())) > 1:
            told = ", ".join(f"{entry} is {stage}" for entry, stage in stages.items())
            raise BuildError(f"models of different stages cannot be joined: {told}", hint="give programs of one stage")
        for entry, module in modules.items():
            self.add(entry, module, set(modules))
        return Module(
            self.name, next(iter(stages.values())), self.consts, self.states, self.graphs, self.loops,
            stacks=self.stacks,
        )  # fmt: skip

    def add(self, entry: str, module: Module, entries: set[str]) -> None:
        found = [g for g in module.graphs.values() if g.entry]
        if len(found) != 1:
            hint = "give a model of one entry"
            raise BuildError(f"the model of {entry} has {len(found)} entries of its own", hint=hint)
        consts = {const.name: self._const(const) for const in module.constants}
        for state in module.states.values():
            self._state(entry, replace(state, init=consts[state.init]) if isinstance(state.init, str) else state)
        taken = {*self.graphs, *self.loops, *entries, *self.states, *self.consts, *self.stacks}
        names = {found[0].name: entry}
        for name in (*module.graphs, *module.loops):
            if name not in names:
                names[name] = fresh_name(f"{entry}_{name}", taken)
        for graph in module.graphs.values():
            one = _renamer(names, consts)
            body = tuple(map(one, graph.body))
            results = tuple(_const_renamed(v, consts) for v in graph.results)
            self.graphs[names[graph.name]] = replace(graph, name=names[graph.name], body=body, results=results)
        for loops in module.loops.values():
            self.loops[names[loops.name]] = replace(loops, name=names[loops.name])

    def _const(self, const: Const | Stack) -> str:
        """The name of a constant here; one with the same contents is shared."""
        key = (const.type, const.layout, isinstance(const, Stack), len(const.arrays), const.digest)
        if key not in self.same:
            name = self.same[key] = fresh_name(const.name, {*self.consts, *self.stacks})
            if isinstance(const, Stack):
                self.stacks[name] = replace(const, name=name)
            else:
                self.consts[name] = replace(const, name=name)
        return self.same[key]

    def _state(self, entry: str, state: State) -> None:
        there = self.states.setdefault(state.name, state)
        if there != state:
            raise BuildError(
                f"the state {state.name} of entry {entry} is another one than that of an entry before",
                why=f"{there.type} {there.layout}, {state.type} {state.layout}, or they start from other contents",
                hint="states of one name are one state: rename one of them",
            )


def _renamer(names: Mapping[str, str], consts: Mapping[str, str]) -> Callable[[Node], Node]:
    """What renames the constants and functions that a node names."""

    def one(node: Node) -> Node:
        args = node_args(node)
        new = tuple(_const_renamed(v, consts) for v in args)
        if isinstance(node, Call):
            callee = names.get(node.callee, node.callee) if node.kind in ("graph", "loops") else node.callee
            return replace(node, callee=callee, args=new)
        if isinstance(node, ReadState):
            return node
        if isinstance(node, WriteState):
            return replace(node, value=new[0], kernel=names.get(node.kernel, node.kernel))
        return replace(node, value=new[0])

    return one


def _const_renamed(value: Value, consts: Mapping[str, str]) -> Value:
    return replace(value, name=consts[value.name]) if value.const else value
