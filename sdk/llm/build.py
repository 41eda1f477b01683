"""``sdk llm build``: a checkpoint becomes a folder with C, a library for this machine, tokens' files and model.json."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache as kept
from pathlib import Path
from typing import Any, Final

from sdk.boards import load_board
from sdk.compiler.ir.module import Module
from sdk.driver.artifact import build
from sdk.driver.choosing import Choice, fastest
from sdk.driver.options import BuildOptions
from sdk.driver.out_folder import MANIFEST
from sdk.driver.sources import Files, compile_sources, read_files
from sdk.driver.targets import target_of
from sdk.errors import UsageError
from sdk.files import replacing
from sdk.frontends.base import Frontend, ModelFile
from sdk.llm.activation_aware import activation_aware
from sdk.llm.calibration import calibration_tokens, observed
from sdk.llm.checkpoint import Checkpoint, open_checkpoint
from sdk.llm.config import Config
from sdk.llm.decoder import CACHES, VERIFY, Sizes, decoder_module, slots_of
from sdk.llm.fitting import LIMIT, Room, largest_context, needs
from sdk.llm.layer import gpu_files, layer_files, pool_files
from sdk.llm.model import SCHEMA
from sdk.llm.quantise import check_held, is_matrix, quantised
from sdk.llm.tokens import GGUF_TOKENS, tokens_of
from sdk.llm.weights import Weight
from sdk.report import BuildReport
from sdk.steps import step
from sdk.toolchains import LinkJob, toolchain_for

__all__ = ["CHUNK", "CONTEXT", "LlmBuild", "build_model", "library_name"]

CONTEXT: Final = 4096  # positions where nobody asks for more or less, and the model has as many
CHUNK: Final = 128  # tokens of one run of "prefill" at most
STATES: Final = 2  # how caches lie in states: a conversation that was saved with another number does not fit
THREADS: Final = 8  # that may share a run where there is an operating system, and nobody asks for more or less
_MAX: Final = 1 << 20  # positions
AUTO: Final = "auto"


@dataclass(frozen=True)
class LlmBuild:
    """What ``sdk llm build`` made: the ``folder``, what its model.json says, the report of the compiler, and of a build
    with ``gpu`` "auto" what was measured."""

    folder: Path
    info: Mapping[str, Any]
    report: BuildReport
    choice: Choice | None = None


def build_model(
    path: Path, out: Path, *, context: int | None = None, chunk: int = CHUNK, name: str | None = None,
    threads: int | None = None, board: str = "host", force: bool = False, quantize: str | None = None,
    calibrate: Path | None = None, cache: str = "f32", half_scales: bool = False, gpu: str | None = None,
) -> LlmBuild:  # fmt: skip
    """Builds a checkpoint into ``out``.

    Args:
        path: a Hugging Face folder, or a .gguf file.
        out: the folder to write.
        context: positions that there is room for; at most as many as the model was made for. None: 4096, or those.
        chunk: tokens of one run of "prefill" at most.
        name: the C prefix; from the name of the file or folder by default.
        threads: that may share a run at most. None: 8 where the board has an operating system, 1 elsewhere.
        board: whose code it is.
        force: whether files of the user's in the way are overwritten.
        quantize: "Q8_0" or "Q4_0" for matrices of floats, in any case; None for as they are.
        calibrate: a text; matrices are then quantised so that their outputs on its first 2048 tokens change little.
        cache: what keys and values are kept in: "f32", "f16" or "int8" (``sdk.llm.decoder.Sizes``).
        half_scales: whether activations are quantised as llama.cpp does it for Q4_0, Q4_1 and Q8_0, to compare with it.
        gpu: the interface of a GPU that runs it, "opencl" or "vulkan"; None for the processor; "auto" for what is
            fastest of the GPUs of this machine, the processor, and either with operations on the other: a chunk of
            "prefill", a token of "decode" and a run of "verify" count, at the last positions.

    Raises:
        UsageError: a choice does not fit the model, or the checkpoint cannot be read.
        BuildError: the checkpoint is of an unknown architecture, or not whole.
    """
    checkpoint = open_checkpoint(path)
    _check_folder(checkpoint, out, force)
    config = checkpoint.config
    positions = _context(config, context)
    prefix = name or _prefix(path)
    if cache not in CACHES:
        raise UsageError(f"no caches of {cache!r}", hint=f"one of {', '.join(CACHES)}")
    sizes = Sizes(positions, min(max(chunk, 2), positions), cache, half_scales)

    format = None if quantize is None else quantize.upper()
    quantised({}, format or "Q8_0")  # whether there is such a format
    if calibrate is not None and (format is None or not any(map(is_matrix, checkpoint.weights.values()))):
        why = "nothing is quantised" if format is None else "the checkpoint has no matrices of floats"
        raise UsageError("there is nothing to calibrate", why=why, hint="give --calibrate with --quantize, for floats")
    ids = None if calibrate is None else calibration_tokens(checkpoint, calibrate)

    _check_fits(checkpoint, sizes)

    @kept  # with ``gpu`` "auto" several builds read it
    def stored() -> Mapping[str, Weight]:
        return _stored(checkpoint, format, ids)

    def load(*_: object) -> Module:
        with step(f"reading {path.name}"):
            return decoder_module(prefix, config, stored(), sizes)

    key = hashlib.sha256(f"{STATES} {checkpoint.digest} {sizes} {config} {format} {ids}".encode()).hexdigest()
    file = ModelFile(path.resolve(), key.encode(), _frontend(load))
    place = load_board(board)
    weights = "file" if place.hosted else "flash"
    maximum = threads or (THREADS if place.hosted and gpu in (None, AUTO) else 1)
    options = BuildOptions(name=prefix, threads=maximum, weights=weights)
    choice = None
    if gpu == AUTO:
        choice = fastest(file, place, None, options)
        gpu = choice.gpu
        options = replace(options, on_processor=choice.on_processor, threads=1 if gpu else maximum)
    options = replace(options, io="caller" if gpu is None else None, gpu=gpu)
    report = build(file, place, options, emit="c", out=out, force=force)
    info = _info(checkpoint, prefix, sizes) | {"model_hash": file.digest}
    info |= tokens_of(checkpoint, out)
    if place.hosted:
        info |= {"weights": f"{prefix}_weights.bin", "board": board, "max_threads": options.threads}
        info |= {} if gpu is None else {"gpu": gpu}
        info |= {} if target_of(place, options).wasm else {"library": library_name(prefix)}
    layer = layer_files(info, prefix, (out / f"{prefix}.h").read_text(encoding="utf-8"))
    for file_name, text in layer.items():
        (out / file_name).write_text(text, encoding="utf-8")
    if "library" in info:
        # the model's own C, and not the gigabytes of weights beside it
        own = [file.name for file in map(Path, report.files) if file.parent == out and file.suffix in (".c", ".h")]
        around = {**layer, **pool_files(prefix, options.threads), **gpu_files(prefix, gpu or "")}
        _link({**read_files(out, own), **around}, board, options, out / library_name(prefix))
    with replacing(out / "model.json") as stream:
        stream.write((json.dumps(info, indent=1, sort_keys=True) + "\n").encode())
    return LlmBuild(out, info, report, choice)


def _stored(checkpoint: Checkpoint, format: str | None, ids: list[int] | None) -> Mapping[str, Weight]:
    """The tensors in the bits that are built."""
    if format is None:
        return checkpoint.weights
    if ids is None:
        return quantised(checkpoint.weights, format)
    check_held(checkpoint.weights, format)  # before the model runs for minutes
    with step("observing activations"):
        inputs = observed(checkpoint.config, checkpoint.weights, ids)
    return activation_aware(checkpoint.config, checkpoint.weights, inputs, format)


def _check_folder(checkpoint: Checkpoint, out: Path, force: bool) -> None:
    """Checks that the files beside the code take nobody else's place."""
    if out.is_dir() and checkpoint.path.is_dir() and out.samefile(checkpoint.path):
        raise UsageError(f"{out} is the checkpoint itself", hint="name another folder with -o FOLDER")
    names = ("model.json", GGUF_TOKENS, *(file.name for file in checkpoint.files))
    found = [name for name in names if (out / name).exists()]
    if found and not force and not (out / MANIFEST).is_file():
        raise UsageError(
            f"{out / found[0]} would be overwritten", why="no build has written it", hint="another folder, or --force"
        )


def _check_fits(checkpoint: Checkpoint, sizes: Sizes) -> None:
    found = needs(checkpoint.config, checkpoint.weights, sizes)
    if max(found.caches, found.arena) > LIMIT:
        maximum = largest_context(checkpoint.config, checkpoint.weights, Room("any", 1 << 62), sizes.chunk,
                               cache=sizes.cache)  # fmt: skip
        raise UsageError(
            f"a context of {sizes.context:,} positions needs {max(found.caches, found.arena):,} bytes in one piece",
            why=f"generated code indexes at most {LIMIT:,}",
            hint=f"--context {maximum}, or a smaller --chunk" if maximum else "give a smaller --chunk",
        )


def library_name(prefix: str) -> str:
    """The file of the library that this machine runs."""
    return f"lib{prefix}.so"


def _context(config: Config, asked: int | None) -> int:
    maximum = min(config.context_length, _MAX)
    if asked is None:
        return min(maximum, CONTEXT)
    if not 2 <= asked <= maximum:
        raise UsageError(
            f"a context of {asked} positions", why=f"the model was made for 2 to {maximum}", hint=f"--context {maximum}"
        )
    return asked


def _prefix(path: Path) -> str:
    stem = path.resolve().stem if path.suffix == ".gguf" else path.resolve().name
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_").lower()
    return name if name[:1].isalpha() and not name.startswith("sdk_rt") else f"m_{name}"


def _frontend(load: Any) -> Frontend:
    """The format of what was read already."""
    return Frontend("llm", "checkpoint", (), lambda data: True, load)


def _info(checkpoint: Checkpoint, prefix: str, sizes: Sizes) -> dict[str, Any]:
    config = checkpoint.config
    kept = [layer.window for layer in config.layers if layer.window is not None]
    limited = any(slots_of(window, sizes) < sizes.context for window in kept)
    return {
        "schema": SCHEMA,
        "name": prefix,
        "architecture": config.architecture,
        "context": sizes.context,
        "vocabulary_size": config.vocabulary_size,
        "chunk": sizes.chunk,
        "cache": sizes.cache,
        "verify": min(VERIFY, sizes.chunk),
        "kept": sizes.chunk if limited else 0,
        "config": asdict(replace(config, layers=())) | {"layers": len(config.layers)},
    }


def _link(sources: Files, board: str, options: BuildOptions, out: Path) -> None:
    """Writes the library of a build's C and of what is around it."""
    target = target_of(load_board(board), options)
    tool = toolchain_for(target, options.toolchain)
    with step("building the library"):
        objects = compile_sources(sources, tool, target, pic=True)
        libs = (*(("pthread",) if options.threads > 1 else ()), *(("dl",) if options.gpu else ()))
        # what the compiler adds of the C library tells in its debug information where it was compiled
        tool.link(LinkJob("shared", objects, target, libs=libs, flags=("-Wl,-S",)), out)
