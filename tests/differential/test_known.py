"""Networks that once were wrong, in their smallest form: what a compiler made of our C, or we of the network."""

from __future__ import annotations

import pytest
from generate import Network, Spec
from generate.network import layer

from differential.compare import Choice, check
from differential.subjects import subjects

PLAIN = {"act": 0, "bias": None, "dilation": (1, 1), "scales": (-5, 1013465090), "spread": 0, "wide_bias": True}
LAYERS = {
    # gcc 12 took the mask of the first lanes, which it knows, for all lanes
    "sum of 33": Network(
        "int8", 1, (("x", Spec((1, 1, 33), "int8", 1.0, 127)),),
        (layer("MEAN", ["x"], ["y"], axes=(0, 2), keep=False, scale=1.0, zero=0),), ("y",),
    ),
    # gcc 12 joined masks of floats to one whose lanes are all those of the first
    "relu": Network("onnx-float", 1, (("x", Spec((1, 3, 15), "float32")),), (layer("Relu", ["x"], ["y"]),), ("y",)),
    # LLVM 22 made a gather of strided loads, and a loop without an end of those around it
    "strided int16": Network(
        "int16", 1, (("x", Spec((1, 9, 8, 16), "int16", 0.0004)),),
        (layer("CONV_2D", ["x"], ["y"], channels=3, fill=("random", 7), kernel=(2, 3), padding=1, stride=(2, 2),
               ratio=("natural", 1.4), zero=0, **PLAIN),), ("y",),
    ),
}  # fmt: skip
SHAPED = {"auto_pad": "NOTSET", "bias": None, "fill": ("random", 7), "groups": 1}
ON_M4 = {
    # the pointer over the weights of the taps that are left over was the one of the loop before them too
    "taps left over": Network(
        "onnx-float", 1, (("x", Spec((1, 5, 1, 6), "float32")),),
        (layer("Conv", ["x"], ["y"], channels=32, kernel=(1, 5), pads=(0, 2, 0, 2), strides=(1, 1), dilations=(1, 1),
               **SHAPED),), ("y",),
    ),
    "pixels left over": Network(
        "onnx-float", 1, (("x", Spec((1, 17, 7), "float32")),),
        (layer("Conv", ["x"], ["y"], channels=32, kernel=(1,), pads=(1, 0), strides=(1,), dilations=(1,), **SHAPED),),
        ("y",),
    ),
    # rows of calls of one function, which reads a constant first and the arena then
    "steps": Network(
        "onnx-float", 1, (("x", Spec((2, 1, 1, 1), "float32")),),
        (layer("Scan", ["x"], ["t", "y"], fill=("zero", 0), back=0),), ("y",),
    ),
    # the one output of an axis lies at its first element
    "one of two": Network(
        "onnx-float", 1, (("x", Spec((1, 1, 2, 1), "float32")),),
        (layer("Resize", ["x"], ["y"], coordinates="pytorch_half_pixel", mode="cubic", rounding="floor",
               scales=(0.5, 1.0)),), ("y",),
    ),
    # unrolled after planning, its copy no longer proved to run before what is scattered
    "scattered in place": Network(
        "onnx-integer", 1, (("x", Spec((1, 1, 13), "int32")),),
        (layer("ScatterND", ["x"], ["y"], axis=0, fill=("zero", 0), reduction="none", rows=((0, 0, 0),)),), ("y",),
    ),
    # the bias that stands for a constant channel was one of more than 32 bits
    "constant channels": Network(
        "int16", 1, (("x", Spec((1, 1, 1, 1), "int16", 1.0)),),
        (layer("CONV_2D", ["x"], ["y"], act=0, bias=(("random", 0), 1 << 28), channels=2, dilation=(1, 1),
               fill=("one", 0), kernel=(2, 1), padding=0, ratio=("natural", 1.414062), scales=(0, 371575264), spread=14,
               stride=(1, 1), wide_bias=False, zero=0),), ("y",),
    ),
    # a constant in another shape was taken for what may be written over
    "scales of a norm": Network(
        "onnx-float", 1, (("x", Spec((1, 1), "float32")),),
        (layer("GRU", ["x"], ["s", "t"], bias=None, direction="forward", fill=("zero", 0), linear_before_reset=0,
               units=1), layer("GroupNormalization", ["t"], ["y"], epsilon=0.5, fill=("zero", 0), num_groups=1)),
        ("y", "s", "t"),
    ),
    # a kernel ran before the dim that it is given, which is in no shape of what it reads, was counted
    "counted": Network(
        "onnx-float", 1, (("x", Spec((1, 1, 1, 5), "float32")), ("s", Spec((1, 1, 1, 13), "float32"))),
        (layer("Unique", ["x"], ["y"]), layer("NonMaxSuppression", ["s"], ["z"], maximum=1)), ("y", "z"),
    ),
    # GCC found no registers for a statement that needs all of them
    "six sums": Network(
        "onnx-qdq", 1, (("x", Spec((1, 1, 2, 5), "uint8", 1.0)),),
        (layer("Conv", ["x"], ["y"], act="", auto_pad="NOTSET", bias=None, channels=15, dilations=(1, 1),
               fill=("zero", 0), gain=1, groups=1, kernel=(3, 2), pads=(1, 1, 1, 1), scales=(0, 0), spread=0,
               strides=(1, 1), zero=0),), ("y",),
    ),
    # functions with loops that none of them runs were to share their code
    "determinants of 1x1": Network(
        "onnx-float", 1, (("x", Spec((1, 1, 1), "float32")),),
        (layer("Det", ["x"], ["t"], side=1), layer("Sqrt", ["t"], ["y"]), layer("Det", ["x"], ["z"], side=1)),
        ("y", "z"),
    ),
    # a constant in another shape was looked for among the results
    "one number": Network(
        "onnx-float", 1, (("x", Spec((1, 1, 1), "float32")),),
        (layer("GroupNormalization", ["x"], ["y"], epsilon=0.5, fill=("zero", 0), num_groups=1),), ("y",),
    ),
    # two results may take the bytes of one argument, which the lower bound counted twice
    "two results": Network(
        "onnx-float", 1, (("x", Spec((1, 2, 2, 2), "float32")),),
        (layer("TopK", ["x"], ["y", "z"], consts=((2,),), given=(("largest", 0),)),), ("y", "z"),
    ),
}  # fmt: skip
IN_FPU_REGISTERS = {
    # GCC kept operands of a statement in registers of the FPU, where it did not find them again
    "six products": Network(
        "int8", 1, (("x", Spec((1, 3, 28, 13), "int8", 1.0)),),
        (layer("DEPTHWISE_CONV_2D", ["x"], ["y"], kernel=(1, 1), stride=(2, 3), padding=0, multiplier=1,
               fill=("zero", 0), ratio=("natural", 1), zero=-128, **{**PLAIN, "wide_bias": False, "scales": (0, 0)}),),
        ("y",),
    ),
}  # fmt: skip
UNROLLED = {
    # unrolled after planning, with elements left over behind a position that is read
    "gathered in place": Network(
        "onnx-integer", 1, (("x", Spec((1, 1, 9), "int64")),),
        (layer("GatherND", ["x"], ["y"], consts=(((0,),),), given=()),), ("y",),
    ),
    "rows gathered in place": Network(
        "onnx-float", 1, (("x", Spec((1, 1, 2, 15), "float32")),),
        (layer("GatherND", ["x"], ["y"], consts=(((0,),),), given=()),), ("y",),
    ),
    "lanes gathered in place": Network(
        "float", 1, (("x", Spec((1, 1, 9, 5), "float32")),),
        (layer("LOG_SOFTMAX", ["x"], ["t"]), layer("EMBEDDING_LOOKUP", ["t"], ["u"], count=1, fill=("zero", 0)),
         layer("EMBEDDING_LOOKUP", ["u"], ["y"], count=4, fill=("zero", 0)),), ("y",),
    ),
}  # fmt: skip
WIDE = {
    # lanes of a mask became lanes of another sign
    "masks as bytes": Network(
        "onnx-integer", 1, (("x", Spec((1, 1, 1, 4), "bool")),), (layer("Cast", ["x"], ["y"], to="uint8"),), ("y",)
    ),
    # first lanes alone set a sum at its first row
    "mean of 5": Network(
        "int16", 1, (("x", Spec((1, 2, 1, 5), "int16", 1.0)),),
        (layer("MEAN", ["x"], ["y"], axes=(1, 2), keep=False, scale=1.0, zero=0),), ("y",),
    ),
    # vectors of first lanes reach into the next row, as far as a proof of in-place updates knew
    "rows of 5 in place": Network(
        "onnx-float", 1, (("x", Spec((1, 2, 9, 5), "float32")),),
        (layer("LpNormalization", ["x"], ["y"], axis=1, fill=("zero", 0), p=1),), ("y",),
    ),
    # gcc 12 made loads that are guarded into masked ones that read zeros
    "rows around": Network(
        "onnx-integer", 1, (("x", Spec((1, 2, 2), "int32")),),
        (layer("CenterCropPad", ["x"], ["y"], consts=((6, 1),), given=(("axes", (1, 0)),)),), ("y",),
    ),
    # gcc 12 put two conditional moves of a double into a block of one
    "powers": Network(
        "onnx-float", 1, (("x", Spec((1, 1, 2, 1), "float32")),),
        (layer("Conv", ["x"], ["t"], channels=4, kernel=(1, 1), strides=(1, 1), dilations=(1, 1), auto_pad="VALID",
               bias=None, fill=("zero", 0), groups=1), layer("GlobalLpPool", ["t"], ["y"], given=(("p", 1),))), ("y",),
    ),
    # LLVM 22 has no masked store to words of any address
    "the lower": Network(
        "onnx-float", 1, (("x", Spec((1, 1, 1, 4), "float32")),),
        (layer("Where", ["x"], ["t"], fill=("zero", 0), how="LessOrEqual"),
         layer("Where", ["t"], ["y"], fill=("zero", 0), how="LessOrEqual")), ("y",),
    ),
}  # fmt: skip

PLACES = (("auto_pad", "VALID"), ("bias", None), ("channels", 7), ("dilations", (1, 1)), ("groups", 1))
POWERS = {
    # LLVM 22 did not end on powers of powers that were all inlined
    "powers of powers": Network(
        "onnx-float", 1, (("x", Spec((1, 1, 1, 33), "float32")),),
        (layer("Conv", ["x"], ["a"], fill=("random", 272268311), kernel=(1, 1), strides=(1, 1), **dict(PLACES)),
         layer("CumProd", ["a"], ["b"], axis=-3, given=(("exclusive", 0), ("reverse", 0))),
         layer("Cos", ["b"], ["c"]), layer("Softplus", ["c"], ["d"]),
         layer("Concat", ["d", "d", "d"], ["e"], given=(("axis", 0),)), layer("Pow", ["e", "b"], ["f"], constant=None),
         layer("Pow", ["f"], ["g"], constant=((), ("alternating", 950862770), 1.0), swapped=True),
         layer("GlobalMaxPool", ["g"], ["y"], given=())), ("y",),
    ),
}  # fmt: skip


def exact(networks: dict[str, Network], core: str, choice: Choice) -> None:
    ready = subjects(list(networks.values()))
    tally = check(ready, core, [choice] * len(ready))
    assert [(f.network.layers[0].op, f.what) for f in tally.wrong] == []
    assert sum(tally.right.values()) == len(ready), tally.refused


@pytest.mark.some(1)
@pytest.mark.emulator
@pytest.mark.parametrize("compiler", ["zig", "arm-none-eabi-gcc"])
def test_vectors_of_cortex_m55(compiler: str) -> None:
    for opt in ("time", "size"):
        exact({**LAYERS, **WIDE}, "m55", Choice(compiler, opt))


@pytest.mark.some(2)
@pytest.mark.emulator
@pytest.mark.parametrize("core", ["avx2", "avx512"])
@pytest.mark.parametrize("compiler", ["zig", "gcc"])
def test_vectors_of_this_machine(compiler: str, core: str) -> None:
    for opt, memory in (("time", "time"), ("size", "min")):
        exact(WIDE, core, Choice(compiler, opt, memory))


@pytest.mark.some(1)
@pytest.mark.emulator
@pytest.mark.parametrize("compiler", ["zig", "arm-none-eabi-gcc"])
def test_one_core_at_a_time(compiler: str) -> None:
    for opt in ("time", "size"):
        exact(ON_M4, "m4", Choice(compiler, opt, "min"))


@pytest.mark.emulator
def test_operands_in_registers_of_the_fpu() -> None:
    exact(IN_FPU_REGISTERS, "m7", Choice("arm-none-eabi-gcc", "size", "time"))


@pytest.mark.emulator
def test_loops_unrolled_after_planning() -> None:
    for core, compiler in (("m0plus", "zig"), ("m3", "arm-none-eabi-gcc"), ("avx2", "gcc")):
        exact(UNROLLED, core, Choice(compiler, "size", "min"))


@pytest.mark.emulator
def test_compilers_end() -> None:
    exact(POWERS, "avx2", Choice("zig", "size"))
