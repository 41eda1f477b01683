"""A whole APK of a project of ``sdk new android`` without Gradle: its C by zig, its Kotlin by its compiler and D8,
its resources by aapt2, signed and verified by apksigner. The screen is a plain one: Compose is not to be had here."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from android_libraries import PAGE, TARGETS, link_android, symbols_of
from jvm import Kotlin, kotlin, run, run_java

from sdk.cli import run_command

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).with_name("kotlin")
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
PACKAGE = "org.acme.digits"
ALIGNED = 0xD935  # the extra field that says at which multiple a file of an archive begins, for tools that sign it


def linked_resources(project: Path, need_tool, out: Path, *more: object) -> None:
    """The manifest and the resources of an app, without those of its libraries: that all they name is there."""
    compiled = out.with_suffix(".zip")
    app = project / "app" / "src" / "main"
    run([need_tool("aapt2"), "compile", "--dir", app / "res", "-o", compiled])
    assert FRAMEWORK.is_file(), "android-framework-res is not installed; `make test` installs it or says how"
    gradle = (project / "app" / "build.gradle.kts").read_text()
    values = dict(re.findall(r"(minSdk|targetSdk|versionCode|versionName) = \"?([\w.]+)", gradle))
    text = (app / "AndroidManifest.xml").read_text()
    manifest = out.with_suffix(".xml")  # Gradle puts the namespace in
    manifest.write_text(text.replace("<manifest ", f'<manifest package="{PACKAGE}" ', 1))
    line = ["--min-sdk-version", values["minSdk"], "--target-sdk-version", values["targetSdk"]]
    line += ["--version-code", values["versionCode"], "--version-name", values["versionName"]]
    run([need_tool("aapt2"), "link", "-I", FRAMEWORK, "--manifest", manifest, *line, *more, "-o", out, compiled])


def test_resources(tmp_path: Path, need_tool) -> None:
    """By the compiler of resources that Gradle calls, against Android's own; and the same without one of them fails."""
    project = tmp_path / "p"
    assert run_command(["new", "android", str(DIGITS), "--set", f"package={PACKAGE}", "-o", str(project)]) == 0
    linked_resources(project, need_tool, tmp_path / "a.apk")
    said = run([need_tool("aapt2"), "dump", "badging", tmp_path / "a.apk"]).stdout
    assert f"package: name='{PACKAGE}' versionCode='1' versionName='1.0'" in said
    assert "sdkVersion:'26'" in said
    assert "targetSdkVersion:'36'" in said
    assert f"launchable-activity: name='{PACKAGE}.MainActivity'" in said
    (project / "app" / "src" / "main" / "res" / "values" / "colors.xml").write_text("<resources/>")
    with pytest.raises(AssertionError, match="icon_background"):
        linked_resources(project, need_tool, tmp_path / "b.apk")


@pytest.mark.slow
def test_an_apk(tmp_path: Path, need_tool) -> None:
    """Signed for Android 8 and newer, libraries uncompressed at multiples of 16 KB, of both instruction sets."""
    project = tmp_path / "p"
    line = ["new", "android", str(DIGITS), "--name", "digits", "--set", f"package={PACKAGE}", "--weights", "file"]
    assert run_command([*line, "-o", str(project)]) == 0
    stored: dict[str, bytes] = {}
    for abi in TARGETS:
        (tmp_path / abi).mkdir()
        library = link_android(project, "digits", abi, tmp_path / abi)
        assert symbols_of(library)[0] == {"JNI_OnLoad"}
        stored[f"lib/{abi}/{library.name}"] = library.read_bytes()
    assets = sorted((project / "model" / "src" / "main" / "assets").iterdir())
    headers = "".join(path.read_text() for path in (project / "model" / "src" / "main" / "cpp").rglob("digits.h"))
    hashes = re.findall(r'_WEIGHTS_SHA256 "(\w{16})', headers)
    assert len(hashes) == len(TARGETS)
    assert {path.name for path in assets} == {f"digits-{sha}.weights" for sha in hashes}
    weights = {f"assets/{path.name}": path.read_bytes() for path in assets}
    dex = dexed(project, kotlin(tmp_path / "coroutines"), tmp_path)
    plain, signed = tmp_path / "plain.apk", tmp_path / "signed.apk"
    linked_resources(project, need_tool, tmp_path / "linked.apk")
    packed(tmp_path / "linked.apk", {"classes.dex": dex}, stored, weights, plain)
    run([need_tool("zipalign"), "-c", "-p", "4", plain])
    key = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    run([need_tool("openssl"), *key, "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"])
    pk8 = ["pkcs8", "-topk8", "-nocrypt", "-outform", "DER", "-in", tmp_path / "key.pem", "-out", tmp_path / "key.pk8"]
    run([need_tool("openssl"), *pk8])
    apksigner = need_tool("apksigner")
    signer = ["--key", tmp_path / "key.pk8", "--cert", tmp_path / "cert.pem", "--v1-signing-enabled", "false"]
    run([apksigner, "sign", *signer, "--out", signed, plain])
    said = run([apksigner, "verify", "--verbose", "--min-sdk-version", "26", signed]).stdout
    assert "Verified using v2 scheme (APK Signature Scheme v2): true" in said
    assert "Verified using v3 scheme (APK Signature Scheme v3): true" in said
    names = {name for name, _ in places(signed)}
    assert names == {name for name, _ in places(plain)} >= {*stored, *weights, "classes.dex"}
    for name, at in places(signed):
        if data := (stored | weights).get(name):
            assert at % (PAGE if name in stored else 4) == 0
            assert signed.read_bytes()[at : at + len(data)] == data
    said = run([need_tool("aapt2"), "dump", "badging", signed]).stdout
    assert "native-code: " + " ".join(f"'{abi}'" for abi in sorted(TARGETS)) in said
    spoiled = bytearray(signed.read_bytes())
    at = dict(places(signed))[next(iter(stored))]
    spoiled[at] ^= 1
    (tmp_path / "spoiled.apk").write_bytes(spoiled)
    again = [apksigner, "verify", "--min-sdk-version", "26", tmp_path / "spoiled.apk"]
    assert subprocess.run(again, capture_output=True).returncode != 0


def dexed(project: Path, tools: Kotlin, folder: Path) -> bytes:
    """What Android runs: the library's Kotlin, the demo, a screen, and what they need of Kotlin's own."""
    screen = folder / "MainActivity.kt"
    text = (SOURCES / "PlainActivity.kt").read_text()
    screen.write_text(text.replace("PACKAGE", PACKAGE).replace("DEMO", "Demo(this)"))
    model = sorted((project / "model" / "src" / "main" / "kotlin").rglob("*.kt"))
    demo = project / "app" / "src" / "main" / "kotlin" / "Demo.kt"
    classes, out = folder / "classes", folder / "dex.zip"
    # stubs are read, not compiled: nothing of them is in the APK
    tools.compile(project, [*model, demo, screen, SOURCES / "platform"], classes)
    assert not (classes / "android").exists()
    jars = [folder / "own.jar", folder / "coroutines.jar"]
    for jar, root in zip(jars, (classes, tools.coroutines), strict=True):
        with zipfile.ZipFile(jar, "w") as file:
            for path in sorted(root.rglob("*.class")):
                file.write(path, path.relative_to(root).as_posix())
    line = ["-cp", d8(), "com.android.tools.r8.D8", "--release", "--min-api", "26", "--output", out]
    run_java(tools.java, [*line, *jars, tools.library])
    with zipfile.ZipFile(out) as file:
        assert file.namelist() == ["classes.dex"]
        dex = file.read("classes.dex")
    assert dex.startswith(b"dex\n")
    assert struct.unpack_from("<I", dex, 32) == (len(dex),)
    owned = PACKAGE.replace(".", "/")
    for name in ("MainActivity", "Demo", "model/Model", "model/Native", "model/Weights"):
        assert f"L{owned}/{name};".encode() in dex
    assert b"\0\x18Landroid/os/SystemClock;\0" in dex  # called, as Android has it: without an instance
    assert b"Landroid/os/SystemClock;\0\x22" not in dex
    return dex


def d8() -> Path:
    """The jar with Android's compiler of byte code."""
    found = Path(sys.prefix) / "jars" / "bundletool.jar"
    assert found.is_file(), "D8 is not there; `make soak` fetches it"
    return found


def packed(
    linked: Path, deflated: Mapping[str, bytes], paged: Mapping[str, bytes], stored: Mapping[str, bytes], out: Path
) -> None:
    """An APK of what aapt2 made, with more files; those that are not compressed begin at multiples of a page or of 4,
    and say so."""
    with zipfile.ZipFile(linked) as given, zipfile.ZipFile(out, "w") as made:
        for info in given.infolist():
            made.writestr(info, given.read(info)) if info.compress_type else _store(made, info.filename, given, 4)
        for name, data in deflated.items():
            made.writestr(name, data, zipfile.ZIP_DEFLATED)
        for name, data in paged.items():
            _store(made, name, data, PAGE)
        for name, data in stored.items():
            _store(made, name, data, 4)


def _store(file: zipfile.ZipFile, name: str, data: bytes | zipfile.ZipFile, multiple: int) -> None:
    """Puts a file in uncompressed, behind as many zeros as it takes."""
    info = zipfile.ZipInfo(name)
    assert file.fp is not None
    start = file.fp.tell() + 30 + len(name.encode()) + 6
    info.extra = struct.pack("<HHH", ALIGNED, 2 + -start % multiple, multiple) + bytes(-start % multiple)
    file.writestr(info, data.read(name) if isinstance(data, zipfile.ZipFile) else data)


def places(archive: Path) -> list[tuple[str, int]]:
    """Where the bytes of each file of an archive begin."""
    data = archive.read_bytes()
    with zipfile.ZipFile(archive) as file:
        heads = [(info.filename, info.header_offset) for info in file.infolist()]
    return [(name, at + 30 + sum(struct.unpack_from("<2H", data, at + 26))) for name, at in heads]
