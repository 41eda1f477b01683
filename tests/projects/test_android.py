"""``sdk new android`` without a JVM: the C of an app runs here, its libraries are what Android and Google Play want,
its Gradle and XML files agree with each other, and files of the user's stay."""

from __future__ import annotations

import ctypes
import itertools
import platform
import re
import shutil
import subprocess
import threading
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from android_libraries import TARGETS, link_android, symbols_of
from elftools.elf.elffile import ELFFile
from sessions import ABIS, Session, compiled, read_cases, two_entries

from sdk.boards import load_board
from sdk.cli import run_command
from sdk.compiler.sym import Var, ceildiv, dmax, dmin, evaluate, floordiv, mod
from sdk.driver.android import check_android
from sdk.driver.artifact import build_sources
from sdk.driver.options import BuildOptions
from sdk.errors import BuildError, UsageError
from sdk.projects.apps import _c, app_of
from sdk.text import GENERATED
from sdk.toolchains import zig

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
FLOATS = DIGITS.with_name("digits.onnx")
SHARED = ROOT / "templates" / "projects" / "_shared"
ANDROID = "{http://schemas.android.com/apk/res/android}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float model whose batch is chosen at each run."""
    out = tmp_path_factory.mktemp("android") / "p"
    line = ["new", "android", str(FLOATS), "--name", "net", "--dim", "batch=1:8", "--set", "package=org.acme.net"]
    assert run_command([*line, "-o", str(out)]) == 0
    return out


def test_sessions(project: Path, tmp_path: Path, need_tool) -> None:
    """Golden cases, the codes of what is wrong, eight threads with an instance each, 10,000 instances."""
    cpp = project / "model" / "src" / "main" / "cpp"
    library = compiled(cpp, "net", tmp_path / "net.so", need_tool("gcc"))
    golden = (project / "model" / "src" / "androidTest" / "assets" / "golden.bin").read_bytes()
    cases = list(read_cases(golden, 1, 2))
    assert {tuple(dims) for _, dims, _ in cases} >= {(8,), (1,)}
    failed: list[object] = []

    def check() -> None:
        own = Session(library, "net")
        for entry, dims, (given, wanted) in cases:
            assert own.shape(entry, 0, dims) == [dims[0], 1, 8, 8]
            got = np.full((dims[0], 10), np.nan, np.float32)
            code = own.run(entry, [np.frombuffer(given, np.float32)], [got], dims)
            want = np.frombuffer(wanted, np.float32).reshape(got.shape)
            if code or not np.allclose(got, want, rtol=0, atol=1e-4 * max(1, np.abs(want).max())):
                failed.append((code, dims))
        own.close()

    threads = [threading.Thread(target=check) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    one = Session(library, "net")
    image, out = np.zeros((2, 1, 8, 8), np.float32), np.zeros((2, 10), np.float32)
    odd = np.frombuffer(bytes(image.nbytes + 1), np.uint8)[1:].view(np.float32)
    assert one.run(0, [image], [out], [2]) == 0
    assert one.run(0, [image], [out], [9]) == one.run(0, [image], [out], [0]) == -16
    assert one.shape(0, 0, [9]) == -16
    assert one.run(1, [image], [out], [2]) == one.run(-1, [image], [out], [2]) == -9
    assert one.run(0, [image], [out], [3]) == one.run(0, [image], [out[:1]], [2]) == -10
    assert one.run(0, [image[:1]], [out], [2]) == -10
    assert one.run(0, [odd], [out], [2]) == -11
    assert one.run(0, [image], [image.reshape(-1)[100:120]], [2]) == -12
    assert library["net_session_run"](None, 0, None, None, None, None, None) == -1
    assert library["net_session_open"](None) == -1
    library["net_session_close"](None)
    one.close()
    before = resident()
    for _ in range(10_000):
        Session(library, "net").close()
    assert resident() - before < 16 << 20  # of 300 MB; what Python itself keeps is some


def test_entries(tmp_path: Path, need_tool) -> None:
    """Two entries, whose names sort otherwise than they are given, with names that are words of languages, a size that
    is chosen and one that a run finds."""
    assert run_command(["new", "android", *two_entries(tmp_path), "--name", "hz", "-o", str(tmp_path / "p")]) == 0
    folder = tmp_path / "p" / "model" / "src" / "main"
    kotlin = (folder / "kotlin" / "Model.kt").read_text()
    assert "@JvmField public val `in`: ByteBuffer,\n        @JvmField public val in_: Int," in kotlin
    assert re.search(r'"when_x\w*",\s+ElementType.FLOAT32', kotlin)
    assert "Model.FunInputs(`in` = `in`, in_ = 3)" in (tmp_path / "p" / "README.md").read_text()
    one = Session(compiled(folder / "cpp", "hz", tmp_path / "hz.so", need_tool("gcc")), "hz")
    x = np.array([[-1, 2, -3, 4]] * 3, np.float32)
    relu, neg = np.empty_like(x), np.empty_like(x)
    assert one.run(0, [x], [relu, neg], [3]) == 0
    assert np.array_equal(relu, np.maximum(x, 0))
    assert np.array_equal(neg, -x)
    where = np.full((1, 6), -1, np.int64)
    assert one.run(1, [np.array([0, 1, 0, 2, 0, 3], np.float32)], [where], [0]) == 0
    assert where[0, :3].tolist() == [1, 3, 5]
    assert one.run(1, [np.zeros(6, np.float32)], [where[:, :5]], [0]) == -10  # room for the most that it may find
    one.close()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.some(2)
@pytest.mark.parametrize("abi", sorted(TARGETS))
def test_libraries(project: Path, tmp_path: Path, abi: str) -> None:
    """As CMakeLists.txt links them, but by zig: one symbol, pages of 16 KB, no text relocation, nothing that is not
    Android's."""
    out = link_android(project, "net", abi, tmp_path)
    exported, lacks = symbols_of(out)
    assert exported == {"JNI_OnLoad"}
    assert {"calloc", "free"} <= lacks <= {"calloc", "free", "getauxval", "memcpy", "memmove", "memset"}


@pytest.mark.parametrize(
    ("board", "machine"),
    [("android-arm64", "EM_AARCH64"), ("android-x86_64", "EM_X86_64"), ("android-armv7", "EM_ARM")],
)
def test_libraries_without_an_ndk(tmp_path: Path, board: str, machine: str) -> None:
    """``sdk build --emit lib``: the model's own functions for code in C, by the compiler that comes with the tool."""
    line = ["build", str(FLOATS), "--dim", "batch=1:8", "--board", board, "--name", "net", "--emit", "lib"]
    assert run_command([*line, "-o", str(tmp_path)]) == 0
    exported, lacks = symbols_of(tmp_path / "libnet.so")
    assert exported >= {"net_init", "net_run", "net_reset", "net_arena_bytes"}
    assert lacks <= {"memcpy", "memmove", "memset"}
    with (tmp_path / "libnet.so").open("rb") as file:
        assert ELFFile(file)["e_machine"] == machine


@pytest.mark.parametrize(("page", "why"), [(4096, "aligned to 4,096 bytes"), (16384, "its code has relocations")])
def test_a_library_that_phones_do_not_load(page: int, why: str, tmp_path: Path) -> None:
    """Of a linker that does otherwise than it is told, here one that is told so."""
    (tmp_path / "a.c").write_text('int b;\nint *at(void);\n__asm__(".text\\n.globl at\\nat: .quad b\\n");\n')
    cc = [zig._zig()[0], "cc", "-target", "x86_64-linux-android", "-nostdlib", "-shared"]
    cc += ["-Wl,-z,notext", f"-Wl,-z,max-page-size={page}"]
    line = [*cc, tmp_path / "a.c", "-o", tmp_path / "liba.so"]
    subprocess.run(line, check=True, env=zig.ZigToolchain().environment())
    with pytest.raises(BuildError, match=r"liba\.so is no library for Android") as caught:
        check_android(tmp_path / "liba.so")
    assert why in str(caught.value.why)


@pytest.mark.parametrize("board", ["android-arm64", "ios-arm64"])
def test_a_library_has_its_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str], board: str) -> None:
    line = ["build", str(DIGITS), "--board", board, "--emit", "lib", "--weights", "file", "-o", str(tmp_path / "p")]
    assert run_command(line) == 2
    assert f"a library for {board} has its weights in itself" in capsys.readouterr().err


def test_build_files_agree(project: Path) -> None:
    """What Gradle files name is in the catalogue, resources and classes that are named are there."""
    catalogue = tomllib.loads((project / "gradle" / "libs.versions.toml").read_text())
    for entry in (*catalogue["libraries"].values(), *catalogue["plugins"].values()):
        assert entry.get("version", {}).get("ref", "agp") in catalogue["versions"]
    known = {f"libs.{name.replace('-', '.')}" for name in catalogue["libraries"]}
    known |= {f"libs.plugins.{name.replace('-', '.')}" for name in catalogue["plugins"]}
    scripts = {path.relative_to(project).as_posix(): path.read_text() for path in project.rglob("*.gradle.kts")}
    assert len(scripts) == 4
    for name, text in scripts.items():
        assert set(re.findall(r"libs(?:\.\w+)+", text)) <= known, name
        assert text.count("{") == text.count("}")
        if name != "settings.gradle.kts" and name != "build.gradle.kts":
            assert all(word in text for word in ("compileSdk = 36", "minSdk = 26"))
    assert "targetSdk = 36" in scripts["app/build.gradle.kts"]
    assert 'abiFilters += listOf("arm64-v8a", "x86_64", "armeabi-v7a")' in scripts["model/build.gradle.kts"]
    kotlin = "\n".join(path.read_text() for path in project.rglob("*.kt"))
    rules = (project / "model" / "consumer-rules.pro").read_text()
    assert "-keep class org.acme.net.model.Native {" in rules
    assert "package org.acme.net.model\n" in kotlin
    assert "internal object Native" in kotlin
    jni = (project / "model" / "src" / "main" / "cpp" / "jni.c").read_text()
    assert 'FindClass(env, "org/acme/net/model/Native")' in jni
    assert set(re.findall(r'\{"(\w+)", "\(', jni)) == set(re.findall(r"external fun (\w+)\(", kotlin))
    manifest = ET.parse(project / "app" / "src" / "main" / "AndroidManifest.xml").getroot()
    (activity,) = manifest.iter("activity")
    assert f"class {activity.attrib[ANDROID + 'name'].lstrip('.')} " in kotlin
    assert activity.attrib[ANDROID + "exported"] == "true"
    named = {f"{kind}/{name}" for kind, name in re.findall(r"R\.(\w+)\.(\w+)", kotlin)}
    there = set()
    for path in (project / "app" / "src" / "main" / "res").rglob("*.xml"):
        root = ET.parse(path).getroot()
        folder = path.parent.name.partition("-")[0]
        there |= {f"{x.tag}/{x.attrib['name']}" for x in root} if folder == "values" else {f"{folder}/{path.stem}"}
        named |= set(re.findall(r"@(\w+/\w[\w.]*)", path.read_text()))
    named |= set(re.findall(r'"@(\w+/[\w.]+)"', ET.tostring(manifest, "unicode")))
    assert named <= there
    assert {name for name in there if name.startswith("string/")} <= named


def test_weights_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need_tool) -> None:
    """As assets, or where they are many in an asset pack; the C takes those of its own set only."""
    line = ["new", "android", str(FLOATS), "--name", "net", "--dim", "batch=1:8", "-o", str(tmp_path / "p")]
    assert run_command([*line, "--weights", "file"]) == 0
    cpp = tmp_path / "p" / "model" / "src" / "main" / "cpp"
    own = cpp / ABIS[platform.machine()]
    (sha,) = re.findall(r'_WEIGHTS_SHA256 "(\w{16})', (own / "net.h").read_text())
    assets = {path.name: path.read_bytes() for path in (cpp.parent / "assets").iterdir()}
    assert f"net-{sha}.weights" in assets
    assert not list(cpp.rglob("*.bin"))
    library = compiled(cpp, "net", tmp_path / "net.so", need_tool("gcc"))
    room = np.zeros(len(assets[f"net-{sha}.weights"]) + 64, np.uint8)
    weights = room[-room.ctypes.data % 64 :][: room.size - 64]
    handle = ctypes.c_void_p()

    def opened(name: str, skip: int = 0, count: int | None = None) -> int:
        data = np.frombuffer(assets[name], np.uint8)
        weights[: data.size] = data[: weights.size]
        at = ctypes.c_void_p(weights.ctypes.data + skip)
        size = ctypes.c_size_t(weights.size if count is None else count)
        return int(library["net_session_open"](at, size, ctypes.byref(handle)))

    assert opened(f"net-{sha}.weights") == 0
    one = Session.__new__(Session)
    one.library, one.m, one.handle = library, "net", handle
    golden = (tmp_path / "p" / "model" / "src" / "androidTest" / "assets" / "golden.bin").read_bytes()
    for entry, dims, (given, wanted) in read_cases(golden, 1, 2):
        got = np.full((dims[0], 10), np.nan, np.float32)
        assert one.run(entry, [np.frombuffer(given, np.float32)], [got], dims) == 0
        want = np.frombuffer(wanted, np.float32).reshape(got.shape)
        assert np.allclose(got, want, rtol=0, atol=1e-4 * max(1, np.abs(want).max()))
    one.close()
    assert opened(f"net-{sha}.weights", skip=4) == opened(f"net-{sha}.weights", count=64) == -6
    assert opened(next(name for name in sorted(assets) if sha not in name)) == -6
    gradle = tmp_path / "p" / "settings.gradle.kts"
    assert ":weights" not in gradle.read_text()
    assert not (tmp_path / "p" / "weights").exists()
    monkeypatch.setattr("sdk.projects.weights.LARGE", 10_000)  # this model has more
    assert run_command([*line, "--force"]) == 0
    pack = tmp_path / "p" / "weights"
    assert {path.name: path.read_bytes() for path in (pack / "src" / "main" / "assets").iterdir()} == assets
    assert not list((cpp.parent / "assets").glob("*"))
    assert 'include(":app", ":model", ":weights")' in gradle.read_text()
    assert "libs.plugins.android.asset.pack" in (pack / "build.gradle.kts").read_text()
    assert "android-asset-pack" in (tmp_path / "p" / "gradle" / "libs.versions.toml").read_text()
    assert "--weights file" in (tmp_path / "p" / "README.md").read_text()


def test_files_of_the_users_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits in every file that is the user's outlive another model, and nothing of the old one stays behind."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS, "a.tflite")
    assert run_command(["new", "android", "a.tflite", "--name", "one", "-o", "p"]) == 0
    first = {path for path in Path("p").rglob("*") if path.is_file()}
    golden = Path("p/model/src/androidTest/assets/golden.bin")
    own = {path for path in first - {golden} if GENERATED.encode() not in path.read_bytes()} - {Path("p/manifest.json")}
    assert {p.name for p in own} >= {"README.md", "MainActivity.kt", "libs.versions.toml", "build.yml", "themes.xml"}
    for path in own:
        path.write_text(path.read_text() + "\nmine\n")
    Path("p/app/src/main/kotlin/More.kt").write_text("val more = 1\n")
    line = ["new", "android", "a.tflite", "--name", "two", "--set", "package=org.acme.two", "-o", "p"]
    assert run_command(line) == 0
    assert all(path.read_text().endswith("\nmine\n") for path in own)
    assert Path("p/app/src/main/kotlin/More.kt").is_file()
    assert "package org.acme.two.model" in Path("p/model/src/main/kotlin/Model.kt").read_text()
    assert not [path for path in Path("p/model").rglob("*") if path.name.startswith("one")]
    assert run_command([*line, "--force"]) == 0
    assert not any(path.read_text().endswith("\nmine\n") for path in own)
    assert Path("p/app/src/main/kotlin/More.kt").is_file()


def test_sizes_that_are_chosen_at_the_start() -> None:
    built = build_sources(DIGITS, load_board("android-arm64"), BuildOptions(name="net", io="caller"))
    header = str(built.sources.model["net.h"]) + "typedef struct net_init_dims net_init_dims;\n"
    sources = replace(built.sources, model={**built.sources.model, "net.h": header})
    with pytest.raises(UsageError, match=r"digits_int8\.tflite cannot be put into an app yet"):
        app_of(replace(built, sources=sources))


def test_shapes_in_c(tmp_path: Path, need_tool) -> None:
    """Every operation of dims, against their own values."""
    a, b = Var("a", -4, 9), Var("b", 1, 7)
    dims = [a.expr * 10 + b.expr * b.expr - 3, floordiv(a.expr - 5, 3), dmin(a.expr, b.expr) * dmax(a.expr, 2)]
    dims += [ceildiv(a.expr * b.expr, 4), mod(a.expr, 5), 7]
    at = {a: "dims[0]", b: "dims[1]"}
    lines = "".join(f"    out[{k}] = {_c(dim, at)};\n" for k, dim in enumerate(dims))
    functions = "".join(
        f"static int session_{name}(int a, int b) {{ return {text}; }}\n"
        for name, text in re.findall(r'"(\w+)": "(.*)",', (SHARED / "session.c.j2").read_text())
    )
    (tmp_path / "c.c").write_text(f"{functions}void f(const int *dims, int *out)\n{{\n{lines}}}\n")
    line = [need_tool("gcc"), "-shared", "-fPIC", tmp_path / "c.c", "-o", tmp_path / "c.so"]
    subprocess.run(line, check=True)
    library, out = ctypes.CDLL(str(tmp_path / "c.so")), (ctypes.c_int * len(dims))()
    for x, y in itertools.product(range(-4, 10), range(1, 8)):
        library.f((ctypes.c_int * 2)(x, y), out)
        assert list(out) == [evaluate(dim, {a: x, b: y}) for dim in dims]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--board host", "leave out --board host"),
        ("--threads 2", "apps run a model in one thread"),
        ("--set pakage=a.b", "no setting is called 'pakage'"),
        ("--set package=digits", "not a package: 'digits'"),
        ("--set package=com.new.x", "not a package: 'com.new.x'"),
        ("--set package=a.b/../c", "not a package"),
        ("--name new", "not a package: 'com.example.new'"),
    ],
)
def test_what_no_app_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["new", "android", str(DIGITS), *words.split(), "-o", "p"]) == 2
    assert says in capsys.readouterr().err
    assert not Path("p").exists()
