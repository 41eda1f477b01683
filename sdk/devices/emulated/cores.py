"""The cores that Unicorn executes, by instruction set (``core_name``), and the registers that calls use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import unicorn
from unicorn import arm64_const, arm_const, riscv_const
from unicorn.unicorn_py3.unicorn import Uc

__all__ = ["CORES", "Core", "opened"]


@dataclass(frozen=True)
class Registers:
    """Numbers of the registers that a call uses."""

    arguments: tuple[int, ...]
    sp: int
    lr: int
    pc: int


@dataclass(frozen=True)
class Core:
    """How Unicorn is told of a core; ``thumb`` is what a code address has in its lowest bit."""

    arch: int
    mode: int
    model: int
    registers: Registers
    thumb: int = 0
    fpu: bool = False

    def enable_fpu(self, uc: Uc) -> None:
        """Gives code access to the floating-point unit, as start-up code does where the registers for it are there."""
        if self.arch == unicorn.UC_ARCH_ARM64:
            uc.reg_write(arm64_const.UC_ARM64_REG_CPACR_EL1, 3 << 20)
        elif self.fpu:
            uc.reg_write(arm_const.UC_ARM_REG_C1_C0_2, 0xF << 20)
            uc.reg_write(arm_const.UC_ARM_REG_FPEXC, 1 << 30)


_ARM: Final = Registers(
    (arm_const.UC_ARM_REG_R0, arm_const.UC_ARM_REG_R1, arm_const.UC_ARM_REG_R2),
    arm_const.UC_ARM_REG_SP,
    arm_const.UC_ARM_REG_LR,
    arm_const.UC_ARM_REG_PC,
)
_ARM64: Final = Registers(
    (arm64_const.UC_ARM64_REG_X0, arm64_const.UC_ARM64_REG_X1, arm64_const.UC_ARM64_REG_X2),
    arm64_const.UC_ARM64_REG_SP,
    arm64_const.UC_ARM64_REG_X30,
    arm64_const.UC_ARM64_REG_PC,
)
_RISCV: Final = Registers(
    (riscv_const.UC_RISCV_REG_A0, riscv_const.UC_RISCV_REG_A1, riscv_const.UC_RISCV_REG_A2),
    riscv_const.UC_RISCV_REG_SP,
    riscv_const.UC_RISCV_REG_RA,
    riscv_const.UC_RISCV_REG_PC,
)


def _cortex_m(model: int, fpu: bool = False) -> Core:
    # not UC_MODE_MCLASS: it makes a Cortex-M33 of every model
    return Core(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, model, _ARM, thumb=1, fpu=fpu)


# The least core of each instruction set, so that an image with instructions of another faults.
CORES: Final[Mapping[str, Core]] = {
    "armv6-m": _cortex_m(arm_const.UC_CPU_ARM_CORTEX_M0),
    "armv7-m": _cortex_m(arm_const.UC_CPU_ARM_CORTEX_M3),
    "armv7e-m": _cortex_m(arm_const.UC_CPU_ARM_CORTEX_M4, fpu=True),
    "armv7e-m+fpv5": _cortex_m(arm_const.UC_CPU_ARM_CORTEX_M7, fpu=True),
    "armv8-m.main": _cortex_m(arm_const.UC_CPU_ARM_CORTEX_M33, fpu=True),
    "rv32": Core(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32, riscv_const.UC_CPU_RISCV32_ANY, _RISCV),
    "aarch64": Core(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM, arm64_const.UC_CPU_ARM64_MAX, _ARM64),
}


def opened(core: Core) -> Uc:
    """A Unicorn of a core, without memory."""
    uc = Uc(core.arch, core.mode)
    uc.ctl_set_cpu_model(core.model)
    return uc
