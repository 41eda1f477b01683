"""The hooks that run at every instruction, in C (c_runtime/plugin/machine.c): the clock, limits, the guard, counts."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import unicorn
from unicorn.unicorn_py3.unicorn import Uc, UcError, uclib

from sdk.devices.emulated.spec import Count

__all__ = ["Hooks"]

MARKING_MAX: Final = 4
NEVER: Final = (1 << 64) - 1


class _State(ctypes.Structure):
    """``machine_t`` of machine.c."""

    _fields_ = (
        ("instructions", ctypes.c_uint64),
        ("steps", ctypes.c_uint64),
        ("stop_at", ctypes.c_uint64),
        ("pc", ctypes.c_uint64),
        ("block", ctypes.c_uint64),
        ("block_end", ctypes.c_uint64),
        ("guard", ctypes.c_uint64),
        ("guard_bytes", ctypes.c_uint64),
        ("guarded", ctypes.c_uint64),
        ("sp", ctypes.c_uint64),
        ("guard_hit", ctypes.c_uint32),
        ("riscv", ctypes.c_uint32),
        ("marks", ctypes.c_uint64),
        ("phases", ctypes.c_uint64),
        ("marking", ctypes.c_uint64 * 2 * MARKING_MAX),
        ("stop", ctypes.c_void_p),
        ("read_memory", ctypes.c_void_p),
        ("write_memory", ctypes.c_void_p),
        ("read_register", ctypes.c_void_p),
    )


class Hooks:
    """The state that the C functions share with us."""

    def __init__(self, uc: Uc, library: Path, *, riscv: bool, count: Count | None) -> None:
        self._uc = uc
        self._library = ctypes.CDLL(str(library))
        self._count = count
        self.state = _State.in_dll(self._library, "sdk_machine")
        self.state.stop_at = NEVER
        self.state.riscv = riscv
        self.state.stop = ctypes.cast(uclib.uc_emu_stop, ctypes.c_void_p).value
        self.state.read_memory = ctypes.cast(uclib.uc_mem_read, ctypes.c_void_p).value
        self.state.write_memory = ctypes.cast(uclib.uc_mem_write, ctypes.c_void_p).value
        self.state.read_register = ctypes.cast(uclib.uc_reg_read, ctypes.c_void_p).value
        self._executed = self._library.sdk_executed
        self._executed.restype = ctypes.c_uint64
        self._add(unicorn.UC_HOOK_CODE, "sdk_on_instruction", 1, 0)
        self._add(unicorn.UC_HOOK_BLOCK, "sdk_on_block", 1, 0)
        if count is not None:
            self.state.marks, self.state.phases = count.marks, count.phases
            for k, (first, end) in enumerate(count.marking):
                self.state.marking[k][:] = (first, end)

    @property
    def executed(self) -> int:
        """Instructions since start, exact at every access to a register."""
        return int(self._executed(self._uc._uch))

    def settle(self) -> None:
        """Takes back what the core has not executed of its last block: it goes on elsewhere."""
        self._library.sdk_settle(self._uc._uch)

    def write_counts(self) -> None:
        """Writes what was counted, where anything was to be."""
        if self._count is not None:
            self._library.sdk_write_blocks(self._count.out.encode())

    def _add(self, kind: int, function: str, begin: int, end: int) -> None:
        # the binding's own way to add a hook takes functions of Python, which take 100 times as long
        handle = ctypes.c_size_t()
        address = ctypes.cast(getattr(self._library, function), ctypes.c_void_p)
        where = (ctypes.c_uint64(begin), ctypes.c_uint64(end))
        status = uclib.uc_hook_add(self._uc._uch, ctypes.byref(handle), kind, address, None, *where)
        if status != unicorn.UC_ERR_OK:
            raise UcError(status)
