"""The files with which a page runs a model on WebGPU: a second module, of single steps, kernels, and their runtime."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

from sdk.driver.artifact import build_libraries, build_sources
from sdk.projects.kinds import SHARED, template_folder
from sdk.projects.making import Making
from sdk.projects.wasm_data import split_module
from sdk.projects.web_modules import part_record
from sdk.text import GENERATED, printable
from sdk.toolchains import Blob
from sdk.version import VERSION

__all__ = ["gpu_files"]

_SIZES: Final = r"^#define \w+_((?:ARENA|STATE)_(?:BYTES|ALIGN)) (\d+)u"  # as the header tells them
_PARTS: Final = """
export const parts = {{
  module: {{ ...{module}, url: new URL('./{m}.gpu.wasm', import.meta.url) }},
  weights: {{ ...{weights}, url: new URL('./{m}.gpu.weights.bin', import.meta.url), segments: {segments} }},
  contextBytes: {context},
  stateBytes: {state_bytes},
  stateAlign: {state_align},
  arenaBytes: {arena_bytes},
  arenaAlign: {arena_align},
}};
"""


def gpu_files(making: Making) -> dict[str, str | Blob]:
    """The files by name.

    Raises:
        BuildError: nothing of the model has a kernel, or its plan has no place on a GPU.
    """
    options = replace(making.options, gpu="webgpu", io=None, threads=1)
    built = build_sources(making.file, making.board, options)
    m = built.sources.prefix
    libraries = build_libraries(making.file, making.board, options)
    split = split_module(libraries[f"{m}.wasm"].read_bytes())
    module, data = Blob(split.module), Blob(split.data)
    sizes = re.findall(_SIZES, str(built.sources.model[f"{m}.h"]), re.MULTILINE)
    parts = _PARTS.format(
        m=m, module=json.dumps(part_record(f"{m}.gpu.wasm", module)),
        weights=json.dumps(part_record(f"{m}.gpu.weights.bin", data)),
        segments=json.dumps([list(segment) for segment in split.segments]), context=built.report.context_bytes,
        **{name.lower(): size for name, size in sizes},
    )  # fmt: skip
    runtime = (template_folder() / SHARED / "web_gpu.js").read_text(encoding="utf-8")
    told = f"{GENERATED} {VERSION} from {printable(making.file.path.name)}. Do not edit."
    return {
        f"model/{m}.gpu.wasm": module, f"model/{m}.gpu.weights.bin": data,
        "model/gpu.js": f"// The model on WebGPU. {told}\n{runtime}",
        "model/gpu_plans.js": str(built.sources.model[f"{m}_gpu.js"]) + parts,
    }  # fmt: skip

