"""Compiles one hostile file after another in a process of its own, under a limit of memory, in a folder of its own.

Reads lines ``kind seed number``, answers each with a line ``outcome text``: what a user would see.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

import fuzz_cases

from sdk.boards import load_board
from sdk.codegen_c import get_backend
from sdk.codegen_c.base import EmitOptions
from sdk.compiler import ops
from sdk.compiler.verify.module import check
from sdk.driver.options import BuildOptions
from sdk.driver.pipeline import default_passes, import_model, lower_module
from sdk.driver.targets import capabilities
from sdk.errors import SdkError, UsageError
from sdk.frontends.failures import OUT_OF_MEMORY

MEMORY = 4 << 30
# Errors that say that the compiler, not the model, is at fault; one that ran out of memory should have looked first.
INTERNAL = (
    "fault of the compiler", "fault of the tool", "not well formed", "bug of a pass", "internal error", OUT_OF_MEMORY,
)  # fmt: skip
BOARDS = ("host", "qemu-cortex-m4", "rpi_pico", "qemu-cortex-m55")
MAX_CALLS = 400  # of a graph that is compiled whole: more of the same takes longer and finds nothing else


def outcome(case: fuzz_cases.Case, whole: str | None, folder: Path) -> str:
    """``refused``, ``imported`` or ``compiled``, else what went wrong inside; ``whole`` is a board to compile for."""
    path = folder / f"model{case.suffix}"
    path.write_bytes(case.data)
    try:
        return _compile(path, whole)
    except SdkError as error:
        text = str(error)
        own = type(error) is SdkError or any(word in text for word in INTERNAL)
        if case.suffix == ".ir" and "not well formed" in text:  # the verifier judges what its author wrote
            return f"refused {text.splitlines()[0]!r}"
        # wrong use names an argument; what is wrong with a model names the place in it
        if not own and not isinstance(error, UsageError) and not error.where and "'" not in text:
            return f"unplaced {text!r}"
        return f"internal {text!r}" if own else f"refused {text.splitlines()[0]!r}"
    except BaseException as error:  # whatever it is
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"crash {type(error).__name__}: {error!s:.200} at {last.filename}:{last.lineno}"


def _compile(path: Path, whole: str | None) -> str:
    board = load_board(whole or "host")
    options = BuildOptions(dims={}, threads=1, externs=(), opt="time", memory="time", arena_limit=None)
    module = import_model(path, options, "model")
    check(module, ops)
    if whole is None or module.stage == "planned" or sum(len(g.body) for g in module.graphs.values()) > MAX_CALLS:
        return "imported"
    if module.stage == "scheduled":
        return "imported"
    module = lower_module(replace(module), default_passes(board, options))
    given = EmitOptions(source=path.name, model_hash="0", board=board.name, small=not board.hosted)
    get_backend("c99").emit(module, "model", isa=capabilities(board, options), options=given)
    return "compiled"


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    folder = Path(sys.argv[1])
    os.chdir(folder)
    for line in sys.stdin:
        kind, seed, number, every = line.split()
        make = fuzz_cases.GENERATORS[kind]
        start = time.monotonic()
        try:
            case = make(int(seed), int(number))
        except Exception as error:  # a fault of the generator, which the test names too
            print(f"0 generator {type(error).__name__}: {error}".replace("\n", " "), flush=True)
            continue
        board = BOARDS[int(number) // int(every) % len(BOARDS)] if int(number) % int(every) == 0 else None
        found = outcome(case, board, folder)
        stray = sorted(p.name for p in folder.iterdir() if p.name != f"model{case.suffix}")
        (folder / f"model{case.suffix}").unlink(missing_ok=True)
        if stray:
            found = f"stray {stray}"
        print(f"{time.monotonic() - start:.2f} {found} [{case.what}]".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
