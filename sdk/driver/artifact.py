"""Builds: from a model file to C sources, their sizes, and the files a user asked for; cached by content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from sdk.boards import Board, describe
from sdk.driver.agents import link_agent
from sdk.driver.files import read_model_file
from sdk.driver.options import BuildOptions
from sdk.driver.sources import Sources, compile_sources, read_files, write_files
from sdk.errors import UsageError
from sdk.profile import OpFacts
from sdk.report import BuildReport
from sdk.resources import data_dir
from sdk.steps import step
from sdk.toolchains import BuildCache, LinkJob, get_toolchain, target_for
from sdk.toolchains.cache import digest

__all__ = ["Built", "build", "build_sources", "load_built", "prefix_of"]

MANIFEST = "manifest.json"
RUNTIME_PREFIX = "sdk_rt"


@dataclass(frozen=True)
class Built:
    """Sources of one model for one board, and what is known of them.

    ``shapes`` gives for each entry, and there for each input and output by name, its dims as text, in the symbols of
    the report's dims; ``multiples`` what those dims are a multiple of, where that is not 1; ``ops`` what the calls of
    each entry have to do.
    """

    sources: Sources
    report: BuildReport
    shapes: Mapping[str, Mapping[str, tuple[str, ...]]]
    multiples: Mapping[str, int]
    ops: Mapping[str, tuple[OpFacts, ...]]


def prefix_of(path: Path, options: BuildOptions) -> str:
    """The C prefix: the option's, or the file's name made an identifier.

    Raises:
        UsageError: the given name is no C identifier.
    """
    if options.name is not None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", options.name):
            raise UsageError(f"{options.name!r} is not a C identifier", hint="letters, digits and _, a letter first")
        if options.name.lower().startswith(RUNTIME_PREFIX):
            raise UsageError(f"{options.name!r} begins like the runtime's own names", hint="choose another --name")
        return options.name
    name = re.sub(r"[^A-Za-z0-9_]+", "_", path.stem).strip("_")
    return name if name[:1].isalpha() and not name.lower().startswith(RUNTIME_PREFIX) else f"m_{name}"


@lru_cache(maxsize=1)
def _own_digest() -> str:
    """Hex digest of the compiler itself: another compiler makes another build."""
    hasher = hashlib.sha256()
    for root, suffix in ((Path(__file__).resolve().parent.parent, ".py"), (data_dir("templates"), ".j2")):
        for file in sorted(root.rglob(f"*{suffix}")):
            hasher.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return hasher.hexdigest()


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as err:
        raise UsageError(
            f"cannot read {path}", why=err.strerror or str(err), hint="check the path after --extern"
        ) from None


def _key(path: Path, board: Board, options: BuildOptions) -> str:
    data = read_model_file(path)
    choices = [options.threads, options.memory, options.arena_limit, options.isa, options.toolchain]
    choices += [options.weights, options.opt, *(f"{name}:{size}" for name, size in options.regions)]
    choices += [text for file in options.externs for text in (file.name, _digest_of(file))]
    dims = sorted((k, *v) for k, v in options.dims.items())
    prefix = prefix_of(path, options)
    # the platform's facts, not the file they came from
    facts = json.dumps(
        {k: v for k, v in describe(board).items() if k != "provenance"}, sort_keys=True, default=str
    )
    tool = get_toolchain(options.toolchain).version()
    return digest(
        "build",
        _own_digest(),
        hashlib.sha256(data).hexdigest(),
        _beside(path, data),
        prefix,
        path.name,
        facts,
        choices,
        dims,
        tool,
    )


def _beside(path: Path, data: bytes) -> list[str]:
    """Digests of the files beside an ONNX model that hold data of it."""
    if path.suffix.lower() != ".onnx" or b"location" not in data:
        return []
    # the onnx package takes long to import, so only such a model loads it
    names: list[str] = import_module("sdk.frontends.onnx.reader").external_files(data)
    return [hashlib.sha256(f.read_bytes()).hexdigest() for f in (path.parent / n for n in names) if f.is_file()]


def build_sources(path: Path, board: Board, options: BuildOptions) -> Built:
    """Compiles a model to C and measures it, or takes both from the cache."""
    cache = BuildCache()

    def make(folder: Path) -> None:
        with step(f"compiling {path.name}"):
            # the compiler takes longer to import than a cached build to serve, so only a new build loads it
            generate = import_module("sdk.driver.generate").generate
            _write(folder, generate(path, prefix_of(path, options), board, options))

    return load_built(cache.entry(_key(path, board, options), make))


def _write(folder: Path, built: Built) -> None:
    """Writes sources, agent sources and the manifest."""
    write_files(folder, built.sources.model)
    write_files(folder / "agent", built.sources.agent)
    manifest = {
        "schema": 1,
        "prefix": built.sources.prefix,
        "model_files": sorted(built.sources.model),
        "agent_files": sorted(built.sources.agent),
        "shapes": {e: {name: list(dims) for name, dims in sorted(of.items())} for e, of in built.shapes.items()},
        "multiples": dict(sorted(built.multiples.items())),
        "ops": {e: [op.to_json() for op in of] for e, of in sorted(built.ops.items())},
        "report": {**built.report.to_json(), "out": None, "files": []},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def load_built(folder: Path) -> Built:
    """The build in ``folder``, as ``sdk build`` wrote it.

    Raises:
        UsageError: the folder holds no build, or one that was changed in a way its manifest does not know.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        model = read_files(folder, manifest["model_files"])
        agent = read_files(folder / "agent", manifest["agent_files"])
        report = BuildReport.from_json(manifest["report"])
        shapes = {
            str(entry): {str(name): tuple(map(str, dims)) for name, dims in of.items()}
            for entry, of in manifest["shapes"].items()
        }
        multiples = {str(name): int(value) for name, value in manifest["multiples"].items()}
        ops = {str(entry): tuple(OpFacts(**op) for op in of) for entry, of in manifest["ops"].items()}
        return Built(Sources(manifest["prefix"], model, agent), report, shapes, multiples, ops)
    except FileNotFoundError as err:
        raise UsageError(
            f"{folder} is not a folder that sdk build made",
            why=f"it has no {Path(err.filename).name}",
            hint="give the model file, or make a folder of it: sdk build MODEL --board B -o FOLDER",
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
        raise UsageError(
            f"{folder} is not a folder that sdk build made",
            why=str(err),
            hint="make it again: sdk build MODEL --board B -o FOLDER",
        ) from None


def build(model: Path, board: Board, options: BuildOptions, *, emit: str, out: Path) -> BuildReport:
    """``sdk build``: writes the sources to ``out``, with ``emit`` "lib" a shared and a static library too, with
    "firmware" an image of the board with the device agent.

    Raises:
        SdkError: the model cannot be compiled for the board; nothing is left half written in ``out``.
    """
    built = build_sources(model, board, options)
    extra: list[tuple[str, Path]] = []
    if emit == "lib":
        extra = _libraries(built, board, options)
    elif emit == "firmware":
        suffix = "elf" if not board.hosted else "agent"
        agent = link_agent(built.sources, board, options.toolchain, aim=options.opt)
        extra = [(f"{built.sources.prefix}.{suffix}", agent)]
    names = [*built.sources.model, *(f"agent/{n}" for n in built.sources.agent), MANIFEST]
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write(out, built)
        for name, path in extra:
            (out / name).write_bytes(path.read_bytes())
            (out / name).chmod(path.stat().st_mode & 0o777)
            names.append(name)
    except OSError as err:
        raise UsageError(
            f"cannot write {err.filename or out}", why=err.strerror, hint="name another folder with -o FOLDER"
        ) from None
    return replace(built.report, out=out, files=tuple(str(out / n) for n in sorted(names)))


def _libraries(built: Built, board: Board, options: BuildOptions) -> list[tuple[str, Path]]:
    toolchain, target = get_toolchain(options.toolchain), target_for(board, options.opt)
    key = digest("library", toolchain.version(), repr(target), built.sources.key)
    name = built.sources.prefix

    def make(folder: Path) -> None:
        objects = compile_sources(built.sources.model, toolchain, target, pic=board.hosted)
        toolchain.link(LinkJob("static", objects, target), folder / f"lib{name}.a")
        if board.hosted:
            toolchain.link(LinkJob("shared", objects, target), folder / f"lib{name}.so")

    folder = toolchain.cache.entry(key, make)
    return [(p.name, p) for p in sorted(folder.iterdir())]
