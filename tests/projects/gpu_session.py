"""An app's session on the GPU that the environment chooses: what it says, and how far its results are from golden ones.

    gpu_session.py PROJECT LIBRARY FOLDER RUNS

FOLDER, which may be empty, is where kernels are kept; golden cases are run RUNS times. Prints JSON."""

from __future__ import annotations

import ctypes
import json
import platform
import re
import sys
from pathlib import Path

import numpy as np
from sessions import ABIS, Session, read_cases


def told_by(out: Path, library: ctypes.CDLL, keep: str | None, runs: int) -> dict[str, object]:
    """What an instance on a GPU says and computes: golden cases, so many times."""
    handle, own = ctypes.c_void_p(), Session.__new__(Session)
    given = [word for prefix in ("net", "gpu_net") for word in mapped(out, prefix)]
    folder = None if keep is None else keep.encode()
    code = library.net_session_open_gpu(*(one[0] for one in given), folder, ctypes.byref(handle))
    assert code == 0
    own.library, own.m, own.handle = library, "net", handle
    texts = {}
    for name in ("engine", "device", "notes"):
        of = getattr(library, f"net_session_{name}")
        of.restype = ctypes.c_char_p
        texts[name] = of(handle).decode()
    codes, apart = [], 0.0
    header = (out / "model" / "src" / "main" / "cpp" / ABIS[platform.machine()] / "net.h").read_text()
    dims = len(re.findall(r"^    int32_t \w+;$", header, re.MULTILINE))
    ports = re.findall(r"^ *(?:/\* )?(input|output) \w+: (\w+)\[", header, re.MULTILINE)
    golden = (out / "model" / "src" / "androidTest" / "assets" / "golden.bin").read_bytes()
    kinds = [{"i8": np.int8, "f32": np.float32}[kind] for _, kind in ports]
    inputs = [direction for direction, _ in ports].count("input")
    for _ in range(runs):
        assert library.net_session_reset(handle) == 0
        for entry, values, tensors in read_cases(golden, dims, len(kinds)):
            arrays = [np.frombuffer(data, kind) for data, kind in zip(tensors, kinds, strict=True)]
            found = [np.zeros_like(array) for array in arrays[inputs:]]
            codes.append(own.run(entry, arrays[:inputs], found, values))
            for a, b in zip(found, arrays[inputs:], strict=True):
                bound = 1 if b.dtype == np.int8 else 1e-4 * max(1, np.abs(b).max())
                apart = max(apart, float(np.abs(a.astype(np.float64) - b).max(initial=0) / bound))
    texts["last"] = library.net_session_notes(handle).decode()
    own.close()
    return {**texts, "codes": codes, "apart": apart}


def mapped(out: Path, prefix: str) -> list[tuple[object, object]]:
    """The address and size of a file of weights, with what holds them; none where there are no files."""
    assets = out / "model" / "src" / "main" / "assets"
    if not assets.exists():
        return []
    header = (out / "model" / "src" / "main" / "cpp" / ABIS[platform.machine()] / f"{prefix}.h").read_text()
    (sha,) = re.findall(r'_WEIGHTS_SHA256 "(\w{16})', header)
    data = np.frombuffer((assets / f"{prefix}-{sha}.weights").read_bytes(), np.uint8)
    room = np.zeros(data.size + 64, np.uint8)
    own = room[-room.ctypes.data % 64 :][: data.size]
    own[:] = data
    return [(ctypes.c_void_p(own.ctypes.data), room), (ctypes.c_size_t(own.size), room)]


if __name__ == "__main__":
    place, library, kept, runs = sys.argv[1:]
    print(json.dumps(told_by(Path(place), ctypes.CDLL(library), kept or None, int(runs))))
