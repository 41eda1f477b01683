"""What a frontend is: a record of all that is done for one format of model files, and a file of such a format."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sdk.errors import UsageError
from sdk.text import spelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sdk.compiler.ir.graph import Graph
    from sdk.compiler.ir.module import Module
    from sdk.frontends.custom import CustomImporter
    from sdk.frontends.outline import Layer, Outline, Refusal
    from sdk.frontends.tensors import Tensors

__all__ = [
    "Beside", "Custom", "Engine", "Frontend", "ModelFile", "Objects", "OpenSizesError", "Option", "Reference",
    "SecondOpinion", "UnknownDimsError", "Unsteady",
]  # fmt: skip

Option = str | int | bool


class OpenSizesError(UsageError):
    """Sizes of the inputs are open and have no bounds, or data say how often ``loops`` run. ``names`` are those of
    both, as ``--dim`` takes them; ``inputs`` are inputs of the model whose contents would say it."""

    inputs: tuple[str, ...] = ()

    def __init__(self, names: tuple[str, ...], loops: tuple[str, ...] = ()) -> None:
        sizes = [name for name in names if name not in loops]
        example = " ".join([*(f"--dim {name}=1:64" for name in sizes), *(f"--dim {name}=0:64" for name in loops)])
        told = [f"open sizes without bounds: {', '.join(sizes)}"] if sizes else []
        told += [f"loops that data end, without bounds of their passes: {', '.join(loops)}"] if loops else []
        super().__init__(
            f"the model has {', and '.join(told)}",
            hint=f"give each its smallest and largest value, or one number: {example}",
        )
        self.names = (*sizes, *loops)
        self.loops = loops


class UnknownDimsError(UsageError):
    """Bounds are given for sizes that the model does not leave open. ``names`` are those."""

    def __init__(self, names: tuple[str, ...], hint: str, message: str | None = None) -> None:
        super().__init__(message or f"the model has no dim {', '.join(names)}", hint=hint)
        self.names = names


class Beside(Protocol):
    """What a model has in files beside it, as it was when the model was read."""

    @property
    def digest(self) -> str:
        """Hex SHA-256 of it, "" where the model itself says what it holds."""


class Reference(Protocol):
    """Runs a model step by step; keeps its state between steps."""

    name: str
    options: Mapping[str, Option]  # what its results depend on, and how it is set here

    def step(self, inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, NDArray[Any]]:
        """Outputs by name for inputs by name; ``dims`` are those of the run."""


@runtime_checkable
class SecondOpinion(Protocol):
    """A reference whose rounding decides some results by chance, and that can tell what they are without it."""

    def unrounded(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]] | None:
        """Outputs by name for inputs by name of a model without state; None where that is not known."""


@runtime_checkable
class Unsteady(Protocol):
    """A reference that can tell how much of its results is chance: last bits, which no two engines have the same."""

    def moved(self, inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, float] | None:
        """How far floats of the outputs move, at most, where only the last bits of the inputs do; None where that is
        not known."""


@dataclass(frozen=True)
class Engine:
    """A package of others that runs files of a format, for ``sdk verify`` to compare with.

    ``open(file, graph)`` has it run a file, with the inputs and outputs of the graph that was imported from that;
    ``suits(graph)`` says whether it is what such a graph is compared with when the user names nothing.
    ``distribution`` is its name in the package index. ``layers(file, graph, keys)`` runs a file too, and its outputs
    are the tensors that a ``Layer`` has these keys for; None where it cannot tell them.
    """

    name: str
    distribution: str
    open: Callable[[ModelFile, Graph], Reference]
    suits: Callable[[Graph], bool]
    layers: Callable[[ModelFile, Graph, Sequence[str]], Reference] | None = None


@dataclass(frozen=True)
class Objects:
    """How models of a format are held in Python: ``what`` such an object is called, with its article;
    ``pack(object)`` gives the name of the model and the bytes of a file of it, None for an object of another kind;
    ``trace(object, example, dynamic_shapes)`` the same of what becomes a model when it runs on example inputs."""

    what: str
    pack: Callable[[object], tuple[str, bytes] | None]
    trace: Callable[[object, Any, Any], tuple[str, bytes] | None] = lambda model, example, dynamic_shapes: None


@dataclass(frozen=True)
class Frontend:
    """A format of model files.

    Records are looked at by every command, so a package's ``__init__`` holds no more than this: the functions import
    the code that they stand for when they are called.

    Attributes:
        name: that of the package.
        title: what a file of the format is called.
        suffixes: endings of such files, lower case, the usual first. A name counts only where the contents do not tell.
        sniff: whether bytes are a file of the format; quick, and False for what might as well be something else.
        load: ``load(file, name, dims, refusals)`` is the module of a file of stage "imported", called ``name``, with
            the bounds of its open sizes by name. What cannot be imported is put into ``refusals``, beside the error.
        beside: ``beside(path, data)`` reads what the contents of ``path`` have in other files; None for nothing.
        outline: the operators of a file's bytes, whether or not they can be imported; None where the imported module
            shows as much.
        constants: how many elements the constants in a file's bytes have; None where the imported module has the same.
        layers: ``layers(file, name, dims, entry)`` is the module that ``load`` makes, with the tensors that operators
            of an entry make, None being the only one, in the order of the file; None where the values of the module
            are all there is.
        engines: what runs such files, the preferred first.
        objects: models as objects of Python, where the format has any.
        retensor: ``retensor(data, tensors)`` is a file's bytes with other elements in tensors of these names; None
            where a file has no names for them.
        custom: whether ``load`` and ``layers`` ask the importers of the user that come with a file.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Callable[[bytes], bool]
    load: Callable[[ModelFile, str, Mapping[str, tuple[int, ...]], list[Refusal]], Module]
    beside: Callable[[Path, bytes], Beside | None] = lambda path, data: None
    outline: Callable[[bytes], Outline] | None = None
    constants: Callable[[bytes], int] | None = None
    layers: (
        Callable[[ModelFile, str, Mapping[str, tuple[int, ...]], str | None], tuple[Module, tuple[Layer, ...]]] | None
    ) = None
    engines: tuple[Engine, ...] = ()
    objects: Objects | None = None
    retensor: Callable[[bytes, Tensors], bytes] | None = None
    custom: bool = False


@dataclass(frozen=True)
class Custom:
    """Importers of a user by the name that files have for the operator: its custom code in TensorFlow Lite,
    "domain::Name" in ONNX. ``digest`` tells them from others: what is built with others is another model."""

    importers: Mapping[str, CustomImporter] = field(repr=False)
    digest: str


@dataclass(frozen=True)
class ModelFile:
    """A model as it was when it was read: all that a build, an import, a reference or a report takes of it comes from
    here, so that a file that changes meanwhile changes nothing."""

    path: Path
    data: bytes = field(repr=False)
    frontend: Frontend
    beside: Beside | None = field(default=None, repr=False)
    custom: Custom | None = field(default=None, repr=False)
    tensors: Tensors | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of the file."""
        return spelled(self.path.name)

    @property
    def words(self) -> tuple[str, ...]:
        """What a command is given for it."""
        return (str(self.path),)

    def with_custom(self, custom: Custom) -> ModelFile:
        """The same, its custom operators imported as the user says.

        Raises:
            UsageError: the format has no such operators.
        """
        if not self.frontend.custom:
            hint = "leave out --custom: it is for TensorFlow Lite and ONNX models"
            raise UsageError(f"a {self.frontend.title} has no custom operators to import", hint=hint)
        return replace(self, custom=custom)

    def with_tensors(self, tensors: Tensors) -> ModelFile:
        """The same with other elements in the tensors of these names.

        Raises:
            UsageError: the format has no names for them, or the model has other ones.
        """
        if self.frontend.retensor is None:
            hint = "leave out --safetensors: it is for exported PyTorch programs and ONNX models"
            raise UsageError(f"a {self.frontend.title} does not take tensors by name", hint=hint)
        data = self.frontend.retensor(self.data, tensors)
        return replace(self, data=data, tensors=tensors)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the file; where data lies beside it or importers come with it, of these too."""
        own = hashlib.sha256(self.data).hexdigest()
        others = [one.digest for one in (self.beside, self.custom) if one is not None and one.digest]
        return hashlib.sha256("\n".join([own, *others]).encode()).hexdigest() if others else own
