"""Which backend prints a build: what the user asked for or what is usual for the board, and whether that can be."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from sdk.boards import Board
from sdk.codegen_c import get_backend, usual_backend
from sdk.codegen_c.base import Backend, Runtime
from sdk.driver.options import GPUS, BuildOptions
from sdk.errors import UsageError

__all__ = ["backend_for", "runtime_of"]

_OF_ALL: Final = frozenset(("name", "dims", "backend", "custom", "safetensors"))
_FLAGS: Final = {"externs": "extern", "regions": "region", "arena_limit": "arena-limit"}  # fields called otherwise


def backend_for(board: Board, options: BuildOptions) -> Backend:
    """The backend of a build.

    Raises:
        UsageError: there is none of that name, it prints no code for the board, or another option means nothing to it.
    """
    name = options.backend or (None if options.gpu is None else "gpu")
    if name is None:
        return usual_backend(board)
    backend = get_backend(name)
    if (options.gpu is None) == (backend.kernels == "plain"):
        which = "wants to know for what" if options.gpu is None else "makes no kernels beside C"
        raise UsageError(f"the {backend.name} backend {which}", hint="--gpu opencl or --gpu vulkan, without --backend")
    if options.gpu is not None and (options.gpu == "webgpu") != (board.core.arch == "wasm"):
        raise UsageError(
            f"--gpu {options.gpu} has no part in code for {board.name}",
            why="browsers have WebGPU, and no other interface of GPUs",
            hint="sdk new web MODEL --gpu webgpu makes a page" if options.gpu == "webgpu" else "--gpu webgpu",
        )
    why = backend.refuses(board)
    if why is not None:
        flag = "gpu" if options.backend is None else "backend"
        hint = f"leave out --{flag}: {usual_backend(board).name} does"
        raise UsageError(f"the {backend.name} backend prints no code for {board.name}", why=why, hint=hint)
    if options.gpu is not None and board.gpu is not None and options.gpu not in board.gpu.interfaces:
        have = [name for name in board.gpu.interfaces if name in GPUS]
        raise UsageError(
            f"{board.name} has no driver of {options.gpu}",
            why=f"its {board.gpu.name} has one of {' and '.join(board.gpu.interfaces)}",
            hint=f"--gpu {have[0]}" if have else "leave out --gpu",
        )
    for option in fields(BuildOptions):
        known = option.name in _OF_ALL | backend.choices
        if not known and getattr(options, option.name) != option.default:
            flag = _FLAGS.get(option.name, option.name)
            raise UsageError(f"--{flag} means nothing to the {backend.name} backend", hint=f"leave out --{flag}")
    return backend


def runtime_of(name: str) -> Runtime:
    """How the code of a backend is run.

    Raises:
        UsageError: it cannot be yet.
    """
    backend = get_backend(name)
    if backend.runtime is None:
        raise UsageError(
            f"the code of the {name} backend cannot be compiled and run yet",
            why=f"no runtime of this version drives {backend.title}",
            hint=f"sdk build --emit c --backend {name} writes the sources; without --backend the model runs",
        )
    return backend.runtime
