"""Models whose names try to act on what shows them: terminals, pages, C compilers. Every verb, both formats."""

from __future__ import annotations

import ast
import json
import re
import struct
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from told import EXAMPLE

from sdk import SdkError
from sdk.cli import output, run_command
from sdk.codegen_c.program.banner import comment
from sdk.codegen_c.program.interface import quoted
from sdk.notebook import pairs
from sdk.text import printable

SDK = Path(__file__).resolve().parent.parent.parent / "sdk"
# Of the bundled model, each by one of the same length.
RENAMED = {
    b"image": b"i\x07\nm\x1b",
    b"conv1": b"\x1b[2J\n",
    b"conv2": b"*/??/",
    b"flat": b"\\\xe2\x80\xae",
    b"logits": b'"%s\\\r\x7f',
    b"digit": b"d??/\n",
    b"conv1_weights": b"\xc2\x9b31m\nerror: ",
    b"handwritten digits, 3x3 convolutions, int8": b"</title><script>alert(1)</script>\x1b[31m*/!!",
}
EVIL = "a\x1b]0;owned\x07\n  hint: rm -rf \u202e*/ ??/ /* \\"
LENGTH = struct.Struct("<I")
# But fit, which builds for every board: it has no names but in errors, see below.
VERBS = (
    "run {model} --board host --input {input}",
    "verify {model} --board host --against interp --cases 2",
    "bench {model} --board host --repeat 2",
    "profile {model} --board host --repeat 2 --html {out}/profile.html --trace {out}/trace.json",
    "memory {model} --board host --html {out}/memory.html",
    "inspect {model}",
    "inspect {model} --board host --stage imported",
    "inspect {model} --board host --stage scheduled",
    "inspect {model} --board host --stage planned",
    "inspect {model} --html {out}/graph.html --svg {out}/graph.svg",
)


def digits(folder: Path) -> tuple[Path, str]:
    """The bundled model with such names, and its input as an argument."""
    data = EXAMPLE.read_bytes()
    for old, new in RENAMED.items():
        assert len(old) == len(new)
        was, becomes = (LENGTH.pack(len(text)) + text + b"\0" for text in (old, new))
        assert data.count(was) == 1, old
        data = data.replace(was, becomes)
    (folder / "evil.tflite").write_bytes(data)
    np.save(folder / "x.npy", np.zeros((1, 8, 8, 1), np.int8))
    return folder / "evil.tflite", f"i_m={folder / 'x.npy'}"


def products(folder: Path, *, broken: bool = False) -> tuple[Path, str]:
    """An ONNX model with such names, and its input as an argument; where it is broken, one with an unknown operator."""
    rng = np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal((4, 4), np.float32), f"{EVIL}{k}") for k in range(2)]
    nodes = [
        helper.make_node("MatMul", ["x\n", f"{EVIL}0"], [f"h{EVIL}"], name=EVIL),
        helper.make_node("MatMul", [f"h{EVIL}", f"{EVIL}1"], [f"g{EVIL}"], name=f"{EVIL}*/"),
        helper.make_node("No\x1bSuch" if broken else "Relu", [f"g{EVIL}"], ["y\x9b"], name=f"{EVIL}?"),
    ]
    edges = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"n{EVIL}", 4]) for name in ("x\n", "y\x9b")
    ]
    graph = helper.make_graph(nodes, EVIL, edges[:1], edges[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name=EVIL)
    (folder / "evil.onnx").write_bytes(model.SerializeToString())
    np.save(folder / "x.npy", np.zeros((1, 4), np.float32))
    return folder / "evil.onnx", f"x={folder / 'x.npy'}"


def check(text: str, what: str) -> None:
    """No character of a text acts on anything, ends of lines apart."""
    bad = sorted({c for c in text if not c.isprintable()} - {"\n"})
    assert not bad, f"{what} has {bad}: {next(repr(line) for line in text.split(chr(10)) if bad[0] in line)}"


def check_files(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".c", ".h", ".html", ".svg"}:
            text = path.read_text(encoding="utf-8")
            check(text.replace("\t", ""), path.name)
            assert "<script>alert" not in text
        if path.suffix in {".c", ".h"}:
            assert "??" not in text, path.name
            assert "rm -rf" not in re.sub(r"/\*.*?\*/|\"(\\.|[^\"\\])*\"", "", text, flags=re.DOTALL), path.name
        if path.suffix == ".svg":
            ElementTree.fromstring(text)
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("make", [digits, products])
def test_no_verb_lets_a_name_act(make, tmp_path: Path, capsys: pytest.CaptureFixture[str], need_tool) -> None:
    model, given = make(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    dims = []
    if make is products:  # the size has a name of its own, which the error tells
        assert run_command(["build", str(model), "--board", "host", "-o", str(out)]) == 2
        told = capsys.readouterr()
        check(told.out + told.err, "the error")
        found = re.search(r"--dim (\w+)=", told.err)
        assert found, told.err
        dims = ["--dim", f"{found[1]}=1:8"]
    lines = [["build", str(model), "--board", "host", "--emit", "lib", "-o", str(out / "built"), *dims]]
    for verb in VERBS:
        words = [word.format(model=model, input=given, out=out) for word in verb.split()]
        lines.append([*words, *dims])
    for line in lines:
        for more in ([], ["--json"]):
            if more and "--stage" in line:
                continue
            code = run_command([*line, *more])
            told = capsys.readouterr()
            assert code == 0, (line, told.err)
            check(told.out, " ".join(line[:1]))
            check(told.err, " ".join(line[:1]))
            if more:
                json.loads(told.out)
    check_files(out)
    for source in sorted((out / "built").glob("*.c")):  # trigraphs and all, and nothing to warn of
        flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-march=native", "-fsyntax-only"]
        subprocess.run([need_tool("gcc"), *flags, source], check=True)


def test_errors_about_such_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = products(tmp_path, broken=True)
    for verb in ("build", "memory", "profile", "fit"):
        place = [] if verb == "fit" else ["--board", "host"]
        assert run_command([verb, str(model), *place, "--dim", "na_0=1:8"]) == 1
        told = capsys.readouterr().err
        check(told, "the error")
        assert "\n  hint: rm" not in told
        assert r"\x1b" in told
    bad = tmp_path / "\x1b[31m\udcff.onnx"
    assert run_command(["build", str(bad), "--board", "host"]) == 2
    told = capsys.readouterr().err
    check(told, "the error")
    assert r"\x1b[31m\xff.onnx" in told


def test_what_python_and_notebooks_show() -> None:
    error = SdkError(EVIL, where=EVIL, why=f"{EVIL}\tb", hint=EVIL)
    lines = str(error).split("\n")
    begins = [line[:9] for line in lines if not line.startswith("    ")]
    assert begins == ["a\\x1b]0;o", "  where: ", "  why: a\\", "  hint: a"]
    check(str(error).replace("\t", ""), "an error")
    check(pairs({EVIL: EVIL}), "a table")


def test_printable() -> None:
    assert printable("Zürich 東京 +é") == "Zürich 東京 +é"
    assert printable("a\tb\nc", "\n") == "a\\tb\nc"
    assert printable("\x00\x1b\x7f\x85\x9b") == r"\x00\x1b\x7f\x85\x9b"
    assert printable("\u200f\u202e\u2066\u2028\ufeff\ud800") == r"\u200f\u202e\u2066\u2028\ufeff\ud800"


@pytest.mark.parametrize(
    "text", ["*/", "/*/", "**//", "a*/b/*c", "??/", "????/", "x\\", "\n*/\r", "/", "*", "\x1b*\x00/"]
)
def test_comments_and_strings_end_where_they_should(text: str, tmp_path: Path, need_tool) -> None:
    source = tmp_path / "m.c"
    held = f"/* {comment(text)} */\n/* {comment(text)}\n{comment(text)} */"
    source.write_text(
        f"{held}\nextern const char text[];\nconst char text[] = {quoted(text)};\n"
        f"typedef char size[sizeof text == {len(printable(text)) + 1} ? 1 : -1]; // {comment(text)}\n"
        "extern int next;\n",
        encoding="utf-8",
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run([need_tool("gcc"), *flags, source], check=True)
    assert "next" in source.read_text(encoding="utf-8")


def test_the_command_prints_in_one_place() -> None:
    """What is printed elsewhere would not be escaped."""
    found = []
    for path in sorted((SDK / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "click.echo", "click.secho"):
                found.append((path.name, ast.unparse(node)))
    assert {name for name, _ in found} <= {"output.py", "__init__.py", "completion.py"}
    assert [text for name, text in found if name == "__init__.py"] == ["print('interrupted', file=sys.stderr)"]


def test_json_has_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"name": EVIL + "\x7f\x9b"})
    told = capsys.readouterr().out
    check(told, "the object")
    assert json.loads(told)["name"] == EVIL + "\x7f\x9b"
