"""``sdk build``: a model file becomes C sources, a library, or firmware."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sdk.amounts import Amount, named_macs, named_weights
from sdk.cli import options, output
from sdk.cli import watch as watching
from sdk.errors import UsageError

if TYPE_CHECKING:
    from sdk.boards import Board

BAR: Final = 20  # characters of a full memory
_SECTIONS: Final = {"text": "code", "rodata": "constants", "data": "start of variables"}


@click.command()
@options.model_argument
@options.board_option
@click.option(
    "-o", "--out", type=options.FILE, help="Folder to write (default: out/MODEL-BOARD)."
)
@click.option(
    "--emit",
    type=click.Choice(["c", "lib", "firmware"]),
    default="c",
    show_default=True,
    help="What to make.",
)
@click.option(
    "--also", metavar="NAMES", multiple=True,
    help="Code for cores with these capabilities too (dotprod+i8mm), which runs where the system tells of them.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite files in the folder that were not generated.")
@click.option("--watch", is_flag=True, help="Build again whenever the model or another file given changes.")
@options.build_options
@options.json_option
def build(
    model: options.Model, board: str, out: Path | None, emit: str, also: tuple[str, ...],
    force: bool, watch: bool, as_json: bool,
    **compile_options: Any,
) -> None:  # fmt: skip
    """Compile MODEL for a board. Several, each with a name (prefill=a.onnx decode=b.onnx), are entries of one."""
    if not watch:
        _build(model, board, out, emit, also, force, as_json, compile_options)
        return
    if as_json:
        raise UsageError("--watch has no one object to print", where="--json", hint="leave out --json or --watch")
    models = list(model.values()) if isinstance(model, dict) else [model]
    beside = [Path(f) for name in ("externs", "custom", "safetensors") for f in compile_options[name]]
    for path in models:
        options.existing_path(path)  # a name that is wrong from the start does not become right
    watching.watch((*models, *beside), lambda: _build(model, board, out, emit, also, force, False, compile_options))


def _build(
    model: options.Model, board: str, out: Path | None, emit: str, also: tuple[str, ...], force: bool, as_json: bool,
    compile_options: dict[str, Any],
) -> None:  # fmt: skip
    from sdk import driver

    target, file = options.find_board(board), options.existing(model)
    stem = (file if isinstance(file, Path) else file.path).stem
    compile_options = dict(compile_options)
    options.resolve_gpu(compile_options, file, target, None)
    report = driver.build(
        file,
        target,
        options.make_options(**compile_options),
        emit=emit,
        out=out or Path("out") / f"{stem}-{target.name}",
        force=force,
        also=also,
    )
    data = report.to_json()
    if as_json:
        output.print_json(data)
    else:
        print_build(data, target)


def _other_ram(data: dict[str, Any]) -> list[tuple[str, int]]:
    """What else counts as the model's RAM."""
    io, context = data.get("io_bytes", 0), data.get("context_bytes", 0)
    known = data["arena_bytes"] + data["state_bytes"] + context + io
    sections = data.get("sections") or {}
    variables = sections.get("data", 0) + sections.get("bss", 0)
    stack = data["ram_bytes"] - known - variables
    return [
        ("inputs and outputs", io), ("context", context), (".data, .bss", variables), ("stack above 512", stack),
    ]  # fmt: skip


def print_build(data: dict[str, Any], board: Board) -> None:
    """Print the build object for people: bytes, and how much that is of what the board has."""
    for line in build_lines(data, board, output.width()):
        output.say(line)
    for file in data.get("files") or ():
        output.say(f"wrote {file}")
    from sdk.boards import evidence_of

    if board.untested and any(file.endswith(".elf") for file in data.get("files") or ()):
        output.say(f"{board.name} is {evidence_of(board)}")


def build_lines(data: dict[str, Any], board: Board, width: int) -> Iterator[str]:
    """The build object in lines of at most ``width`` characters; bars only where there is room."""
    sections = data.get("sections") or {}
    external = data.get("external_bytes", 0)
    flash = sum(sections.get(name, 0) for name in ("text", "rodata", "data")) - external
    ram_have, flash_have = (None, None) if board.hosted else (board.ram_bytes, board.flash_bytes)
    rows: list[tuple[str, int, int | None]] = [
        ("RAM", data["ram_bytes"], ram_have),
        ("  arena", data["arena_bytes"], None),
        ("  arena, lower bound", data["arena_lower_bound_bytes"], None),
        ("  state", data["state_bytes"], None),
        *[(f"  {name}", size, None) for name, size in _other_ram(data) if size],
    ]
    if sections:
        rows += [("code and constants" if board.hosted else "flash", flash, flash_have)]
        parts = {**sections, "rodata": sections.get("rodata", 0) - external}
        rows += [(f"  {what}", parts[name], None) for name, what in _SECTIONS.items() if parts.get(name)]
        rows += [("external flash", external, board.external.size)] if board.external and external else []
    cells = [(name, f"{size:,}", " B" + ("" if have is None else _part(size, have))) for name, size, have in rows]
    cells += [(name, text, " B") for name, text in _weights(data)]
    cells += [(name, f"{count:,}", "") for name, count in named_macs(_macs(data)) if count is not None]
    names, digits = (max(len(cell[k]) for cell in cells) for k in (0, 1))
    yield f"{data['model']} for {data['board']}"
    for name, text, more in cells:
        line = f"{name:<{names}}  {text:>{digits}}{more}"
        yield from [line] if len(line) <= width else output.wrapped(line.partition("  [")[0], width)
    dims = ", ".join(f"{name} in {lo}..{hi}" for name, (lo, hi) in (data.get("dims") or {}).items())
    if dims:
        yield f"dimensions: {dims}"
    if data.get("compiler"):
        yield f"sizes as compiled by {data['compiler']}"


def _weights(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The way from the bytes of constants in the model to those that were compiled: what passes removed, and what the
    layout for kernels and their tables add."""
    weights = Amount(**data["weights"])
    first, last = named_weights(weights)
    if weights.model is not None and weights.compiled is not None:
        yield first[0], f"{weights.model:,}"
        passes = {f"  {name}": after - before for name, (before, after) in (data.get("removed") or {}).items()}
        layout = weights.compiled - weights.model - sum(passes.values())
        yield from ((name, f"{change:+,}") for name, change in passes.items())
        if layout:
            yield "  layout, tables", f"{layout:+,}"
    yield last[0], f"{weights.compiled or 0:,}"


def _macs(data: dict[str, Any]) -> dict[str, Amount]:
    return {entry: Amount(**amount) for entry, amount in data["macs"].items()}


def _part(size: int, have: int) -> str:
    """How much of a memory that is, in words and as a bar."""
    part = size / max(have, 1)
    filled = min(max(round(BAR * part), 1 if size else 0), BAR)
    percent = f"{100 * part:.0f}" if part >= 0.1 else f"{100 * part:.1f}"
    return f"  {percent:>4} % of {have:,} B  [{'#' * filled}{'.' * (BAR - filled)}]"
