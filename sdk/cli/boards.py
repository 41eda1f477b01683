"""``sdk boards``: which boards there are, and everything known of one."""

from __future__ import annotations

from typing import Any

import click

from sdk.cli import complete, options, output
from sdk.cli.group import Listed
from sdk.errors import UsageError


class _Boards(Listed):
    """The group of ``boards``, which takes a board's name for what it is."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The subcommand; raise UsageError that shows how a board is named."""
        from sdk.boards import suggest

        if args[0] not in self.commands and not args[0].startswith("-"):
            near = suggest(args[0], self.commands)
            try:
                hint = f"sdk boards show {options.find_board(args[0]).name}"
            except UsageError:
                if near is None:
                    raise
                raise UsageError(f"unknown verb {args[0]!r}", hint=near) from None
            raise UsageError(f"{args[0]!r} is a board, where a verb is expected", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(cls=_Boards, invoke_without_command=True)
@options.json_option
@click.pass_context
def boards(context: click.Context, as_json: bool) -> None:
    """List the boards, or show one with ``boards show NAME``."""
    if context.invoked_subcommand is not None:
        return
    from sdk.boards import board_names, describe, load_board

    found = [describe(load_board(name)) for name in board_names()]
    if as_json:
        keys = ("name", "title", "tier", "flash_bytes", "ram_bytes")
        rows = [
            {
                **{key: board[key] for key in keys},
                "cpu": board["core"]["cpu"],
                "emulated": board["emulator"] is not None,
                "untested": board["untested"],
            }
            for board in found
        ]
        output.print_json({"boards": rows})
        return
    output.print_table(
        "",
        ("name", "cpu", "flash", "ram", "emulator", "tested", "title"),
        [
            (
                board["name"],
                board["core"]["cpu"],
                _kib(board["flash_bytes"]),
                _kib(board["ram_bytes"]),
                board["emulator"]["program"] if board["emulator"] else "-",
                "untested" if board["untested"] else board["evidence"],
                board["title"],
            )
            for board in found
        ],
    )


@boards.command()
@click.argument("name", shell_complete=complete.board_names)
@options.json_option
def show(name: str, as_json: bool) -> None:
    """Print all that is known of board NAME, and which file says so."""
    from sdk.boards import describe, evidence_of

    found = options.find_board(name)
    board = describe(found)
    if as_json:
        output.print_json(board)
        return
    core = board["core"]
    output.print_pairs(
        f"{board['name']}: {board['title']}",
        [
            ("vendor", board["vendor"] or None),
            ("cpu", f"{core['cpu']} ({core['arch']}, {core['pointer_bits']} bits)"),
            ("capabilities", " ".join(core["capabilities"])),
            ("clock", None if core["clock_hz"] is None else f"{core['clock_hz'] / 1e6:g} MHz"),
            *[(f"{region['kind']} {region['name']}", _region(region)) for region in board["memory"]],
            ("stack", board["stack_bytes"] or None),
            ("emulator", board["emulator"]["program"] if board["emulator"] else None),
            ("tested", evidence_of(found)),
            ("sources", "; ".join(board["sources"]) or None),
        ],
    )
    output.print_table("", ("key", "set by"), list(board["origin"].items()))


def _region(region: dict[str, Any]) -> str:
    return f"{_kib(region['size'])} at {region['base']:#010x}"


def _kib(size: int | None) -> str:
    return "-" if size is None else f"{size // 1024:,} KiB"
