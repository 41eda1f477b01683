"""``sdk llm``: language models, from a checkpoint to tokens."""

from __future__ import annotations

from pathlib import Path

import click

from sdk.cli import complete, options, output
from sdk.cli.group import Listed


@click.group(cls=Listed)
def llm() -> None:
    """Build language models from checkpoints, and run them.

    A checkpoint is a Hugging Face folder (config.json, .safetensors, tokenizer.json) or a .gguf file.
    """


@llm.command()
@click.argument("model", type=options.FILE)
@click.option(
    "--board", metavar="B", default="host", show_default=True, help="Board to build for.",
    shell_complete=complete.board_names,
)  # fmt: skip
@click.option("-o", "--out", type=options.FILE, help="Folder to write (default: out/MODEL-BOARD).")
@click.option("--context", type=click.IntRange(2), metavar="N", help="Positions to have room for (default: 4096).")
@click.option(
    "--chunk", type=click.IntRange(2, 4096), default=128, show_default=True, metavar="N",
    help="Tokens of a prompt that are computed together.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Prefix of all C names (default: from the file's name).")
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True, help="Threads of a run.")
@click.option("--force", is_flag=True, help="Overwrite files in the folder that were not generated.")
@options.json_option
def build(
    model: Path, board: str, out: Path | None, context: int | None, chunk: int, name: str | None, threads: int,
    force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compile the checkpoint MODEL for a board: C, and on this machine a library that sdk.llm.load runs."""
    from sdk.llm.build import build_model

    made = build_model(
        model, out or Path("out") / f"{model.stem}-{board}", context=context, chunk=chunk, name=name, threads=threads,
        board=board, force=force,
    )  # fmt: skip
    data = {**made.info, "out": str(made.folder), "report": made.report.to_json()}
    if as_json:
        output.print_json(data, 1)
        return
    info, report = made.info, made.report
    output.say(f"{info['architecture']}, {info['config']['layers']} layers, {info['context']:,} positions")
    rows = (("caches", report.state_bytes), ("arena", report.arena_bytes), ("weights", report.weights_bytes))
    for what, size in rows:
        output.say(f"  {what:<8} {size:>15,} B")
    output.say(f"wrote {made.folder}")
