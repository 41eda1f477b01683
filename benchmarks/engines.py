"""Prints what other engines' own C takes for the layers of kernels.py, beside ours, counted alike on an emulated core.

    python benchmarks/engines.py [--cmsis-nn FOLDER] [--tflm FOLDER --gemmlowp FOLDER] [--board NAME] [--only WORD]

None of them is part of this tree: give folders of checkouts of ARM-software/CMSIS-NN, tensorflow/tflite-micro and
google/gemmlowp (github.com). Theirs is compiled by arm-none-eabi-gcc at -O2: CMSIS-NN through its wrappers, which
choose the kernel, TensorFlow Lite Micro's reference kernels as C++. Ours is compiled by the same and by zig, the
default.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from kernels import CASES, Case, layer
from rich.console import Console
from rich.table import Table

from sdk.boards import Board, load_board
from sdk.driver import BuildOptions
from sdk.driver.agents import runtime_parts
from sdk.driver.backends import runtime_of
from sdk.driver.counting import PHASE_RUN, Counts, counted
from sdk.driver.measuring import count
from sdk.driver.program import save_program
from sdk.resources import data_dir
from sdk.toolchains import CompileJob, LinkJob, ObjectFile, SourceText, get_toolchain, target_for

GCC = "arm-none-eabi-gcc"
FOLDERS = ("ConvolutionFunctions", "FullyConnectedFunctions", "NNSupportFunctions")
SKIPPED = ("_s4", "_f16", "_f32", "transpose_conv", "svdf", "lstm")
KINDS = ("pointwise", "conv", "depthwise", "dense")
SCRATCH = 1 << 16
TFLM_FLAGS = (
    *("-O2", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-ffunction-sections"),
    *("-fdata-sections", "-DNDEBUG", "-DTF_LITE_STATIC_MEMORY"),
)
Peer = Callable[[Case, Board, Path], list[ObjectFile]]  # into a folder for files on the way


def main() -> None:
    """Counts and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cmsis-nn", type=Path)
    parser.add_argument("--tflm", type=Path)
    parser.add_argument("--gemmlowp", type=Path)
    parser.add_argument("--board", default="nucleo_l4r5zi")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    peers: dict[str, Peer] = {}
    if args.cmsis_nn:
        peers["CMSIS-NN"] = lambda case, board, _: of_cmsis(case, board, args.cmsis_nn)
    if args.tflm and args.gemmlowp:
        peers["TFLM"] = lambda case, board, out: of_tflm(case, board, out, (args.tflm, args.gemmlowp))
    if not peers:
        parser.error("name the sources of an engine: --cmsis-nn, or --tflm and --gemmlowp")
    board = load_board(args.board)
    rows = [row(case, board, peers) for case in CASES if args.only in case.name and case.kind in KINDS]
    if args.json:
        print(json.dumps({"schema": 1, "board": args.board, "layers": rows}))
        return
    names = ["zig", "gcc", *peers]
    table = Table("layer", *names, *(f"{name} / zig" for name in peers), title=f"estimated cycles, {board.core.cpu}")
    for r in rows:
        each = {name: r["cycles"][name] / r["macs"] for name in names}
        ratios = (f"{each[name] / each['zig']:.2f} x" for name in peers)
        table.add_row(r["layer"], *(f"{each[name]:.2f}" for name in names), *ratios)
    Console().print(table)
    Console().print("estimated cycles for a multiply-accumulate, requantisation included; --json has instructions too")


def row(case: Case, board: Board, peers: dict[str, Peer]) -> dict[str, Any]:
    """One layer: ours by two compilers, and theirs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.ir"
        save_program(layer(case), path)
        found = {"zig": count(path, board, BuildOptions()), "gcc": count(path, board, BuildOptions(toolchain=GCC))}
    found |= {name: executed(case, board, peer) for name, peer in peers.items()}
    return {
        "layer": case.name,
        "macs": case.macs,
        "instructions": {name: counts.instructions for name, counts in found.items()},
        "cycles": {name: counts.est_cycles or 0.0 for name, counts in found.items()},
    }


def executed(case: Case, board: Board, peer: Peer) -> Counts:
    """What another engine executes for a layer."""
    toolchain, target = get_toolchain(GCC), target_for(board)
    runtime, defines, script = runtime_parts(runtime_of("c99"), board.as_emulated())
    include = (data_dir("c_runtime") / "include",)
    jobs = [
        CompileJob(SourceText(name, text), target, include_dirs=include, defines=defines)
        for name, text in {**runtime, "model.c": MODEL % case_sizes(case)}.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "agent"
        objects = (*toolchain.compile_all(jobs), *peer(case, board, Path(folder)))
        toolchain.link(LinkJob("firmware", objects, target, script=script), image)
        _, counts = counted(board, image, 0, lambda session: session.run(0))
    return counts[PHASE_RUN]


def case_sizes(case: Case) -> tuple[int, int]:
    """Elements of the input and of the result."""
    side, channels, outputs, _ = case.shape
    return side * side * channels, side * side * outputs


# A model of the agent whose run is `work`, which another file has.
MODEL = """
#include <stddef.h>
#include <stdint.h>
#include "sdk_rt.h"
int work(const int8_t *x, int8_t *y);
static int8_t x[%d], y[%d];
static int run(const int32_t *dims) { (void)dims; return work(x, y) == 0 ? SDK_RT_OK : SDK_RT_E_ARG; }
static int reset(void) { return SDK_RT_OK; }
static void *data(uint16_t index) { return index == 0 ? (void *)x : (void *)y; }
static const sdk_rt_model_t layer = {
    .abi = SDK_RT_ABI, .name = "layer", .hash = "0", .init = reset, .reset = reset, .run = run, .data = data
};
const sdk_rt_model_t *const sdk_rt_models[] = {&layer};
const uint16_t sdk_rt_model_count = 1;
const char sdk_rt_build_id[] = "engine";
"""


def arrays(case: Case) -> str:
    """Weights, bias and rescaling of a layer as C."""
    rng = np.random.default_rng(0)
    _, channels, outputs, kernel = case.shape
    taps = kernel * kernel * channels * (1 if case.kind == "depthwise" else outputs)
    values = {
        "int8_t weights": rng.integers(-127, 128, taps),
        "int32_t bias": rng.integers(-999, 999, outputs),
        "int32_t mult": rng.integers(1 << 30, (1 << 31) - 1, outputs),
        "int32_t shift": rng.integers(-9, -6, outputs),
    }
    return "\n".join(f"static const {name}[] = {{{','.join(map(str, v))}}};" for name, v in values.items())


def of_cmsis(case: Case, board: Board, sources: Path) -> list[ObjectFile]:
    """CMSIS-NN's 8-bit kernels, and ``work`` that calls the wrapper for a layer."""
    target, include = target_for(board), (sources / "Include",)
    jobs = [CompileJob(SourceText("work.c", cmsis_work(case)), target, include_dirs=include, opt="2")]
    jobs += [CompileJob(SourceText.read(path), target, include_dirs=include, opt="2") for path in files(sources)]
    return list(get_toolchain(GCC).compile_all(jobs))


def files(sources: Path) -> Iterable[Path]:
    """The C that 8-bit layers need."""
    for folder in FOLDERS:
        for path in sorted((sources / "Source" / folder).glob("*.c")):
            if not any(word in path.name for word in SKIPPED):
                yield path


def cmsis_work(case: Case) -> str:
    """A call of the wrapper."""
    side, channels, outputs, kernel = case.shape
    pad = kernel // 2
    if case.kind == "dense":
        call = f"""
    const cmsis_nn_fc_params p = {{128, 0, -128, {{-128, 127}}}};
    const cmsis_nn_per_tensor_quant_params q = {{mult[0], shift[0]}};
    const cmsis_nn_dims in = {{1, 1, 1, {channels}}}, w = {{{channels}, 1, 1, {outputs}}}, b = {{1, 1, 1, {outputs}}};
    const cmsis_nn_dims out = {{1, 1, 1, {outputs}}};
    return arm_fully_connected_s8(&ctx, &p, &q, &in, x, &w, weights, &b, bias, &out, y);"""
    else:
        deep = case.kind == "depthwise"
        kind, extra, first = ("dw_conv", "1, ", 1) if deep else ("conv", "", outputs)
        name = "arm_depthwise_conv_wrapper_s8" if deep else "arm_convolve_wrapper_s8"
        call = f"""
    const cmsis_nn_{kind}_params p = {{128, -128, {extra}{{1, 1}}, {{{pad}, {pad}}}, {{1, 1}}, {{-128, 127}}}};
    const cmsis_nn_per_channel_quant_params q = {{(int32_t *)mult, (int32_t *)shift}};
    const cmsis_nn_dims in = {{1, {side}, {side}, {channels}}}, w = {{{first}, {kernel}, {kernel}, {channels}}};
    const cmsis_nn_dims b = {{1, 1, 1, {outputs}}}, out = {{1, {side}, {side}, {outputs}}};
    return {name}(&ctx, &p, &q, &in, x, &w, weights, &b, bias, &out, y);"""
    return f"""
#include "arm_nnfunctions.h"
{arrays(case)}
static int32_t scratch[{SCRATCH // 4}];
int work(const int8_t *x, int8_t *y)
{{
    const cmsis_nn_context ctx = {{scratch, (int32_t)sizeof scratch}};{call}
}}
"""


def of_tflm(case: Case, board: Board, folder: Path, sources: Sequence[Path]) -> list[ObjectFile]:
    """``work`` that calls the reference kernel of TensorFlow Lite Micro, a template in its headers."""
    source, out = folder / "work.cc", folder / "work.o"
    source.write_text(tflm_work(case), encoding="utf-8")
    command = [GCC.replace("gcc", "g++"), *board.compilers.gcc.flags, *TFLM_FLAGS, *(f"-I{path}" for path in sources)]
    subprocess.run([*command, "-c", str(source), "-o", str(out)], check=True)
    return [ObjectFile(out, "work.cc", f"tflm {case.name} {out}", "", None)]


def tflm_work(case: Case) -> str:
    """A call of the reference kernel."""
    side, channels, outputs, kernel = case.shape
    pad = kernel // 2
    shapes = f"shape({{1, {side}, {side}, {channels}}}), x"
    if case.kind == "dense":
        include, params = "fully_connected", "FullyConnectedParams"
        fields = {"input_offset": 128, "weights_offset": 0, "output_multiplier": "mult[0]", "output_shift": "shift[0]"}
        call = (
            f"FullyConnected(p, shape({{1, {channels}}}), x, shape({{{outputs}, {channels}}}), "
            f"weights, shape({{{outputs}}}), bias, shape({{1, {outputs}}}), y)"
        )
    else:
        deep = case.kind == "depthwise"
        include, params = ("depthwise_conv", "DepthwiseParams") if deep else ("conv", "ConvParams")
        fields = {"input_offset": 128, "padding_values.width": pad, "padding_values.height": pad}
        fields |= {name: 1 for name in ("stride_width", "stride_height")}
        fields |= {name: 1 for name in ("dilation_width_factor", "dilation_height_factor")}
        fields |= {"depth_multiplier": 1} if deep else {}
        first = 1 if deep else outputs
        call = (
            f"{'Depthwise' if deep else ''}ConvPerChannel(p, mult, shift, {shapes}, "
            f"shape({{{first}, {kernel}, {kernel}, {channels}}}), weights, shape({{{outputs}}}), bias, "
            f"shape({{1, {side}, {side}, {outputs}}}), y)"
        )
    fields |= {"output_offset": -128, "quantized_activation_min": -128, "quantized_activation_max": 127}
    settings = " ".join(f"p.{name} = {value};" for name, value in fields.items())
    return f"""
#include "tensorflow/lite/kernels/internal/common.cc"
#include "tensorflow/lite/kernels/internal/reference/integer_ops/{include}.h"
{arrays(case)}
template <int N> static tflite::RuntimeShape shape(const int32_t (&dims)[N])
{{
    return tflite::RuntimeShape(N, dims);
}}

extern "C" int work(const int8_t *x, int8_t *y)
{{
    using namespace tflite;
    {params} p = {{}};
    {settings}
    reference_integer_ops::{call};
    return 0;
}}
"""


if __name__ == "__main__":
    main()
