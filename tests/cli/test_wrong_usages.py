"""Wrong usages in one table: each ends with the documented exit code, one line that says what, the cause where the line
does not tell it, a hint, and leaves no file behind; none is the tool's fault, as far as the user is told."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save_model
from told import EXAMPLE, read_error

from sdk.cli import run_command

# What nobody must read who has made a mistake of his own.
NEVER = ("fault of the", "internal error", "Traceback", "report it", "Errno")
BOARD = "--board host"
RUN = f"sdk run model.tflite {BOARD} --input"
OPEN = f"sdk build open.onnx {BOARD} --dim"
BUILD = f"sdk build model.tflite {BOARD}"
SMALL = "sdk build model.tflite --board microbit"
STEP = f"sdk run open.onnx {BOARD} --dim batch=1:4 --input"
QUANT = "sdk quantize float.onnx --dim batch=1 -o q.onnx --data"

# command | exit code | in what is said of it | in the hint
WRONG = f"""
sdk --bord | 2 | --bord | sdk --help
sdk frobnicate | 2 | frobnicate | lists the verbs
sdk Build model.tflite | 2 | 'Build' | build
sdk build | 2 | MODEL | sdk build --help
sdk build model.tflite | 2 | --board | --board host
sdk build --board | 2 | requires an argument | sdk build --help
{BUILD} --board | 2 | requires an argument | sdk build --help
{BUILD} --json=1 | 2 | does not take a value | sdk build --help
sdk build nope.tflite {BOARD} | 2 | nope.tflite | did you mean
sdk build nope/model.tflite {BOARD} | 2 | no folder nope | check the path
sdk build '' {BOARD} | 2 | empty | a variable
sdk build loop {BOARD} | 2 | link that leads nowhere | mend the link
sdk build pipe {BOARD} | 2 | no regular file | write it to a file
sdk build /dev/null {BOARD} | 2 | no regular file | write it to a file
sdk build taken {BOARD} | 2 | taken | .onnx
sdk build d {BOARD} | 2 | folder | built from
sdk build . {BOARD} | 2 | folder | give a file in it
sdk build text.tflite {BOARD} | 1 | only 5 bytes | download it again
sdk build empty.onnx {BOARD} | 1 | 0 bytes | download it again
sdk build cut.onnx {BOARD} | 1 | cannot be decoded | download it again
sdk build cut.tflite {BOARD} | 1 | outside the file | download it again
sdk build bad.ir {BOARD} | 1 | bad.ir:1:8 | SPEC.md
sdk build odd.onnx {BOARD} | 1 | Frobnicate | --custom
sdk build model.tflite --board '' | 2 | unknown board | sdk boards
sdk build model.tflite --board stm32 | 2 | 'stm32' | nucleo_l4r5zi
sdk build model.tflite --board stm32f4 | 2 | 'stm32f4' | nucleo_f446re
sdk build model.tflite --board rp2040 | 2 | 'rp2040' | rpi_pico
sdk build model.tflite --board HOST | 2 | 'HOST' | host
sdk build model.tflite --board ../boards/host | 2 | unknown board | sdk boards
{BUILD} --name '' | 2 | C identifier | --name m_model
{BUILD} --name 9lives | 2 | C identifier | m_9lives
{BUILD} --name sdk_rt_x | 2 | runtime's own | --name
{BUILD} --name ünder | 2 | C identifier | --name nder
{BUILD} --name 'a b' | 2 | C identifier | a_b
{BUILD} --dim batch=1:4 | 2 | no dim batch | fixed
{BUILD} --dim | 2 | requires an argument | sdk build --help
sdk build open.onnx {BOARD} | 2 | batch | --dim batch=1:64
sdk build two.onnx {BOARD} --dim batch=1 | 2 | length | --dim length=1:64
{OPEN} batch | 2 | 'batch' | --dim n=1:256
{OPEN} batch= | 2 | 'batch=' | --dim n=1:256
{OPEN} batch=-1 | 2 | 'batch=-1' | --dim n=1:256
{OPEN} batch=1.5 | 2 | 'batch=1.5' | --dim n=1:256
{OPEN} batch=1-4 | 2 | 'batch=1-4' | --dim n=1:256
{OPEN} batch=1..4 | 2 | 'batch=1..4' | --dim n=1:256
{OPEN} 'batch = 4' | 2 | 'batch = 4' | --dim n=1:256
{OPEN} batch=1:4:2:2 | 2 | 'batch=1:4:2:2' | --dim n=1:256
{OPEN} batch=4:1 | 2 | 4 is above 1 | --dim batch=1:4
{OPEN} batch=1:4:0 | 2 | multiple of 0 | multiples of 32
{OPEN} batch=5:7:4 | 2 | multiple of 4 | multiples of 32
{OPEN} Batch=4 | 2 | no dim Batch | batch
{OPEN} batch=1 --dim batch=2 | 2 | given twice | keep one
{OPEN} batch=1:999999999999 | 1 | more than 2147483647 bytes | smaller upper bound: --dim batch=LO:HI
{OPEN} batch=99999999999999999999999999 | 1 | more than 2147483647 bytes | smaller upper bound: --dim batch=
sdk build open.onnx --board microbit --dim batch=1:100000 | 1 | microbit has 16,384 | smaller bounds
sdk build baked.onnx {BOARD} --dim length=1:32 | 1 | [17, 2, 2] | --dim length=17
sdk build baked.onnx {BOARD} --dim length=16 | 1 | [17, 2, 2] | exported with
{BUILD} --threads 0 | 2 | 1<=x<=64 | sdk build --help
{BUILD} --threads 65 | 2 | 1<=x<=64 | sdk build --help
{BUILD} --threads 1e3 | 2 | no whole number | sdk build --help
{BUILD} --memory max | 2 | 'time', 'min' | sdk build --help
{BUILD} --memory min --arena-limit 1K | 2 | exclude each other | leave out --memory
{BUILD} --arena-limit lots | 2 | 'lots' | 640K
{BUILD} --arena-limit -5 | 2 | '-5' | 640K
{BUILD} --arena-limit 1KB2 | 2 | '1KB2' | 640K
{BUILD} --arena-limit '' | 2 | not a size | 640K
{BUILD} --region sram=1K | 2 | no memories to choose from | leave out --region
{SMALL} --region dtcm=1K | 2 | 'dtcm' | it has ram
{SMALL} --region ram | 2 | not a region | --region dtcm=64K
{SMALL} --region ram= | 2 | not a region | --region dtcm=64K
{SMALL} --region ram=1K --region ram=2K | 2 | given twice | keep one
{SMALL} --region ram=1G | 2 | 1,073,741,824 | ram=16384
{BUILD} --weights eeprom | 2 | 'flash', 'ram' | sdk build --help
{BUILD} --weights ram | 2 | no memories | leave out
{BUILD} --isa avx9000 | 2 | avx9000 | --isa scalar
{SMALL} --isa dsp | 2 | no dsp | it has thumb
{SMALL} --isa + | 2 | names no capability | --isa scalar
{BUILD} --isa scalar+sse2 | 2 | stands alone | --isa scalar
{BUILD} --backend cuda | 2 | 'cuda' | c99
{SMALL} --backend opencl | 2 | operating system | leave out --backend
{BUILD} --backend opencl --emit lib | 2 | cannot be compiled | --emit c
{BUILD} --backend opencl --io arena | 2 | means nothing | leave out --io
{BUILD} --toolchain msvc | 2 | 'msvc' | gcc
{BUILD} --toolchain '' | 2 | unknown toolchain | gcc
{BUILD} --extern nope.c | 2 | No such file | --extern
{BUILD} --extern model.tflite | 2 | no library file | .ir files
{BUILD} --extern bad.ir | 1 | bad.ir:1:8 | SPEC.md
{BUILD} --custom nope.py | 2 | No such file | --custom
{BUILD} --custom bad.py | 2 | SyntaxError | mend the file
{BUILD} --custom raises.py | 2 | ValueError: no | mend the file
{BUILD} --custom exits.py | 2 | SystemExit | mend the file
{BUILD} --custom none.py | 2 | no IMPORTERS | IMPORTERS =
{BUILD} --safetensors w.safetensors | 2 | its header | save_file
{BUILD} --emit elf | 2 | 'c', 'lib', 'firmware' | sdk build --help
{BUILD} --io both | 2 | 'arena', 'caller' | sdk build --help
{BUILD} --opt speed | 2 | 'time', 'size' | sdk build --help
{BUILD} --check none | 2 | 'sample', 'full' | sdk build --help
{BUILD} -o taken | 2 | taken | -o FOLDER
{BUILD} -o '' | 2 | name is empty | sdk build --help
{BUILD} -o /proc/x | 2 | /proc/x | -o FOLDER
{BUILD} -o d | 2 | d/model.c is not a file that sdk build made | --force
sdk build model.tflite float.onnx {BOARD} | 2 | each with a name | prefill=a.onnx
sdk build a=model.tflite a=float.onnx {BOARD} | 2 | 'a' | a name of its own
sdk build 1a=model.tflite b=float.onnx {BOARD} | 2 | '1a=model.tflite' | prefill=a.onnx
sdk build a=nope.tflite b=float.onnx {BOARD} | 2 | nope.tflite | did you mean
sdk build a=model.tflite b= {BOARD} | 2 | 'b=' | prefill=a.onnx
sdk run model.tflite | 2 | no board | --board host
sdk run model.tflite --device local: | 2 | which board | --board NAME
sdk run d {BOARD} | 2 | not a folder that sdk build made | make it again
{RUN} image.npy | 2 | not an input | --input NAME=image.npy
{RUN} image= | 2 | not an input | --input x=x.npy
{RUN} image=nope.npy | 2 | No such file | np.save('image.npy', array)
{RUN} image=d | 2 | d | np.save
{RUN} image=pipe | 2 | no regular file | np.save
{RUN} image=table.csv | 2 | neither a .npy nor a .npz | np.save
{RUN} image=empty.npy | 2 | neither a .npy nor a .npz | np.save
{RUN} image=cut.npy | 2 | cut off | np.save
{RUN} image=cut.npz | 2 | cut off | np.save
{RUN} image=many.npz | 2 | its arrays: a, b | np.save
{RUN} image=none.npz | 2 | no array | np.save
{RUN} image=obj.npy | 2 | objects of Python | astype
{RUN} image=objs.npz | 2 | objects of Python | astype
{RUN} image=model.tflite | 2 | neither a .npy nor a .npz | np.save
{RUN} image=image.npy --input image=image.npy | 2 | given twice | keep one
{RUN} image=f.npy | 2 | float32, the model wants int8 | np.clip
{RUN} image=x2.npy | 2 | the model wants int8 | astype
{RUN} pic=image.npy | 2 | no input 'pic' | it has image
{RUN} image=image.npy --output model.tflite | 2 | an input of this command | --output
{RUN} image=image.npy --output d | 2 | directory | --output FILE.npz
{RUN} image=image.npy --entry main2 | 2 | 'main2' | it has main
{RUN} image=image.npy --device COM3 | 2 | 'COM3' | local:
{RUN} image=image.npy --device usb:1 | 2 | 'usb:1' | local:
{RUN} image=image.npy --device qemu:// | 2 | no emulator | sdk boards show
sdk run model.tflite --board nucleo_l4r5zi --device qemu://nope | 2 | 'qemu://nope' | --device qemu://
sdk run model.tflite --board aarch64-linux --device program://nope | 2 | 'program://nope' | --device program://
{RUN} image=image.npy --device local:/nope | 3 | /nope | local
{STEP} x=x9.npy | 2 | batch = 9 | 1 to 4
{STEP} x=r3.npy | 2 | 3 axes [1, 2, 4], the model wants 2: [batch, 4] | x.reshape(-1, 4)
{STEP} x=r1.npy | 2 | 1 axis [4] | x.reshape(-1, 4)
{STEP} x=odd.npy | 2 | 1 axis [5] | shape [batch, 4]
{STEP} x=x2.npy --at batch=9 | 2 | outside 1..4 | --at batch=1 to 4
{STEP} x=x2.npy --at batch=3 | 2 | the model wants [3, 4] | shape [3, 4]
{STEP} x=x2.npy --at n=2 | 2 | 'n' | it has batch
{STEP} x=x2.npy --at batch=two | 2 | 'batch=two' | --at n=64
sdk verify model.tflite | 2 | no board | --board host
sdk verify model.tflite {BOARD} --against gold | 2 | 'gold' | sdk verify --help
sdk verify model.tflite {BOARD} --cases 0 | 2 | x>=1 | sdk verify --help
sdk verify d {BOARD} | 2 | not a folder | sdk verify MODEL
sdk verify model.tflite --layers --device local: | 2 | builds of its own | --board
sdk bench model.tflite {BOARD} --repeat 0 | 2 | x>=1 | sdk bench --help
sdk profile model.tflite | 2 | no board | --board host
sdk memory model.tflite | 2 | --board | --board host
sdk memory model.tflite {BOARD} --html d | 2 | d | name a file
sdk memory model.tflite {BOARD} --html model.tflite | 2 | an input of this command | --html
sdk memory model.tflite {BOARD} --at n=3 | 2 | 'n' | none
sdk inspect | 2 | MODEL | sdk inspect --help
sdk inspect model.tflite --stage shceduled | 2 | 'shceduled' | scheduled
sdk inspect model.tflite --memory min | 2 | for builds | --stage planned
sdk inspect model.tflite --stage planned --svg x.svg | 2 | text | leave out
sdk inspect model.tflite float.onnx --stage planned | 2 | 2 models | give one
sdk inspect model.tflite --html model.tflite | 2 | an input of this command | --html
sdk fit open.onnx | 2 | batch | --dim batch=1:64
sdk fit open.onnx --dim batch=1 --safetensors w.safetensors | 2 | its header | save_file
sdk fit model.tflite --board host | 2 | --board | sdk fit --help
{QUANT} nope.npz | 2 | nope.npz | none.npz
{QUANT} other.npz | 2 | unknown photo | inputs: image
{QUANT} table.csv | 2 | no .npz file | np.savez
{QUANT} calib.npz --percentile 300 | 2 | 300 | at most 100
{QUANT} calib.npz --keep nolayer | 2 | nolayer | --sensitivity
{QUANT} calib.npz --labels answer | 2 | no array answer | image
sdk quantize float.onnx --dim batch=1 --data calib.npz -o float.onnx | 2 | an input of this command | -o
sdk quantize float.onnx --dim batch=1 --data calib.npz -o nope/q.onnx | 2 | nope/q.onnx | folder that exists
sdk quantize model.tflite --data calib.npz -o q.onnx | 2 | quantised already | float model
sdk boards shwo host | 2 | 'shwo' | show
sdk boards host | 2 | is a board | sdk boards show host
sdk boards show | 2 | NAME | sdk boards show --help
sdk boards show nope | 2 | 'nope' | sdk boards
sdk doctor please | 2 | please | sdk doctor --help
sdk completion | 2 | SHELL | sdk completion --help
sdk completion powershell | 2 | powershell | sdk completion --help
"""
ROWS = [tuple(part.strip() for part in line.split(" | ")) for line in WRONG.strip().splitlines()]


def network(name: str, node: object, shape: tuple[object, ...], out: tuple[object, ...], **given: np.ndarray) -> None:
    """Writes a model of one operator on floats."""
    kind = TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(n, kind, dims) for n, dims in (("x", shape), ("y", out))]
    consts = [numpy_helper.from_array(value, n) for n, value in given.items()]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], consts)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), name)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with good files, and with bad ones of each kind."""
    folder, before = tmp_path_factory.mktemp("desk"), Path.cwd()
    os.chdir(folder)
    try:
        _fill()
        yield folder
    finally:
        os.chdir(before)


def _fill() -> None:
    shutil.copy(EXAMPLE, "model.tflite")
    shutil.copy(EXAMPLE.with_name("digits.onnx"), "float.onnx")
    relu = helper.make_node("Relu", ["x"], ["y"])
    network("open.onnx", relu, ("batch", 4), ("batch", 4))
    network("two.onnx", relu, ("batch", "length", 4), ("batch", "length", 4))
    shape = np.array([17, 2, 2])
    network("baked.onnx", helper.make_node("Reshape", ["x", "s"], ["y"]), ("length", 4), (17, 2, 2), s=shape)
    network("odd.onnx", helper.make_node("Frobnicate", ["x"], ["y"]), (1, 4), (1, 4))
    floats = {"x2": (2, 4), "x9": (9, 4), "r3": (1, 2, 4), "r1": (4,), "odd": (5,), "f": (1, 8, 8, 1)}
    for name, extent in floats.items():
        np.save(f"{name}.npy", np.zeros(extent, np.float32))
    np.save("image.npy", np.zeros((1, 8, 8, 1), np.int8))
    objects = np.array([{}], object)
    np.save("obj.npy", objects, allow_pickle=True)
    np.savez("objs.npz", a=objects)
    np.savez("many.npz", a=1, b=2)
    np.savez("none.npz")
    np.savez("calib.npz", image=np.zeros((4, 1, 8, 8), np.float32))
    np.savez("other.npz", photo=np.zeros((4, 1, 8, 8), np.float32))
    for name, (source, size) in {
        "cut.npy": ("image.npy", 60), "cut.npz": ("many.npz", 80), "cut.onnx": ("float.onnx", 1000),
        "cut.tflite": ("model.tflite", 1000),
    }.items():  # fmt: skip
        Path(name).write_bytes(Path(source).read_bytes()[:size])
    texts = {
        "text.tflite": "hello", "bad.ir": "module !", "bad.py": "def (", "raises.py": "raise ValueError('no')",
        "exits.py": "import sys; sys.exit(3)", "none.py": "", "table.csv": "0,0\n", "taken": "", "empty.onnx": "",
        "empty.npy": "", "w.safetensors": "\0" * 20,
    }  # fmt: skip
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("d").mkdir()
    Path("d/manifest.json").write_text('{"name": "an app"}')
    Path("d/model.c").write_text("int mine;\n")
    Path("loop").symlink_to("loop")
    os.mkfifo("pipe")


def contents() -> dict[str, bytes]:
    """The files of the folder, by name."""
    files = [p for p in Path().rglob("*") if p.is_file() and p.parts[0] != "out"]
    return {p.as_posix(): p.read_bytes() for p in files}


def test_there_are_enough() -> None:
    assert len(ROWS) >= 120
    assert len({line for line, *_ in ROWS}) == len(ROWS)


def test_each_is_told_well(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, bad = contents(), []
    for line, expected, says, hint in ROWS:
        code = run_command(shlex.split(line)[1:])
        captured = capsys.readouterr()
        try:
            told = read_error(code, captured.out, captured.err)
            assert code == int(expected)
            assert "\n" not in told.message
            assert len(told.message) < 200
            assert says in " ".join((told.message, told.where, told.why))
            assert hint in told.hint
            assert not [word for word in NEVER if word in captured.err]
        except AssertionError as error:
            bad.append(f"{line}\n{captured.out}{captured.err}{str(error)[:300]}")
        changed = {name for name, data in contents().items() if before.get(name) != data}
        assert not changed, f"{line} has written {changed}"
    assert not bad, "\n\n".join(bad)
