"""``--bindings``: what other languages call of an app, by their parsers and, of TypeScript, its compiler and Node."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_dart
import tree_sitter_swift
from android_libraries import link_android, symbols_of
from sessions import two_entries

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
FLOATS = ROOT / "examples" / "digits" / "digits.onnx"
BIN = Path(sys.prefix) / "node_modules" / ".bin"  # where `make soak` installs requirements/package.json
TSC, PRETTIER = BIN / "tsc", BIN / "prettier"
LANGUAGES = {".dart": tree_sitter_dart.language(), ".swift": tree_sitter_swift.language()}
# The part of React Native that a file needs: a module that answers with what it was given.
REACT = """
exports.NativeModules = {
  NetKit: {
    async run(given) {
      if (given.batch > 8) throw Object.assign(new Error('batch'), { code: '-16' });
      return { digit: { values: given.image.slice(0, 10), shape: [given.batch, 10] } };
    },
  },
};
"""
USE = """
import { run, type Outputs } from '../bindings/net';

async function main() {
  const image = Float32Array.from({ length: 64 }, (_, k) => k / 2);
  const outputs: Outputs = await run({ image, batch: 1 });
  const code = await run({ image: [], batch: 9 }).catch((error: { code: string }) => error.code);
  console.log(JSON.stringify([outputs, code]));
}
main();
"""


def faults(path: Path) -> list[str]:
    """Where a file is none of its language."""
    tree = tree_sitter.Parser(tree_sitter.Language(LANGUAGES[path.suffix])).parse(path.read_bytes())
    found, left = [], [tree.root_node]
    while left:
        node = left.pop()
        found += [f"{path.name}:{node.start_point[0] + 1}"] if node.is_error or node.is_missing else []
        left += node.children if node.has_error else []
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bindings") / "p"
    line = ["new", "android", str(FLOATS), "--name", "net", "--dim", "batch=1:8", "--bindings", "dart"]
    assert run_command([*line, "--bindings", "rn", "-o", str(out)]) == 0
    return out


def test_dart_calls_what_the_library_exports(project: Path, tmp_path: Path) -> None:
    """By name, and with as many arguments as the header has, of the same kinds."""
    text = (project / "bindings" / "net.dart").read_text()
    assert faults(project / "bindings" / "net.dart") == []
    exported, _ = symbols_of(link_android(project, "net", "arm64-v8a", tmp_path))
    called = set(re.findall(r"'(net_\w+)'", text))
    assert called >= {"net_session_open", "net_session_close", "net_session_shape", "net_session_run"}
    assert exported == {"JNI_OnLoad", *called, "net_session_reset"}
    (header,) = (project / "model" / "src" / "main" / "cpp").rglob("net_session.h")
    kinds = {"int": "Int32", "void": "Void", "int32_t": "Int32", "net_session *": "Pointer<Void>"}
    for result, name, given in re.findall(r"^(int|void) (\w+)\(([^)]*)\);", header.read_text(), re.MULTILINE):
        types = [re.sub(r"\w+$", "", " ".join(one.split())).strip() for one in given.split(",")]
        want = [kinds.get(one) or ("Pointer" if one.count("*") else one) for one in types]
        found = re.search(rf"lookupFunction<\s*(\w+) Function\(([^)]*)\),[^']*'{name}'", text)
        if name in called:
            assert found is not None, name
            told = [re.sub(r"<.*", "", one) for one in re.split(r",\s*(?![^<]*>)", found[2].strip(" \n,"))]
            assert (found[1], told) == (kinds[result], [re.sub(r"<.*", "", one) for one in want]), name


@pytest.mark.parametrize("kind", ["android", "ios"])
def test_names_that_are_words_of_other_languages(tmp_path: Path, kind: str) -> None:
    """Parsed by those languages' grammars; and once they are spoilt, not."""
    line = ["new", kind, *two_entries(tmp_path), "--name", "hz", "--bindings", "dart", "-o", str(tmp_path / "p")]
    assert run_command(line) == 0
    files = [*tmp_path.rglob("*.dart"), *tmp_path.rglob("*.swift")]
    assert len(files) == (1 if kind == "android" else 7)
    assert [fault for path in files for fault in faults(path)] == []
    (dart,) = tmp_path.rglob("*.dart")
    assert "required Float32List in$,\n    required int in_,\n" in dart.read_text()
    for path in files:
        path.write_text(path.read_text() + "}\n")
        assert faults(path), path


def test_weights_of_dart(tmp_path: Path) -> None:
    line = ["new", "android", str(FLOATS), "--name", "net", "--dim", "batch=1:8", "--weights", "file"]
    assert run_command([*line, "--bindings", "dart", "-o", str(tmp_path / "p")]) == 0
    dart = tmp_path / "p" / "bindings" / "net.dart"
    assert faults(dart) == []
    exported, _ = symbols_of(link_android(tmp_path / "p", "net", "x86_64", tmp_path))
    called = set(re.findall(r"'(net_\w+)'", dart.read_text()))
    assert {"net_session_weights_map", "net_session_weights_hash", "net_session_open"} <= called <= exported


@pytest.mark.slow
def test_react_native(project: Path, need_tool) -> None:
    """By TypeScript's compiler, strictly, and by Node with a module that stands for the phone's."""
    assert TSC.exists(), "typescript is not installed: make soak does it"
    module = project / "node_modules" / "react-native"
    module.mkdir(parents=True)
    (module / "index.js").write_text(REACT)
    (module / "index.d.ts").write_text("export declare const NativeModules: { [name: string]: unknown };\n")
    use = project / "use" / "use.ts"
    use.parent.mkdir()
    use.write_text("declare const console: { log(text: string): void };\n" + USE)
    line = [TSC, "--strict", "--module", "commonjs", "--target", "es2022", "--lib", "es2022", "--types", ""]
    line += ["--rootDir", ".", "--outDir", "out", use]
    done = subprocess.run(line, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    node = [need_tool("node"), "out/use/use.js"]
    said = subprocess.run(node, cwd=project, capture_output=True, text=True, check=True)
    values = [k / 2 for k in range(10)]
    assert json.loads(said.stdout) == [{"digit": {"values": values, "shape": [1, 10]}}, "-16"]
    kotlin = (project / "bindings" / "ReactModule.kt").read_text()
    (name,) = re.findall(r"NativeModules\.(\w+)", (project / "bindings" / "net.ts").read_text())
    assert f'override fun getName(): String = "{name}"' in kotlin
    assert 'floats(inputs, "image", Model.IN_IMAGE)' in kotlin


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 12, 20, 22, 25, 27, 45])
def test_prettier_changes_nothing(length: int, tmp_path: Path) -> None:
    """Names of any length, in an entry and its tensors."""
    assert PRETTIER.exists(), "prettier is not installed: make soak does it"
    name = ("a_size_of_the_first_input_" * 3)[:length].rstrip("_")
    graph = f"(%{name}: f32[3]) {{\n  %r = relu(%{name}) : f32[3]\n  return %r\n}}\n"
    (tmp_path / "net.ir").write_text(f"module net imported\n\ngraph @{name}{graph}graph @{name}b{graph}")
    line = ["new", "android", str(tmp_path / "net.ir"), "--bindings", "rn", "-o", str(tmp_path / "p")]
    assert run_command(line) == 0
    line = [PRETTIER, "--single-quote", "--check", tmp_path / "p" / "bindings" / "net.ts"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("kind", "words"), [("ios", "rn"), ("web", "dart"), ("firmware", "dart")])
def test_kinds_without_such_bindings(tmp_path: Path, capsys, kind: str, words: str) -> None:
    board = ["--board", "nucleo_l4r5zi"] if kind == "firmware" else []
    line = ["new", kind, str(FLOATS), "--dim", "batch=1:8", *board, "--bindings", words, "-o", str(tmp_path / "p")]
    assert run_command(line) == 2
    assert f"no bindings for {words}" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()
