"""Builds: from a model file to C sources, their sizes, and the files a user asked for; cached by content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from sdk.boards import Board, describe
from sdk.codegen_c.c99 import EmitOptions, emit
from sdk.codegen_c.c99.glue import emit_glue
from sdk.compiler.ir.module import Module
from sdk.compiler.sym import max_value
from sdk.driver.agents import Sources, compile_sources, link_agent
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import capabilities, default_passes, import_model, lower_module
from sdk.errors import BuildError, UsageError
from sdk.report import BuildReport
from sdk.toolchains import BuildCache, LinkJob, get_toolchain, target_for
from sdk.toolchains.cache import digest
from sdk.toolchains.size import Sections, section_sizes
from sdk.toolchains.stack import worst_case_stack

__all__ = ["Built", "build", "build_sources", "load_built", "prefix_of"]

MANIFEST = "manifest.json"
FREE_STACK = 512  # stack below this is any firmware's; what a model needs above it counts as its RAM
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    """Sources of one model for one board, and what is known of them."""

    sources: Sources
    report: BuildReport


def prefix_of(path: Path, options: BuildOptions) -> str:
    """The C prefix: the option's, or the file's name made an identifier.

    Raises:
        UsageError: the given name is no C identifier.
    """
    if options.name is not None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", options.name):
            raise UsageError(
                f"{options.name!r} is not a C identifier", hint="letters, digits and _, a letter first"
            )
        return options.name
    name = re.sub(r"[^A-Za-z0-9_]+", "_", path.stem).strip("_")
    return name if name[:1].isalpha() else f"m_{name}"


@lru_cache(maxsize=1)
def _own_digest() -> str:
    """Hex digest of the compiler itself: another compiler makes another build."""
    root = Path(__file__).resolve().parent.parent
    files = sorted(p for p in root.rglob("*") if p.suffix in (".py", ".j2"))
    hasher = hashlib.sha256()
    for file in files:
        hasher.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return hasher.hexdigest()


def _key(path: Path, board: Board, options: BuildOptions) -> str:
    try:
        data = path.read_bytes()
    except OSError as err:
        raise UsageError(f"cannot read {path}", why=err.strerror or str(err)) from None
    choices = [options.threads, options.memory, options.arena_limit, options.isa, options.toolchain]
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
        prefix,
        path.name,
        facts,
        choices,
        dims,
        tool,
    )


def build_sources(
    path: Path, board: Board, options: BuildOptions, progress: Progress = lambda _: None
) -> Built:
    """Compiles a model to C and measures it, or takes both from the cache."""
    cache = BuildCache()

    def make(folder: Path) -> None:
        progress("importing")
        module = import_model(path, options, prefix_of(path, options))
        progress("compiling")
        module = lower_module(module, default_passes(board, options))
        progress("generating C")
        built = _generate(path, module, board, options)
        _write(folder, built)

    return load_built(cache.entry(_key(path, board, options), make))


def _generate(path: Path, module: Module, board: Board, options: BuildOptions) -> Built:
    prefix = prefix_of(path, options)
    model_hash = hashlib.sha256(path.read_bytes()).hexdigest()
    choice = EmitOptions(source=path.name, model_hash=model_hash, board=board.name)
    isa = capabilities(board, options)
    files = emit(module, prefix, isa=isa, options=choice)
    toolchain, target = get_toolchain(options.toolchain), target_for(board)
    objects = compile_sources(files, toolchain, target)
    sections = section_sizes(o.path for o in objects)
    stack = max(
        (worst_case_stack(objects, symbol).bytes for symbol in _run_symbols(module, prefix)),
        default=0,
    )
    # the header states the stack that the compiler reported; no object depends on that macro
    files = emit(module, prefix, isa=isa, options=replace(choice, stack_bytes=stack))
    agent = emit_glue(module, prefix, options=choice)
    report = _report(path, module, board, sections, stack)
    _check_fits(module, board, report)
    return Built(Sources(prefix, files, agent), report)


def _run_symbols(module: Module, prefix: str) -> list[str]:
    names = list(module.plans)
    return [f"{prefix}_run"] if len(names) == 1 else [f"{prefix}_{n}_run" for n in names]


def _region_bytes(module: Module, kind: str) -> int:
    """The largest region of a kind over the entries: they share it."""
    sizes = [r.bytes for plan in module.plans.values() for r in plan.regions if r.kind == kind]
    return max((max_value(s) or 0 for s in sizes), default=0)


def _report(path: Path, module: Module, board: Board, sections: Sections, stack: int) -> BuildReport:
    arena, state = _region_bytes(module, "arena"), _region_bytes(module, "state")
    used = {b.name for plan in module.plans.values() for b in plan.buffers if b.role == "const"}
    weights = sum(c.data.nbytes for c in module.consts.values() if c.name in used)
    context = 4 * board.pointer_bits // 8
    data = sections.to_json()
    ram = arena + state + context + data["data"] + data["bss"] + max(stack - FREE_STACK, 0)
    dims = {v.name: (v.lo, v.hi) for plan in module.plans.values() for v in plan.dims}
    bound = max((p.lower_bound for p in module.plans.values()), default=0)
    return BuildReport(
        path.name, board.name, None, ram, arena, bound, state, context, stack, weights, data, dims
    )


def _check_fits(module: Module, board: Board, report: BuildReport) -> None:
    """Refuses what cannot fit the board, before anything is linked."""
    flash = sum(report.sections[k] for k in ("text", "rodata", "data"))
    for what, need, have in (("RAM", report.ram_bytes, board.ram_bytes), ("flash", flash, board.flash_bytes)):
        if have is not None and need > have:
            largest = _largest(module, what)
            raise BuildError(
                f"the model needs {need} bytes of {what}, {board.name} has {have}: {need - have} too many",
                where=f"largest: {largest}",
                hint="sdk memory MODEL --board B shows the plan; sdk boards lists larger boards",
            )


def _largest(module: Module, what: str) -> str:
    sizes: list[tuple[int, str]]
    if what == "flash":
        sizes = [(c.data.nbytes, f"@{c.name}") for c in module.consts.values()]
    else:
        sizes = [
            (b.type.max_bytes, b.name) for p in module.plans.values() for b in p.buffers if b.role != "const"
        ]
    return ", ".join(f"{name} {size} bytes" for size, name in sorted(sizes, reverse=True)[:4])


def _write(folder: Path, built: Built) -> None:
    """Writes sources, agent sources and the manifest."""
    for name, text in built.sources.model.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "agent").mkdir(exist_ok=True)
    for name, text in built.sources.agent.items():
        (folder / "agent" / name).write_text(text, encoding="utf-8")
    manifest = {
        "schema": 1,
        "prefix": built.sources.prefix,
        "model_files": sorted(built.sources.model),
        "agent_files": sorted(built.sources.agent),
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
        model = {n: (folder / n).read_text(encoding="utf-8") for n in manifest["model_files"]}
        agent = {n: (folder / "agent" / n).read_text(encoding="utf-8") for n in manifest["agent_files"]}
        report = BuildReport.from_json(manifest["report"])
        return Built(Sources(manifest["prefix"], model, agent), report)
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise UsageError(
            f"{folder} is not a folder that sdk build made", why=str(err), hint="run sdk build first"
        ) from None


def build(
    model: Path,
    board: Board,
    options: BuildOptions,
    *,
    emit: str,
    out: Path,
    progress: Progress = lambda _: None,
) -> BuildReport:
    """``sdk build``: writes the sources to ``out``, with ``emit`` "lib" a shared and a static library too, with
    "firmware" an image of the board with the device agent.

    Raises:
        SdkError: the model cannot be compiled for the board; nothing is left half written in ``out``.
    """
    built = build_sources(model, board, options, progress)
    extra: list[tuple[str, Path]] = []
    if emit == "lib":
        progress("compiling the library")
        extra = _libraries(built, board, options)
    elif emit == "firmware":
        progress("linking the firmware")
        suffix = "elf" if not board.hosted else "agent"
        extra = [(f"{built.sources.prefix}.{suffix}", link_agent(built.sources, board, options.toolchain))]
    out.mkdir(parents=True, exist_ok=True)
    _write(out, built)
    names = [*built.sources.model, *(f"agent/{n}" for n in built.sources.agent), MANIFEST]
    for name, path in extra:
        (out / name).write_bytes(path.read_bytes())
        (out / name).chmod(path.stat().st_mode & 0o777)
        names.append(name)
    return replace(built.report, out=out, files=tuple(str(out / n) for n in sorted(names)))


def _libraries(built: Built, board: Board, options: BuildOptions) -> list[tuple[str, Path]]:
    toolchain, target = get_toolchain(options.toolchain), target_for(board)
    key = digest("library", toolchain.version(), repr(target), built.sources.key)
    name = built.sources.prefix

    def make(folder: Path) -> None:
        objects = compile_sources(built.sources.model, toolchain, target, pic=board.hosted)
        toolchain.link(LinkJob("static", objects, target), folder / f"lib{name}.a")
        if board.hosted:
            toolchain.link(LinkJob("shared", objects, target), folder / f"lib{name}.so")

    folder = toolchain.cache.entry(key, make)
    return [(p.name, p) for p in sorted(folder.iterdir())]
