"""``sdk new web``: an npm package whose runs in Node are those of other engines, its types, checks and errors."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import sdk
from sdk.cli import run_command
from sdk.codegen_c.js import js_dim
from sdk.compiler.sym import Var, evaluate
from sdk.compiler.sym.text import parse_dim
from sdk.errors import BuildError
from sdk.projects.wasm_data import share_memory, split_module
from sdk.text import GENERATED

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
TYPED = {"float32": "Float32Array", "int8": "Int8Array", "int64": "BigInt64Array"}
# Runs calls on a package, one JSON list on stdin: outputs, or the code and text of the error, by call.
CALLS = """
import { load } from PACKAGE;
const told = JSON.parse(await new Promise((done) => {
  let text = '';
  process.stdin.on('data', (piece) => (text += piece)).on('end', () => done(text));
}));
const plain = (value) => (typeof value === 'bigint' ? Number(value) : value);
const said = [];
const seen = [];
let model;
const act = async ({ what, inputs, options, progress }) => {
  if (what === 'load') {
    model = await load({ ...options, onProgress: (one) => seen.push(one) });
    return seen.splice(0);
  }
  if (what === 'dispose') return model.dispose();
  if (what !== 'run') return model[what]();
  const given = Object.fromEntries(Object.entries(inputs).map(([key, [type, values]]) =>
    [key, globalThis[type].from(type.startsWith('Big') ? values.map(BigInt) : values)]));
  const sizes = Object.values(given).map((one) => one.length);
  const found = await model.run(given, options);
  const detached = Object.values(given).some((one, k) => one.length !== sizes[k]);
  return { detached, outputs: Object.fromEntries(Object.entries(found).map(([key, { data, shape }]) =>
    [key, [data.constructor.name, [...data].map(plain), shape]])) };
};
for (const call of told) {
  try { said.push({ value: await act(call) ?? null }); }
  catch (error) { said.push({ code: error.code ?? null, status: error.status ?? null, text: String(error) }); }
}
console.log(JSON.stringify(said));
"""
TSC = Path(sys.prefix) / "node_modules" / ".bin" / "tsc"  # `make soak` installs requirements/package.json there
# What a program may do with a model of an open size, and one of two entries; and what the compiler has to refuse.
PROGRAM = """import { load, model as told, ModelError } from 'one';
import type { Inputs, Model, Outputs, Progress } from 'one';
import * as two from 'two';

const shown = ({ file, loaded, total, cached }: Progress): string => `${file} ${loaded / total} ${cached}`;
const weightsUrl = new URL('https://a.b/c');
const model: Model = await load({ worker: false, cache: true, weightsUrl, onProgress: shown });
const inputs: Inputs = { a: new Float32Array(2), b_in_c: new Float32Array(6) };
const found: Outputs = await model.run(inputs, { dims: { rows: 2, more: 0 }, transfer: true });
const numbers: Float32Array = Object.values(found)[0]!.data;
const scale: number = told.entries[0]!.inputs[0]!.scale + told.weights.bytes + numbers.length;
if (new Error() instanceof ModelError) throw new Error(String(scale));
// @ts-expect-error: its sizes are not given
await model.run(inputs);
// @ts-expect-error: one size is not given
await model.run(inputs, { dims: { rows: 2 } });
// @ts-expect-error: elements of another type
await model.run({ a: new Int8Array(2), b_in_c: inputs.b_in_c }, { dims: { rows: 2, more: 0 } });
// @ts-expect-error: an input is missing
await model.run({ a: inputs.a }, { dims: { rows: 2, more: 0 } });
// @ts-expect-error: it has no such option
await load({ threads: 'many' });
// @ts-expect-error: no such output
found.nothing;

const both = await two.load();
const { digit } = await both.run({ image: new Int8Array(64) }, { entry: 'x' });
const signed: Int8Array = digit.data;
const real: Float32Array = (await both.run({ image: new Float32Array(64) }, { entry: 'y' })).digit.data;
// @ts-expect-error: an entry has to be named
await both.run({ image: signed });
// @ts-expect-error: the input of the other entry
await both.run({ image: real }, { entry: 'x' });
await both.reset();
model.dispose();
"""
# A helper that traps at a run, as the pool counts it: its gate is the word that has the high bit meanwhile.
TRAPPED = """
    const words = new Int32Array(memory.buffer);
    const open = 1 << 31;
    const most = exports.__heap_base.value >> 2;
    for (let gate = 0; ; gate = (gate + 1) % most) {
      if (words[gate] === open && Atomics.compareExchange(words, gate, open, open + 1) === open) break;
    }
    throw new Error('a trap');
"""
STREAM = """module m imported

state @seen: f32[2] = 0

graph @main(%x: f32[2]) {
  %was = read @seen : f32[2]
  %sum = add(%was, %x) : f32[2]
  write @seen = %sum
  return %sum
}
"""


@pytest.fixture
def make(tmp_path: Path, need_tool) -> Any:
    need_tool("node")

    def new(model: str | Path, *more: str, name: str = "m") -> Path:
        assert run_command(["new", "web", *str(model).split(), "--name", name, "-o", str(tmp_path / "p"), *more]) == 0
        return tmp_path / "p"

    return new


def calls(package: Path, *told: dict[str, Any]) -> list[Any]:
    """What calls on the package give; the first loads it."""
    script = CALLS.replace("PACKAGE", json.dumps((package / "model" / "node.js").as_uri()))
    every = [{"what": "load"}, *told] if told[0]["what"] != "load" else list(told)
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], input=json.dumps(every), capture_output=True, text=True,
        cwd=package, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert len(said) == len(every)
    assert "value" in said[0] or every == list(told), said[0]
    return said if told[0]["what"] == "load" else said[1:]


def example(package: Path) -> str:
    """What the JavaScript of the README says."""
    (code,) = re.findall(r"```js\n(.*?)```", (package / "README.md").read_text(), re.DOTALL)
    done = subprocess.run(
        ["node", "--input-type=module", "-e", code], cwd=package, capture_output=True, text=True, timeout=120
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def given(**arrays: np.ndarray) -> dict[str, Any]:
    return {key: [TYPED[str(a.dtype)], a.reshape(-1).tolist()] for key, a in arrays.items()}


def outputs(said: dict[str, Any]) -> dict[str, np.ndarray]:
    """Outputs of a run by key, as arrays."""
    assert "value" in said, said
    kinds = {js: np.dtype(kind) for kind, js in TYPED.items()}
    found = said["value"]["outputs"].items()
    return {key: np.array(data, kinds[js]).reshape(shape) for key, (js, data, shape) in found}


def several(path: Path) -> Path:
    """A model of two inputs, each with an open size, and three outputs."""
    weights = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["y"]),
        helper.make_node("Concat", ["a", "b_in_c"], ["c"], axis=0),
        helper.make_node("ReduceSum", ["c"], ["s"], keepdims=0),
    ]
    ends = [("a", ["rows", 6]), ("b_in_c", ["more", 6])], [("y", ["rows", 5]), ("c", ["all", 6]), ("s", [])]
    told = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in part] for part in ends]
    graph = helper.make_graph(nodes, "g", *told, [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def layers(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Writes a model of two products with an open size, large enough that threads share them; gives its constants."""
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal(shape).astype(np.float32) / 16 for shape in ((256, 512), (512, 64)))
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "second"], ["y"]),
    ]  # fmt: skip
    ends = ("x", ["n", 256]), ("y", ["n", 64])
    told = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in ends]
    constants = [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")]
    graph = helper.make_graph(nodes, "g", *told, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return first, second


def test_threads_share_runs(make: Any, tmp_path: Path) -> None:
    """Bit for bit what one thread gives, at sizes that are shared and at one that is not; the memory grows meanwhile. A
    run ends where a thread that shares it does."""
    first, second = layers(tmp_path / "layers.onnx")
    out = make(tmp_path / "layers.onnx", "--dim", "n=1:128", "--threads", "3")
    xs = [np.random.default_rng(n).standard_normal((n, 256)).astype(np.float32) for n in (1, 40, 128, 97)]
    runs = [{"what": "run", "inputs": given(x=x), "options": {"dims": {"n": len(x)}}} for x in xs]
    found = {}
    for threads, worker in ((1, True), (3, True), (3, False)):
        load = {"what": "load", "options": {"threads": threads, "worker": worker}}
        _, *said = calls(out, load, *runs, *runs[:2], {"what": "memoryBytes"})
        found[threads, worker] = [outputs(one)["y"] for one in said[:-1]]
    for results in found.values():
        for got, one, x in zip(results, found[1, True], [*xs, *xs[:2]], strict=True):
            np.testing.assert_array_equal(got, one)
            np.testing.assert_allclose(got, np.maximum(x @ first, 0) @ second, rtol=0, atol=1e-4)
    assert threads_of(out) == {1: 1, 2: 2, 3: 3, 9: 3}
    (wrong,) = calls(out, {"what": "load", "options": {"threads": 0}})
    assert (wrong["code"], "threads is 0" in wrong["text"]) == ("E_INPUT", True)
    session = out / "model" / "session.js"
    session.write_text(session.read_text().replace("exports.sdk_rt_web_help(worker);", TRAPPED))
    _, *said = calls(out, {"what": "load", "options": {"threads": 2}}, *[runs[2]] * 100)
    codes = [one.get("code") for one in said]
    assert codes[-1] == "E_TRAP"
    assert set(codes[codes.index("E_TRAP") :]) == {"E_TRAP"}


def threads_of(package: Path) -> dict[int, int]:
    """How many threads a model runs in, by how many are asked for."""
    source = """const { load } = await import('./model/node.js');
    const found = {};
    for (const threads of [1, 2, 3, 9]) {
      const model = await load({ threads });
      found[threads] = model.threads;
      model.dispose();
    }
    console.log(JSON.stringify(found));"""
    line = ["node", "--input-type=module", "-e", source]
    done = subprocess.run(line, cwd=package, capture_output=True, text=True, check=True, timeout=120)
    return {int(threads): count for threads, count in json.loads(done.stdout).items()}


def test_results_are_those_of_the_host(make: Any) -> None:
    """An int8 model: equal. Its tests pass as the README says, and its files say whose they are."""
    out = make(DIGITS, name="digits")
    x = np.random.default_rng(2).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    with sdk.compile(DIGITS) as model:
        want = model.run("main", {"image": x})["digit"]
    (said,) = calls(out, {"what": "run", "inputs": given(image=x)})
    assert {file.name for file in out.glob("model/*.wasm")} == {"digits.wasm"}  # integers need no relaxed vectors
    (got,) = outputs(said).values()
    np.testing.assert_array_equal(got, want)
    assert said["value"]["detached"] is False
    done = subprocess.run(["npm", "test"], cwd=out, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^# pass 12$", done.stdout, re.MULTILINE)
    assert re.search(r"^# fail 0$", done.stdout, re.MULTILINE)

    assert "digit: { data: Int8Array(10)" in re.sub(r"\s+", " ", example(out))

    manifest = json.loads((out / "manifest.json").read_text())["contents"]
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} - {"manifest.json"}
    own = names - set(manifest)
    assert own >= {"README.md", "package.json", ".github/workflows/build.yml"}
    assert all(GENERATED not in (out / name).read_text() for name in own)
    assert all(GENERATED in (out / name).read_text() for name in manifest if name.endswith((".js", ".ts", ".md")))
    listed = json.loads((out / "package.json").read_text())
    for condition, place in listed["exports"]["."].items():
        assert (out / place).is_file(), condition
    assert {"wasi-libc.txt", "musl.txt", "zig.txt"} <= {path.name for path in (out / "LICENSES").iterdir()}


def test_wrong_results_fail_the_tests(make: Any) -> None:
    """What the golden tests are for: another expectation, other weights."""
    out = make(DIGITS, name="digits")
    told = json.loads((out / "golden" / "cases.json").read_text())
    at = told["cases"][-1]["outputs"][0][0]
    tensors = bytearray((out / "golden" / "cases.bin").read_bytes())
    tensors[at] ^= 1
    (out / "golden" / "cases.bin").write_bytes(tensors)
    done = subprocess.run(["npm", "test"], cwd=out, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "off by Infinity" in done.stdout
    weights = out / "model" / "digits.weights.bin"
    whole = weights.read_bytes()
    for wrong in (whole[:-1], bytes([whole[0] ^ 1]) + whole[1:], whole + b"\0"):
        weights.write_bytes(wrong)
        assert calls(out, {"what": "load"})[0]["code"] == "E_INTEGRITY"
    weights.unlink()
    assert calls(out, {"what": "load"})[0]["code"] == "E_FETCH"
    (out / "elsewhere.bin").write_bytes(whole)
    (told,) = calls(out, {"what": "load", "options": {"weightsUrl": "elsewhere.bin", "worker": False}})
    assert [(p["file"], p["loaded"]) for p in told["value"]][-1] == ("digits.weights.bin", len(whole))


def test_sizes_that_stay_open(make: Any, tmp_path: Path) -> None:
    """Three lengths of each input, the memory grows with them; wrong calls say what is wrong and harm nothing."""
    model = several(tmp_path / "several.onnx")
    out = make(model, "--dim", "rows=1:3000", "--dim", "more=0:4")
    reference, rng = onnxruntime.InferenceSession(model), np.random.default_rng(1)
    told, wanted = [], []
    for rows, more in ((1, 0), (7, 3), (3000, 4), (2, 1)):
        a, b = (rng.standard_normal((n, 6)).astype(np.float32) for n in (rows, more))
        options = {"dims": {"rows": rows, "more": more}, "transfer": rows == 7}
        told += [{"what": "run", "inputs": given(a=a, b_in_c=b), "options": options}, {"what": "memoryBytes"}]
        wanted.append(dict(zip("ycs", reference.run(None, {"a": a, "b_in_c": b}), strict=True)))
    x = given(a=np.zeros(6, np.float32), b_in_c=np.zeros(0, np.float32))
    dims = {"rows": 1, "more": 0}
    wrong = [
        (x, {}, "E_DIM", "rows is undefined, it must be in 1..3000"),
        (x, None, "E_DIM", "rows is undefined"),
        (x, {"dims": None, "transfer": True}, "E_DIM", "rows is undefined"),
        (x, {"dims": {**dims, "rows": 3001}}, "E_DIM", "rows is 3001"),
        (x, {"dims": {**dims, "rows": 1.5}}, "E_DIM", "rows is 1.5"),
        (x, {"dims": {**dims, "cols": 1}}, "E_DIM", "no dim 'cols': there is 'rows', 'more'"),
        (x, {"dims": {**dims, "rows": 2}}, "E_INPUT", "input 'a' has 6 elements, [2, 6] has 12"),
        ({"a": x["a"]}, {"dims": dims}, "E_INPUT", "input 'b_in_c' is missing, it must be a Float32Array"),
        ({**x, "a": ["Int8Array", [0] * 6]}, {"dims": dims}, "E_INPUT", "input 'a' is a Int8Array"),
        ({**x, "z": x["a"]}, {"dims": dims}, "E_INPUT", "no input 'z'"),
        (x, {"dims": dims, "entry": "other"}, "E_ENTRY", "no entry 'other': there is 'main'"),
    ]
    told += [{"what": "run", "inputs": inputs, "options": options} for inputs, options, _, _ in wrong]
    said = calls(out, *told, told[0], {"what": "dispose"}, told[0])
    runs, sizes = said[: 2 * len(wanted) : 2], [one["value"] for one in said[1 : 2 * len(wanted) : 2]]
    for got, want in zip(runs, wanted, strict=True):
        for key, array in outputs(got).items():
            np.testing.assert_allclose(array, want[key], rtol=1e-4, atol=1e-4)
    assert [one["value"]["detached"] for one in runs] == [False, True, False, False]
    assert sizes[0] == sizes[1] < sizes[2] == sizes[3]
    for (_, _, code, text), error in zip(wrong, said[2 * len(wanted) :], strict=False):
        assert error["code"] == code
        assert text in error["text"]
    np.testing.assert_array_equal(outputs(said[-3])["y"], outputs(runs[0])["y"])
    assert said[-1]["code"] == "E_DISPOSED"


def test_several_entries_share_a_state(make: Any, tmp_path: Path) -> None:
    """A stream and a reset; another entry reads what the first wrote; a third finds out its size."""
    (tmp_path / "step.ir").write_text(STREAM)
    (tmp_path / "look.ir").write_text(STREAM.replace("  write @seen = %sum\n", "").replace("add(", "sub("))
    nodes = [helper.make_node("NonZero", ["x"], ["at"])]
    ends = ("x", TensorProto.FLOAT, ["n"]), ("at", TensorProto.INT64, [1, "k"])
    graph = helper.make_graph(nodes, "g", *([helper.make_tensor_value_info(*end)] for end in ends))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "find.onnx")
    names = " ".join(f"{file.split('.')[0]}={tmp_path / file}" for file in ("step.ir", "look.ir", "find.onnx"))
    out = make(names, "--dim", "n=0:6")
    x = np.array([1, 2], np.float32)

    def step(entry: str, value: np.ndarray, **more: Any) -> dict[str, Any]:
        return {"what": "run", "inputs": given(x=value), "options": {"entry": entry, **more}}

    held = np.array([0, 3, 0, 4, 5], np.float32)
    said = calls(
        out, step("step", x), step("step", x), step("look", 5 * x), {"what": "reset"}, step("step", 3 * x),
        step("find", held, dims={"n": 5}), step("find", 0 * held, dims={"n": 5}), {"what": "run", "inputs": given(x=x)},
    )  # fmt: skip
    for got, want in zip([said[k] for k in (0, 1, 2, 4)], (x, 2 * x, -3 * x, 3 * x), strict=True):
        np.testing.assert_array_equal(next(iter(outputs(got).values())), want)
    np.testing.assert_array_equal(outputs(said[5])["at"], np.nonzero(held))
    assert outputs(said[6])["at"].shape == (1, 0)
    assert said[7]["code"] == "E_ENTRY"
    assert "there is 'find', 'look', 'step'" in said[7]["text"]
    assert example(out).count("data:") == 3
    done = subprocess.run(["npm", "test"], cwd=out, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.models
def test_a_keyword_model_is_small(make: Any, models: Path) -> None:
    out = make(models / "kws_ref_model.tflite", name="kws")
    assert len(gzip.compress((out / "model" / "kws.wasm").read_bytes(), mtime=0)) <= 60_000
    stream = make(models / "okay_nabu.tflite", "--force", name="nabu")
    done = subprocess.run(["npm", "test"], cwd=stream, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_users_files_stay(make: Any) -> None:
    out = make(DIGITS)
    changed = ["README.md", "package.json", ".github/workflows/build.yml", ".gitignore", "index.html", "sw.js"]
    changed += [".prettierrc.json", ".prettierignore"]
    changed += ["serve.js", "demo/app.js", "demo/features.js", "demo/inputs.js", "demo/style.css"]
    for name in changed:
        (out / name).write_text(f"{(out / name).read_text()}\n")
    (out / "demo" / "mine.js").write_text("// mine\n")
    (out / "model" / "index.js").write_text((out / "model" / "index.js").read_text().replace("export", ""))
    make(DIGITS)
    assert all((out / name).read_text().endswith("\n\n") for name in changed)
    assert (out / "demo" / "mine.js").read_text() == "// mine\n"
    assert "export" in (out / "model" / "index.js").read_text()
    assert "export" not in (out / "replaced" / "model" / "index.js").read_text()


def test_what_is_no_web_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["new", "web", str(DIGITS), "--board", "host", "-o", str(tmp_path / "p")]) == 2
    assert "host is no WebAssembly engine" in capsys.readouterr().err
    assert run_command(["new", "firmware", str(DIGITS), "-o", str(tmp_path / "p")]) == 2
    assert "give --board NAME" in capsys.readouterr().err


def test_dims_in_javascript(need_tool) -> None:
    need_tool("node")
    a, b = Var("a", 1, 9), Var("b 'c", 1, 9)
    scope = {"a": a, "c": b}
    texts = ["7", "a", "3*a - 2*c + 1", "a*a*c", "floordiv(a + 5, 2)", "max(a, c) + min(a, 2)", "floordiv(a*c, 4) - 3"]
    dims = [parse_dim(text, scope) for text in texts]
    points = [(1, 9), (4, 2), (9, 7)]
    code = f"return [{', '.join(map(js_dim, dims))}];"
    source = """const [code, points, name] = JSON.parse(process.argv[1]);
    const run = new Function('d', code);
    console.log(JSON.stringify(points.map(([a, b]) => run({ a, [name]: b }))));"""
    told = json.dumps([code, points, b.name])
    done = subprocess.run(["node", "-e", source, told], capture_output=True, text=True, check=True)
    want = [[evaluate(dim, {a: x, b: y}) for dim in dims] for x, y in points]
    assert json.loads(done.stdout) == want


def test_modules_that_are_none() -> None:
    for wrong in (b"", b"\0asm\2\0\0\0"):
        with pytest.raises(BuildError, match="the linker made no WebAssembly module"):
            split_module(wrong)
    for wrong in (b"\x01\x01\x0b\x00", b"\x01\x00\x41\x00\x0b\x09", b"\x01\x00\x41\x00"):
        with pytest.raises(BuildError, match="the module's data cannot be taken out"):
            split_module(b"\0asm\1\0\0\0\x0b" + bytes([len(wrong)]) + wrong)


def test_modules_without_a_memory_to_share() -> None:
    for imports in (b"\x01\x00", b"\x02\x06\x01\x01a\x01b\x00\x00", b"\x02\x07\x01\x01a\x01b\x02\x00\x02", b""):
        with pytest.raises(BuildError, match="imports no memory that threads could share"):
            share_memory(b"\0asm\1\0\0\0" + imports)
    module = b"\0asm\1\0\0\0\x01\x01\x00\x02\x08\x01\x01a\x01b\x02\x01\x05\x09"
    assert share_memory(module) == (module[:19] + b"\3" + module[20:], 19, 5)


def test_a_worker_that_ended(make: Any) -> None:
    """Calls that wait for it, and later ones, are rejected: none waits for ever."""
    out = make(DIGITS)
    worker = out / "model" / "node_worker.js"
    worker.write_text(worker.read_text().replace("parentPort.on(", "parentPort.on('message', ({ what }) => "
                      "what === 'reset' && process.exit(3));\nparentPort.on("))  # fmt: skip
    said = calls(out, {"what": "memoryBytes"}, {"what": "reset"}, {"what": "memoryBytes"})
    assert said[0]["value"] > 0
    assert [one["code"] for one in said[1:]] == ["E_WORKER", "E_WORKER"]


def test_a_name_that_would_be_code(make: Any, tmp_path: Path) -> None:
    name = "a --> <i>\nthrow Error(1) ??"
    (tmp_path / f"{name}.tflite").write_bytes(DIGITS.read_bytes())
    line = ["new", "web", str(tmp_path / f"{name}.tflite"), "--name", "digits", "-o", str(tmp_path / "p")]
    assert run_command(line) == 0
    assert "value" in calls(tmp_path / "p", {"what": "load"})[0]
    assert "<i>" not in (tmp_path / "p" / "index.html").read_text()


def test_types_tell_the_interface(make: Any, tmp_path: Path) -> None:
    """Keys, arrays, bounds and signatures."""
    out = make(several(tmp_path / "several.onnx"), "--dim", "rows=2:8:2", "--dim", "more=0:4")
    text = (out / "model" / "index.d.ts").read_text()
    parts = re.findall(r"    (inputs|outputs): \{\n(.*?)\n    \};", text, re.DOTALL)
    assert [name for name, _ in parts] == ["inputs", "outputs"]
    inputs, results = (part for _, part in parts)
    assert re.findall(r"^      (\w+): (.*);$", inputs, re.MULTILINE) == [(k, "Float32Array") for k in ("a", "b_in_c")]
    assert re.findall(r"^      \w+: (.*);$", results, re.MULTILINE) == ["Tensor<Float32Array>"] * 3
    assert '/** 2 to 8, a multiple of 2 */\n      "rows": number;' in text
    assert 'run(inputs: Inputs<"main">, options: RunOptions & { entry?: "main"; dims: Dims<"main"> })' in text
    exported = re.findall(r"^export (?:declare )?(?:class|function|const) (\w+)", text, re.MULTILINE)
    source = "import('./model/node.js').then((m) => console.log(Object.keys(m).join()))"
    done = subprocess.run(["node", "-e", source], cwd=out, capture_output=True, text=True, check=True)
    assert sorted(exported) == sorted(done.stdout.strip().split(","))


@pytest.mark.slow
def test_a_program_in_typescript(make: Any, tmp_path: Path, need_tool) -> None:
    """The compiler takes what fits the interface, and refuses what does not, as Node and as bundlers find packages."""
    assert TSC.exists(), "typescript is not installed: make soak does it"
    one, two = tmp_path / "node_modules" / "one", tmp_path / "node_modules" / "two"
    one.parent.mkdir()
    make(several(tmp_path / "several.onnx"), "--dim", "rows=2:8:2", "--dim", "more=0:4", name="one").rename(one)
    make(f"x={DIGITS} y={DIGITS.with_name('digits.onnx')}", "--dim", "batch=1", name="two").rename(two)
    (tmp_path / "program.ts").write_text(PROGRAM)
    (tmp_path / "package.json").write_text('{ "type": "module" }')
    for way in (["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]):
        line = [TSC, "--noEmit", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--types", "", *way]
        done = subprocess.run([*line, "program.ts"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (0, "")
