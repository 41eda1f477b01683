"""What a board is: frozen records of cores, memory, compilers, emulator and peripherals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

_ARM_M = ("thumb", "thumb2", "dsp", "mve", "mve-fp", "fpu-sp", "fpu-dp", "fpu-half", "dual-issue")
_ANY = ("unaligned", "div")  # unaligned loads and stores of words, division in hardware
_RISCV = ("rvm",)  # multiplication
_AARCH64 = ("neon", "dotprod", "fp16", "i8mm", "bf16", "sve", "sve2")
_X86_64 = ("sse2", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "avxvnni")
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16")
CAPABILITIES: frozenset[str] = frozenset(_ARM_M + _ANY + _RISCV + _AARCH64 + _X86_64 + _AVX512)


@dataclass(frozen=True)
class Cache:
    """Cache sizes of one core in bytes; 0 where there is none. ``line`` is the line size in bytes."""

    i: int = 0
    d: int = 0
    line: int = 0


@dataclass(frozen=True)
class Core:
    """One processor core: what it can execute, never what it is called."""

    name: str
    cpu: str  # the compiler's name for it, "native" for the machine we run on
    arch: str  # armv6-m, armv7-m, armv7e-m, armv8-m.main, armv8.1-m.main, rv32, x86_64, aarch64
    capabilities: frozenset[str]
    pointer_bits: int
    fpu: str | None = None
    float_abi: str = "soft"  # soft | softfp | hard
    clock_hz: int | None = None
    cache: Cache = field(default_factory=Cache)


@dataclass(frozen=True)
class Memory:
    """One memory region: ``size`` bytes at ``base``; ``kind`` is flash or ram, ``attrs`` r, w, x, dma ..."""

    name: str
    base: int
    size: int
    kind: str
    attrs: frozenset[str] = frozenset()

    @property
    def end(self) -> int:
        """First address after the region."""
        return self.base + self.size

    def overlaps(self, other: Memory) -> bool:
        """Say whether the two address ranges share a byte."""
        return self.base < other.end and other.base < self.end


@dataclass(frozen=True)
class Compilers:
    """How each compiler is told about this board; ``zig_cpu`` "native" stands for its capabilities."""

    zig_target: str
    zig_cpu: str
    gcc_command: str
    gcc_flags: tuple[str, ...] = ()
    opt: str = "2"


@dataclass(frozen=True)
class Emulator:
    """The stand-in machine: a command line with placeholders, and where it keeps the board's regions.

    ``memory`` maps a region's name to its base on that machine; the region keeps the board's size.
    ``icount_shift`` N makes each instruction last 2**N ns of guest time; None where instructions are not counted,
    as for a process in user mode.
    """

    argv: tuple[str, ...]
    icount_shift: int | None
    memory: Mapping[str, int]
    fidelity: str = "isa"  # isa: instruction set only | soc: peripherals too

    @property
    def program(self) -> str:
        """The emulator's executable name."""
        return self.argv[0]

    def command(self, elf: str, serial: str, extra: tuple[str, ...] = ()) -> list[str]:
        """Return the argv that boots ``elf`` with its first UART on ``serial`` (QEMU's -serial syntax)."""
        values = {"elf": elf, "serial": serial, "shift": str(self.icount_shift)}
        filled = [part.format_map(values) for part in self.argv]
        return [filled[0], *extra, *filled[1:]]


@dataclass(frozen=True)
class Peripheral:
    """A memory-mapped block the runtime drives: driver ``kind``, ``base`` address, input clock in Hz."""

    kind: str
    base: int = 0
    hz: int = 0


@dataclass(frozen=True)
class Runtime:
    """What the on-device runtime needs: its port, the stack in bytes, and the peripherals it drives.

    ``uart`` and ``timer`` are those of the real board; ``emulated_uart`` and ``emulated_timer``
    replace them on the stand-in machine where the two differ.
    """

    port: str  # posix | cortex_m | riscv
    stack_bytes: int
    uart: Peripheral | None = None
    timer: Peripheral | None = None
    emulated_uart: Peripheral | None = None
    emulated_timer: Peripheral | None = None


@dataclass(frozen=True)
class Board:
    """Everything the compiler, the linker and the devices may ask about a target."""

    name: str
    title: str
    vendor: str
    tier: int  # 1: tested on hardware, 2: tested under emulation, 3: community
    aliases: tuple[str, ...]
    cores: tuple[Core, ...]
    memory: tuple[Memory, ...]
    compilers: Compilers
    runtime: Runtime
    emulator: Emulator | None
    sources: tuple[str, ...] = ()  # where the facts come from
    origin: Mapping[str, str] = field(default_factory=dict)  # dotted key -> the file that set it
    emulated_only: bool = False  # it stands for a core, there is none to buy

    @property
    def core(self) -> Core:
        """The core that runs models."""
        return self.cores[0]

    @property
    def capabilities(self) -> frozenset[str]:
        """What the main core can execute."""
        return self.core.capabilities

    @property
    def pointer_bits(self) -> int:
        """Width of an address on the main core."""
        return self.core.pointer_bits

    @property
    def hosted(self) -> bool:
        """Whether programs run under an operating system, with no fixed memory regions of their own."""
        return not self.memory

    def regions(self, kind: str) -> tuple[Memory, ...]:
        """Return the regions of one kind ("flash" or "ram") in declared order."""
        return tuple(region for region in self.memory if region.kind == kind)

    @property
    def flash_bytes(self) -> int | None:
        """Total flash in bytes, None on a hosted board."""
        return None if self.hosted else sum(region.size for region in self.regions("flash"))

    @property
    def ram_bytes(self) -> int | None:
        """Total RAM in bytes, None on a hosted board."""
        return None if self.hosted else sum(region.size for region in self.regions("ram"))

    def as_emulated(self) -> Board:
        """Return the board as its stand-in machine shows it: regions moved, sizes kept, peripherals replaced.

        A board without an emulator is returned unchanged.
        """
        if self.emulator is None:
            return self
        bases = self.emulator.memory
        moved = tuple(replace(region, base=bases.get(region.name, region.base)) for region in self.memory)
        runtime = replace(
            self.runtime,
            uart=self.runtime.emulated_uart or self.runtime.uart,
            timer=self.runtime.emulated_timer or self.runtime.timer,
        )
        return replace(self, memory=moved, runtime=runtime)
