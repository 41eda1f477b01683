"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from zipfile import BadZipFile

import click

from sdk.cli import complete, output
from sdk.errors import UsageError
from sdk.files import open_regular

if TYPE_CHECKING:
    import numpy as np

    from sdk.boards import Board
    from sdk.driver import BuildOptions
    from sdk.frontends.base import ModelFile

F = TypeVar("F", bound=Callable[..., Any])
_NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
_ENTRY = r"[A-Za-z_][A-Za-z0-9_]*"

Model = Path | dict[str, Path]  # a file, or several that are entries of one model, by their names


def _model(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> Model:
    return model_of(words) if words else Path()  # of nothing click complains itself


class _File(click.Path):
    """The name of a file: a path, and not the empty word of a variable that is not set, which is the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; fails where there is none."""
        if value == "":
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


FILE: Final = _File(path_type=Path)

model_argument = click.argument("model", nargs=-1, required=True, metavar="MODEL", callback=_model)
models_argument = click.argument(
    "models", nargs=-1, required=True, metavar="MODEL...", callback=lambda *given: models_of(given[-1])
)
target_argument = click.argument(
    "target", nargs=-1, required=True, metavar="MODEL|DIR", callback=_model
)
image_argument = click.argument("target", nargs=-1, required=True, metavar="MODEL|DIR|IMAGE.elf", callback=_model)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
board_option = click.option(
    "--board", metavar="B", help="Board to build for (see sdk boards); with --gpu this machine where none is named.",
    shell_complete=complete.board_names, callback=lambda *given: _named_or_this(*given),
)  # fmt: skip
any_board_option = click.option(
    "--board", metavar="B", help="Board; alone it means the board's emulated target.",
    shell_complete=complete.board_names,
)  # fmt: skip
device_option = click.option(
    "--device", metavar="URI", help="unicorn://, qemu://, serial:PORT, tcp://HOST, ssh://HOST, adb:// or local:PROGRAM."
)
entry_option = click.option(
    "--entry", metavar="NAME", help="Entry of a model that has several.", shell_complete=complete.entry_names
)
at_option = click.option("--at", multiple=True, metavar="N=V", help="Value of a dimension for this run.")
dim_option = click.option("--dim", "dims", multiple=True, metavar="N=LO:HI[:STEP]", help="Bounds of a dimension.")
custom_option = click.option(
    "--custom", multiple=True, metavar="FILE.py", help="Python that imports custom operators; it is run."
)
tensors_option = click.option(
    "--safetensors", multiple=True, metavar="FILE", help="Weights by name, in place of the model's own."
)
opt_option = click.option(
    "--opt", type=click.Choice(["time", "size"]), default="time", help="What code is made for.", show_default=True
)


def _named_or_this(ctx: click.Context, param: click.Parameter, board: str | None) -> str:
    """The board that was named, or this machine where a GPU of it is; what the command line has is read before what it
    has not."""
    if board is None and ctx.params.get("gpu") is None and not ctx.resilient_parsing:
        raise click.MissingParameter(ctx=ctx, param=param)
    return "host" if board is None else board


def build_options(function: F) -> F:
    """Add the options that say how a model is compiled; ``make_options`` reads them."""
    for option in reversed(
        (
            click.option(
                "--name", metavar="ID", help="C prefix of the model (default: from the file's name)."
            ),
            dim_option,
            click.option("--threads", type=click.IntRange(1, 64), default=1, help="Threads that may share a run."),
            click.option("--memory", type=click.Choice(["time", "min"]), help="Plan for speed or least RAM."),
            click.option("--arena-limit", metavar="BYTES", help="Fastest plan within this arena, e.g. 64K."),
            click.option(
                "--region", "regions", multiple=True, metavar="NAME=BYTES",
                help="A memory of the board that the arena may use, the preferred first.",
                shell_complete=complete.region_names,
            ),
            click.option(
                "--weights", type=click.Choice(["flash", "ram", "file", "external"]), default="flash",
                help="Where weights are at run time.", show_default=True,
            ),
            click.option(
                "--io", type=click.Choice(["arena", "caller"]),
                help="Where inputs and outputs lie (default: caller on this machine, arena on others).",
            ),
            click.option(
                "--watchdog", type=int, metavar="MS",
                help="Have the board's watchdog restart it where something hangs for so long.",
            ),
            opt_option,
            click.option(
                "--check", type=click.Choice(["sample", "full"]), default="sample", show_default=True,
                help="How much of the generated code the build tries beside the loops it stands for.",
            ),
            click.option(
                "--isa", metavar="NAME", help="Capabilities to generate for, joined by +; or scalar.",
                shell_complete=complete.isa_names,
            ),
            click.option(
                "--backend", metavar="NAME",
                help="What prints the code: c99, opencl ... (default: what runs on the board).",
                shell_complete=complete.backend_names,
            ),
            click.option(
                "--gpu", type=click.Choice(["opencl", "vulkan", "webgpu", "auto"]),
                help="Have a GPU do the work, by way of this interface; auto: where it is faster; webgpu: in pages.",
            ),
            click.option(
                "--toolchain", metavar="NAME", default="auto", show_default=True,
                help="C compiler: zig, gcc, clang ...; auto is zig where installed, else the system's for the board.",
            ),
            click.option(
                "--extern", "externs", multiple=True, metavar="FILE", help="Library: .ir patterns, .c and .h files."
            ),
            custom_option,
            tensors_option,
        )
    ):
        function = option(function)
    return function


def resolve_gpu(
    choices: dict[str, Any],
    model: Path | ModelFile,
    board: Board | None,
    device: str | None,
    at: Mapping[str, int] | None = None,
    entry: str | None = None,
) -> None:
    """Put in the place of ``--gpu auto`` among the values of ``build_options`` what is fastest, and tell it."""
    if choices["gpu"] != "auto":
        return
    from sdk import driver

    found = driver.fastest(model, board, device, make_options(**{**choices, "gpu": None}), at, entry)
    output.say(found.told, err=True)
    choices["gpu"], choices["on_processor"] = found.gpu, found.on_processor
    choices["threads"] = choices["threads"] if found.gpu is None else 1


def make_options(
    name: str | None,
    dims: Iterable[str],
    threads: int,
    memory: str | None,
    arena_limit: str | None,
    isa: str | None,
    toolchain: str,
    externs: tuple[str, ...] = (),
    regions: Iterable[str] = (),
    weights: str = "flash",
    opt: Literal["time", "size"] = "time",
    check: Literal["sample", "full"] = "sample",
    backend: str | None = None,
    custom: tuple[str, ...] = (),
    safetensors: tuple[str, ...] = (),
    io: Literal["arena", "caller"] | None = None,
    watchdog: int | None = None,
    gpu: str | None = None,
    on_processor: frozenset[int] = frozenset(),
) -> BuildOptions:
    """Return the driver's options from the values of ``build_options``; raise UsageError."""
    from sdk.boards import parse_size
    from sdk.driver import BuildOptions

    if memory is not None and arena_limit is not None:
        raise UsageError(
            "--memory and --arena-limit exclude each other", hint="leave out --memory: the limit is an objective"
        )
    if name is not None and not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        letters = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
        near = letters if letters[:1].isalpha() else f"m_{letters or 'model'}"
        raise UsageError(
            f"not a C identifier: {name!r}", where="--name", hint=f"letters, digits and _ only: --name {near}"
        )
    return BuildOptions(
        name=name,
        dims=parse_dims(dims),
        threads=threads,
        memory=memory or "time",
        arena_limit=None if arena_limit is None else parse_size(_number(arena_limit), "--arena-limit"),
        isa=isa,
        toolchain=toolchain,
        externs=tuple(map(Path, externs)),
        regions=tuple(parse_regions(regions)),
        weights=weights,
        opt=opt,
        check=check,
        backend=backend,
        custom=tuple(map(Path, custom)),
        safetensors=tuple(map(Path, safetensors)),
        io=io,
        watchdog=watchdog,
        gpu=gpu,
        on_processor=on_processor,
    )


def parse_regions(values: Iterable[str]) -> Iterable[tuple[str, int]]:
    """Read ``sram=64K``; raise UsageError."""
    from sdk.boards import parse_size

    found: dict[str, int] = {}
    for value in values:
        name, equals, size = value.partition("=")
        if not equals or not re.fullmatch(_NAME, name) or not size:
            raise UsageError(f"not a region: {value!r}", where="--region", hint="write --region dtcm=64K")
        _put(found, name, parse_size(_number(size), f"--region {name}"), "--region")
    return found.items()


def parse_settings(values: Iterable[str]) -> dict[str, str]:
    """Read ``chip=STM32L4R5ZI``; raise UsageError."""
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name or not text:
            raise UsageError(f"not a setting: {value!r}", where="--set", hint="write --set chip=STM32L4R5ZI")
        found[name] = text
    return found


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def parse_dims(values: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Read ``n=1:256`` (bounds, both included), ``n=64:256:32`` (multiples of 32) and ``n=64``; raise UsageError."""
    found: dict[str, tuple[int, ...]] = {}
    for value in values:
        match = re.fullmatch(rf"({_NAME})=(\d+)(?::(\d+)(?::(\d+))?)?", value)
        if match is None:
            raise UsageError(
                f"not a dimension: {value!r}",
                where="--dim",
                hint="write --dim n=1:256, --dim n=64:256:32 for multiples of 32, or --dim n=64",
            )
        lo, hi, step = int(match[2]), int(match[3] or match[2]), int(match[4] or 1)
        if lo > hi:
            hint = f"write --dim {match[1]}={hi}:{lo}"
            raise UsageError(f"empty range: {value!r}", where="--dim", why=f"{lo} is above {hi}", hint=hint)
        if step < 1 or hi // step * step < lo:
            raise UsageError(
                f"empty range: {value!r}",
                where="--dim",
                why=f"it holds no multiple of {step}",
                hint="write --dim n=1:256, or --dim n=64:256:32 for multiples of 32",
            )
        _put(found, match[1], (lo, hi) if step == 1 else (lo, hi, step), "--dim")
    return found


def parse_at(values: Iterable[str]) -> dict[str, int]:
    """Read ``n=64``; raise UsageError."""
    found: dict[str, int] = {}
    for value in values:
        match = re.fullmatch(rf"({_NAME})=(\d+)", value)
        if match is None:
            raise UsageError(f"not a value of a dimension: {value!r}", where="--at", hint="write --at n=64")
        _put(found, match[1], int(match[2]), "--at")
    return found


def parse_inputs(values: Iterable[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Read ``x=x.npy`` and load the arrays, of any dtype but objects; raise UsageError."""

    found: dict[str, np.ndarray[Any, Any]] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not equals or not name or not file:
            hint = f"write --input NAME={value}" if value.endswith(".npy") else "write --input x=x.npy"
            raise UsageError(f"not an input: {value!r}", where="--input", hint=hint)
        _put(found, name, _array(name, Path(file)), "--input")
    return found


def _array(name: str, path: Path) -> np.ndarray[Any, Any]:
    """The array of a .npy file, or the only one of a .npz file; raise UsageError."""
    import numpy as np

    where, hint = f"--input {name}", f"np.save({name + '.npy'!r}, array) makes one"
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            names = loaded.files
            if len(names) == 1:
                return np.asarray(loaded[names[0]])
        why = f"its arrays: {', '.join(names[:8])}" if names else None
        raise UsageError(f"{path} holds {'several arrays' if names else 'no array'}", where=where, why=why, hint=hint)
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is neither a .npy nor a .npz file, or cut off"
        if isinstance(error, ValueError) and "Object arrays" in str(error):
            why = "its elements are objects of Python, not numbers: reading them may run code"
            hint = f"give the array a type of numbers first: np.save({name + '.npy'!r}, array.astype(np.float32))"
        if isinstance(error, FileNotFoundError):
            hint = f"{nearby(path) or 'check the path'}; {hint}"
        raise UsageError(f"cannot read {path}", where=where, why=why, hint=hint) from error


def _put(found: dict[str, Any], name: str, value: object, option: str) -> None:
    if name in found:
        raise UsageError(f"{name!r} is given twice", where=option, hint=f"keep one {option} {name}=")
    found[name] = value


def model_of(words: Sequence[str]) -> Model:
    """Read ``model.onnx``, or the entries ``prefill=a.onnx decode=b.onnx`` of one model; raise UsageError."""
    if "" in words:
        raise UsageError("the name of the model is empty", hint="give a file; a variable of the shell may not be set")
    if len(words) == 1 and ("=" not in words[0] or Path(words[0]).exists()):
        return Path(words[0])
    found: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not re.fullmatch(_ENTRY, name) or not path:
            raise UsageError(
                f"not an entry: {word!r}", why="several models become entries of one, each with a name",
                hint="give one model, or name each: prefill=a.onnx decode=b.onnx",
            )  # fmt: skip
        if name in found:
            raise UsageError(f"two entries are called {name!r}", hint="give each a name of its own")
        found[name] = Path(path)
    return found


def models_of(words: Sequence[str]) -> tuple[Model, ...]:
    """Read several models, or the entries of one; raise UsageError."""
    entries = words and all("=" in word and not Path(word).exists() for word in words)
    return (model_of(words),) if entries else tuple(map(Path, words))


def existing(given: Model) -> Path | ModelFile:
    """Return the path of a model, or the file that several are together; raise UsageError with the names nearby when
    there is nothing there."""
    if isinstance(given, dict):
        from sdk.driver.entries import join_files

        return join_files({entry: existing_path(path) for entry, path in given.items()})
    return existing_path(given)


def existing_path(path: Path) -> Path:
    """Return ``path``; raise UsageError with the names nearby when there is nothing there."""
    if path.exists():
        return path
    if path.is_symlink():
        hint = "give the file itself, or mend the link"
        raise UsageError(f"no such file: {path}", why="it is a link that leads nowhere", hint=hint)
    why = None if path.parent.is_dir() else f"there is no folder {path.parent}"
    raise UsageError(f"no such file: {path}", why=why, hint=nearby(path) or "check the path")


def nearby(path: Path) -> str | None:
    """Return "did you mean ..." for files in the folder of ``path`` that are called nearly so, None for none."""
    from sdk.boards import suggest

    folder = path.parent
    return suggest(path.name, [entry.name for entry in folder.iterdir()]) if folder.is_dir() else None


def find_board(name: str) -> Board:
    """Load a board by name; raise UsageError with suggestions."""
    from sdk.boards import load_board

    return load_board(name)


def find_place(board: str | None, device: str | None, gpu: str | None = None) -> Board | None:
    """Load the board of a verb that takes --board or --device; that of this machine where --gpu alone is given. Raise
    UsageError when it got none of them."""
    if board is None and device is None and gpu is not None:
        board = "host"
    if board is None and device is None:
        raise UsageError("no board and no device", hint="add --board host for this machine; sdk boards lists others")
    return None if board is None else find_board(board)
