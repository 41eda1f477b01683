"""A generated program for a GPU in this process: built as a library, its functions called one by one."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdk.compiler.sym import Var, evaluate, free_vars
from sdk.driver.built import Built, BuiltEntry

if TYPE_CHECKING:
    from sdk.driver import BuildOptions

SHIM = """
#include <stdio.h>
#include <stdlib.h>
#include "NAME.h"
#include "sdk_rt.h"
extern const sdk_rt_model_t ENTRY_rt_model;
extern NAME_t *test_self(void);
static sdk_gpu_t *gpu;
static char text[65536];
static void told(const char *line)
{
    size_t at = 0;
    while (text[at] != 0) { ++at; }
    while (*line != 0 && at < sizeof text - 2u) { text[at++] = *line++; }
    text[at] = '\\n';
}
const char *test_text(void) { return text; }
int test_open(void)
{
    static char message[512];
    int status = gpu == NULL ? sdk_gpu_open_DRIVER(-1, &gpu, message) : 0;
    const char *from = message;
    static char folder[4096];
    const char *const wanted = getenv("TEST_KEEP_IN");
    text[0] = 0;
    if (gpu != NULL && wanted != NULL) {
        snprintf(folder, sizeof folder, "%s", wanted);
        sdk_gpu_keep_in(gpu, folder);
    }
    if (status == 0) {
        status = NAME_init_gpu(test_self(), gpu, told);
        from = gpu->message;
    }
    if (status != 0) { told(from); }
    return status;
}
void test_close(void) { NAME_close_gpu(test_self()); sdk_gpu_close(gpu); gpu = NULL; }
const char *test_message(void) { return gpu == NULL ? "" : gpu->message; }
unsigned test_recorded(void) { return sdk_gpu_model_recorded(test_self()->gpu); }
unsigned long long test_copied(void) { return sdk_gpu_model_copied(test_self()->gpu); }
int test_verdict(unsigned kernel) { return sdk_gpu_model_verdict(test_self()->gpu, kernel); }
"""

# the C of a model and its runtime allocates by these
COUNTING = ("malloc=test_malloc", "calloc=test_calloc", "realloc=test_realloc")
COUNTER = """
#include <stdlib.h>
#undef malloc
#undef calloc
#undef realloc
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *old, size_t bytes);
static unsigned allocated;
void *test_malloc(size_t bytes) { ++allocated; return malloc(bytes); }
void *test_calloc(size_t count, size_t bytes) { ++allocated; return calloc(count, bytes); }
void *test_realloc(void *old, size_t bytes) { ++allocated; return realloc(old, bytes); }
unsigned test_allocated(void);
unsigned test_allocated(void) { return allocated; }
"""


class Host:
    """A model built for a GPU, without the agent: ``open`` puts it on the device, ``run`` runs an entry."""

    def __init__(self, library: Path, entries: Mapping[str, BuiltEntry]) -> None:
        self.library = ctypes.CDLL(str(library))
        self.library.test_copied.restype = ctypes.c_ulonglong
        self.library.test_text.restype = self.library.test_message.restype = ctypes.c_char_p
        self.records = {n: _Record.of(self.library, e) for n, e in entries.items()}
        assert self.first.call("init") == 0

    @staticmethod
    def link(built: Built, library: Path, options: BuildOptions, counted: bool = False) -> None:
        """Makes the library of a build. ``counted``: one whose ``allocated`` is known."""
        from sdk.boards import load_board
        from sdk.driver.sources import as_files, compile_sources
        from sdk.driver.targets import target_of
        from sdk.toolchains import LinkJob, toolchain_for

        name = built.sources.prefix
        board = load_board("host")
        entry = next(iter(built.entries.values()))
        files = dict(built.sources.model)
        glue = str(built.sources.agent[f"{name}_glue.c"])
        # the test opens the device itself
        glue = glue.replace("const int on_gpu = sdk_rt_glue_gpu();", "const int on_gpu = SDK_RT_OK;")
        glue = glue.replace("static int sdk_rt_glue_gpu", "__attribute__((unused)) static int sdk_rt_glue_gpu")
        glue += f"\n{name}_t *test_self(void);\n{name}_t *test_self(void) {{ return &context; }}\n"
        shim = SHIM.replace("NAME", name).replace("ENTRY", entry.name).replace("DRIVER", str(options.gpu))
        files |= as_files({f"{name}_glue.c": glue, "shim.c": shim} | ({"counter.c": COUNTER} if counted else {}))
        target = target_of(board, options)
        tool = toolchain_for(target, options.toolchain)
        objects = compile_sources(files, tool, target, pic=True, defines=COUNTING if counted else ())
        tool.link(LinkJob("shared", objects, target, libs=("pthread", "dl")), library)

    @property
    def first(self) -> _Record:
        return next(iter(self.records.values()))

    def open(self) -> int:
        """The status of putting the model on the device; ``told`` has what was said."""
        return int(self.library.test_open())

    @property
    def told(self) -> str:
        return bytes(self.library.test_text()).decode()

    @property
    def message(self) -> str:
        return bytes(self.library.test_message()).decode()

    @property
    def recorded(self) -> int:
        return int(self.library.test_recorded())

    @property
    def copied(self) -> int:
        """Bytes of arena and state that were copied between host and device so far."""
        return int(self.library.test_copied())

    @property
    def allocated(self) -> int:
        """How often the program has asked the host for memory; of one that is ``counted``."""
        return int(self.library.test_allocated())

    def close(self) -> None:
        self.library.test_close()

    def run(self, inputs: Mapping[str, np.ndarray], dims: Mapping[str, int] | None = None, entry: str | None = None):
        """(status, outputs by name) of a run."""
        record = self.records[entry] if entry else self.first
        return record.run(inputs, dims or {})


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("dtype", ctypes.c_uint8), ("ndim", ctypes.c_uint8), ("shape", ctypes.c_void_p),
        ("bytes", ctypes.c_uint32), ("scale", ctypes.c_float), ("zero_point", ctypes.c_int32),
    ]  # fmt: skip


_I = ctypes.CFUNCTYPE(ctypes.c_int)


class _Record(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32), ("name", ctypes.c_char_p), ("hash", ctypes.c_char_p),
        ("input_count", ctypes.c_uint16), ("output_count", ctypes.c_uint16), ("dim_count", ctypes.c_uint16),
        ("tensors", ctypes.POINTER(_Tensor)), ("dims", ctypes.c_void_p),
        ("arena_bytes", ctypes.c_uint32), ("state_bytes", ctypes.c_uint32), ("context_bytes", ctypes.c_uint32),
        ("init", _I), ("reset", _I), ("step", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        ("data", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint16)),
    ]  # fmt: skip
    entry: BuiltEntry

    @classmethod
    def of(cls, library: ctypes.CDLL, entry: BuiltEntry) -> _Record:
        found = cls.in_dll(library, f"{entry.name}_rt_model")
        found.entry = entry
        return found

    def call(self, name: str) -> int:
        return int(getattr(self, name)())

    def run(self, inputs: Mapping[str, np.ndarray], dims: Mapping[str, int]) -> tuple[int, dict[str, np.ndarray]]:
        names = list(self.entry.shapes)
        env: dict[Var, int] = {v: dims.get(v.name, v.maximum) for v in self.entry.dims}
        values = (ctypes.c_int32 * max(len(env), 1))(*env.values())
        # tensors may lie elsewhere for other dims: a first run places them
        if any(free_vars(d) for shape in self.entry.shapes.values() for d in shape):
            self.step(values)
        for k, name in enumerate(names[: self.input_count]):
            value = np.ascontiguousarray(inputs[name])
            ctypes.memmove(self.data(k), value.ctypes.data, value.nbytes)
        status = int(self.step(values))
        out: dict[str, Any] = {}
        for k, name in list(enumerate(names))[self.input_count :]:
            kind = _KINDS[self.tensors[k].dtype]
            shape = tuple(evaluate(d, env) for d in self.entry.shapes[name])
            array = np.empty(shape, kind)
            ctypes.memmove(array.ctypes.data, self.data(k), array.nbytes)
            out[name] = array
        return status, out


_KINDS = {1: np.int8, 2: np.uint8, 3: np.int16, 4: np.uint16, 5: np.int32, 6: np.uint32, 7: np.int64, 8: np.float16,
          9: np.float32, 10: np.float64, 11: np.bool_, 12: np.uint64}  # fmt: skip


def hosted(
    model: Path, folder: Path, gpu: str = "opencl", groups: bool = False, counted: bool = False, device: str = "",
    **options: Any,
) -> Host:  # fmt: skip
    """A model's file built for a GPU; ``folder`` keeps what was built of it. With ``groups`` as for a board that names
    a GPU, or ``device``; ``counted`` as in ``Host.link``."""
    library, entries = folder / f"{model.stem}.so", folder / f"{model.stem}.entries"
    if not entries.exists():
        from sdk.boards import load_board
        from sdk.boards.board import Gpu
        from sdk.driver import BuildOptions
        from sdk.driver.generate import generate
        from sdk.driver.job import job_of

        choice = BuildOptions(gpu=gpu, **options)
        board = load_board("host")
        if groups or device:
            board = replace(board, gpu=Gpu(device, ("opencl", "vulkan")))
        built = generate(job_of(model, board, choice))
        Host.link(built, library, choice, counted)
        entries.write_bytes(pickle.dumps(dict(built.entries)))
    return Host(library, pickle.loads(entries.read_bytes()))


def input_types(host: Host, dims: Mapping[str, int]) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Type and shape of each input."""
    record = host.first
    env = {v: dims.get(v.name, v.maximum) for v in record.entry.dims}
    names = list(record.entry.shapes)[: record.input_count]
    return {
        name: (np.dtype(_KINDS[record.tensors[k].dtype]), tuple(evaluate(d, env) for d in record.entry.shapes[name]))
        for k, name in enumerate(names)
    }
