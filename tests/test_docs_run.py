"""Every command and code block of the README and docs, run in order as a reader would; sessions show what is true."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sdk.cli import run_command
from sdk.compiler.ir.text import parse_module
from sdk.compiler.ops import registry
from sdk.errors import SdkError

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What is run elsewhere: make by continuous integration, an installation by test_package.py, agents,
# farms and language models by tests/agent, tests/farm and tests/llm.
ELSEWHERE = re.compile(
    r"make (demo|test|soak|docs)\b|pip install|\. \.venv/bin/activate|export |eval |source |openssl |"
    r"sdk (agent|farm|llm)|sdk new \w+ SmolLM2|"
    r"sdk .*(--farm|serial:|(tcp|ssh|adb)://)"
)
SHELL = ("cmake", "qemu-system-arm", "python")
LANGUAGES = {"", "c", "js", "python", "ir", "pipeline", "toml", "kotlin", "swift"}  # the last two in tests of their own
C_PRELUDE = {"README.md": "#include <stdint.h>\n#include <stddef.h>\nstatic void fill(int8_t *image) { *image = 0; }\n"}
# Transcripts of models that are not in the tree, and diagrams: they hold no command that could be run.
NOT_RUN = re.compile(r"^(error: | model\.tflite, model\.onnx|tm=\d)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its document, language and text."""

    document: str
    language: str
    text: str


def blocks(path: Path) -> list[Block]:
    found = FENCE.findall(path.read_text(encoding="utf-8"))
    return [Block(path.name, language, text) for language, text in found]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the documents speak of: the tree's examples, a few models and arrays; lines of any length."""
    monkeypatch.delenv("COLUMNS", raising=False)  # workers of xdist have one
    for name in ("examples", "boards", "benchmarks", "templates", "c_runtime"):
        (tmp_path / name).symlink_to(ROOT / name)
    digits = (ROOT / "examples" / "digits" / "digits_int8.tflite").read_bytes()
    (tmp_path / "model.tflite").write_bytes(digits)
    np.save(tmp_path / "image.npy", np.zeros((1, 8, 8, 1), np.int8))
    np.save(tmp_path / "x.npy", np.ones((3, 8), np.float32))
    held = np.load(ROOT / "examples" / "digits" / "holdout.npz")
    ink = (held["images"].astype(np.float32) + 128) / 255
    np.savez(tmp_path / "calib.npz", image=ink.transpose(0, 3, 1, 2), label=held["labels"])
    onnx.save(encoder(), str(tmp_path / "encoder.onnx"))
    onnx.save(decoder(), str(tmp_path / "decoder.onnx"))
    onnx.save(strange(), str(tmp_path / "model.onnx"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def decoder() -> onnx.ModelProto:
    """A number is doubled until it is large: a loop that data end."""
    kind = onnx.TensorProto
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["twice"]), helper.make_node("Less", ["twice", "large"], ["again"])],
        "body",
        [helper.make_tensor_value_info("i", kind.INT64, []), helper.make_tensor_value_info("more", kind.BOOL, []),
         helper.make_tensor_value_info("v", kind.FLOAT, [])],
        [helper.make_tensor_value_info("again", kind.BOOL, []), helper.make_tensor_value_info("twice", kind.FLOAT, [])],
    )  # fmt: skip
    constants = [numpy_helper.from_array(np.float32(100), "large"), numpy_helper.from_array(np.array(True), "yes")]
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "yes", "x"], ["y"], name="loop", body=body)],
        "decoder",
        [helper.make_tensor_value_info("x", kind.FLOAT, [])],
        [helper.make_tensor_value_info("y", kind.FLOAT, [])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def encoder() -> onnx.ModelProto:
    """Token embeddings under a mask: the inputs and outputs of an encoder, at once."""
    rng = np.random.default_rng(0)
    table = numpy_helper.from_array(rng.standard_normal((50, 384)).astype(np.float32), "table")
    axes = numpy_helper.from_array(np.array([2], np.int64), "axes")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "axes"], ["wide"]),
        helper.make_node("Mul", ["rows", "wide"], ["hidden"]),
    ]
    ids, mask = (
        helper.make_tensor_value_info(name, TensorProto.INT64, [1, "seq"]) for name in ("input_ids", "attention_mask")
    )
    hidden = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, [1, "seq", 384])
    graph = helper.make_graph(nodes, "encoder", [ids, mask], [hidden], [table, axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def strange() -> onnx.ModelProto:
    """A model with an operator that nobody knows."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    node = helper.make_node("Wobble", ["x"], ["y"], name="strange", domain="acme")
    graph = helper.make_graph([node], "m", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.emulator
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_blocks_of_a_document_run(path: Path, workplace: Path, need_tool) -> None:
    need_tool("qemu-system-arm")
    names: dict[str, object] = {"__name__": "__document__"}
    for block in blocks(path):
        assert block.language in LANGUAGES, f"{path.name}: what is a block of {block.language}?"
        if block.language == "python":
            run_python(block, names)
        elif block.language == "c":
            compile_c(block, workplace)
        elif block.language == "js":
            run_js(block, need_tool("node"))
        elif block.language == "ir":
            parse_module(block.text, {}, registry)
        elif not block.language and not NOT_RUN.match(block.text):
            run_lines(block)


def run_python(block: Block, names: dict[str, object]) -> None:
    """A block, in the names that those before it left: prints what its comments say, and fails where they say so."""
    announced = re.search(r"^ *# (\w+Error):", block.text, re.MULTILINE)
    code = compile(block.text, block.document, "exec")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if announced is None:
            exec(code, names)
        else:
            with pytest.raises(SdkError) as error:
                exec(code, names)
            assert error.type.__name__ == announced[1]
    for said in re.findall(r"^ *print\(.*\)  # (.*)$", block.text, re.MULTILINE):
        assert said in out.getvalue().splitlines()


def run_js(block: Block, node: str) -> None:
    """A block of a module: prints what its comments say."""
    command = [node, "--input-type=module", "-"]
    done = subprocess.run(command, input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"^ *console\.log\(.*\); // (.*)$", block.text, re.MULTILINE)
    assert said == done.stdout.splitlines()


def compile_c(block: Block, workplace: Path) -> None:
    """The block compiles with the header that the document had made, or a reader would have."""
    header = re.search(r'#include "(\w+)\.h"', block.text)
    assert header, f"{block.document}: a block of C without the model's header"
    found = next(workplace.rglob(f"{header[1]}.h"), None)
    if found is None:
        model = ["build", "model.tflite", "--board", "host", "--name", header[1], "-o", f"out/{header[1]}"]
        with contextlib.redirect_stdout(io.StringIO()):
            assert run_command(model) == 0
        found = workplace / "out" / header[1] / f"{header[1]}.h"
    source = workplace / "block.c"
    source.write_text(C_PRELUDE.get(block.document, "") + block.text + "\nextern int unused;\n")
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{found.parent}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run_lines(block: Block) -> None:
    """The commands of a block; with ``$`` before them the other lines are what is printed ("..." leaves out lines)."""
    session = block.text.startswith("$ ")
    lines = block.text.replace("\\\n", " ").splitlines()
    printed: list[str] = []
    for line in lines:
        command = re.split(r"\s#\s", line)[0].removeprefix("$ ").strip()
        if session and not line.startswith("$ "):
            if line.strip() and line.strip() != "...":
                assert any(same(line, real) for real in printed), f"{block.document}: nothing prints {line!r}"
            continue
        if command:
            printed = run_line(block, command)


def run_line(block: Block, command: str) -> list[str]:
    """What one command prints, standard error included."""
    words = shlex.split(command)
    if ELSEWHERE.match(command) or not words:
        return []
    if words[0] != "sdk":
        if words[0] in SHELL:
            line = command.replace("python ", f"{sys.executable} ", 1)
            done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block.document}: {command}\n{done.stderr}"
        return []  # what a command printed, or a diagram
    out, err = io.StringIO(), io.StringIO()
    into = Path(words.pop()) if words[-2:-1] == [">"] and words.pop(-2) else None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(words[1:])
    text = out.getvalue() + err.getvalue()
    if into is not None:
        into.write_text(out.getvalue(), encoding="utf-8")
    assert (code == 0) != ("error: " in block.text), f"{block.document}: {command} ended with {code}\n{text}"
    return text.splitlines()


def same(shown: str, real: str) -> bool:
    """Whether a line is shown as it is printed; "..." at its end leaves the rest out."""
    shown, real = shown.rstrip(), real.rstrip()
    return real.startswith(shown[:-3].rstrip()) if shown.endswith("...") else shown == real


def commands_of(text: str) -> Iterator[str]:
    yield from re.findall(r"^(?:\$ )?(sdk .*)$", text, re.MULTILINE)


def test_the_documents_hold_commands() -> None:
    found = [c for path in DOCUMENTS for b in blocks(path) for c in commands_of(b.text)]
    assert len(found) > 20
