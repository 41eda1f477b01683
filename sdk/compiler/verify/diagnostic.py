"""What a verifier reports: one finding about a module, with its place."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Diagnostic"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: the stage whose rule is broken, where (function, node or statement), and what is wrong."""

    stage: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.where}: {self.message}"
