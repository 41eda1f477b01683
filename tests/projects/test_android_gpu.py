"""``sdk new android --gpu`` without a JVM: its C on lavapipe and PoCL, without them and beside a driver that lies; its
libraries, its manifest, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from android_libraries import link_android, symbols_of
from sessions import STREAM, compiled

from sdk.cli import run_command
from sdk.projects import weights
from tests.gpu.conftest import DRIVERS, LOADER, VENDORS, shim
from tests.gpu.work import MIXED

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.tflite"
ANDROID = "{http://schemas.android.com/apk/res/android}"
# Of Android's libc.so and libdl.so, what the C of apps and the runtime of GPUs may call.
BIONIC = {
    "calloc", "dlclose", "dlopen", "dlsym", "fclose", "fopen", "fread", "free", "fseek", "ftell", "fwrite",
    "getauxval", "malloc", "memcmp", "memcpy", "memmove", "memset", "pthread_mutex_lock", "pthread_mutex_unlock",
    "realloc", "remove", "rename", "snprintf", "strlen", "strncmp", "strstr", "sysconf",
}  # fmt: skip


def project(folder: Path, model: Path | str, *more: str) -> Path:
    """A project of a model, which may be a text of the IR."""
    if isinstance(model, str):
        (folder / "net.ir").write_text(model)
        model = folder / "net.ir"
    out = folder / "p"
    line = ["new", "android", str(model), "--name", "net", "--set", "package=org.acme.net", *more]
    assert run_command([*line, "-o", str(out)]) == 0
    return out


@pytest.mark.some(2)
@pytest.mark.parametrize(("abi", "gpu"), [("arm64-v8a", "vulkan"), ("x86_64", "vulkan"), ("armeabi-v7a", "opencl")])
def test_libraries(tmp_path: Path, abi: str, gpu: str) -> None:
    """One symbol, pages of 16 KB, nothing that is not Android's; the GPU's library is none that it wants."""
    library = link_android(project(tmp_path, DIGITS, "--gpu", gpu), "net", abi, tmp_path)
    exported, lacks = symbols_of(library, ("libc.so", "libdl.so"))
    assert exported == {"JNI_OnLoad"}
    assert {"dlopen", "dlsym"} <= lacks <= BIONIC


def test_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """OpenCL is named in the library's manifest, which the app's takes over, and is not required; Vulkan needs no line.
    A project that a GPU is added to later has what it needs without a change to a file of the user's."""
    out = project(tmp_path, DIGITS)
    manifest = out / "model" / "src" / "main" / "AndroidManifest.xml"
    assert not manifest.exists()
    project(tmp_path, DIGITS, "--gpu", "vulkan")
    assert not manifest.exists()
    capsys.readouterr()
    project(tmp_path, DIGITS, "--gpu", "opencl")
    assert "yours" not in capsys.readouterr().out
    (named,) = ET.parse(manifest).getroot().iter("uses-native-library")
    assert named.attrib == {f"{ANDROID}name": "libOpenCL.so", f"{ANDROID}required": "false"}
    project(tmp_path, DIGITS)
    assert not manifest.exists()
    assert not list(out.rglob("*gpu*"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("android MODEL --gpu webgpu", "--gpu webgpu has no part in a project for Android"),
        ("web MODEL --gpu vulkan", "--gpu vulkan has no part in a project for npm"),
        ("ios MODEL --gpu vulkan", "--gpu vulkan has no part in a project for Swift"),
        ("firmware MODEL --board nucleo_l4r5zi --gpu opencl", "--gpu opencl has no part in a project for a Makefile"),
    ],
)
def test_what_is_refused(line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(DIGITS) if word == "MODEL" else word for word in line.split()]
    assert run_command(["new", *words, "-o", str(tmp_path / "p")]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "sdk new android --gpu vulkan and opencl" in told
    assert not (tmp_path / "p").exists()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Projects with their libraries: sizes that a run chooses, a state, and 8-bit weights in files."""
    made = {}
    for name, model, more in (
        ("mixed", MIXED, ("--gpu", "vulkan")),
        ("opencl", MIXED, ("--gpu", "opencl")),
        ("state", STREAM, ("--gpu", "vulkan")),
        ("files", DIGITS, ("--gpu", "opencl", "--weights", "file")),
    ):
        folder = tmp_path_factory.mktemp(name)
        out = project(folder, model, *more)
        compiled(out / "model" / "src" / "main" / "cpp", "net", folder / "net.so", "gcc")
        made[name] = (out, folder / "net.so")
    return made


def said(built: tuple[Path, Path], environment: dict[str, str], keep: Path | str = "", runs: int = 1) -> dict:
    """What gpu_session.py says in a process with more in its environment."""
    env = {**os.environ, **environment}
    line = [sys.executable, Path(__file__).with_name("gpu_session.py"), *map(str, (*built, keep, runs))]
    done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


VULKAN = {"VK_ICD_FILENAMES": DRIVERS}
OPENCL = {"OCL_ICD_VENDORS": VENDORS}


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("name", "engine", "driver"),
    [
        ("mixed", "vulkan", VULKAN),
        ("state", "vulkan", VULKAN),
        ("opencl", "opencl", OPENCL),
        ("files", "opencl", OPENCL),
    ],
)
def test_a_gpu_runs_the_model(built, name: str, engine: str, driver: dict[str, str], tmp_path: Path) -> None:
    """Golden cases on the device, which a second start finds proved; the only note is that it is a processor."""
    for _ in range(2):
        told = said(built[name], driver, tmp_path, runs=2)
        assert (told["engine"], set(told["codes"])) == (engine, {0})
        assert told["device"]
        assert told["apart"] <= (0 if name == "files" else 1)
        assert told["notes"] == f"{told['device']} is the processor in a GPU's place: the model may be faster without\n"
        assert [path.suffix for path in tmp_path.iterdir()] == [".gpu"]


@pytest.mark.parametrize(("name", "library"), [("mixed", "Vulkan"), ("files", "OpenCL")])
def test_without_a_gpu_the_processor_does_it(built, name: str, library: str, tmp_path: Path) -> None:
    """No library, or one without a device: the notes say so, and results are the same."""
    for loader in ("libvulkan.so.1", "libvulkan.so", LOADER, "libOpenCL.so"):
        (tmp_path / loader).write_text("no library")
    nothing = {"VK_ICD_FILENAMES": str(tmp_path), "OCL_ICD_VENDORS": str(tmp_path)}
    for environment, code in (({"LD_LIBRARY_PATH": str(tmp_path)}, -6), (nothing, -7)):
        told = said(built[name], environment, tmp_path)
        assert code == -7 or library in told["notes"]
        assert (told["engine"], told["device"], set(told["codes"])) == ("cpu", "", {0})
        assert re.fullmatch(rf"no GPU: .+ \({code}\)\n", told["notes"]), told
        assert told["apart"] <= 1


@pytest.mark.parametrize(
    ("lie", "engine", "note"),
    [
        ("kernel=2", "vulkan", "runs on the processor: its results on the device are not those of the processor"),
        ("build=2", "vulkan", "runs on the processor: the driver does not compile it"),
        ("memory", "cpu", "does not take the model: .* \\(-9\\)"),
        ("lost=2", "cpu", "does not take the model: .* \\(-10\\)"),
        ("lost=24", "vulkan", ""),
    ],
)
def test_a_driver_that_lies(built, lie: str, engine: str, note: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Never a wrong result: the processor does what the device does wrong, and a device that is lost is a code."""
    folder, real = shim(tmp_path_factory, "lying_vulkan.c", "libvulkan.so.1")
    told = said(built["mixed"], {**VULKAN, "LD_LIBRARY_PATH": str(folder), "REAL_VULKAN": real, "LIE": lie}, runs=3)
    assert told["engine"] == engine
    assert re.search(note, told["notes"]), told
    if lie == "lost=24":
        assert told["codes"][-1] == -13
        assert set(told["codes"]) <= {0, -13}
        assert told["last"].count("vkQueueWaitIdle failed: VkResult -4") == 1
    else:
        assert set(told["codes"]) == {0}
        assert told["apart"] <= 1


def test_weights_of_both(built, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A GPU's weights are one file for all instruction sets; all files together decide whether they need a pack."""
    assets = built["files"][0] / "model" / "src" / "main" / "assets"
    assert len(list(assets.glob("gpu_net-*.weights"))) == 1
    total = sum(path.stat().st_size for path in assets.iterdir())
    monkeypatch.setattr(weights, "LARGE", total - 1)
    out = project(tmp_path, DIGITS, "--gpu", "opencl", "--weights", "file")
    assert not list((out / "model" / "src" / "main" / "assets").glob("*"))
    assert sum(path.stat().st_size for path in (out / "weights" / "src" / "main" / "assets").iterdir()) == total
