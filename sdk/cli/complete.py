"""What a shell completes: boards, backends, and of what is given so far the regions, instruction sets, stages and
entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from sdk.errors import SdkError

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(find: Callable[[dict[str, Any]], Iterable[tuple[str, str | None]]]) -> Completer:
    """What click asks for words: those found for the values given so far, (word, what it is), that begin alike."""

    def complete(context: click.Context, _: click.Parameter, begin: str) -> list[CompletionItem]:
        try:
            # an option that still lacks its value keeps click from reading the arguments: they are left over
            found = list(find({"left": context.args, **context.params}))
        except (SdkError, OSError):  # what is given so far is wrong: the command itself will say so
            return []
        return [CompletionItem(word, help=what) for word, what in found if word.startswith(begin)]

    return complete


def _boards(_: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    from sdk.boards import board_names, load_board

    return [(name, load_board(name).title) for name in board_names()]


def _regions(given: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    from sdk.boards import load_board

    memories = load_board(given["board"]).regions("ram") if given.get("board") else ()
    return [(f"{memory.name}=", f"{memory.size:,} bytes") for memory in memories]


def _isas(given: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    from sdk.boards import load_board

    known = load_board(given["board"]).capabilities if given.get("board") else ()
    return [("scalar", "none of the board's capabilities"), *((name, None) for name in sorted(known))]


def _backends(_: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    from sdk.codegen_c import backends

    return [(backend.name, backend.title) for backend in backends()]


def _runners(given: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    from sdk.boards import load_board, load_runners

    runners = load_runners()
    names = list(load_board(given["board"]).flash) if given.get("board") else list(runners)
    return [(name, runners[name].title) for name in names]


def _stages(_: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    from sdk.driver import explain

    return [(name, None) for name in explain.stage_names()]


def _entries(given: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    from sdk.driver import explain

    several = given.get("targets") or ()
    target = given.get("target") or next(iter(several), None) or next(map(Path, given["left"]), None)
    names = target if isinstance(target, dict) or target is None else explain.entry_names(target)
    return [(name, None) for name in names or ()]


board_names = _completer(_boards)
region_names = _completer(_regions)
isa_names = _completer(_isas)
runner_names = _completer(_runners)
backend_names = _completer(_backends)
stage_names = _completer(_stages)
entry_names = _completer(_entries)
