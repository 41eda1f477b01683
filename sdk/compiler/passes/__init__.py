"""Passes: one file each, a frozen dataclass from module to module."""
