"""``sdk new ios`` without Swift: the C of a package runs here, compiles for Apple's platforms, and its files agree with
each other."""

from __future__ import annotations

import ctypes
import plistlib
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sessions import Session, compiled_package, read_cases, two_entries

from sdk.cli import run_command
from sdk.text import GENERATED
from sdk.toolchains import zig

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
FLOATS = DIGITS.with_name("digits.onnx")
MAGIC, ARM64, LC_BUILD_VERSION = 0xFEEDFACF, 0x0100000C, 0x32
# targets of zig, and what their objects say of platform and least version
TARGETS = {
    "aarch64-ios.15.0": (2, 15 << 16),
    "aarch64-ios.15.0-simulator": (7, 15 << 16),
    "aarch64-macos.12.0": (1, 12 << 16),
}

# Functions for which Apple wants a reason in the privacy manifest: of files, clocks, disks and defaults.
REASONED = re.compile(
    r"\b(f|l)?stat(at|fs|vfs)?\(|getattrlist|mach_absolute_time|systemUptime|UserDefaults|volumeAvailableCapacity|"
    r"(creation|modification|contentModification|contentAccess)Date|attributesOfItem|activeInputModes"
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float model whose batch is chosen at each run."""
    out = tmp_path_factory.mktemp("ios") / "p"
    assert run_command(["new", "ios", str(FLOATS), "--name", "net", "--dim", "batch=1:8", "-o", str(out)]) == 0
    return out


def test_sessions_of_a_package(package: Path, tmp_path: Path, need_tool) -> None:
    """Golden cases through the C that Swift calls, compiled as a package is: each file picks this machine's set."""
    library = compiled_package(package / "Sources" / "CNetKit", tmp_path / "net.so", need_tool("gcc"))
    golden = (package / "Tests" / "NetKitTests" / "golden.bin").read_bytes()
    one, done = Session(library, "net"), 0
    for entry, dims, (given, wanted) in read_cases(golden, 1, 2):
        got = np.full((dims[0], 10), np.nan, np.float32)
        assert one.run(entry, [np.frombuffer(given, np.float32)], [got], dims) == 0
        want = np.frombuffer(wanted, np.float32).reshape(got.shape)
        assert np.allclose(got, want, rtol=0, atol=1e-4 * max(1, np.abs(want).max()))
        done += 1
    assert done >= 4
    one.close()


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_objects_of_apples_platforms(package: Path, tmp_path: Path, target: str) -> None:
    """Mach-O objects for arm64, with the load command that says for which platform."""
    folder = package / "Sources" / "CNetKit"
    cc = [zig._zig()[0], "cc", "-target", target, "-O1", "-Wall", "-Werror", "-fno-sanitize=all"]
    headers = Path(__file__).with_name("bionic")  # there is no SDK of Apple's here
    names = sorted(path.name for path in folder.glob("*.c"))
    assert names == ["net.c", "net_session.c", "net_weights.c"]
    for name in names:
        out = tmp_path / f"{name}.o"
        include = [f"-I{folder}", f"-I{folder / 'include'}", "-idirafter", headers]
        line = [*cc, *include, "-c", folder / name, "-o", out]
        subprocess.run(line, check=True, env=zig.ZigToolchain().environment())
        data = out.read_bytes()
        magic, cpu, _, kind, commands, *_ = struct.unpack_from("<8I", data)
        assert (magic, cpu, kind) == (MAGIC, ARM64, 1)
        at, found = 32, []
        for _ in range(commands):
            command, size = struct.unpack_from("<2I", data, at)
            found += [struct.unpack_from("<2I", data, at + 8)] if command == LC_BUILD_VERSION else []
            at += size
        assert found == [TARGETS[target]]


def test_a_library_for_ios(tmp_path: Path) -> None:
    """``sdk build --emit lib``: an archive of objects of the platform, and nothing that would be loaded by itself."""
    assert run_command(["build", str(DIGITS), "--board", "ios-arm64", "--emit", "lib", "-o", str(tmp_path)]) == 0
    data = (tmp_path / "libdigits_int8.a").read_bytes()
    assert data.startswith(b"!<arch>\n")
    assert data.count(struct.pack("<2I", MAGIC, ARM64)) == 2
    assert struct.pack("<4I", LC_BUILD_VERSION, 24, *TARGETS["aarch64-ios.15.0"]) in data
    assert not list(tmp_path.glob("*.so"))


def reasoned(package: Path) -> list[str]:
    """What a package calls that REASONED has."""
    texts = [path.read_text() for path in (package / "Sources").rglob("*") if path.suffix in (".c", ".h", ".swift")]
    assert len(texts) > 5
    return [found[0] for text in texts for found in REASONED.finditer(text)]


def test_files_of_a_package(package: Path, need_tool) -> None:
    text = (package / "Package.swift").read_text()
    for name in re.findall(r'name: "(\w+)"', text):
        folders = {path.name for path in (package / "Sources").iterdir()} | {"NetKitTests"}
        assert name in folders
    assert text.count("(") == text.count(")")
    excluded = re.search(r"exclude: \[(.*)\]", text)
    assert excluded is not None
    sets = {path.name for path in (package / "Sources" / "CNetKit").iterdir() if path.is_dir()} - {"include"}
    assert set(re.findall(r'"(\w+)"', excluded[1])) == sets
    manifest = plistlib.loads((package / "Sources" / "NetKit" / "PrivacyInfo.xcprivacy").read_bytes())
    assert manifest["NSPrivacyTracking"] is False
    assert not any(manifest[key] for key in manifest)
    assert reasoned(package) == []
    subprocess.run(["sh", "-n", package / "make_xcframework.sh"], check=True)
    # the module map and the header, by clang's modules
    include = package / "Sources" / "CNetKit" / "include"
    use = "@import CNetKit;\nint f(void) { net_session *s; return net_session_open(&s); }\n"
    line = [need_tool("clang"), "-x", "objective-c", "-fmodules", "-fsyntax-only", "-Werror", f"-I{include}", "-"]
    subprocess.run(line, input=use, text=True, check=True)
    called = "".join(path.read_text() for path in (package / "Sources" / "NetKit").glob("*.swift"))
    header = (include / "net_session.h").read_text()
    assert set(re.findall(r"net_session_\w+", called)) <= set(re.findall(r"net_session_\w+", header))
    assert "sdk new ios" in (package / "README.md").read_text()


def test_the_users_files_of_a_package_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["new", "ios", str(DIGITS), "-o", "p", "--name"]
    assert run_command([*line, "one"]) == 0
    own = [path for path in Path("p").rglob("*") if path.is_file() and path.suffix != ".bin"]
    own = [path for path in own if GENERATED not in path.read_text() and path.name != "manifest.json"]
    assert {path.name for path in own} >= {"Package.swift", "README.md", "App.swift", "make_xcframework.sh"}
    for path in own:
        path.write_text(path.read_text() + "\n// mine\n")
    assert run_command([*line, "two"]) == 0
    assert all(path.read_text().endswith("\n// mine\n") for path in own)
    files = [path.as_posix() for path in Path("p").rglob("*") if path.is_file()]
    assert not [name for name in files if "OneKit" in name or "one" in name.rpartition("/")[2]]
    assert "p/Sources/CTwoKit/two.c" in files


def test_a_package_whose_names_are_words_of_swift(tmp_path: Path) -> None:
    assert run_command(["new", "ios", *two_entries(tmp_path), "--name", "hz", "-o", str(tmp_path / "p")]) == 0
    assert "public init(`in`: [Float], in_: Int) {" in (tmp_path / "p/Sources/HzKit/Model.swift").read_text()
    assert "model.runFun(.init(in: `in`, in_: 3))" in (tmp_path / "p/README.md").read_text()


def test_weights_of_a_package_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need_tool) -> None:
    """Resources of the Swift target, one for each set; the C maps, checks and takes that of its own set only."""
    line = ["new", "ios", str(FLOATS), "--name", "net", "--dim", "batch=1:8", "-o", str(tmp_path / "p")]
    monkeypatch.setattr("sdk.projects.weights.LARGE", 1_000)  # this model has more: it is not asked for
    assert run_command(line) == 0
    sources = tmp_path / "p" / "Sources"
    weights = {path.name: path for path in (sources / "NetKit" / "Weights").iterdir()}
    package = (tmp_path / "p" / "Package.swift").read_text()
    assert '.copy("Weights")' in package
    assert "cSettings" not in package
    assert reasoned(tmp_path / "p") == []
    assert not list(sources.rglob("*.bin"))
    assert all(name in (tmp_path / "p" / "README.md").read_text() for name in weights)
    library = compiled_package(sources / "CNetKit", tmp_path / "net.so", need_tool("gcc"))
    told = library["net_session_weights_hash"]
    told.restype = ctypes.c_char_p
    own = weights.pop(f"net-{told().decode()[:16]}.weights")
    at, size = mapped_weights(library, "net", own)
    assert library["net_session_weights_check"](at, size) == 0
    one = Session(library, "net", at, size)
    golden = (tmp_path / "p" / "Tests" / "NetKitTests" / "golden.bin").read_bytes()
    for entry, dims, (given, wanted) in read_cases(golden, 1, 2):
        got = np.full((dims[0], 10), np.nan, np.float32)
        assert one.run(entry, [np.frombuffer(given, np.float32)], [got], dims) == 0
        want = np.frombuffer(wanted, np.float32).reshape(got.shape)
        assert np.allclose(got, want, rtol=0, atol=1e-4 * max(1, np.abs(want).max()))
    one.close()
    library["net_session_weights_unmap"](at, size)
    for other in weights.values():
        handle = ctypes.c_void_p()
        if other.stat().st_size == size.value:
            there = mapped_weights(library, "net", other)
            assert library["net_session_open"](*there, ctypes.byref(handle)) == -6
    damaged = bytearray(own.read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    assert library["net_session_weights_check"](*mapped_weights(library, "net", tmp_path / "damaged")) == -6


def mapped_weights(library: ctypes.CDLL, m: str, path: Path) -> tuple[ctypes.c_void_p, ctypes.c_size_t]:
    """Where a file of weights lies once it is mapped, and its size."""
    at, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library[f"{m}_session_weights_map"](bytes(path), ctypes.byref(at), ctypes.byref(size)) == 0
    assert size.value == path.stat().st_size
    return at, size
