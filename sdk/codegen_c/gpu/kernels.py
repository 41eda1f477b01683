"""The kernels of a module in the language of one driver, and why a call has none."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sdk.codegen_c.functions.names import identifier
from sdk.codegen_c.gpu.grid import LOCAL_BYTES, Grid, Groups, parts_of, work_items
from sdk.codegen_c.gpu.live import LIVE, read_live
from sdk.codegen_c.opencl.stmt import emit_kernel
from sdk.codegen_c.spirv.kernel import make_kernel
from sdk.codegen_c.wgsl.kernel import make_kernel as make_wgsl
from sdk.compiler.ir.loops import Loops
from sdk.compiler.ir.types import DType
from sdk.compiler.ir.walk import allocated, dims_used, walk
from sdk.compiler.machines.gpus.lookup import gpu_for
from sdk.compiler.sym import Var, free_vars
from sdk.errors import BuildError

__all__ = ["WORDS", "Code", "Kernels", "Launch", "kernels"]

WORDS: Final = 32  # 32-bit words of a kernel's numbers and offsets of buffers: SDK_GPU_WORDS of the runtime
BINDINGS: Final = 4  # of a kernel, which every device of Vulkan has
Regions = Mapping[str, tuple[int, ...]]  # of the parameters of a function by name, one for each call
_NEEDS: Final = {"f64": 2, "i64": 4, "u64": 4}  # SDK_GPU_NEEDS_*
_NEEDS_OF_SPIRV: Final = {"Float64": 2, "Int64": 4, "StorageBuffer8BitAccess": 16, "StorageBuffer16BitAccess": 16}


@dataclass(frozen=True)
class Code:
    """One kernel as generated C has it: ``text`` is OpenCL C with a function called ``name``, ``words`` are SPIR-V.
    Where operands share bindings, ``bindings`` are those of each."""

    name: str
    grid: Grid
    text: str = ""
    words: tuple[int, ...] = ()
    capabilities: tuple[str, ...] = ()
    bindings: tuple[int, ...] = ()

    @property
    def key(self) -> object:
        """Kernels with the same are one."""
        return self.text, self.words, self.grid.local, self.operands, self.numbers, self.written

    @property
    def operands(self) -> int:
        """How many buffers it is given."""
        return len(self.grid.loops.params)

    @property
    def bound(self) -> int:
        """How many bindings these are."""
        return max(self.bindings) + 1 if self.bindings else self.operands

    @property
    def numbers(self) -> int:
        """How many numbers it is given: dims, then the row range."""
        return len(self.grid.loops.dims) + (2 if self.grid.loops.rows else 0)

    @property
    def written(self) -> int:
        """Bit k: it writes to operand k."""
        return sum(1 << k for k, p in enumerate(self.grid.loops.params) if p.mode != "read")

    @property
    def local_bytes(self) -> int:
        """What a group shares."""
        return sum(b.type.max_bytes for b in allocated(self.grid.loops.body) if b.space == "local")

    @property
    def needs(self) -> int:
        """The capabilities of the device that it uses, as bits of the runtime's."""
        if self.words:
            return sum({_NEEDS_OF_SPIRV.get(name, 0) for name in self.capabilities})
        kinds = {str(n.dtype.scalar) for n in walk(self.grid.loops) if isinstance(getattr(n, "dtype", None), DType)}
        return sum({_NEEDS[kind] for kind in kinds if kind in _NEEDS})


@dataclass(frozen=True)
class Launch:
    """A kernel of a function: its number, its groups in the function's dims, which of the function's parameters it is
    given, and the bytes of the arrays that it is given after them. ``instead`` is run where that does not run on a
    device or is wrong there: the plain nest."""

    kernel: int
    groups: Groups
    operands: tuple[int, ...]
    scratch: tuple[int, ...]
    instead: Launch | None = None


@dataclass(frozen=True)
class Kernels:
    """All kernels in order; of each function those to run in a row, or why there are none. Functions of unlike dims may
    share a kernel. ``live`` are the dims of functions that kernels read from an operand after the function's own."""

    codes: tuple[Code, ...]
    of: Mapping[str, tuple[Launch, ...]]
    missing: Mapping[str, str]
    live: Mapping[str, tuple[Var, ...]] = field(default_factory=dict)


def _opencl(grid: Grid, name: str, aligned: frozenset[str], regions: Regions) -> Code:
    kernel = emit_kernel(grid.loops, name, aligned)
    return Code(kernel.name, grid, text=kernel.text + "\n")


def _vulkan(grid: Grid, name: str, aligned: frozenset[str], regions: Regions) -> Code:
    bindings = _shared([p.buffer.name for p in grid.loops.params], regions)
    kernel = make_kernel(grid.loops, aligned=aligned, bindings=bindings)
    words = struct.unpack(f"<{len(kernel.module) // 4}I", kernel.module)
    own = identifier(f"{name}_{grid.loops.name}")
    return Code(own, grid, words=words, capabilities=kernel.capabilities, bindings=bindings)


def _shared(operands: Sequence[str], regions: Regions) -> tuple[int, ...]:
    """Bindings of operands, one for all that lie in the same region in every call, where some device has too few for
    one each; none where all have enough, or calls are not known. What no call gives is memory of the device alone."""
    if len(operands) <= BINDINGS or not regions:
        return ()
    found: dict[tuple[int, ...], int] = {}
    return tuple(found.setdefault(regions.get(name, ()), len(found)) for name in operands)


def _webgpu(grid: Grid, name: str, aligned: frozenset[str], regions: Regions) -> Code:
    """The kernel as it is with all operands in one buffer: where they lie is known of each call."""
    kernel = make_wgsl(grid.loops, (0,) * len(grid.loops.params), grid.local, aligned)
    return Code(identifier(f"{name}_{grid.loops.name}"), grid, text=kernel.text)


_PRINTERS: Final[Mapping[str, Callable[[Grid, str, frozenset[str], Regions], Code]]] = {
    "opencl": _opencl, "vulkan": _vulkan, "webgpu": _webgpu,
}  # fmt: skip


def kernels(
    functions: Mapping[str, Loops],
    prefix: str,
    gpu: str,
    aligned: Mapping[str, frozenset[str]] | None = None,
    regions: Mapping[str, Regions] | None = None,
    live: Mapping[str, tuple[Var, ...]] | None = None,
) -> Kernels:
    """The kernels of loops functions for ``gpu``, an interface or a row of ``machines.gpus``. A function that cannot be
    one runs as C: ``missing`` says why. ``aligned`` are the parameters of functions that begin at multiples of 16 bytes
    in every call; ``regions`` says where each lies, call by call; ``live`` are dims that kernels read from memory."""
    codes: list[Code] = []
    known: dict[object, int] = {}
    of: dict[str, tuple[Launch, ...]] = {}
    missing: dict[str, str] = {}
    for name, loops in functions.items():
        try:
            facts = (aligned or {}).get(name, frozenset()), (regions or {}).get(name, {}), (live or {}).get(name, ())
            made_for = _Made(prefix, gpu, *facts)
            made = [_variants(part, made_for, len(loops.params)) for part in parts_of(loops)]
        except BuildError as error:
            missing[name] = error.message if error.why is None else f"{error.message}: {error.why}"
            continue
        own = []
        for k, variants in enumerate(made):
            launch: Launch | None = None
            for code in reversed(variants):  # the plain nest first, which the others then name
                if code.key not in known:
                    known[code.key] = len(codes)
                    plain = "_plain" if len(variants) > 1 and launch is None else ""
                    codes.append(_named(code, identifier(f"{prefix}_{name}{f'_{k}' if k else ''}{plain}")))
                grid = code.grid
                launch = Launch(known[code.key], grid.groups, grid.operands, grid.scratch, launch)
            assert launch is not None
            own.append(launch)
        of[name] = tuple(own)
    return Kernels(tuple(codes), of, missing, live or {})


def _named(code: Code, name: str) -> Code:
    """A kernel under its own name, and not that which all are printed with to see which are alike."""
    return replace(code, name=name, text=code.text.replace(code.name, name))


@dataclass(frozen=True)
class _Made:
    """What kernels of a function are made for."""

    prefix: str
    gpu: str
    aligned: frozenset[str]
    regions: Regions
    live: tuple[Var, ...]


def _variants(part: Loops, made: _Made, given: int) -> list[Code]:
    """A kernel as the first of its schedules has it that the language can express, then the plain nest, which asks
    nothing of addresses or vectors, where that is another. ``given``: parameters of the function.

    Raises:
        BuildError: the plain nest cannot be expressed.
    """
    found: list[Code] = []
    for machine in gpu_for(made.gpu).variants:
        with contextlib.suppress(BuildError):
            found.append(_printed(_reading(work_items(part, machine, made.aligned), made, given), made, made.aligned))
            break
    try:
        plain = _printed(_reading(work_items(part), made, given), made, frozenset())
    except BuildError:
        if not found:
            raise
        return found
    return [*(code for code in found if code.key != plain.key), plain]


def _reading(grid: Grid, made: _Made, given: int) -> Grid:
    """A kernel with the numbers that it reads from memory, as an operand before those of scratch memory."""
    if not made.live:
        return grid
    if not {v for d in grid.groups for v in free_vars(d)}.isdisjoint(made.live):
        raise BuildError("a number of work items that is read from memory")
    used = {v for d in dims_used(grid.loops.body) for v in free_vars(d)}
    if used.isdisjoint(made.live):
        return replace(grid, loops=replace(grid.loops, dims=tuple(v for v in grid.loops.dims if v not in made.live)))
    loops = read_live(grid.loops, made.live)
    *before, live = loops.params
    at = len(grid.operands)
    loops = replace(loops, params=(*before[:at], live, *before[at:]))
    return replace(grid, loops=loops, operands=(*grid.operands, given))


def _printed(grid: Grid, made: _Made, aligned: frozenset[str]) -> Code:
    named = replace(grid, loops=replace(grid.loops, name="gpu_kernel"))
    regions = {**made.regions, LIVE: (-1,)} if made.regions else {}  # a region of its own
    code = _PRINTERS[gpu_for(made.gpu).interface](named, made.prefix, aligned, regions)
    if code.operands + code.numbers > WORDS:
        raise BuildError(f"a kernel of {code.operands + code.numbers} numbers and buffers, at most {WORDS} are")
    if code.local_bytes > LOCAL_BYTES:
        raise BuildError(f"a group would share {code.local_bytes} bytes, {LOCAL_BYTES} are sure to be there")
    return code
