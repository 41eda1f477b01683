"""SPIR-V modules as words: one identity for each type and constant, sections in the order that the format wants."""

from __future__ import annotations

import math
import struct
from typing import Final

__all__ = ["BUILTINS", "GLSL", "OPS", "STORAGE", "Words"]

MAGIC: Final = 0x07230203
VERSION: Final = 0x00010300  # what Vulkan 1.1 takes

# Instructions by number (SPIR-V 1.3, section 3.32); names as in the specification without "Op".
OPS: Final = {
    "Extension": 10, "ExtInstImport": 11, "ExtInst": 12, "MemoryModel": 14, "EntryPoint": 15, "ExecutionMode": 16,
    "Capability": 17, "TypeVoid": 19, "TypeBool": 20, "TypeInt": 21, "TypeFloat": 22, "TypeVector": 23,
    "TypeArray": 28, "TypeRuntimeArray": 29, "TypeStruct": 30, "TypePointer": 32, "TypeFunction": 33,
    "ConstantTrue": 41, "ConstantFalse": 42, "Constant": 43, "ConstantComposite": 44, "SpecConstant": 50,
    "SpecConstantComposite": 51, "Function": 54, "FunctionEnd": 56, "Variable": 59, "Load": 61, "Store": 62,
    "AccessChain": 65, "Decorate": 71, "MemberDecorate": 72, "CompositeConstruct": 80, "CompositeExtract": 81,
    "ConvertFToU": 109, "ConvertFToS": 110, "ConvertSToF": 111, "ConvertUToF": 112, "UConvert": 113,
    "SConvert": 114, "FConvert": 115,
    "Bitcast": 124, "SNegate": 126, "FNegate": 127, "IAdd": 128, "FAdd": 129, "ISub": 130, "FSub": 131, "IMul": 132,
    "FMul": 133, "UDiv": 134, "SDiv": 135, "FDiv": 136, "UMod": 137, "UMulExtended": 151, "SMulExtended": 152,
    "LogicalEqual": 164, "LogicalNotEqual": 165, "LogicalOr": 166, "LogicalAnd": 167, "LogicalNot": 168,
    "Select": 169, "IEqual": 170, "INotEqual": 171, "UGreaterThan": 172, "SGreaterThan": 173,
    "UGreaterThanEqual": 174, "SGreaterThanEqual": 175, "ULessThan": 176, "SLessThan": 177, "ULessThanEqual": 178,
    "SLessThanEqual": 179, "FOrdEqual": 180, "FUnordNotEqual": 183, "FOrdLessThan": 184, "FOrdGreaterThan": 186,
    "FOrdLessThanEqual": 188, "FOrdGreaterThanEqual": 190, "ShiftRightLogical": 194, "ShiftRightArithmetic": 195,
    "ShiftLeftLogical": 196, "BitwiseOr": 197, "BitwiseXor": 198, "BitwiseAnd": 199, "Not": 200,
    "BitFieldSExtract": 202, "BitFieldUExtract": 203, "ControlBarrier": 224, "AtomicIAdd": 234, "AtomicSMin": 236,
    "AtomicUMin": 237, "AtomicSMax": 238, "AtomicUMax": 239, "AtomicAnd": 240, "AtomicOr": 241, "AtomicXor": 242,
    "LoopMerge": 246, "SelectionMerge": 247, "Label": 248, "Branch": 249, "BranchConditional": 250, "Return": 253,
}  # fmt: skip
# Functions of the set GLSL.std.450.
GLSL: Final = {
    "RoundEven": 2, "Trunc": 3, "FAbs": 4, "Floor": 8, "Ceil": 9, "Exp": 27, "Log": 28, "Exp2": 29, "Log2": 30,
    "Sqrt": 31, "InverseSqrt": 32, "UMin": 38, "SMin": 39, "UMax": 41, "SMax": 42, "Fma": 50, "FindUMsb": 75,
}  # fmt: skip
STORAGE: Final = {"input": 1, "workgroup": 4, "function": 7, "push": 9, "buffer": 12}
BUILTINS: Final = {"groups": 24, "size": 25, "group": 26, "local": 27, "global": 28}
DECORATIONS: Final = {
    "SpecId": 1, "Block": 2, "ArrayStride": 6, "BuiltIn": 11, "Aliased": 20, "NonWritable": 24, "Binding": 33,
    "DescriptorSet": 34, "Offset": 35, "NoContraction": 42,
}  # fmt: skip
CAPABILITIES: Final = {
    "Shader": 1, "Float64": 10, "Int64": 11, "StorageBuffer16BitAccess": 4433, "StorageBuffer8BitAccess": 4448,
}  # fmt: skip
_EXTENSIONS: Final = {"StorageBuffer8BitAccess": "SPV_KHR_8bit_storage"}
_LOGICAL, _GLSL450, _COMPUTE, _LOCAL_SIZE = 0, 1, 5, 17


def text_words(text: str) -> list[int]:
    """A string as words: its bytes and at least one zero, little-endian."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


class Words:
    """A module with one entry point, as it grows. Types and constants are made once each."""

    def __init__(self) -> None:
        self._last = 0
        self._known: dict[tuple[str | int, ...], int] = {}
        self._capabilities = ["Shader"]
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._numbers: dict[int, int] = {}
        self._integers: dict[tuple[int, int], int] = {}
        self._reals: set[int] = set()
        self.interface: list[int] = []
        self.glsl = self.new()

    def new(self) -> int:
        """A fresh identity."""
        self._last += 1
        return self._last

    @staticmethod
    def instruction(name: str, *operands: int) -> list[int]:
        """The words of one instruction."""
        return [(len(operands) + 1) << 16 | OPS[name], *operands]

    def need(self, capability: str) -> None:
        """Declares a capability."""
        if capability not in self._capabilities:
            self._capabilities.append(capability)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What the module declares, by name."""
        return tuple(sorted(self._capabilities))

    def decorate(self, target: int, what: str, *values: int) -> None:
        """Adds a decoration."""
        self._decorations += self.instruction("Decorate", target, DECORATIONS[what], *values)

    def decorate_member(self, target: int, member: int, what: str, *values: int) -> None:
        """Adds a decoration of a member of a struct."""
        self._decorations += self.instruction("MemberDecorate", target, member, DECORATIONS[what], *values)

    def _once(self, name: str, *operands: int, typed: bool = False) -> int:
        """A type, or with ``typed`` a constant whose first operand is its type."""
        key: tuple[str | int, ...] = (name, *operands)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.new()
            words = (operands[0], found, *operands[1:]) if typed else (found, *operands)
            self._globals += self.instruction(name, *words)
        return found

    # --- types -----------------------------------------------------------------------------------------------

    def void(self) -> int:
        """The type of no value."""
        return self._once("TypeVoid")

    def procedure(self) -> int:
        """The type of a function without arguments and result."""
        return self._once("TypeFunction", self.void())

    def bool_type(self) -> int:
        """The type of conditions, which has no place in buffers."""
        return self._once("TypeBool")

    def uint(self, bits: int = 32) -> int:
        """Integers: all are of the unsigned type, operations say what they take them for."""
        if bits == 64:
            self.need("Int64")
        return self._once("TypeInt", bits, 0)

    def float_type(self, bits: int = 32) -> int:
        """Floating-point numbers of 32 or 64 bits."""
        if bits == 64:
            self.need("Float64")
        return self._once("TypeFloat", bits)

    def vector(self, element: int, count: int) -> int:
        """A vector of 2 to 4."""
        return self._once("TypeVector", element, count)

    def array(self, element: int, count: int) -> int:
        """An array of so many, without a layout in memory."""
        return self._once("TypeArray", element, self.number(count))

    def record(self, *members: int) -> int:
        """A struct without a layout in memory: the results of a wide product."""
        return self._once("TypeStruct", *members)

    def pointer(self, storage: str, to: int) -> int:
        """A pointer."""
        return self._once("TypePointer", STORAGE[storage], to)

    def block(self, element: int, stride: int) -> int:
        """The type of a buffer: a struct of an array of unknown length."""
        key = ("block", element)
        if key not in self._known:
            array = self._once("TypeRuntimeArray", element)
            self.decorate(array, "ArrayStride", stride)
            block = self._known[key] = self.new()
            self._globals += self.instruction("TypeStruct", block, array)
            self.decorate(block, "Block")
            self.decorate_member(block, 0, "Offset", 0)
        return self._known[key]

    def push_block(self, count: int) -> int:
        """The type of push constants: so many words."""
        block = self.new()
        self._globals += self.instruction("TypeStruct", block, *[self.uint()] * count)
        self.decorate(block, "Block")
        for k in range(count):
            self.decorate_member(block, k, "Offset", 4 * k)
        return block

    def variable(self, storage: str, to: int) -> int:
        """A variable outside of functions."""
        found = self.new()
        self._globals += self.instruction("Variable", self.pointer(storage, to), found, STORAGE[storage])
        if storage == "input":  # up to SPIR-V 1.3 the interface lists inputs and outputs only
            self.interface.append(found)
        return found

    # --- constants -------------------------------------------------------------------------------------------

    def number(self, value: int, bits: int = 32) -> int:
        """An integer, modulo ``2**bits``."""
        value &= (1 << bits) - 1
        known = self._integers.get((value, bits))
        if known is not None:
            return known
        parts = [value & 0xFFFFFFFF] if bits == 32 else [value & 0xFFFFFFFF, value >> 32]
        found = self._once("Constant", self.uint(bits), *parts, typed=True)
        self._numbers[found] = value
        self._integers[value, bits] = found
        return found

    def value_of(self, identity: int) -> int | None:
        """The number that an identity is a constant of, unsigned; None of any other."""
        return self._numbers.get(identity)

    def is_constant(self, identity: int) -> bool:
        """Whether it is a constant number, and no NaN."""
        return identity in self._numbers or identity in self._reals

    def real(self, value: float, bits: int = 32) -> int:
        """A floating-point number, rounded to the type."""
        parts = struct.unpack("<I", _f32(value)) if bits == 32 else struct.unpack("<2I", struct.pack("<d", value))
        found = self._once("Constant", self.float_type(bits), *parts, typed=True)
        if not math.isnan(value):
            self._reals.add(found)
        return found

    def truth(self, value: bool) -> int:
        """A condition."""
        return self._once("ConstantTrue" if value else "ConstantFalse", self.bool_type(), typed=True)

    def composite(self, type: int, *parts: int) -> int:
        """An array or vector of constants."""
        return self._once("ConstantComposite", type, *parts, typed=True)

    def group_size(self, sizes: tuple[int | None, int | None, int | None], usual: tuple[int, int, int]) -> list[int]:
        """The size of a work group: numbers, or specialisation constants 0, 1, 2 where it is None. Their identities."""
        parts, fixed = [], True
        for k, size in enumerate(sizes):
            if size is not None:
                parts.append(self.number(size))
                continue
            fixed = False
            part = self.new()
            self._globals += self.instruction("SpecConstant", self.uint(), part, usual[k])
            self.decorate(part, "SpecId", k)
            parts.append(part)
        type, whole = self.vector(self.uint(), 3), self.new()
        name = "ConstantComposite" if fixed else "SpecConstantComposite"
        self._globals += self.instruction(name, type, whole, *parts)
        self.decorate(whole, "BuiltIn", BUILTINS["size"])
        return parts

    # --- the whole -------------------------------------------------------------------------------------------

    def module(self, main: int, function: list[int], usual: tuple[int, int, int]) -> bytes:
        """The module whose entry point ``main`` is the function of ``function``'s words; sizes of a group that no
        constant gives are ``usual``."""
        words: list[int] = []
        for name in self._capabilities:
            words += self.instruction("Capability", CAPABILITIES[name])
        for name in self._capabilities:
            if name in _EXTENSIONS:
                words += self.instruction("Extension", *text_words(_EXTENSIONS[name]))
        words += self.instruction("ExtInstImport", self.glsl, *text_words("GLSL.std.450"))
        words += self.instruction("MemoryModel", _LOGICAL, _GLSL450)
        words += self.instruction("EntryPoint", _COMPUTE, main, *text_words("main"), *self.interface)
        words += self.instruction("ExecutionMode", main, _LOCAL_SIZE, *usual)
        words += self._decorations + self._globals + function
        head = [MAGIC, VERSION, 0, self._last + 1, 0]
        return struct.pack(f"<{len(head) + len(words)}I", *head, *words)


def _f32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # Python raises where arithmetic rounds to infinity
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))
