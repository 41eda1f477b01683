"""Many models in one image: each compiled as users get it, all of them in a few calls of the C compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import structs

from differential.cores import CORES, board_of, missing
from sdk.boards import Board, load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler.ir.module import Module
from sdk.compiler.ir.plan import Plan
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, lower_module
from sdk.driver.targets import capabilities, target_of
from sdk.errors import BuildError
from sdk.resources import data_dir
from sdk.toolchains import Blob, BuildCache, CompileJob, LinkJob, SourceText, Target, get_toolchain
from sdk.toolchains.base import ObjectFile, Toolchain

__all__ = ["CODE", "RAM", "Compiled", "compiled", "link", "link_code", "renamed"]

HERE = Path(__file__).resolve().parent
CODE, RAM = 0x1000_0000, 0x2000_0000
_STATIC = re.compile(r"^static [^=;({\n]*?\*?(\w+)(?= = |;|\[|\()", re.MULTILINE)
_CULPRIT = re.compile(r"^(m\d+)(?:_\w+)?\.c:\d+", re.MULTILINE)

Files = Mapping[str, str | bytes]


@dataclass(frozen=True)
class Compiled:
    """C of one model; ``code`` is its functions, ``rest`` weights and storage, ``record`` what the runtime calls it."""

    prefix: str
    opt: str
    code: str
    rest: str
    headers: tuple[SourceText, ...]
    assembled: tuple[SourceText, ...]
    blobs: tuple[SourceText, ...]
    record: str
    plan: Plan


def compiled(module: Module, prefix: str, core: str, options: BuildOptions) -> Compiled:
    """C of an imported module for a core.

    Raises:
        SdkError: it cannot be built.
    """
    board = board_of(core)
    planned = lower_module(module, default_passes(board, options))
    choice = EmitOptions(source="model", model_hash="", board=board.name, small=not board.hosted)
    emitted = get_backend("c99").emit(planned, prefix, isa=capabilities(board, options), options=choice)
    (plan,) = planned.plans.values()
    (record,) = emitted.entries.values()
    return _parts(emitted.files, emitted.agent[f"{prefix}_glue.c"], prefix, options.opt, record, plan)


def _parts(files: Files, glue: str, prefix: str, opt: str, record: str, plan: Plan) -> Compiled:
    code = f"{prefix}.c"
    texts = {n: t for n, t in files.items() if n.endswith(".c") and isinstance(t, str)}
    rest = {n: t for n, t in texts.items() if n != code} | {f"{prefix}_glue.c": renamed(glue, prefix)}
    return Compiled(
        prefix,
        opt,
        _joined({code: texts[code]}),
        _joined(rest),
        _texts(files, ".h"),
        _texts(files, ".S"),
        _texts(files, ".bin"),
        f"{record}_rt_model",
        plan,
    )


def _texts(files: Files, suffix: str) -> tuple[SourceText, ...]:
    found = ((n, t) for n, t in sorted(files.items()) if n.endswith(suffix))
    return tuple(SourceText(n, t if isinstance(t, str) else Blob(t)) for n, t in found)


def _joined(files: Mapping[str, str]) -> str:
    return "\n".join(f'#line 1 "{name}"\n{text}' for name, text in files.items())


def renamed(glue: str, prefix: str) -> str:
    """The glue with its static names made the model's own, so that many can stand in one file."""
    names = set(_STATIC.findall(glue))
    return re.sub(r"(?<![\w.])(" + "|".join(sorted(names)) + r")\b", rf"{prefix}_own_\1", glue)


def link(
    batch: Sequence[Compiled], core: str, compiler: str, cache: BuildCache, out: Path
) -> tuple[list[Compiled], dict[str, str]]:
    """Links the models that compile into the image ``out``; returns those, in the order of their numbers, and for each
    other prefix what the compiler says.

    Raises:
        BuildError: what is not a model's fault does not compile, or the image does not link.
    """
    left, rejected = list(batch), dict[str, str]()
    while left:
        try:
            _link(left, core, compiler, cache, out)
            break
        except BuildError as err:
            text = f"{err.message}\n{err.where or ''}\n{err.why or ''}"
            names = set(_CULPRIT.findall(text)) & {c.prefix for c in left}
            if not names and len(left) > 1:
                names = {c.prefix for c in left if _alone(c, core, compiler, cache, out)}
            if not names:
                raise
            rejected |= dict.fromkeys(names, text.strip())
            left = [c for c in left if c.prefix not in names]
    return left, rejected


def _alone(one: Compiled, core: str, compiler: str, cache: BuildCache, out: Path) -> str:
    """What the compiler says of one model alone; "" when it takes it."""
    try:
        _link([one], core, compiler, cache, out)
    except BuildError as err:
        return err.why or err.message
    return ""


@cache
def _targets(core: str, opt: str) -> tuple[Board, Target, str]:
    """The board, its compiler's target and text that stands before the code."""
    board = board_of(core)
    options, lacking = BuildOptions(opt="size" if opt == "size" else "time"), missing(core)
    if not lacking:
        return board, target_of(board, options), ""
    here = structs.replace(board.core, capabilities=board.capabilities & load_board(CORES[core].board).capabilities)
    target = target_of(replace(board, cores=(here,)), options)
    return board, target, (HERE / "avx512_in_c.h").read_text(encoding="utf-8")


def _link(batch: Sequence[Compiled], core: str, compiler: str, cache: BuildCache, out: Path) -> None:
    tool = get_toolchain(compiler, cache)
    board, target, head = _targets(core, "time")
    headers = tuple(h for c in batch for h in c.headers)
    objects: list[ObjectFile] = []
    for opt in ("time", "size"):
        text = "\n".join(c.code for c in batch if c.opt == opt)
        if text:
            objects.append(_compile(tool, f"code_{opt}.c", head + text, _targets(core, opt)[1], board, headers))
    table = ", ".join(f"&{c.record}" for c in batch)
    drive = _joined({"drive.c": (HERE / "drive.c").read_text(encoding="utf-8")})
    rest = [*_own(core), drive, *(c.rest for c in batch)]
    rest.append(f"const sdk_rt_model_t *const batch_models[] = {{{table}}};\n")
    objects.append(_compile(tool, "rest.c", "\n".join(rest), target, board, headers))
    for one in batch:
        objects += (tool.compile(CompileJob(s, target, headers=one.blobs)) for s in one.assembled)
    _image(tool, core, objects, target, out)


def link_code(code: str, core: str, compiler: str, cache: BuildCache, out: Path) -> None:
    """An image of C that has a function ``drive`` of its own.

    Raises:
        BuildError: it does not compile or link.
    """
    tool = get_toolchain(compiler, cache)
    board, target, head = _targets(core, "time")
    text = "\n".join([head, *_own(core), code])
    _image(tool, core, [_compile(tool, "code.c", text, target, board, ())], target, out)


def _image(tool: Toolchain, core: str, objects: Sequence[ObjectFile], target: Target, out: Path) -> None:
    match CORES[core].machine:
        case "native":
            tool.link(LinkJob("shared", tuple(objects), target), out)
        case "qemu-user":
            tool.link(LinkJob("executable", tuple(objects), target), out)
            out.chmod(0o755)
        case "node":
            tool.link(LinkJob("module", tuple(objects), target), out)
        case _:
            tool.link(LinkJob("firmware", tuple(objects), target, script=_script(core)), out)


def _own(core: str) -> list[str]:
    """What an image has besides what is run in it."""
    machine = CORES[core].machine
    bare = machine in ("unicorn", "qemu")
    files: dict[str, Path] = {"mem.c": data_dir("c_runtime") / "port/bare/mem.c"} if bare else {}
    if machine == "qemu":
        files["semihosted.c"] = HERE / "semihosted.c"
    if machine == "qemu-user":
        files["program.c"] = HERE / "program.c"
    return [_joined({name: path.read_text(encoding="utf-8")}) for name, path in files.items()]


def _compile(
    tool: Toolchain, name: str, text: str, target: Target, board: Board, headers: tuple[SourceText, ...]
) -> ObjectFile:
    include = (data_dir("c_runtime") / "include",)
    job: dict[str, Any] = {"headers": headers, "include_dirs": include, "pic": board.hosted}
    return tool.compile(CompileJob(SourceText(name, text), target, **job))


def _script(core: str) -> str:
    """A linker script: the function that runs models first, all memory as large as an image may need."""
    if CORES[core].machine == "qemu":
        return (HERE / "semihosted.ld").read_text(encoding="utf-8")
    return f"""ENTRY(drive)
SECTIONS {{
    .text {CODE:#x} : {{ KEEP(*(.text.drive)) *(.text .text.*) *(.rodata .rodata.* .srodata .srodata.* .sdk_*) }}
    .data {RAM:#x} : {{ *(.data .data.* .sdata .sdata.*) }}
    .got : {{ *(.got .got.*) }}
    .bss (NOLOAD) : {{ *(.bss .bss.* .sbss .sbss.* COMMON) }}
    /DISCARD/ : {{ *(.ARM.exidx .ARM.exidx.* .ARM.extab .ARM.extab.* .eh_frame* .note.* .comment) }}
}}
"""
