"""The Kotlin of ``sdk new android`` by the Kotlin compiler and on a JVM of this machine, whose JNI checks its C."""

from __future__ import annotations

import itertools
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pytest
from jvm import kotlin, link_jni, run_java
from sessions import ABIS, FLAGS, STREAM, two_entries

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).with_name("kotlin")
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
GROWN = 5 << 10  # KiB: the JVM itself takes 2 MB more; 10,000 instances that stay take 9 to 84, but for a tiny one
# a type, a scale and a zero point
KINDS = [
    ("FLOAT16", "0", "0"), ("FLOAT32", "0", "0"), ("FLOAT64", "0", "0"), ("BOOL", "0", "0"),
    *((f"{sign}INT{bits}", "0", "0") for sign in ("", "U") for bits in (8, 16, 32, 64)),
    ("INT8", "0.05", "-3"), ("UINT8", "0.1", "128"), ("INT16", "0.01", "0"), ("UINT16", "0.02", "1000"),
    ("INT32", "0.0001", "0"),
]  # fmt: skip
# A heap that is all there from the beginning and a compiler that takes little: what grows is the C's.
ANDROID = ("SystemClock", "Context", "AssetManager")  # files that stand for classes of Android's
CONTEXT = "android.content.Context()"
HEAP = "-Xms64m -Xmx64m -XX:+AlwaysPreTouch -XX:MaxDirectMemorySize=16m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SUMS = [f"[{', '.join(f'{k}.0' for k in range(1, n + 1))}]" for n in range(5)]
# Of Streams.kt: "still" is the fifth sum of an instance, "shared" that after 160 more.
STREAMED = [
    f"stream {SUMS[4]}", f"again {SUMS[4]}", "empty []", "own 4.0",
    f"together [{', '.join(f'{50 + k}.0' for k in range(8))}]", "first 1.0", "short -10 [1.0]", "theirs true",
    "mine true", f"begun {SUMS[3]}", "cancelled true", "still 5.0", "shared 8 166.0", "reset 1.0",
]  # fmt: skip


@dataclass(frozen=True)
class App:
    """A project: its model and options, and what Checks.kt is told of its first entry."""

    model: Sequence[str]
    elements: int
    call: str
    dims: str = ""
    value: str = "it % 7f - 3f"
    mapped: bool = False


@pytest.mark.slow
def test_a_jvm_runs_the_kotlin_of_apps(tmp_path: Path, need_tool) -> None:
    """An int8 model, floats with a size that is chosen, a state, and two entries whose names are words of Kotlin."""
    tools = kotlin(tmp_path / "coroutines")
    java = tools.java
    (tmp_path / "sum.ir").write_text(STREAM)
    batch = [str(DIGITS.with_name("digits.onnx")), "--dim", "batch=1:8"]
    apps = {
        "whole": App([str(DIGITS)], 64, "run(Model.Inputs(inputs[0])).digit"),
        "batch": App(batch, 3 * 64, "run(Model.Inputs(inputs[0], 3)).digit", "3"),
        "state": App([str(tmp_path / "sum.ir")], 1024, "run(Model.Inputs(inputs[0])).sum", value="0f"),
        "mapped": App([*batch, "--weights", "file"], 64, "run(Model.Inputs(inputs[0], 1)).digit", "1", mapped=True),
        "words": App(two_entries(tmp_path), 2 * 4, "runFun(Model.FunInputs(inputs[0], 2)).when_x", "2"),
    }
    for name, app in apps.items():
        line = ["new", "android", *app.model, "--name", name, "--set", f"package=org.acme.{name}", "--bindings", "rn"]
        assert run_command([*line, "-o", str(tmp_path / name)]) == 0
        put_checks(tmp_path / name, name, app)
        abi = ABIS[platform.machine()]
        link_jni(tmp_path / name, java, abi, FLAGS[abi], need_tool("cmake"), need_tool("gcc"))
    sources = [
        path
        for name in apps
        for path in (tmp_path / name).rglob("*.kt")
        if path.name not in ("GoldenTest.kt", "MainActivity.kt")  # which want Android's libraries
    ]
    sources += [*(SOURCES / f"{name}.kt" for name in ANDROID), *(SOURCES / "react").glob("*.kt")]
    classes = tools.compile(tmp_path / "whole", sources, tmp_path / "classes")
    properties = with_weights(tmp_path / "mapped", 128)

    def said(name: str, checks: str, *words: object) -> list[str]:
        given = [f"-Djava.library.path={tmp_path / name / 'lib'}"]
        given += [f"-D{key}={value}" for key, value in properties.items()]
        line = ["-Xcheck:jni", *HEAP.split(), *given, "-cp", classes, f"org.acme.{name}.checks.{checks}Kt", *words]
        return run_java(java, line).splitlines()

    for name, app in apps.items():
        golden = tmp_path / name / "model" / "src" / "androidTest" / "assets" / "golden.bin"
        cases = int.from_bytes(golden.read_bytes()[:4], "little")
        assert cases >= 5
        assert without_growth(said(name, "Checks", golden)) == [
            f"golden {cases}", "changed true", "threads 8", f"varied {'false' if name == 'state' else 'true'}",
            "shared 8", "coroutines 8", "short -10", "few -1", f"dims {-16 if app.dims else 0}", "heap true",
            "after true", f"demo {2 if name == 'words' else 1}", "closed true",
        ], name  # fmt: skip
    check_mapped(tmp_path / "mapped", properties, lambda *words: said("mapped", "Mapped", *words))
    assert without_growth(said("state", "Streams")) == STREAMED
    check_types(tmp_path, lambda *words: said("whole", "Types", *words))


def without_growth(lines: list[str]) -> list[str]:
    """All lines but the last, which says by how much the process grew."""
    word, grown = lines[-1].split()
    assert word == "grown"
    assert int(grown) < GROWN
    return lines[:-1]


def put_checks(project: Path, name: str, app: App) -> None:
    """Puts the checks beside the tests of a project, filled in."""
    filled = {"PACKAGE": f"org.acme.{name}", "DIMS": app.dims, "ELEMENTS": str(app.elements)}
    filled |= {"VALUE": app.value, "CALL": app.call}
    filled |= {"OPEN": "Model(weights)" if app.mapped else "Model()", "DEMO": f"Demo({CONTEXT if app.mapped else ''})"}
    wanted = ["Checks.kt", *(["Streams.kt"] if name == "state" else []), *(["Types.kt"] if name == "whole" else [])]
    wanted += ["Mapped.kt"] if app.mapped else []
    for file in wanted:
        head, package, code = (SOURCES / file).read_text().partition("package PACKAGE")
        code = re.sub(rf"\b({'|'.join(filled)})\b", lambda word: filled[word[0]], package + code)
        (project / file).write_text(head + code)
    (readme,) = kotlin_of(project / "README.md")
    plain, files, *_ = kotlin_of(ROOT / "docs" / "android.md")  # then a GPU and a chat
    context = f"context: {CONTEXT[:-2]}"
    given = [f"{own}: java.nio.ByteBuffer" for own in re.findall(r"([\w`]+) = \1[,)]", readme)]
    pages = [("readme", readme, [*given, *([context] if app.mapped else [])])]
    pages += [("page", plain, [])] if name == "whole" else []
    pages += [("page", files, [context, "inputs: Model.Inputs"])] if app.mapped else []
    used = [f"org.acme.{name}.model.Model"]
    if app.mapped:
        used += [f"org.acme.{name}.model.Weights", "kotlinx.coroutines.Dispatchers", "kotlinx.coroutines.withContext"]
    text = f'@file:Suppress("UNUSED_VARIABLE")\npackage org.acme.{name}.checks\n'
    text += "".join(f"import {one}\n" for one in used)
    text += "".join(f"suspend fun {title}({', '.join(given)}) {{\n{code}}}\n" for title, code, given in pages)
    (project / "Pages.kt").write_text(text)
    if app.mapped:
        own = f"package org.acme.{name}.checks\nval weights = org.acme.{name}.model.Weights.of({CONTEXT})\n"
        (project / "Opened.kt").write_text(own)


def kotlin_of(page: Path) -> list[str]:
    """The blocks of Kotlin of a page."""
    return re.findall(r"```kotlin\n(.*?)```", page.read_text(), re.DOTALL)


def with_weights(project: Path, start: int) -> dict[str, str]:
    """An APK whose asset, the weights of this machine, begins at ``start``, and an empty folder for an app's files: as
    properties for Context.kt."""
    header = (project / "model" / "src" / "main" / "cpp" / ABIS[platform.machine()] / "mapped.h").read_text()
    (sha,) = re.findall(r'_WEIGHTS_SHA256 "(\w+)"', header)
    (asset,) = (project / "model" / "src" / "main" / "assets").glob(f"mapped-{sha[:16]}.weights")
    files = project / f"files{start}"
    files.mkdir()
    apk = project / f"{start}.apk"
    apk.write_bytes(bytes(start) + asset.read_bytes())
    return {"apk": str(apk), "files": str(files), "start": str(start), "asset": asset.name}


def check_mapped(project: Path, properties: dict[str, str], said: Callable[..., list[str]]) -> None:
    """Weights that are mapped in the APK, and such as do not lie at a multiple of 64 there, which are copied once."""
    asset = project / "model" / "src" / "main" / "assets" / properties["asset"]
    golden = project / "model" / "src" / "androidTest" / "assets" / "golden.bin"
    cases = int.from_bytes(golden.read_bytes()[:4], "little")
    for start in (128, 132):
        properties.update(properties if start == 128 else with_weights(project, start))
        copied = [] if start == 128 else [asset.name]
        assert said(golden, asset) == [
            f"asset {cases} [{', '.join(copied)}]", f"again {cases} true", f"file {cases}", "threads 8", "short -6 -6",
            "spoiled -6", "empty -6", "none true", "absent true",
        ]  # fmt: skip
        assert [path.name for path in Path(properties["files"]).iterdir()] == copied
        assert all((Path(properties["files"]) / name).read_bytes() == asset.read_bytes() for name in copied)


def check_types(folder: Path, said: Callable[..., list[str]]) -> None:
    """What TensorInfo makes of real numbers, and reads, in every type: as numpy and Decimal say."""
    rng = np.random.default_rng(0)
    ends = [s * 2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64, 100) for s in (1, -1) for d in (-1.5, -0.5, 0, 0.5)]
    some = [0.5, 1.5, -0.5, -2.5, -0.0, 65519.9, 65520, 2.0**-25, 3 * 2.0**-25, 1e-9, np.nan, np.inf, -np.inf]
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        halves = every.astype(np.float32)
        between = (halves[:-1] + halves[1:]) / 2
        values = np.concatenate([np.array([*some, *ends], np.float32), rng.normal(0, 300, 500).astype(np.float32)])
        for given, cases in ((np.concatenate([halves, between]), KINDS[:1]), (values, KINDS)):
            (folder / "given").write_bytes(given.tobytes())
            files = [folder / f"{k}.{way}" for k in range(len(cases)) for way in ("stored", "read")]
            words = [[*case, *files[2 * k : 2 * k + 2]] for k, case in enumerate(cases)]
            assert said(folder / "given", *itertools.chain(*words)) == [f"types {len(cases)}"]
            for kind, scale, zero, stored, read in words:
                real, point = float(np.float32(scale)), int(zero)
                dtype = np.dtype(kind.lower())
                found, back = np.fromfile(stored, dtype), np.fromfile(read, np.float32)
                whole = real * (found.astype(np.float64) - point) if real else found.astype(np.float64)
                assert same(found, encoded(given, real, point, dtype)), (kind, scale)
                assert same(back, whole.astype(np.float32)), (kind, scale)


def encoded(values: np.ndarray, scale: float, zero: int, dtype: np.dtype) -> np.ndarray:
    """Each as the nearest that a type has; halves of integers away from 0, no number as 0."""
    if dtype.kind in "fb":
        return values.astype(dtype)
    bounds = np.iinfo(dtype)
    real = values.astype(np.float64) / (scale or 1) + zero
    finite = np.nan_to_num(real)  # no number as 0, infinities as what no type holds
    near = [int(Decimal(float(value)).to_integral_value(ROUND_HALF_UP)) for value in finite]
    return np.array([min(max(value, bounds.min), bounds.max) for value in near], dtype)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether all are equal, the signs of zeros too."""
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0]))
