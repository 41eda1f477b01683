"""Errors that few will meet: calls of inner parts with values that do not go together, tools and devices gone odd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from failures import Fails
from onnx import TensorProto, helper, save_model
from tflite_files import ModelFile

from sdk import driver
from sdk.boards import load_board
from sdk.codegen_c.program.selftest import selftest_file
from sdk.compiler.interp.plan import run_plan
from sdk.compiler.ir.types import dtype
from sdk.compiler.memory.regions import parse_pools
from sdk.devices.process import Child
from sdk.driver import counting
from sdk.driver.explain import stages
from sdk.errors import BuildError, LinkError, SdkError, UsageError
from sdk.frontends.onnx.context import onnx_op
from sdk.graph import ModuleBuilder, f32, i8
from sdk.toolchains import CompileJob, LinkJob, SourceText, get_toolchain, target_for
from sdk.toolchains.linker import Region, render_linker_script

HOST = load_board("host")


def made(change: Callable[[Any], object]) -> Callable[[], object]:
    """A call that builds an entry as ``change`` does."""

    def call() -> object:
        g = ModuleBuilder("g")
        with g.entry("main") as e:
            return change(SimpleNamespace(g=g, e=e, x=e.input("x", f32, (4,))))

    return call


def linked() -> object:
    return get_toolchain("zig").link(LinkJob("executable", (), target_for(HOST), script="MEMORY {}"), Path("out"))


def sanitized() -> object:
    source = SourceText("a.c", "int a;\n")
    return get_toolchain("zig").compile(CompileJob(source, target_for(HOST), sanitize=("address",)))


def twice() -> object:
    import_module("sdk.frontends.onnx.importer")  # which has one
    return onnx_op("Relu")(lambda node: None)


def golden() -> object:
    case = SimpleNamespace(entry="none")
    entry = SimpleNamespace(plan=SimpleNamespace(name="main"))
    return selftest_file(SimpleNamespace(entries=[entry], options=SimpleNamespace(golden=[case])))


CALLS: list[tuple[type[SdkError], Callable[[], object], str]] = [
    (UsageError, lambda: dtype("int8"), "unknown data type 'int8'"),
    (UsageError, lambda: parse_pools("dtcm"), "'dtcm' is no memory with its bytes"),
    (UsageError, lambda: parse_pools("a:1+a:2"), "a memory is named twice in 'a:1+a:2'"),
    (UsageError, golden, "a golden case is for entry 'none'"),
    (UsageError, linked, "a linker script goes with firmware, and firmware with a linker script"),
    (UsageError, sanitized, "zig has no address sanitizer"),
    (BuildError, lambda: render_linker_script([], 8), "a bare-metal image needs one flash and one ram region"),
    (
        BuildError,
        lambda: render_linker_script([Region("f", "flash", 0, 64), Region("r", "ram", 64, 64)], 7),
        "a stack of 7 bytes is not possible",
    ),
    (BuildError, twice, "the ONNX operator Relu has two converters"),
    (BuildError, made(lambda at: at.e.concat(at.x, at.x, axis=[])), "attributes of op concat: "),
    (BuildError, made(lambda at: at.e.input("y", i8, (4,)) + 0.5), "0.5 is no i8"),
    (BuildError, made(lambda at: at.x + None), "a NoneType is no number"),
    (
        BuildError,
        made(lambda at: at.g.const("a", np.ones(2, np.float32)) + at.g.const("b", np.ones(2, np.float32))),
        "add of constants alone",
    ),
]


@pytest.mark.parametrize(("kind", "call", "says"), CALLS, ids=[says for _, _, says in CALLS])
def test_calls(kind: type[SdkError], call: Callable[[], object], says: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message.startswith(says)


def test_plans_in_python(digits: Path) -> None:
    module = stages(digits, HOST, driver.BuildOptions())["planned"]
    image = np.zeros((1, 8, 8, 1), np.int8)
    for inputs, states, says in (
        ({"picture": image}, None, "entry @main takes image; got picture"),
        ({"image": image}, np.zeros(7, np.uint8), "entry @main has 0 bytes of state, got 7"),
        ({"image": image[0]}, None, "input image is i8 of rank 4"),
    ):
        with pytest.raises(UsageError) as caught:
            run_plan(module, "main", inputs, states)
        assert caught.value.message.startswith(says)


def test_an_emulator_without_plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuses(*_: object) -> None:
        raise LinkError("it ended", why="qemu: -plugin: invalid option")

    image = SimpleNamespace(symbols=(), machine=0, path=tmp_path)
    for name, value in (
        ("open_session", refuses), ("shared_library", lambda *_: tmp_path), ("_plugin", lambda *_: ()),
        ("ElfFile", lambda _: image),
    ):  # fmt: skip
        monkeypatch.setattr(counting, name, value)
    with pytest.raises(SdkError, match="this emulator takes no plugins") as caught:
        counting.counted(load_board("microbit"), tmp_path, 1, lambda session: None, "qemu://")
    assert caught.value.exit_code == 10


def test_a_process_that_has_closed_its_pipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def runs_on(_: float) -> int:
        raise subprocess.TimeoutExpired("agent", 1)

    with (tmp_path / "said").open("w+b") as said:
        child = Child(SimpleNamespace(wait=runs_on), said.fileno(), "the agent")
        error = child.ended()
    assert error.message == "the agent closed the link but still runs"


def test_verbs_and_options_that_do_not_go_together(fails: Fails, digits: Path, tmp_path: Path) -> None:
    line = ("inspect", digits, "--stage", "imported", "--svg", tmp_path / "f.svg")
    fails(2, *line, says=("--stage is for text",), hints=("leave out",))
    fails(2, "verify", tmp_path, "--board", "host", says=("verify wants the model file",), hints=("sdk verify",))
    with pytest.raises(UsageError, match="memories are the boards' own here"):
        driver.fit(digits, driver.BuildOptions(arena_limit=4096))
    with pytest.raises(UsageError, match="instructions of several threads cannot be told apart"):
        driver.profile(digits, load_board("aarch64-linux"), None, driver.BuildOptions(threads=2), {})


def test_an_entry_without_operators(fails: Fails, tmp_path: Path) -> None:
    path = tmp_path / "same.ir"
    path.write_text("module same imported\n\ngraph @main(%x: f32[4]) {\n  return %x\n}\n")
    fails(2, "profile", path, "--board", "host", says=("entry 'main' has no operators to profile",))


def test_a_board_without_a_driver_for_its_uart(fails: Fails, digits: Path, add_board: Callable[..., str]) -> None:
    name = add_board("mute")
    file = Path(os.environ["CROSSLEVEL_BOARDS"]) / "mute.toml"
    file.write_text(file.read_text() + '[runtime.uart]\nkind = "pigeon"\nbase = 0\nhz = 1\n')
    says = ("the runtime has no uart driver of kind 'pigeon' for mute",)
    fails(2, "bench", digits, "--board", name, says=says, hints=("--emit c", "c_runtime/port"))
    file.write_text(file.read_text() + '[emulator]\nargv = ["qemu", "{kernel}"]\nicount_shift = 1\n')
    fails(2, "boards", "show", name, says=("unknown placeholder {kernel}",), hints=("elf",))


def test_functions_that_call_themselves(fails: Fails, tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    again = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="own")], opsets)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("F", ["x"], ["y"], domain="own")], "net", values[:1], values[1:])
    path = tmp_path / "loop.onnx"
    save_model(helper.make_model(graph, opset_imports=opsets, functions=[again], ir_version=9), path)
    fails(1, "build", path, "--board", "host", says=("calls itself",))


def test_opsets(fails: Fails, tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", values[:1], values[1:])
    path = tmp_path / "net.onnx"
    for version, says, hint in (
        (5, "the model uses opset 5, supported are 7 to", "convert_version"),
        (999, "opset 999, the installed onnx package knows up to", "pip install --upgrade onnx"),
    ):
        save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9), path)
        fails(1, "build", path, "--board", "host", says=(says,), hints=(hint,))


def test_constants_of_another_type(fails: Fails, tmp_path: Path) -> None:
    model = ModelFile()
    x, axes = model.input("x", (1, 4), scale=0.5), model.const("perm", [0.0, 1.0], "float32")
    model.op("TRANSPOSE", [x, axes], [model.output("y", (1, 4), scale=0.5)])
    path = tmp_path / "net.tflite"
    path.write_bytes(model.build())
    fails(1, "build", path, "--board", "host", says=("input 1 must hold integers",))
