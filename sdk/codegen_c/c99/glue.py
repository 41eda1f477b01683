"""What links a model into a device agent: static storage, and the record the runtime reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sdk.codegen_c.c99.header import ABI
from sdk.codegen_c.c99.interface import Interface
from sdk.codegen_c.c99.model import interface_of
from sdk.codegen_c.c99.options import EmitOptions, banner
from sdk.codegen_c.c99.templates import render
from sdk.compiler.ir.module import Module

__all__ = ["emit_glue", "glue_file", "models_file", "record_names"]


def emit_glue(module: Module, prefix: str, *, options: EmitOptions) -> dict[str, str]:
    """``<prefix>_glue.c`` and ``models.c`` of an agent that holds this model alone.

    Raises:
        UsageError: ``prefix`` is no C identifier.
        BuildError: the module is not planned.
    """
    glue = glue_file(module, prefix, options)
    names = record_names(module, prefix)
    build_id = hashlib.sha256(f"{options.model_hash}\n{glue}".encode()).hexdigest()[:32]
    return {f"{prefix}_glue.c": glue, "models.c": models_file(names, build_id, options)}


def record_names(module: Module, prefix: str) -> list[str]:
    """What the records of a model are called, one an entry: ``<name>_rt_model``."""
    return [e.name for e in Interface(module, prefix, EmitOptions()).entries]


def glue_file(module: Module, prefix: str, options: EmitOptions) -> str:
    """The text of ``<prefix>_glue.c``: context, arena, state and the caller's buffers as static storage."""
    api = interface_of(module, prefix, options)
    regions = [(kind, api.region_bytes(kind), api.region_align(kind)) for kind in ("arena", "state")]
    regions += api.more_arenas
    storage = [(name, bytes, align, _section(options, name)) for name, bytes, align in regions if bytes]
    for e in api.entries:
        storage += [
            (p.storage, max(p.bytes, 1), max(api.region_align("caller"), api.region_align("arena"), 16), "")
            for p in e.ports
            if p.caller
        ]
    kinds = {name for name, *_ in storage}
    return render(
        "glue.c",
        banner=banner(options, f"{prefix}: storage and record for the device agent."),
        m=prefix,
        M=prefix.upper(),
        abi=ABI,
        storage=storage,
        has_arena="arena" in kinds,
        has_state="state" in kinds,
        more_arenas=[name for name, _, _ in api.more_arenas],
        threads=api.threads,
        init_dims=api.init,
        entries=api.entries,
    )


def _section(options: EmitOptions, region: str) -> str:
    """The attribute that puts a region of the arena where the linker script has its memory; "" for the usual one."""
    memory = options.memories.get(region)
    return "" if memory is None else f', section(".sdk_region.{memory}")'


def models_file(names: Sequence[str], build_id: str, options: EmitOptions) -> str:
    """The text of ``models.c``: the records linked into an agent, and the hex id of its image."""
    return render(
        "models.c",
        banner=banner(options, "The models of this agent."),
        names=list(names),
        pointers=", ".join(f"&{n}_rt_model" for n in names),
        build_id=build_id,
    )
