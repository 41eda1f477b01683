"""The Python face of a build: ``sdk.compile`` gives a ``Model`` that is called, measured and looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Never

import numpy as np
from numpy.typing import NDArray

from sdk.boards import Board, load_board
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.text import collect_blobs, print_module
from sdk.devices.client import Session
from sdk.driver.artifact import build_sources
from sdk.driver.built import Built
from sdk.driver.custom import checked
from sdk.driver.entries import join_files
from sdk.driver.execute import connect, step
from sdk.driver.explain import memory
from sdk.driver.files import read_model_file
from sdk.driver.importing import import_model
from sdk.driver.measuring import bench
from sdk.driver.options import BuildOptions
from sdk.driver.plots.notebook import model_html
from sdk.driver.prefix import prefix_of
from sdk.driver.profiling import profile
from sdk.driver.program import save_program
from sdk.errors import UsageError
from sdk.frontends import frontends
from sdk.frontends.base import Custom, ModelFile, Objects
from sdk.frontends.custom import CustomImporter
from sdk.profile import ProfileReport
from sdk.report import BenchReport, MemoryReport
from sdk.toolchains import BuildCache
from sdk.toolchains.cache import digest

__all__ = ["Model", "compile"]


class Model:
    """A compiled model with a running agent behind it: this machine, or the board's emulated target.

    Calls keep the model's state; ``reset()`` starts it anew; ``close()`` (or ``with``) ends the agent.
    """

    def __init__(self, model: Path | ModelFile, board: Board, options: BuildOptions) -> None:
        self.board, self.options = board, options.read()
        # what later calls build from, whatever becomes of the path
        self.file = read_model_file(model, self.options.importers, self.options.tensors)
        self.path = self.file.path
        self.report = build_sources(self.file, board, self.options).report
        self._open_session: tuple[Session, Built] | None = None

    def __call__(self, /, *unnamed: Never, **inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Outputs by name for inputs by name; symbolic dims follow from the shapes of the inputs.

        Raises:
            UsageError: an input is missing or unknown, has another type or shape than the model's, or makes a dim
                leave its bounds.
        """
        if unnamed:
            raise UsageError("an input without a name", hint="model(x=array): each input is given by its name")
        return self.run(None, inputs)

    def run(
        self, entry: str | None, inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Outputs by name of one run of an entry; all entries share the states.

        Args:
            entry: its name; None where the model has one.
            inputs: arrays by name.
            dims: those that the shape of no input tells (a position, say); the others at their upper bounds.

        Raises:
            UsageError: as for a call; or there is no such entry.
        """
        if not isinstance(inputs, Mapping):
            raise UsageError(
                f"inputs are arrays by name, not a {type(inputs).__name__}", hint='model.run(None, {"x": array})'
            )
        session, built = self._open()
        given = {name: _array(value) for name, value in inputs.items()}
        return step(session, built, given, dims or {}, entry)[0]

    def _open(self) -> tuple[Session, Built]:
        if self._open_session is None:
            self._open_session = connect(self.file, self.board, None, self.options)[:2]
        return self._open_session

    def bench(
        self, repeat: int = 10, entry: str | None = None, dims: Mapping[str, int] | None = None
    ) -> BenchReport:
        """Samples of single runs, at the given dims, else at the largest."""
        return bench(self.file, self.board, None, self.options, dims or {}, repeat, self.options.threads, entry)

    def profile(
        self, repeat: int = 10, entry: str | None = None, dims: Mapping[str, int] | None = None
    ) -> ProfileReport:
        """What each operator takes, at the given dims, else at the largest; timed over ``repeat`` runs, or counted
        where the board is emulated."""
        return profile(self.file, self.board, None, self.options, dims or {}, repeat, entry)

    @property
    def memory(self) -> MemoryReport:
        """Where every byte of memory goes."""
        return memory(self.file, self.board, self.options)

    def _repr_html_(self) -> str:
        """What a notebook shows: inputs, outputs, sizes, and the arena as a plot."""
        return model_html(self.file, self.board, self.options, self.report)

    def reset(self) -> None:
        """Puts the model's state back to its start."""
        self._open()[0].reset(0)

    def close(self) -> None:
        """Ends the agent; a later call starts a new one."""
        if self._open_session is not None:
            self._open_session[0].close()
            self._open_session = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compile(
    model: str | Path | Any,
    example: Any = None,
    board: str = "host",
    dims: Mapping[str, int | tuple[int, ...]] | None = None,
    threads: int = 1,
    externs: Sequence[str | Path] = (),
    opt: Literal["time", "size"] = "time",
    memory: Literal["time", "min"] = "time",
    arena_limit: int | None = None,
    dynamic_shapes: Any = None,
    custom: Mapping[str, CustomImporter] | Sequence[str | Path] = (),
    safetensors: Sequence[str | Path] = (),
) -> Model:
    """Compiles a model for a board.

    Args:
        model: a .tflite, .onnx, .pt2 or .ir file by whatever name, an ``onnx.ModelProto``, a module of ``sdk.graph``, a
            ``torch.export.ExportedProgram``, or a ``torch.nn.Module`` with example inputs. Several by name, such as
            ``{"prefill": "a.onnx", "decode": "b.onnx"}``, are entries of one model: constants of equal contents are
            stored once, states of one name are one state.
        example: what a module of PyTorch is exported with: a tensor, a tuple of its arguments, a dict of them by name.
        board: a name of ``sdk boards``.
        dims: of each symbolic dimension the inclusive bounds (lo, hi), bounds and what it is a multiple of
            (lo, hi, multiple), or its number; ``"decode.n"`` is the dim n of that entry alone.
        threads: threads of generated code.
        externs: files of your libraries: ``.ir`` files say which ops a symbol computes, ``.c`` and ``.h`` files are
            compiled with the model; see docs/adding.md.
        opt: what code is made for: "time" or "size".
        memory: what memory is planned for: "time", or "min" for the least RAM.
        arena_limit: bytes; the fastest plan within this arena.
        dynamic_shapes: which sizes of the example stay open, as ``torch.export.export`` takes them.
        custom: how custom operators of a .tflite or .onnx model are imported: functions by their names, or files of
            Python with such, which are run; see docs/adding.md.
        safetensors: files of tensors that take the place of the parameters of a PyTorch program or of the initialisers
            of an ONNX model by their names.

    Raises:
        SdkError: the file, the board or the model is not usable; see docs/errors.md.
    """
    if isinstance(example, str):
        raise UsageError(f"{example!r} is no example input", hint=f"sdk.compile(model, board={example!r})")
    if not isinstance(board, str):
        raise UsageError(f"a {type(board).__name__} is no board's name", hint='board="host"; sdk boards lists them')
    files = tuple(map(Path, externs))
    options = BuildOptions(
        dims=_bounds(dims or {}), threads=threads, externs=files, opt=opt, memory=memory, arena_limit=arena_limit,
        custom=() if isinstance(custom, Mapping) else tuple(map(Path, custom)),
        safetensors=tuple(map(Path, safetensors)),
    )  # fmt: skip
    if example is not None:
        name, path = _stored(model, lambda objects: objects.trace(model, example, dynamic_shapes))
        return Model(path, load_board(board), replace(options, name=_prefix(name)))
    if dynamic_shapes is not None:
        raise UsageError("dynamic_shapes without an example", hint="sdk.compile(module, example, dynamic_shapes=...)")
    given: Path | ModelFile
    if isinstance(model, Mapping) and not any(f.objects and f.objects.pack(model) for f in frontends()):
        given = join_files({entry: _path_of(part)[1] for entry, part in model.items()})
    else:
        title, given = _path_of(model)
        options = options if title is None else replace(options, name=_prefix(title))
    if isinstance(custom, Mapping):
        given, options = _as_program(given, Custom(checked(custom, "custom"), ""), options)
    return Model(given, load_board(board), options)


def _as_program(model: Path | ModelFile, custom: Custom, options: BuildOptions) -> tuple[Path, BuildOptions]:
    """A model imported, as the file of a program, and the options for that: functions of Python have no contents that a
    build could be known again by."""
    file = read_model_file(model).with_custom(custom)
    name = prefix_of(file, options)
    return _stored_program(import_model(file, options, name)), replace(options, name=name, dims={})


def _path_of(model: object) -> tuple[str | None, Path]:
    """The file of a model, and the name of one that was none."""
    if isinstance(model, (str, Path)):
        return None, Path(model)
    if isinstance(model, Module):
        return model.name, _stored_program(model)
    return _stored(model, lambda objects: objects.pack(model))


def _array(value: Any) -> Any:
    """An input as numpy's array where it is a tensor of PyTorch, of f32 where it is of bfloat16; others as they are, to
    be checked."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach()
    return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)


def _bounds(dims: Mapping[str, int | tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The bounds of dims as the options want them."""
    hint = 'dims={"n": (1, 256)}, {"n": (64, 256, 32)} for multiples of 32, or {"n": 64}'
    if not isinstance(dims, Mapping):
        raise UsageError(f"dims are bounds by name, not a {type(dims).__name__}", hint=hint)
    found = {}
    for name, given in dims.items():
        bounds: Any = (given, given) if isinstance(given, int) else given
        numbers = isinstance(bounds, (tuple, list)) and all(isinstance(n, int) for n in bounds)
        if not numbers or len(bounds) not in (2, 3) or not 0 <= bounds[0] <= bounds[1]:
            raise UsageError(f"not bounds of a dim: {given!r}", where=f"dims[{name!r}]", hint=hint)
        found[name] = tuple(bounds)
    return found


def _stored_program(module: Module) -> Path:
    """The file of a module, kept with the builds; its text tells what its constants are."""
    key = digest("program", print_module(module), *sorted(collect_blobs(module)))
    return BuildCache().entry(key, lambda at: save_program(module, at / "model.ir")) / "model.ir"


def _stored(model: object, pack: Callable[[Objects], tuple[str, bytes] | None]) -> tuple[str, Path]:
    """The name of a model that a frontend knows as an object of Python, and its file, kept with the builds."""
    for frontend in frontends():
        packed = frontend.objects and pack(frontend.objects)
        if packed:
            name, data = packed
            return name, _kept(f"model{frontend.suffixes[0]}", data)
    known = [frontend.objects.what for frontend in frontends() if frontend.objects]
    raise UsageError(
        f"a {type(model).__name__} is no model",
        hint=f"give the path of a model file, {', '.join(known)}, or a module of sdk.graph",
    )


def _kept(name: str, data: bytes) -> Path:
    """A file of the cache with a name and contents."""
    key = digest("model", name, sha256(data).hexdigest())
    return BuildCache().entry(key, lambda folder: _write(folder / name, data)) / name


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _prefix(given: str) -> str | None:
    """The C prefix of a model without file: its own name, where that is one."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", given).strip("_")
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and not name.lower().startswith("sdk_rt") else None
