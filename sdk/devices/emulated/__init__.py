"""Emulated machines on Unicorn: a board's own memory map, its UART and timer, exceptions, exact counts (DESIGN.md).

A machine runs in a process of its own (``python -m sdk.devices.emulated``), as an emulator may end with its guest's
mistakes; ``sdk.devices.transports.unicorn`` starts it.
"""
