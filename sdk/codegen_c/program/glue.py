"""What links a model into a device agent: static storage, and the record the runtime reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sdk.codegen_c.base import EmitOptions
from sdk.codegen_c.program.banner import banner
from sdk.codegen_c.program.header import ABI
from sdk.codegen_c.program.interface import Interface
from sdk.templates import render

__all__ = ["agent_files", "models_file"]


def agent_files(api: Interface) -> dict[str, str]:
    """``<prefix>_glue.c`` and ``models.c`` of an agent that holds this model alone."""
    glue = _glue_file(api)
    build_id = hashlib.sha256(f"{api.options.model_hash}\n{glue}".encode()).hexdigest()[:32]
    models = models_file([e.name for e in api.entries], build_id, api.options)
    return {f"{api.prefix}_glue.c": glue, "models.c": models}


def _glue_file(api: Interface) -> str:
    """The text of ``<prefix>_glue.c``: context, arena, state and the caller's buffers as static storage."""
    regions = [(kind, api.region_bytes(kind), api.region_align(kind)) for kind in ("arena", "state")]
    regions += api.more_arenas
    storage = [(name, bytes, align, _section(api.options, name)) for name, bytes, align in regions if bytes]
    for e in api.entries:
        storage += [
            (p.storage, max(p.bytes, 1), max(api.region_align("caller"), api.region_align("arena"), 16), "")
            for p in e.ports
            if p.caller
        ]
    kinds = {name for name, *_ in storage}
    return render(
        "c99/glue.c",
        banner=banner(api.options, f"{api.prefix}: storage and record for the device agent."),
        m=api.prefix,
        M=api.prefix.upper(),
        abi=ABI,
        storage=storage,
        has_arena="arena" in kinds,
        has_state="state" in kinds,
        more_arenas=[name for name, _, _ in api.more_arenas],
        threads=api.threads,
        init_dims=api.init,
        file=api.options.weights_file,
        entries=api.entries,
        gpu=api.options.gpu,
    )


def _section(options: EmitOptions, region: str) -> str:
    """The attribute that puts a region of the arena where the linker script has its memory; "" for the usual one."""
    memory = options.memories.get(region)
    return "" if memory is None else f', section(".sdk_region.{memory}")'


def models_file(names: Sequence[str], build_id: str, options: EmitOptions) -> str:
    """The text of ``models.c``: the records linked into an agent, and the hex id of its image."""
    return render(
        "c99/models.c",
        banner=banner(options, "The models of this agent."),
        names=list(names),
        pointers=", ".join(f"&{n}_rt_model" for n in names),
        build_id=build_id,
        external=options.memories.get("const", ""),
    )
