"""The Kotlin of ``sdk new android --gpu`` on a JVM of this machine: by lavapipe and PoCL, without a library of theirs,
and beside a driver that lies."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest
from jvm import kotlin, link_jni, run_java
from sessions import ABIS, FLAGS, STREAM
from test_kotlin import ANDROID, CONTEXT, HEAP, SOURCES, kotlin_of, with_weights

from sdk.cli import run_command
from tests.gpu.conftest import DRIVERS, LOADER, VENDORS, shim
from tests.gpu.work import MIXED

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
VULKAN = {"VK_ICD_FILENAMES": DRIVERS}
OPENCL = {"OCL_ICD_VENDORS": VENDORS}
GROWN = 5 << 10  # KiB in 40 instances on a GPU, or 10,000 without: 428 were seen; one takes 20 MB while it is open
STREAMED = """package PACKAGE.checks
import PACKAGE.model.Gpu
import PACKAGE.model.Model
import kotlinx.coroutines.flow.asFlow
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
fun ones() = Model.Inputs(Model.IN_X.encode(FloatArray(Model.IN_X.largest[0]) { 1f }))
fun sum(outputs: Model.Outputs) = outputs.sum.toFloatArray().toSet().single()
fun main() = Model(Gpu(null)).use { model ->
    repeat(3) { model.runHere(ones()) }
    println("${model.engine} ${runBlocking { model.stream(List(4) { ones() }.asFlow()).map { sum(it) }.toList() }}")
    println("own ${sum(model.runHere(ones()))}")
    model.reset()
    println("reset ${sum(model.runHere(ones()))}")
}
"""


@pytest.mark.slow
def test_a_jvm_runs_models_on_a_gpu(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, need_tool) -> None:
    """Sizes that a run chooses, by Vulkan; 8-bit weights in files, by OpenCL; a state."""
    tools = kotlin(tmp_path / "coroutines")
    for name, text in (("mixed", MIXED), ("sum", STREAM)):
        (tmp_path / f"{name}.ir").write_text(text)
    apps = {
        "sizes": [str(tmp_path / "mixed.ir"), "--gpu", "vulkan"],
        "mapped": [str(DIGITS), "--gpu", "opencl", "--weights", "file"],
        "state": [str(tmp_path / "sum.ir"), "--gpu", "vulkan"],
    }
    sources = [SOURCES / f"{name}.kt" for name in ANDROID]
    for name, line in apps.items():
        project, package = tmp_path / name, f"org.acme.{name}"
        own = ["--name", name, "--set", f"package={package}", "-o", str(project)]
        assert run_command(["new", "android", *line, *own]) == 0
        put_checks(project, package, mapped=name == "mapped", state=name == "state")
        abi = ABIS[platform.machine()]
        link_jni(project, tools.java, abi, FLAGS[abi], need_tool("cmake"), need_tool("gcc"))
        sources += [p for p in project.rglob("*.kt") if p.name not in ("GoldenTest.kt", "MainActivity.kt")]
    classes = tools.compile(tmp_path / "sizes", sources, tmp_path / "classes")
    properties = with_weights(tmp_path / "mapped", 128)
    # PoCL, and LLVM in it, take signals from the JVM, which -Xcheck:jni tells where it looks in time: this chains them
    opencl = {**OPENCL, "LD_PRELOAD": str(tools.java.parents[1] / "lib" / "libjsig.so")}
    properties["assets"] = str(tmp_path / "mapped" / "model" / "src" / "main" / "assets")

    def said(name: str, main: str, more: dict[str, str], *words: object) -> list[str]:
        given = {**properties, "java.library.path": str(tmp_path / name / "lib")}
        line = ["-Xcheck:jni", *HEAP.split(), *(f"-D{key}={value}" for key, value in given.items()), "-cp", classes]
        return run_java(
            tools.java, [*line, f"org.acme.{name}.checks.{main}Kt", *words], more, drivers=True
        ).splitlines()

    def checked(name: str, more: dict[str, str], rounds: int) -> tuple[list[str], list[str]]:
        """What an app says, but for the end of its engine's line: that, and the notes."""
        golden = tmp_path / name / "model" / "src" / "androidTest" / "assets" / "golden.bin"
        cases = int.from_bytes(golden.read_bytes()[:4], "little")
        folder = tmp_path_factory.mktemp("kept")
        engine, *lines, grown = said(name, "Gpus", more, golden, folder, rounds)
        notes = [line for line in lines if line.startswith("note ")]
        dims = -16 if name == "sizes" else 0
        kept = "[gpu]" if "cpu" not in engine else "[]"
        assert [line for line in lines if line not in notes] == [
            f"golden {cases}", "shared 4", "short -10", f"dims {dims}", f"after {cases}", f"kept {kept}", "together 4",
            f"unkept {cases}", f"processor cpu [] {cases}", "closed true true", "long true",
        ]  # fmt: skip
        assert int(grown.split()[1]) < GROWN, grown
        return engine.split()[1:], notes

    stands_in = "note .* is the processor in a GPU's place: the model may be faster without"
    for name, driver, interface in (("sizes", VULKAN, "vulkan"), ("mapped", opencl, "opencl")):
        engine, notes = checked(name, driver, 40)
        assert engine == [interface, "true"]
        assert len(notes) == 1
        assert re.fullmatch(stands_in, notes[0])
    empty = tmp_path / "empty"
    empty.mkdir()
    for loader in ("libvulkan.so.1", "libvulkan.so", LOADER, "libOpenCL.so"):
        (empty / loader).write_text("no library")
    for name, what in (("sizes", "Vulkan"), ("mapped", "OpenCL")):
        engine, notes = checked(name, {"LD_LIBRARY_PATH": str(empty)}, 10_000)
        assert engine == ["cpu", "false"]
        assert len(notes) == 1
        assert re.fullmatch(rf"note no GPU: .*{what}.* \(-6\)", notes[0])
    folder, real = shim(tmp_path_factory, "lying_vulkan.c", "libvulkan.so.1")
    lying = {**VULKAN, "LD_LIBRARY_PATH": str(folder), "REAL_VULKAN": real, "LIE": "kernel=2"}
    engine, notes = checked("sizes", lying, 4)
    assert engine == ["vulkan", "true"]
    assert any("its results on the device are not those of the processor" in note for note in notes)
    assert said("state", "Streamed", VULKAN) == ["vulkan [1.0, 2.0, 3.0, 4.0]", "own 4.0", "reset 1.0"]


def put_checks(project: Path, package: str, *, mapped: bool, state: bool) -> None:
    """Puts the checks beside the code of a project, filled in, and the Kotlin of its README as functions."""
    if state:
        (project / "Streamed.kt").write_text(STREAMED.replace("PACKAGE", package))
        return
    text = (SOURCES / "Gpus.kt").read_text()
    head, mark, code = text.partition("package PACKAGE")
    for word, value in {
        "PACKAGE": package,
        "MADE": f"Gpu(folder{', gpuWeights' if mapped else ''})",
        "OPEN": f"Model({'weights, ' if mapped else ''}gpu)",
    }.items():
        mark, code = mark.replace(word, value), re.sub(rf"\b{word}\b", value, code)
    (project / "Gpus.kt").write_text(head + mark + code)
    names = ["Gpu", "Model", *(["Weights"] if mapped else [])]
    imports = "".join(f"import {package}.model.{name}\n" for name in names)
    if mapped:
        own = f"val {{}} = Weights.{{}}({CONTEXT})\n"
        opened = own.format("weights", "of") + own.format("gpuWeights", "gpuOf")
        (project / "Opened.kt").write_text(f"package {package}.checks\nimport {package}.model.Weights\n{opened}")
    call, gpu = kotlin_of(project / "README.md")
    given = [f"{own}: java.nio.ByteBuffer" for own in re.findall(r"([\w`]+) = \1[,)]", call)]
    context = f"context: {CONTEXT[:-2]}"
    pages = f"suspend fun call({', '.join([*given, context])}) {{\n{call}}}\nfun onGpu({context}) {{\n{gpu}}}\n"
    suppressed = '@file:Suppress("UNUSED_VARIABLE", "UNUSED_PARAMETER")\n'
    (project / "Pages.kt").write_text(f"{suppressed}package {package}.checks\n{imports}{pages}")
