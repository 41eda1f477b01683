"""Builds: from a model file to C sources, their sizes, and the files a user asked for; cached by content."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from sdk.boards import Board, describe
from sdk.driver.agents import link_agent
from sdk.driver.android import check_android
from sdk.driver.backends import runtime_of
from sdk.driver.built import Built, load_built, write_built
from sdk.driver.job import Job, job_of
from sdk.driver.options import BuildOptions
from sdk.driver.out_folder import MANIFEST, contents_of, replace_build
from sdk.driver.sources import Sources, compile_sources
from sdk.driver.targets import target_of
from sdk.driver.variants import with_variants
from sdk.errors import MiscompileWarning, UsageError
from sdk.frontends.base import ModelFile
from sdk.report import BuildReport
from sdk.resources import data_dir
from sdk.steps import step
from sdk.toolchains import BuildCache, CompileJob, LinkJob, LinkKind, SourceText, Target, Toolchain, toolchain_for
from sdk.toolchains.cache import digest

if TYPE_CHECKING:
    from sdk.driver.generate import Planner

__all__ = ["build", "build_libraries", "build_sources"]

_NOT_COMPILED = ("provenance", "usb", "flash", "projects", "gpu")  # of a board: a build does not depend on them


@lru_cache(maxsize=1)
def _own_digest() -> str:
    """Hex digest of the compiler itself: another compiler makes another build."""
    hasher = hashlib.sha256()
    folders = [(Path(__file__).resolve().parent.parent, ".py"), (data_dir("templates"), ".j2")]
    folders += [(data_dir("c_runtime") / "gpu", suffix) for suffix in (".c", ".h")]  # a model's sources hold them
    for root, suffix in folders:
        for file in sorted(root.rglob(f"*{suffix}")):
            hasher.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return hasher.hexdigest()


def _key(job: Job) -> str:
    options = job.options
    choices = [job.backend.name, options.threads, options.memory, options.arena_limit, options.isa, options.toolchain]
    choices += [options.io] if options.io else []
    choices += [f"gpu {options.gpu}, {job.gpu_row}"] if options.gpu else []
    choices += [f"on processor {number}" for number in sorted(options.on_processor)]
    choices += [f"beyond {one}" for one in sorted(job.beyond)]
    choices += [options.weights, options.opt, options.check, *(f"{name}:{size}" for name, size in options.regions)]
    choices += [text for library in options.libraries for text in (library.name, library.text)]
    dims = sorted((k, *v) for k, v in options.dims.items())
    # the platform's facts, not the file they came from
    facts = json.dumps(
        {k: v for k, v in describe(job.board).items() if k not in _NOT_COMPILED}, sort_keys=True, default=str
    )
    compiled = job.backend.runtime is not None  # else nothing is asked of a compiler
    tool = toolchain_for(target_of(job.board, options), options.toolchain).version() if compiled else ""
    return digest("build", _own_digest(), job.file.digest, job.prefix, job.file.name, facts, choices, dims, tool)


def build_sources(
    model: ModelFile | Path, board: Board, options: BuildOptions, plan: Planner | None = None, also: Sequence[str] = ()
) -> Built:
    """Compiles a model to C and measures it, or takes both from the cache; what the build warned of is warned of again
    by each that takes it. ``plan``: what takes it through the passes, where builds share that. ``also``: as in
    ``build``."""
    return _built(job_of(model, board, options), also, plan)


def _built(job: Job, also: Sequence[str], plan: Planner | None = None) -> Built:
    found = _cached(job, plan)
    return with_variants(job, found, also, _cached) if also else found


def _cached(job: Job, plan: Planner | None = None) -> Built:
    written: list[Sources] = []

    def make(folder: Path) -> None:
        with step(f"compiling {job.file.name}"):
            # the compiler takes longer to import than a cached build to serve, so only a new build loads it
            make_of = import_module("sdk.driver.generate")
            made = make_of.generate(job, plan or make_of.compiled)
            write_built(folder, made)
            written.append(made.sources)

    built = load_built(BuildCache().entry(_key(job), make), *written)
    for text in built.report.warnings:
        warnings.warn(MiscompileWarning(text), stacklevel=4)
    return built


def build(
    model: Path | ModelFile, board: Board, options: BuildOptions, *, emit: str, out: Path, force: bool = False,
    also: Sequence[str] = (),
) -> BuildReport:  # fmt: skip
    """``sdk build``: writes the sources to ``out``, with ``emit`` "lib" a shared and a static library too, with
    "firmware" an image of the board with the device agent; these two want a backend whose code is compiled. ``force``:
    files of the user's in the way are overwritten. ``also``: capabilities, joined by "+", of newer cores for which
    there is code too, which runs where the system tells of them.

    Raises:
        SdkError: the model cannot be compiled for the board or such cores, or a file is in the way that was not
            generated; nothing is left half written in ``out``.
    """
    job = job_of(model, board, options)
    _refuse_watchdog(emit, options)
    if emit != "c":
        runtime_of(job.backend.name)
    built = _built(job, also)
    extra = _extra(job, built, emit)
    names = [*built.sources.model, *(f"agent/{n}" for n in built.sources.agent), MANIFEST, *(n for n, _ in extra)]

    def make(folder: Path) -> None:
        for name, path in extra:
            shutil.copyfile(path, folder / name)
            (folder / name).chmod(path.stat().st_mode & 0o777 | 0o644)
        write_built(folder, built, contents_of(out))

    try:
        replace_build(out, make, force=force)
    except OSError as err:
        raise UsageError(
            f"cannot write {err.filename or out}", why=err.strerror, hint="name another folder with -o FOLDER"
        ) from None
    return replace(built.report, out=out, files=tuple(str(out / n) for n in sorted(names)))


def _extra(job: Job, built: Built, emit: str) -> list[tuple[str, Path]]:
    """What is made of the sources, by the names it gets."""
    match emit:
        case "lib":
            return _libraries(job, built)
        case "firmware":
            agent = link_agent(built.sources, job.board, job.options)
            return [(f"{job.prefix}.{'agent' if job.board.hosted else 'elf'}", agent)]
        case _:
            return []


def _refuse_watchdog(emit: str, options: BuildOptions) -> None:
    if options.watchdog is not None and emit != "firmware":
        raise UsageError(
            f"--watchdog has no part in --emit {emit}",
            why="a firmware starts the watchdog and feeds it, and the model's code alone does neither",
            hint="--emit firmware, or leave it out and start one in your own firmware",
        )


def build_libraries(model: ModelFile | Path, board: Board, options: BuildOptions) -> dict[str, Path]:
    """The libraries of a model by file name, in the cache: the static one, and on boards with an operating system the
    shared one, which in WebAssembly is a module."""
    job = job_of(model, board, options)
    return dict(_libraries(job, _cached(job)))


def _libraries(job: Job, built: Built) -> list[tuple[str, Path]]:
    board = job.board
    target = target_of(board, job.options).for_libraries
    if job.options.weights == "file" and (target.android or target.apple):
        raise UsageError(
            f"a library for {board.name} has its weights in itself",
            why="to map a file takes headers of the system, which come with its own compiler",
            hint="leave out --weights file; or leave out --emit lib, and compile the C there",
        )
    toolchain = toolchain_for(target, job.options.toolchain)
    key = digest("library", toolchain.version(), repr(target), built.sources.key)
    name = built.sources.prefix

    def make(folder: Path) -> None:
        objects = compile_sources(built.sources.model, toolchain, target, pic=board.hosted)
        toolchain.link(LinkJob("static", objects, target), folder / f"lib{name}.a")
        if board.hosted and not target.apple:  # whose libraries are signed with the app
            shared: tuple[LinkKind, str] = ("module", f"{name}.wasm") if target.wasm else ("shared", f"lib{name}.so")
            flags = _of_android(toolchain, target, folder, shared[1]) if target.android else ()
            toolchain.link(LinkJob(shared[0], objects, target, flags=flags), folder / shared[1])
            if target.android:
                check_android(folder / shared[1])

    folder = toolchain.cache.entry(key, make)
    return [(p.name, p) for p in sorted(folder.iterdir()) if p.suffix in (".a", ".so", ".wasm")]


def _of_android(toolchain: Toolchain, target: Target, folder: Path, name: str) -> tuple[str, ...]:
    """What links a library of Android's: it names itself and the C library, which a stand-in of that name is for here,
    and is aligned for pages of 16 KB."""
    libc = folder / "android" / "libc.so"
    empty = toolchain.compile(CompileJob(SourceText("libc.c", "typedef int nothing;\n"), target, pic=True))
    toolchain.link(LinkJob("shared", (empty,), target, flags=("-Wl,-soname,libc.so",)), libc)
    pages = ("-Wl,-z,max-page-size=16384", "-Wl,-z,relro", "-Wl,-z,now")
    return (f"-Wl,-soname,{name}", *pages, "-Wl,--no-as-needed", str(libc))
