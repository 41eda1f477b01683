"""``sdk build``: a model file becomes C sources, a library, or firmware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sdk.cli import options, output
from sdk.cli import watch as watching
from sdk.errors import UsageError


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
@click.option("--force", is_flag=True, help="Overwrite files in the folder that were not generated.")
@click.option("--watch", is_flag=True, help="Build again whenever the model or another file given changes.")
@options.build_options
@options.json_option
def build(
    model: options.Model, board: str, out: Path | None, emit: str, force: bool, watch: bool, as_json: bool,
    **compile_options: Any,
) -> None:  # fmt: skip
    """Compile MODEL for a board. Several, each with a name (prefill=a.onnx decode=b.onnx), are entries of one."""
    if not watch:
        _build(model, board, out, emit, force, as_json, compile_options)
        return
    if as_json:
        raise UsageError("--watch has no one object to print", where="--json", hint="leave out --json or --watch")
    models = list(model.values()) if isinstance(model, dict) else [model]
    beside = [Path(f) for name in ("externs", "custom", "safetensors") for f in compile_options[name]]
    for path in models:
        options.existing_path(path)  # a name that is wrong from the start does not become right
    watching.watch((*models, *beside), lambda: _build(model, board, out, emit, force, False, compile_options))


def _build(
    model: options.Model, board: str, out: Path | None, emit: str, force: bool, as_json: bool,
    compile_options: dict[str, Any],
) -> None:  # fmt: skip
    from sdk import driver

    target, file = options.find_board(board), options.existing(model)
    stem = (file if isinstance(file, Path) else file.path).stem
    report = driver.build(
        file,
        target,
        options.make_options(**compile_options),
        emit=emit,
        out=out or Path("out") / f"{stem}-{target.name}",
        force=force,
    )
    data = report.to_json()
    if as_json:
        output.print_json(data)
    else:
        print_build(data)


def _other_ram(data: dict[str, Any]) -> list[tuple[str, int]]:
    """What else counts as the model's RAM."""
    io, context = data.get("io_bytes", 0), data.get("context_bytes", 0)
    known = data["arena_bytes"] + data["state_bytes"] + context + io
    sections = data.get("sections") or {}
    variables = sections.get("data", 0) + sections.get("bss", 0)
    stack = data["ram_bytes"] - known - variables
    return [("inputs and outputs", io), ("context", context), (".data, .bss", variables), ("stack above 512", stack)]


def print_build(data: dict[str, Any]) -> None:
    """Print the build object for people."""
    sections = data.get("sections") or {}
    dims = ", ".join(f"{name} in {lo}..{hi}" for name, (lo, hi) in (data.get("dims") or {}).items())
    output.print_pairs(
        f"{data['model']} for {data['board']}",
        [
            ("RAM", data["ram_bytes"]),
            ("  arena", data["arena_bytes"]),
            ("  arena, lower bound", data["arena_lower_bound_bytes"]),
            ("  state", data["state_bytes"]),
            *[(f"  {name}", size) for name, size in _other_ram(data) if size],
            ("weights", data["weights_bytes"]),
            *[(f"section {name}", size) for name, size in sections.items()],
            *([("dimensions", dims)] if dims else []),
        ],
    )
    if data.get("compiler"):
        output.say(f"sizes as compiled by {data['compiler']}")
    for file in data.get("files") or ():
        output.say(f"wrote {file}")
