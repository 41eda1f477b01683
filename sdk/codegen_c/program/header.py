"""The header of a model: its manual."""

from __future__ import annotations

from collections.abc import Mapping

from sdk.codegen_c.base import EmitOptions, EntryStack
from sdk.codegen_c.program.banner import banner, comment
from sdk.codegen_c.program.interface import Interface
from sdk.codegen_c.program.weights import Weights
from sdk.templates import render

__all__ = ["ABI", "header_file"]

ABI = 1


def header_file(api: Interface, weights: Weights, stacks: Mapping[str, EntryStack]) -> str:
    """The text of ``<prefix>.h``, with the stack of a run where ``stacks`` has that, by entry."""
    whole = [stacks[e.plan.name].bytes for e in api.entries if e.plan.name in stacks]
    return render(
        "c99/model.h",
        banner=banner(api.options, f"{api.prefix}: interface."),
        needs=_needs(api.options),
        m=api.prefix,
        M=api.prefix.upper(),
        abi=ABI,
        model_hash=api.options.model_hash,
        arena_bytes=api.region_bytes("arena"),
        arena_align=api.region_align("arena"),
        arena_varies=api.arena_varies,
        more_arenas=api.more_arenas,
        init_parameters=api.init_parameters,
        state_bytes=api.region_bytes("state"),
        state_align=api.region_align("state"),
        weights_bytes=weights.nbytes,
        weights_where=_where(weights, api.options),
        file=weights.file,
        file_hash=weights.file.digest.hex() if weights.file else "",
        file_bytes=len(weights.file.data) if weights.file else 0,
        stack_bytes=max(whole) if whole and len(whole) == len(api.entries) else None,
        stacks={name: (stack.bytes, _left_out(stack)) for name, stack in stacks.items()},
        threads=api.threads,
        init_dims=api.init,
        placed=api.placed,
        entries=api.entries,
        gpu=api.options.gpu,
        op_count=sum(e.op_count for e in api.entries),
    )


def _where(weights: Weights, options: EmitOptions) -> str:
    """What holds the constants."""
    if weights.in_ram:
        return "RAM, counted in .data"
    memory = options.memories.get("const")
    return "the file below" if weights.file else "flash" if memory is None else f"the memory {memory}"


def _needs(options: EmitOptions) -> str:
    """What the code is made for and compiled with, as a comment; "" where nothing is known of that."""
    lines = [f"Made for {comment(options.core)}."] if options.core else []
    lines += [f"{'Compile with' if k == 0 else 'or'}: {comment(line)}" for k, line in enumerate(options.compile_with)]
    return "/* " + "\n   ".join(lines) + " */\n" if lines else ""


def _left_out(stack: EntryStack) -> str:
    """Which functions a stack leaves out, as part of a comment."""
    return f", without what {', '.join(stack.uncounted)} need" if stack.uncounted else ""
